//! The branch on which results land. It is on the git remote, which forgets nothing.

use std::collections::BTreeMap;

use harness_core::{CommitId, Epoch, TaskId, command::LandedResult};

use super::flaw::FleetFlaw;
use crate::checkers::Violation;

/// The name of the branch.
pub(super) const TARGET: &str = "main";

#[derive(Default)]
pub(super) struct Target {
    flaw: FleetFlaw,
    /// The results with the titles of their tasks, the oldest first. Two tasks may have the same id, if
    /// the first one was forgotten.
    landed: Vec<(LandedResult, String)>,
    tokens: BTreeMap<TaskId, CommitId>,
    commits: u64,
}

impl Target {
    pub(super) fn new(flaw: FleetFlaw) -> Self {
        Self { flaw, ..Self::default() }
    }

    /// Returns the commit of a new result.
    pub(super) fn commit(&mut self) -> Option<CommitId> {
        self.commits += 1;
        CommitId::parse(&format!("{:040x}", self.commits)).ok()
    }

    pub(super) fn set_token(&mut self, task: &TaskId, to: &CommitId) {
        self.tokens.insert(task.clone(), to.clone());
    }

    pub(super) fn void_token(&mut self, task: &TaskId, to: &CommitId) {
        if self.tokens.get(task) == Some(to) {
            self.tokens.remove(task);
        }
    }

    /// Lands a result, if its token is there. Returns whether it landed.
    pub(super) fn swap(&mut self, task: &TaskId, title: &str, epoch: Epoch, to: &CommitId) -> bool {
        if self.tokens.get(task) != Some(to) {
            return false;
        }
        self.tokens.remove(task);
        let (task, commit) = (task.clone(), to.clone());
        self.landed.push((LandedResult { task, epoch, commit }, title.to_owned()));
        true
    }

    pub(super) fn contains(&self, commit: &CommitId) -> bool {
        self.landed.iter().any(|(result, _)| result.commit == *commit)
    }

    /// Removes the tokens except `kept`, and returns the results, the newest first.
    pub(super) fn results(&mut self, kept: &[(TaskId, CommitId)]) -> Vec<LandedResult> {
        if self.flaw == FleetFlaw::LooksForNothing {
            return Vec::new();
        }
        if self.flaw != FleetFlaw::KeepsTokens {
            self.tokens.retain(|task, to| kept.iter().any(|(of, at)| of == task && at == to));
        }
        self.landed.iter().rev().map(|(result, _)| result.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.landed.len()
    }

    /// No task has two results, whatever the database has forgotten.
    pub(super) fn nothing_lands_twice(&self) -> Result<(), Violation> {
        let mut seen: BTreeMap<&str, &LandedResult> = BTreeMap::new();
        for (result, title) in &self.landed {
            if let Some(before) = seen.insert(title, result) {
                let what = format!("{title:?} landed as {before:?} and as {result:?}");
                return Err(Violation { checker: "nothing_lands_twice", what });
            }
        }
        Ok(())
    }

    /// A task whose forgotten result was found is completed by its own result.
    pub(super) fn a_found_result_is_of_its_task(
        &self,
        task: &TaskId,
        title: &str,
    ) -> Result<(), Violation> {
        let is_own = |(result, of): &(LandedResult, String)| result.task == *task && of == title;
        match self.landed.iter().any(is_own) {
            true => Ok(()),
            false => {
                let what = format!("{task} {title:?} was completed, and has not landed");
                Err(Violation { checker: "a_found_result_is_of_its_task", what })
            }
        }
    }
}
