//! The rows of runs that a view is built from.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{
    Epoch, Run, RunId, TaskId,
    run::{Iteration, Owner, RunStatus},
};

use super::{NextStep, RunSummary, Spending};

/// Rows of runs, newest first, with the state of their processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunHistory {
    runs: Vec<Run>,
    driven: BTreeSet<RunId>,
    iterations: BTreeMap<RunId, Vec<Iteration>>,
}

impl RunHistory {
    /// Creates a record. `runs` may be in any order, and may contain a row twice. `is_gone` returns
    /// whether the process that drove a run has ended.
    pub fn of(mut runs: Vec<Run>, is_gone: impl Fn(&Owner) -> bool) -> Self {
        runs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        runs.dedup_by(|a, b| a.id == b.id);
        let is_driven = |run: &&Run| {
            let owner = run.lease.as_ref().map(|lease| &lease.owner);
            !run.status.is_over() && owner.is_some_and(|owner| !is_gone(owner))
        };
        let driven = runs.iter().filter(is_driven).map(|run| run.id.clone()).collect();
        Self { runs, driven, iterations: BTreeMap::new() }
    }

    /// Adds the iterations of a run.
    #[must_use]
    pub fn with_iterations(mut self, run: RunId, iterations: Vec<Iteration>) -> Self {
        self.iterations.insert(run, iterations);
        self
    }

    /// Returns all rows, newest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Returns the runs that are no attempt of another one, newest first.
    pub fn tops(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.parent.is_none())
    }

    /// Returns the runs that have not ended, newest first.
    pub fn live(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.status.is_over())
    }

    /// Returns the attempts at a task, newest first.
    pub fn attempts<'a>(&'a self, task: &'a TaskId) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.task.as_ref() == Some(task))
    }

    /// Returns the iterations of a run, oldest first, if they were added.
    pub fn iterations(&self, run: &RunId) -> &[Iteration] {
        self.iterations.get(run).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the transcripts of a run's agents, oldest first, relative to the state root.
    pub fn transcripts(&self, run: &RunId) -> Vec<String> {
        let iterations = self.iterations.get(run).into_iter().flatten();
        iterations.filter_map(|iteration| iteration.transcript.clone()).collect()
    }

    /// Returns whether a process drives `run`. An attempt is driven by the process of its parent.
    #[must_use]
    pub fn is_driven(&self, run: &Run) -> bool {
        self.driven.contains(run.parent.as_ref().unwrap_or(&run.id))
    }

    /// Returns the run that a claim belongs to, if no process drives that run any more. `None` if a
    /// process does, or if the claim belongs to no run.
    #[must_use]
    pub fn abandoned(&self, task: &TaskId, epoch: Option<Epoch>) -> Option<RunSummary> {
        let epoch = epoch?;
        let attempt = self.attempts(task).find(|run| run.epoch == Some(epoch))?;
        let top = self.top(attempt);
        (!self.is_driven(attempt)).then(|| RunSummary::of(top, self))
    }

    /// Returns the cost of all attempts at a task.
    #[must_use]
    pub fn spending_of(&self, task: &TaskId) -> Spending {
        Spending::of(self.attempts(task))
    }

    /// Returns the cost of all runs.
    #[must_use]
    pub fn spending(&self) -> Spending {
        Spending::of(self.tops())
    }

    /// Returns the command that resumes `run`, or the run that it is an attempt of.
    pub(super) fn resume(&self, run: &Run) -> Option<NextStep> {
        let top = self.top(run);
        (top.status != RunStatus::Succeeded).then(|| NextStep::resume(top))
    }

    fn top<'a>(&'a self, run: &'a Run) -> &'a Run {
        let parent = run.parent.as_ref();
        parent.and_then(|id| self.runs.iter().find(|other| other.id == *id)).unwrap_or(run)
    }
}
