//! The simulated implementation of the port [`Workspace`].

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::PoisonError,
};

use harness::workspace::{
    Base, Candidate, Checkout, Evidence, Rescue, RolledBack, SettingChange, Settled, Sight,
    TreeStatus, Undone, Workspace, WorkspaceError,
};
use harness_core::{CommitId, Epoch, TaskId, Timestamp, TreeId};

use super::{SimGit, settings, undo};

impl Workspace for SimGit {
    fn top_level(&self) -> &Path {
        &self.top_level
    }

    fn head(&self) -> Result<CommitId, WorkspaceError> {
        self.model().head_commit()
    }

    fn status(&self) -> Result<TreeStatus, WorkspaceError> {
        let model = self.model();
        let untracked = model.untracked(&self.own).into_keys().collect();
        Ok(TreeStatus { changed: model.changed(&self.own), untracked })
    }

    fn preflight(&self) -> Result<TreeStatus, WorkspaceError> {
        self.head()?;
        self.status()
    }

    fn disturbed(&self) {
        *self.seen() = None;
    }

    fn mark(&self, sight: Sight) -> Result<(CommitId, String), WorkspaceError> {
        let view = self.view(sight);
        let tree = self.model().add_tree(view.snapshot(&self.own))?;
        Ok((view.head_commit()?, tree.to_string()))
    }

    fn base(&self, task: &TaskId, sight: Sight) -> Result<Base, WorkspaceError> {
        let (commit, branch, files) = {
            let model = self.view(sight);
            let mut files = model.untracked(&self.own);
            let flagged = model.settings.assumed.iter().filter(|p| !self.own.own(p.as_bytes()));
            files.extend(flagged.filter_map(|p| Some((p.clone(), model.work.get(p)?.clone()))));
            (model.head_commit()?, model.branch(), files)
        };
        let untracked = if files.is_empty() {
            self.forget(task)?;
            None
        } else {
            let tree = self.op("base tree", |model| model.add_tree(files))??;
            let kept = tree.clone();
            self.op("base ref", |model| drop(model.bases.insert(task.to_string(), kept)))?;
            Some(tree)
        };
        let worktree = self.top_level.clone();
        Ok(Base { commit, branch, untracked, worktree, epoch: None, claimed_at: None })
    }

    fn tree(&self) -> Result<TreeId, WorkspaceError> {
        let mut model = self.model();
        let files = model.snapshot(&self.own);
        model.add_tree(files)
    }

    fn evidence(
        &self,
        task: &TaskId,
        base: &Base,
        claimed_at: Timestamp,
    ) -> Result<Evidence, WorkspaceError> {
        let tree = self.tree()?;
        let recorded = self.recorded(base);
        let model = self.model();
        let head = model.head_commit()?;
        if !model.commits.contains_key(&base.commit) {
            return Err(WorkspaceError::NoSuchCommit { commit: base.commit.clone() });
        }
        let history = undo::history(&model, task, base, &head);
        let untracked = model.untracked(&self.own);
        let new = untracked.iter().any(|(path, bytes)| recorded.get(path) != Some(bytes));
        let stashes = model.stashes.iter().filter(|(when, _)| *when >= claimed_at);
        let uncommitted = new || !model.changed(&self.own).is_empty();
        let moved = head != base.commit || model.branch() != base.branch;
        let all_there = recorded.iter().all(|(path, bytes)| model.work.get(path) == Some(bytes));
        Ok(Evidence {
            uncommitted,
            untouched: !uncommitted && !moved && all_there,
            task_commits: history.attempts,
            foreign_commits: history.foreign,
            tree,
            head,
            stashes: stashes.map(|(_, subject)| subject.clone()).collect(),
        })
    }

    fn touched(&self, base: &Base, sight: Sight) -> Result<Vec<String>, WorkspaceError> {
        self.right_place(base)?;
        let recorded = self.recorded(base);
        let model = self.view(sight);
        let (before, head) = (model.files_of(&base.commit), model.head_files());
        let committed = before.keys().chain(head.keys());
        let committed = committed.filter(|path| before.get(*path) != head.get(*path)).cloned();
        let untracked = model.untracked(&self.own);
        let new = untracked.into_iter().filter(|(path, bytes)| recorded.get(path) != Some(bytes));
        let touched: BTreeSet<String> = committed
            .filter(|path| !self.own.own(path.as_bytes()))
            .chain(model.changed(&self.own))
            .chain(new.map(|(path, _)| path))
            .collect();
        Ok(touched.into_iter().collect())
    }

    fn differing(
        &self,
        base: &Base,
        protected: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, WorkspaceError> {
        self.right_place(base)?;
        let recorded = self.recorded(base);
        let model = self.model();
        let expected = model.files_of(&base.commit);
        let expected =
            expected.iter().filter(|(path, _)| protected(path) && !self.own.own(path.as_bytes()));
        let differs = expected.filter(|(path, bytes)| {
            model.work.get(*path) != Some(recorded.get(*path).unwrap_or(bytes))
        });
        Ok(differs.map(|(path, _)| path.clone()).collect())
    }

    fn record_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        self.remember_settings(task, epoch)
    }

