//! The simulated half of a rollback that keeps the commits of others. It follows the plan of the
//! real one, with files as the unit of a conflict.

use std::collections::BTreeSet;

use harness::workspace::{Base, CommitAuthor, WorkspaceError, author, undo_message};
use harness_core::{CommitId, TaskId};

use super::{Files, Model, SimGit};

/// The commits since the base, newest first, by their author.
#[derive(Default)]
pub(super) struct History {
    pub(super) attempts: Vec<CommitId>,
    pub(super) foreign: Vec<CommitId>,
    undone: bool,
}

/// The destination of a rollback.
pub(super) struct Target {
    pub(super) commit: CommitId,
    pub(super) tip: Option<CommitId>,
    pub(super) foreign: bool,
    pub(super) undone: bool,
}

pub(super) fn history(model: &Model, task: &TaskId, base: &Base, tip: &CommitId) -> History {
    let before = model.history(&base.commit);
    let since = model.history(tip).into_iter().filter(|commit| !before.contains(commit));
    let mut since: Vec<_> =
        since.filter_map(|id| Some((model.commits.get(&id)?.clone(), id))).collect();
    since.sort_by_key(|(commit, _)| std::cmp::Reverse(commit.when));
    let mut history = History::default();
    for (commit, id) in since {
        match author(&commit.committer, &commit.message, task, base.epoch) {
            CommitAuthor::Attempt => history.attempts.push(id),
            CommitAuthor::Foreign => history.foreign.push(id),
            CommitAuthor::Undo => history.undone = true,
        }
    }
    history
}

impl SimGit {
    /// Returns `None` if there is nothing to undo.
    pub(super) fn plan(
        &self,
        task: &TaskId,
        base: &Base,
    ) -> Result<Option<Target>, WorkspaceError> {
        let (tip, history) = {
            let model = self.model();
            let tip = match &base.branch {
                _ if model.branch() == base.branch => Some(model.head_commit()?),
                Some(branch) => model.branches.get(branch).cloned(),
                None => Some(base.commit.clone()),
            };
            let history = tip.as_ref().map(|tip| history(&model, task, base, tip));
            (tip, history.unwrap_or_default())
        };
        let foreign = !history.foreign.is_empty() || history.undone;
        let mut undone = false;
        let commit = match &tip {
            Some(tip) if foreign && (history.undone || history.attempts.is_empty()) => tip.clone(),
            Some(tip) if foreign => {
                undone = true;
                self.undo_commit(task, base, tip, &history.attempts)?
            }
            Some(_) | None => base.commit.clone(),
        };
        let stays = {
            let model = self.model();
            model.branch() == base.branch && model.head_commit()? == commit
        };
        if stays && self.is_clean(base) {
            return Ok(None);
        }
        Ok(Some(Target { commit, tip, foreign, undone }))
    }

    fn is_clean(&self, base: &Base) -> bool {
        let recorded = self.recorded(base);
        let model = self.model();
        let known = |path: &String| recorded.contains_key(path);
        model.changed(&self.own).is_empty()
            && model.untracked(&self.own).keys().all(known)
            && recorded.iter().all(|(path, bytes)| model.work.get(path) == Some(bytes))
    }

    fn undo_commit(
        &self,
        task: &TaskId,
        base: &Base,
        tip: &CommitId,
        attempts: &[CommitId],
    ) -> Result<CommitId, WorkspaceError> {
        let mut files = self.model().files_of(tip);
        for commit in attempts {
            let (of, before) = {
                let model = self.model();
                let parents = model.commits.get(commit).map(|c| c.parents.clone());
                let parent = parents.and_then(|parents| parents.first().cloned());
                (model.files_of(commit), parent.map(|p| model.files_of(&p)).unwrap_or_default())
            };
            files = merged(&of, files, &before).map_err(|paths| WorkspaceError::CannotUndo {
                what: format!("later commits changed {}", paths.join(", ")),
                ways: [String::new(), String::new()],
            })?;
        }
        let message = undo_message(task, base.epoch);
        self.op("undo commit", |model| model.add_commit(vec![tip.clone()], files, &message, None))?
    }
}

/// Merges the changes from `of` to `to` into `ours`, or returns the paths that both changed.
pub(super) fn merged(of: &Files, ours: Files, to: &Files) -> Result<Files, Vec<String>> {
    let paths: BTreeSet<_> = of.keys().chain(ours.keys()).chain(to.keys()).cloned().collect();
    let (mut merged, mut conflicts) = (ours, Vec::new());
    for path in paths {
        let (base, here, there) = (of.get(&path), merged.get(&path), to.get(&path));
        if there == base || here == there {
            continue;
        }
        if here != base {
            conflicts.push(path);
            continue;
        }
        match there {
            Some(bytes) => drop(merged.insert(path, bytes.clone())),
            None => drop(merged.remove(&path)),
        }
    }
    if conflicts.is_empty() { Ok(merged) } else { Err(conflicts) }
}
