//! Deliberate faults, to show that the checkers detect them.

use std::{path::Path, sync::Arc};

use harness::{
    store::{RunStoreError, Runs},
    workspace::{
        Base, Candidate, Checkout, Evidence, Rescue, RolledBack, SettingChange, Settled, Sight,
        TreeStatus, Undone, Workspace, WorkspaceError,
    },
};
use harness_core::{
    CommitId, Epoch, Iteration, Refusal, Reply, Run, RunId, TaskId, Timestamp, TreeId,
    agent::Usage,
    command::{OfRun, RunStep},
    notify::{OutboxStep, Outgoing},
    run::Ending,
};

use super::stage::{Moment, Stage, State};
use crate::git::SimGit;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    /// The result of a check is ignored.
    EveryCheckPasses,
    /// The result of a check for the work of a client is ignored.
    BelievesClients,
    /// A completion is recorded without its receipt.
    SkipsReceipt,
    /// A rollback saves nothing.
    NoRescue,
    /// A rollback does not put the user's untracked files back.
    KeepsScribbles,
    /// Git is touched without the intent being durable.
    SkipsIntend,
    /// A session works without a number.
    SkipsNumber,
    /// Only the first session of a process prepares.
    PreparesOnce,
    /// Every process creates the marker again, including the last one.
    MarkerStays,
    /// An iteration is reported as begun, but its row does not exist.
    SkipsBegin,
    /// An iteration that begins again is counted as the next one.
    CountsTwice,
    /// Usage is not stored.
    ForgetsSpending,
    /// Usage is stored, but the total is not returned.
    SpendsUnheard,
    /// An agent whose budget is used up is not stopped.
    SpendsOn,
    /// Earlier usage is forgotten when a run is resumed.
    StartsAtNothing,
    /// The end of a run is not stored.
    SkipsStop,
    /// `max_iterations` is replaced by a large number.
    RestartsForEver,
    /// Every final text of a context keeps the promise.
    AnyTextWillDo,
    /// Attempts have no parent.
    ForgetsParent,
    /// The phases of the ledger are ignored.
    NoPhases,
    /// A usage limit counts as a failure.
    BurnsLimits,
    /// A usage limit ends after a second.
    HastyLimits,
    /// A blank turn is continued again and again.
    NudgesForEver,
    /// The number of starts of a context is ignored.
    ForgetsStarts,
    /// Interrupts are ignored.
    Deaf,
    /// Agents have the role of the operator.
    AnyoneMay,
    /// Changes of an agent to the record of runs are accepted.
    BelievesRows,
    /// Changes of an agent to the ledger are accepted.
    BelievesLedger,
    /// Forgeries are corrected, but not reported.
    Mute,
    /// A run that found a forgery ends as if it had not.
    ShrugsOff,
    /// The receipt does not contain the flags of the attempt.
    ForgetsFlags,
    /// The tree after a passed check is committed.
    KeepsWhatIsThere,
    /// Git's settings stay as the agent left them.
    KeepsSettings,
    /// A rollback resets the branch, even if others committed on it.
    ResetsForeign,
    /// A rollback leaves the commits of the attempt.
    KeepsCommits,
}

/// Applies a step of a run, possibly with one fault.
pub(super) fn flawed_step(
    state: &State,
    now: Timestamp,
    of_run: &OfRun,
) -> Result<Result<Reply, Refusal>, RunStoreError> {
    let runs = &state.runs;
    let apply = |step| runs.apply(now, &OfRun { step, ..of_run.clone() });
    match (state.flaw, &of_run.step) {
        (Flaw::SkipsBegin, RunStep::Begin { .. }) | (Flaw::SkipsStop, RunStep::Stop(_)) => {
            Ok(Ok(Reply::Noted))
        }
        (Flaw::ForgetsSpending, RunStep::Spend(_)) => Ok(Ok(Reply::Spent(Usage::default()))),
        (Flaw::SpendsUnheard, RunStep::Spend(_)) => {
            let spent = runs.apply(now, of_run)?;
            Ok(spent.map(|_| Reply::Spent(Usage::default())))
        }
        (Flaw::ForgetsParent, RunStep::Take(take)) => {
            let mut take = take.clone();
            take.anew.parent = None;
            apply(RunStep::Take(take))
        }
        (Flaw::CountsTwice, RunStep::Begin { number, head, mark, transcript }) => {
            let iterations = runs.iterations(&of_run.run)?;
            if iterations.last().is_some_and(|last| last.number == *number) {
                let (head, mark) = (head.clone(), mark.clone());
                let (detail, final_text) = (None, None);
                let ending = Ending::Crashed;
                _ = apply(RunStep::End { ending, detail, final_text, head, mark })?;
                let (head, mark, transcript) = (None, None, transcript.clone());
                return apply(RunStep::Begin { number: number + 1, head, mark, transcript });
            }
            runs.apply(now, of_run)
        }
        _ => runs.apply(now, of_run),
    }
}

impl Flaw {
    /// Whether the process takes what the record of runs answers for the truth.
    pub(super) fn believes_rows(self) -> bool {
        matches!(self, Self::BelievesRows | Self::ForgetsSpending | Self::SpendsUnheard)
    }
}

/// The record of runs of a process, possibly with one fault.
pub(super) struct FlawedRuns {
    pub(super) stage: Stage,
    pub(super) runs: Arc<dyn Runs>,
    pub(super) flaw: Flaw,
}