    fn changed_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        Ok(self.differing_settings(task, epoch).map_or_else(Vec::new, |(changes, _)| changes))
    }

    fn restore_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let changes = self.set_settings_back(task, epoch)?;
        if !changes.is_empty() {
            self.disturbed();
        }
        Ok(changes)
    }

    fn forget_settings(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        let key = settings::key(task, epoch);
        self.op("forget settings", |model| drop(model.recorded.remove(&key)))
    }

    fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
        let mut model = self.model();
        if !model.commits.contains_key(commit) {
            return Err(WorkspaceError::NoSuchCommit { commit: commit.clone() });
        }
        let files = model.files_of(commit);
        model.add_tree(files)
    }

    /// Returns a path only, for shells that run nothing. The model has no folders.
    fn checkout(&self, commit: &CommitId) -> Result<Checkout, WorkspaceError> {
        self.tree_of(commit)?;
        Ok(Checkout::new(PathBuf::from("/sim-checkout").join(commit.as_str()), || ()))
    }

    fn candidate(&self, base: &Base, sight: Sight) -> Result<Candidate, WorkspaceError> {
        let view = self.view(sight);
        let tree = self.know(base, &view)?;
        Ok(Candidate { tree, hidden: self.hidden(base, &view) })
    }

    fn settle(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        self.settled(base, before)
    }

    fn compare(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        self.compared(base, before)
    }

    fn put_back(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        self.make(base, tree)
    }

    fn commit_tree(
        &self,
        base: &Base,
        tree: &TreeId,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        self.right_place(base)?;
        let head = self.head()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, from)) = known.filter(|(known, at)| known == tree && *at != head) {
            return Err(WorkspaceError::HeadMoved { from });
        }
        let files = self.model().trees.get(tree).cloned().unwrap_or_default();
        let seen = self.seen().take();
        let commit = self.commit_files(base, head, files, message)?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // A look after the commit would find the same files as the look before it.
        if let Some(seen) = seen {
            let mut now = self.model().seen();
            now.work = seen.work;
            *self.seen() = Some(now);
        }
        Ok(commit)
    }

    fn commit(&self, base: &Base, message: &str) -> Result<CommitId, WorkspaceError> {
        self.right_place(base)?;
        let head = self.head()?;
        let files = self.files_to_commit(base, &self.view(Sight::Anew));
        self.disturbed();
        self.commit_files(base, head, files, message)
    }

    fn rescue(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<Option<Rescue>, WorkspaceError> {
        self.save(task, attempt, base, None)
    }

    fn rollback(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
    ) -> Result<RolledBack, WorkspaceError> {
        self.right_place(base)?;
        self.disturbed();
        let Some(target) = self.plan(task, base)? else { return Ok(RolledBack::default()) };
        let stays = target.tip.as_ref().filter(|_| target.foreign);
        let flagged = self.flagged_as_recorded(base);
        let mut rescue = self.save(task, attempt, base, stays)?;
        self.return_to_claimed_branch(base)?;
        if target.tip.as_ref().is_some_and(|tip| *tip != target.commit) {
            self.op("undo branch", |model| model.set_head(target.commit.clone()))?;
        }
        self.reset(&target.commit)?;
        let recorded = self.recorded(base);
        let mut put_back = Vec::new();
        for (path, bytes) in &recorded {
            if self.set_file("put back", path, Some(bytes))? && !flagged.contains(path) {
                put_back.push(path.clone());
            }
        }
        let mut leftover = self.model().untracked(&self.own);
        leftover.retain(|path, _| !recorded.contains_key(path));
        if !leftover.is_empty() {
            rescue = self.save(task, attempt, base, Some(&target.commit))?;
            for path in leftover.keys() {
                self.set_file("clean", path, None)?;
            }
        }
        let undone = match target.foreign {
            false => Undone::Reset,
            true => Undone::Kept { head: target.commit, reverts: target.undone },
        };
        Ok(RolledBack { undone, rescue: rescue.map(|rescue| rescue.reference), put_back })
    }

    fn rescues(&self, task: Option<&TaskId>) -> Result<Vec<Rescue>, WorkspaceError> {
        Ok(self.list(task))
    }

    fn show(&self, rescue: &Rescue) -> Result<String, WorkspaceError> {
        Ok(self.shown(rescue))
    }

    fn restore(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError> {
        self.disturbed();
        self.bring_back(rescue)
    }

    fn keep_reachable(&self, task: &TaskId, commit: &CommitId) -> Result<String, WorkspaceError> {
        let reference = format!("{}{task}", harness::workspace::LANDED);
        let (name, commit) = (reference.clone(), commit.clone());
        self.op("landed ref", |model| drop(model.landed.insert(name, commit)))?;
        Ok(reference)
    }

    fn forget(&self, task: &TaskId) -> Result<(), WorkspaceError> {
        self.op("forget", |model| drop(model.bases.remove(task.as_str())))
    }
}
