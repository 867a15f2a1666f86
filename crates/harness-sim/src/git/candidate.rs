//! The simulated tree that would be committed, and the effect of a check on it.

use std::{collections::BTreeSet, sync::PoisonError};

use harness::workspace::{Base, Settled, Sight, WorkspaceError};
use harness_core::{CommitId, TreeId};

use super::{Files, Model, SimGit};

impl SimGit {
    /// Computes the candidate and remembers it with HEAD.
    pub(super) fn know(&self, base: &Base, view: &Model) -> Result<TreeId, WorkspaceError> {
        self.right_place(base)?;
        let files = self.files_to_commit(base, view);
        let (tree, head) = (self.model().add_tree(files)?, view.head_commit()?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((tree.clone(), head));
        Ok(tree)
    }

    fn files_in(&self, tree: &TreeId) -> Files {
        self.model().trees.get(tree).cloned().unwrap_or_default()
    }

    pub(super) fn settled(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let view = self.view(Sight::Anew);
        let head = view.head_commit()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let moved = known.is_none_or(|(tree, at)| tree != *before || at != head);
        let mut tree = self.know(base, &view)?;
        if !moved {
            let (old, now) = (self.files_in(before), self.files_in(&tree));
            for path in now.keys().filter(|path| !old.contains_key(*path)) {
                self.set_file("remove new", path, None)?;
            }
            tree = self.know(base, &self.view(Sight::Anew))?;
        }
        let moved = moved && tree != *before;
        let changed = differing(&self.files_in(before), &self.files_in(&tree));
        Ok(Settled { tree, changed, moved })
    }

    pub(super) fn compared(&self, base: &Base, before: &TreeId) -> Result<Settled, WorkspaceError> {
        let head = self.model().head_commit()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let moved = known.is_some_and(|(tree, at)| tree == *before && at != head);
        let tree = self.know(base, &self.view(Sight::Anew))?;
        let (old, now) = (self.files_in(before), self.files_in(&tree));
        let mut changed = differing(&old, &now);
        changed.retain(|path| old.contains_key(path));
        let moved = moved && !changed.is_empty();
        Ok(Settled { tree, changed, moved })
    }

    pub(super) fn make(&self, base: &Base, tree: &TreeId) -> Result<Vec<String>, WorkspaceError> {
        let now = self.know(base, &self.view(Sight::Anew))?;
        let (wanted, now) = (self.files_in(tree), self.files_in(&now));
        let paths = differing(&wanted, &now);
        for path in &paths {
            self.set_file("put back", path, wanted.get(path))?;
        }
        self.know(base, &self.view(Sight::Anew))?;
        Ok(paths)
    }

    /// Returns untracked files from before the claim that differ, and ignored files if nothing else
    /// was done. The model has no folders, submodules or modification times.
    pub(super) fn hidden(&self, base: &Base, model: &Model) -> Vec<String> {
        let recorded = self.recorded(base);
        let changed = recorded.iter().filter(|(path, bytes)| model.work.get(*path) != Some(bytes));
        let mut hidden: Vec<_> = changed.map(|(path, _)| path.clone()).collect();
        let untracked = model.untracked(&self.own);
        if model.changed(&self.own).is_empty()
            && untracked.keys().all(|path| recorded.contains_key(path))
            && model.head_commit().is_ok_and(|head| head == base.commit)
        {
            let ignored = model.work.keys().filter(|path| {
                !model.index.contains_key(*path)
                    && model.ignored(path)
                    && !self.own.own(path.as_bytes())
            });
            hidden.extend(ignored.cloned());
        }
        hidden
    }

    pub(super) fn commit_files(
        &self,
        base: &Base,
        head: CommitId,
        files: Files,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        self.claim_branch_for(base, &head)?;
        let commit = if self.model().files_of(&head) == files {
            head
        } else {
            let commit = self.op("commit object", |model| {
                model.add_commit(vec![head.clone()], files.clone(), message, None)
            })??;
            let tip = commit.clone();
            // This compares and swaps, so that a commit of another program at this moment is not
            // lost.
            let moved = self.op("commit ref", |model| {
                let stays = model.head_commit()? == head;
                if stays {
                    model.set_head(tip);
                }
                Ok::<_, WorkspaceError>(!stays)
            })??;
            if moved {
                return Err(WorkspaceError::HeadMoved { from: head });
            }
            commit
        };
        self.op("commit index", |model| model.index = files)?;
        Ok(commit)
    }
}

fn differing(one: &Files, other: &Files) -> Vec<String> {
    let paths: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}
