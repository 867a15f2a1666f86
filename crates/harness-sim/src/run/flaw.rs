//! Deliberate faults, to show that the checkers see them.

use std::path::Path;

use harness::workspace::{
    Base, Checkout, Evidence, Rescue, RolledBack, Status, Workspace, WorkspaceError,
};
use harness_core::{CommitId, TaskId, Timestamp, TreeId};

use super::stage::Stage;
use crate::git::SimGit;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    /// What a check says is not looked at.
    EveryCheckPasses,
    /// A rollback saves nothing.
    NoRescue,
    /// A rollback does not put the user's untracked files back.
    KeepsScribbles,
    /// Git is touched without the intent being durable.
    SkipsIntend,
    /// The marker is made again by every process, the last one too.
    MarkerStays,
}

/// Git as a process has it, perhaps with one thing wrong.
pub(super) struct FlawedGit {
    pub(super) stage: Stage,
    pub(super) git: SimGit,
    pub(super) flaw: Flaw,
}

impl Workspace for FlawedGit {
    fn touched(&self, base: &Base) -> Result<Vec<String>, WorkspaceError> {
        self.git.touched(base)
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

    fn status(&self) -> Result<Status, WorkspaceError> {
        self.stage.in_turn();
        self.git.status()
    }

    fn preflight(&self) -> Result<(), WorkspaceError> {
        self.stage.in_turn();
        self.git.preflight()
    }

    fn base(&self, task: &TaskId) -> Result<Base, WorkspaceError> {
        self.stage.in_turn();
        self.git.base(task)
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
        let rolled_back = self.git.rollback(task, attempt, base)?;
        match self.flaw {
            Flaw::NoRescue => self.git.model().rescues.clear(),
            Flaw::KeepsScribbles => match before {
                Some(bytes) => self.git.write("notes.txt", &bytes),
                None => self.git.remove("notes.txt"),
            },
            Flaw::None | Flaw::EveryCheckPasses | Flaw::SkipsIntend | Flaw::MarkerStays => {}
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

    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError> {
        self.git.forget(task)
    }
}