impl Runs for FlawedRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        let mut run = run.clone();
        if self.flaw == Flaw::ForgetsParent {
            run.parent = None;
        }
        self.stage.in_turn();
        self.stage.state().moment(Moment::Effect)?;
        let opened = self.runs.open_run(&run)?;
        self.stage.state().moment(Moment::Answer)?;
        Ok(opened)
    }

    fn apply(&self, now: Timestamp, step: &OfRun) -> Result<Result<Reply, Refusal>, RunStoreError> {
        self.runs.apply(now, step)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        let mut run = self.runs.run(id)?;
        if let Some(run) = &mut run {
            match self.flaw {
                Flaw::StartsAtNothing => run.usage = Usage::default(),
                Flaw::RestartsForEver => run.limits.max_iterations = 1000,
                _ => {}
            }
        }
        Ok(run)
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        let mut iterations = self.runs.iterations(id)?;
        if self.flaw == Flaw::ForgetsStarts {
            iterations.iter_mut().for_each(|iteration| iteration.starts = 1);
        }
        Ok(iterations)
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        self.runs.attempt(task, epoch)
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        self.runs.runs()
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        self.runs.at_least(id, usage)
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        self.runs.outbox()
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        self.runs.post(now, step)
    }
}

/// Git of a process, possibly with one fault.
pub(super) struct FlawedGit {
    pub(super) stage: Stage,
    pub(super) git: SimGit,
    pub(super) flaw: Flaw,
}

impl Workspace for FlawedGit {
    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError> {
        self.git.touched(base, sight)
    }

    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError> {
        self.git.differing(base, protected)
    }

    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        self.stage.in_turn();
        self.git.record_settings(task, epoch)
    }

    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        self.stage.in_turn();
        if self.flaw == Flaw::KeepsSettings {
            return Ok(Vec::new());
        }
        self.git.changed_settings(task, epoch)
    }

    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        self.stage.in_turn();
        if self.flaw == Flaw::KeepsSettings {
            return Ok(Vec::new());
        }
        self.git.restore_settings(task, epoch)
    }

    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        self.stage.in_turn();
        self.git.forget_settings(task, epoch)
    }

    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
        self.git.tree_of(commit)
    }

    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError> {
        self.git.checkout(commit)
    }

    fn top_level(&self) -> &Path {
        self.git.top_level()
    }

    fn head(&self) -> Result<CommitId, WorkspaceError> {
        self.stage.in_turn();
        self.git.head()
    }

    fn status(&self) -> Result<TreeStatus, WorkspaceError> {
        self.stage.in_turn();
        self.git.status()
    }

    fn preflight(&self) -> Result<TreeStatus, WorkspaceError> {
        self.stage.in_turn();
        self.git.preflight()
    }

    fn disturbed(&self) {
        self.git.disturbed();
    }

    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError> {
        self.stage.in_turn();
        self.git.mark(sight)
    }

    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError> {
        self.stage.in_turn();
        self.git.base(task, sight)
    }

    fn tree(&self) -> Result<TreeId, WorkspaceError> {
        self.stage.in_turn();
        self.git.tree()
    }

    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError> {
        self.stage.in_turn();
        self.git.evidence(task, base, claimed_at)
    }

    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError> {
        self.stage.in_turn();
        self.git.candidate(base, sight)
    }

    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        self.stage.in_turn();
        self.git.settle(base, before)
    }

    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        self.stage.in_turn();
        self.git.compare(base, before)
    }

    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        self.stage.in_turn();
        self.git.put_back(base, tree)
    }

    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        self.stage.in_turn();
        self.stage.state().meanwhile_before_commit();
        if self.flaw == Flaw::KeepsWhatIsThere {
            return self.git.commit(base, message);
        }
        self.git.commit_tree(base, tree, message)
    }

    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError> {
        self.stage.in_turn();
        self.git.commit(base, message)
    }

    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError> {
        self.stage.in_turn();
        self.git.rescue(task, attempt, base)
    }

    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError> {
        self.stage.in_turn();
        let before = self.git.read("notes.txt");
        let tip = base.branch.as_ref().and_then(|branch| self.git.tip(branch));
        let rolled_back = self.git.rollback(task, attempt, base)?;
        match self.flaw {
            Flaw::NoRescue => self.git.model().rescues.clear(),
            Flaw::KeepsCommits => {
                let branch = base.branch.clone().unwrap_or_default();
                self.git.model().branches.extend(tip.map(|tip| (branch, tip)));
            }
            Flaw::ResetsForeign if matches!(rolled_back.undone, Undone::Kept { .. }) => {
                let branch = base.branch.clone().unwrap_or_default();
                self.git.model().branches.insert(branch, base.commit.clone());
            }
            Flaw::KeepsScribbles => match before {
                Some(bytes) => self.git.write("notes.txt", &bytes),
                None => self.git.remove("notes.txt"),
            },
            _ => {}
        }
        Ok(rolled_back)
    }

    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError> {
        self.git.rescues(task)
    }

    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError> {
        self.git.show(rescue)
    }

    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError> {
        self.git.restore(rescue)
    }

    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError> {
        self.stage.in_turn();
        self.git.keep_reachable(task, commit)
    }

    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError> {
        self.git.forget(task)
    }
}
