//! Deliberate faults, to show that the checkers see them.

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
    run::Ending,
};

use super::stage::{Moment, Stage, State};
use crate::git::SimGit;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    /// What a check says is not looked at.
    EveryCheckPasses,
    /// What a check says about the work of a client is not looked at.
    BelievesClients,
    /// A completion is recorded without its receipt.
    SkipsReceipt,
    /// A rollback saves nothing.
    NoRescue,
    /// A rollback does not put the user's untracked files back.
    KeepsScribbles,
    /// Git is touched without the intent being durable.
    SkipsIntend,
    /// The marker is made again by every process, the last one too.
    MarkerStays,
    /// An iteration is said to have begun, and its row is not there.
    SkipsBegin,
    /// An iteration that begins again is the next one.
    CountsTwice,
    /// What was spent is not stored.
    ForgetsSpending,
    /// What was spent is stored, and nobody hears how much that is in all.
    SpendsUnheard,
    /// An agent whose budget is used up is not stopped.
    SpendsOn,
    /// What was spent before is not known when a run is taken up again.
    StartsAtNothing,
    /// The end of a run is not stored.
    SkipsStop,
    /// `max_iterations` is a large number, whatever was said.
    RestartsForEver,
    /// Every text that a context ends with keeps the promise.
    AnyTextWillDo,
    /// Attempts are nobody's part.
    ForgetsParent,
    /// The phases of the ledger are not looked at.
    NoPhases,
    /// A usage limit is a failure.
    BurnsLimits,
    /// A usage limit is over in a second.
    HastyLimits,
    /// A blank turn is told to go on, again and again.
    NudgesForEver,
    /// How often a context was started is not looked at.
    ForgetsStarts,
    /// Interrupts are not heard.
    Deaf,
    /// Agents are operators.
    AnyoneMay,
    /// What an agent makes of the record of runs is believed.
    BelievesRows,
    /// What an agent makes of the ledger is believed.
    BelievesLedger,
    /// Forgeries are answered, and nobody hears of them.
    Mute,
    /// A run that found a forgery ends as if it had not.
    ShrugsOff,
    /// The receipt says nothing of what was tried.
    ForgetsFlags,
    /// What is there when the check has passed is committed.
    KeepsWhatIsThere,
    /// Git's settings stay as the agent left them.
    KeepsSettings,
    /// A rollback resets the branch, also where others committed on it.
    ResetsForeign,
    /// A rollback leaves the commits of the attempt.
    KeepsCommits,
}

/// A step of a run, perhaps with one thing wrong.
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

/// The record of runs as a process has it, perhaps with one thing wrong.
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
}

/// Git as a process has it, perhaps with one thing wrong.
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
