//! The implementation of the port [`Workspace`] by git.

use std::path::Path;

use harness_core::{CommitId, Epoch, TaskId, Timestamp, TreeId};

use super::GitWorkspace;
use crate::workspace::{
    Base, Candidate, Checkout, Evidence, LANDED, Rescue, RolledBack, SettingChange, Settled,
    TreeStatus, Workspace, WorkspaceError,
    candidate::{self, Known},
    checkout, commit, evidence, fingerprint, preflight, rescue, restore, rollback,
    settings::Treatment,
    sight::{Seen, Sight},
    snapshot::Snapshot,
    status::Look,
    untracked,
};

impl Workspace for GitWorkspace {
    fn top_level(&self) -> &Path {
        &self.git.top_level
    }

    fn head(&self) -> Result<CommitId, WorkspaceError> {
        rescue::resolve(&self.git, "HEAD")?.ok_or(WorkspaceError::NoCommits)
    }

    fn status(&self) -> Result<TreeStatus, WorkspaceError> {
        Ok(Look::take(&self.git()?, &self.own)?.status())
    }

    fn preflight(&self) -> Result<TreeStatus, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        preflight::preflight(&git, &look)?;
        Ok(look.status())
    }

    fn disturbed(&self) {
        *self.seen() = None;
    }

    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        Ok((look.commit()?, fingerprint::of_work(&git, &look)?))
    }

    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        let commit = look.commit()?;
        let untracked = untracked::record(&git, &self.own, task, &look)?;
        let (branch, worktree) = (look.branch, git.top_level);
        Ok(Base { commit, branch, untracked, worktree, epoch: None, claimed_at: None })
    }

    fn tree(&self) -> Result<TreeId, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        Ok(Snapshot::take(&git, &self.own, look)?.tree)
    }

    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError> {
        evidence::evidence(&self.git()?, &self.own, task, base, claimed_at)
    }

    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        evidence::touched(&git, &self.own, base, &look)
    }

    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError> {
        evidence::differing(&self.git()?, &self.own, base, protected)
    }

    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        match &self.records {
            Some(records) => records.record(&self.git, task, epoch),
            None => Ok(()),
        }
    }

    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let changes = match &self.records {
            Some(records) => records.compare(&self.git, task, epoch, Treatment::SetBack)?,
            None => Vec::new(),
        };
        if !changes.is_empty() {
            // The earlier look depended on these settings.
            self.disturbed();
        }
        Ok(changes)
    }

    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        match &self.records {
            Some(records) => records.compare(&self.git, task, epoch, Treatment::Named),
            None => Ok(Vec::new()),
        }
    }

    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        match &self.records {
            Some(records) => records.forget(&self.git, task, epoch),
            None => Ok(()),
        }
    }

    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
        evidence::tree_of(&self.git, commit)
    }

    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError> {
        checkout::checkout(&self.git()?, commit, &self.bring)
    }

    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError> {
        let git = self.git()?;
        commit::refuse_before_commit(&git, base)?;
        let look = Look::take(&git, &self.own)?;
        let (known, _) = Known::take(&git, &self.own, base, look)?;
        self.disturbed();
        commit::commit(
            &git,
            base,
            &known.look,
            &known.tree,
            known.index.as_deref(),
            message,
            &self.policy,
        )
    }

    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError> {
        let git = self.git()?;
        let look = self.look(&git, sight)?;
        let (known, candidate) = candidate::candidate(&git, &self.own, base, look)?;
        *self.known() = Some(known);
        Ok(candidate)
    }

    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let last = self.known().clone();
        let git = self.git()?;
        let look = self.look(&git, Sight::Anew)?;
        let seen = look.clone();
        let settled = candidate::settle(&git, &self.own, base, before, last.as_ref(), look);
        if !settled.as_ref().is_ok_and(|(known, _)| known.look == seen) {
            self.disturbed();
        }
        let (known, settled) = settled?;
        *self.known() = Some(known);
        Ok(settled)
    }

    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let last = self.known().clone();
        let git = self.git()?;
        let (known, settled) = candidate::compare(&git, &self.own, base, before, last.as_ref())?;
        *self.known() = Some(known);
        Ok(settled)
    }

    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        self.disturbed();
        let (known, files) = candidate::put_back(&self.git()?, &self.own, base, tree)?;
        *self.known() = Some(known);
        Ok(files)
    }

    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        let git = self.git()?;
        let known = self.known().clone().filter(|known| known.tree == *tree);
        let seen = self.seen().take();
        let Some(known) = known else {
            let look = Look::take(&git, &self.own)?;
            let commit = commit::commit(&git, base, &look, tree, None, message, &self.policy)?;
            *self.known() = None;
            return Ok(commit);
        };
        let index = known.index.as_deref();
        let commit = commit::commit(&git, base, &known.look, tree, index, message, &self.policy)?;
        *self.known() = None;
        // A hook may change files.
        let hooks = self.policy.hooks.is_some();
        let same = !hooks && seen.is_some_and(|seen| seen.look == known.look);
        let look = known.committed(base, &commit).filter(|_| same);
        // The second name of the installed index is removed first, because the removal changes the
        // stamp of the index.
        drop(known);
        *self.seen() = look.map(|look| Seen::known(&git, look));
        Ok(commit)
    }

    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError> {
        let git = self.git()?;
        let look = Look::take(&git, &self.own)?;
        let own = &self.own;
        let rescuing = rescue::Rescuing { git: &git, own, task, attempt, base, subject: None };
        Ok(rescuing.save(look, None)?.rescue)
    }

    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError> {
        self.disturbed();
        rollback::rollback(&self.git()?, &self.own, task, attempt, base)
    }

    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError> {
        rescue::all(&self.git, task)
    }

    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError> {
        restore::show(&self.git()?, &self.own, rescue)
    }

    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError> {
        self.disturbed();
        restore::restore(&self.git()?, &self.own, rescue)
    }

    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError> {
        let reference = format!("{LANDED}{task}");
        let call = self.git.write("update-ref").args(["-m", "harness: completed", &reference]);
        call.arg(commit.as_str()).output()?;
        Ok(reference)
    }

    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError> {
        untracked::forget(&self.git, task)
    }
}
