//! Saves what a work tree of a worker holds that nothing else holds, before it is reset or removed.

use std::time::{SystemTime, UNIX_EPOCH};

use harness_core::{CommitId, Epoch, TaskId};

use super::provision::Provisions;
use crate::workspace::{
    Base, GitWorkspace, WorkspaceError, git::Git, rescue::Rescuing, status::Look,
};

/// The name under which work is saved that belongs to no task.
const NO_TASK: &str = "worktree";

/// A work tree whose contents are about to be replaced.
pub(super) struct Saving<'a> {
    pub(super) workspace: &'a GitWorkspace,
    pub(super) git: &'a Git,
    /// The files that were copied or linked from the main tree.
    pub(super) provisions: &'a Provisions,
    /// The commit that HEAD of the tree names afterwards; `None` if the tree is removed.
    pub(super) next: Option<&'a CommitId>,
    /// A commit that is known to be on a branch.
    pub(super) held: Option<&'a CommitId>,
}

impl Saving<'_> {
    /// Saves the changes and untracked files of `look`, and commits of a HEAD that is on no branch.
    /// Returns the ref of the rescue, if there was anything to save.
    pub(super) fn save(&self, look: &Look) -> Result<Option<String>, WorkspaceError> {
        let Some(head) = &look.head else { return Ok(None) };
        let loose = self.loose(look, head)?;
        if loose.is_none() && !self.uncommitted(look) {
            return Ok(None);
        }
        let task = look.branch.as_deref().and_then(task_of).map(|(task, _)| task);
        let task = match task {
            Some(task) => task,
            None => TaskId::parse(NO_TASK).map_err(|bad| std::io::Error::other(bad.to_string()))?,
        };
        let base = Base {
            commit: loose.unwrap_or_else(|| head.clone()),
            branch: look.branch.clone(),
            untracked: None,
            worktree: self.git.top_level.clone(),
            epoch: None,
            claimed_at: None,
        };
        let subject = format!("{task}: work that was left in a work tree");
        let rescuing = Rescuing {
            git: self.git,
            own: &self.workspace.own,
            task: &task,
            attempt: seconds(),
            base: &base,
            subject: Some(&subject),
        };
        Ok(rescuing.save(look.clone(), None)?.rescue.map(|rescue| rescue.reference))
    }

    /// Returns whether there may be something to save. It runs nothing.
    pub(super) fn would_save(&self, look: &Look) -> bool {
        let loose = look.branch.is_none()
            && ![self.next, self.held].contains(&look.head.as_ref())
            && look.head.is_some();
        loose || self.uncommitted(look)
    }

    /// Returns whether a file differs from HEAD and was not brought from the main tree.
    fn uncommitted(&self, look: &Look) -> bool {
        let brought = |path| self.provisions.is_unchanged(path, &self.git.top_level);
        !look.changed.is_empty() || look.untracked.iter().any(|path| !brought(path))
    }

    /// Returns the commit below those commits of a HEAD on no branch that no ref holds.
    fn loose(&self, look: &Look, head: &CommitId) -> Result<Option<CommitId>, WorkspaceError> {
        if look.branch.is_some() || [self.next, self.held].contains(&Some(head)) {
            return Ok(None);
        }
        let call = self.git.read("rev-list").args(["--max-count=1", head.as_str(), "--not"]);
        let call = call.args(self.next.map(CommitId::as_str));
        let call = call.args(["--branches", "--tags", "--remotes", "--glob=refs/harness"]);
        if call.output()?.is_empty() {
            return Ok(None);
        }
        let Some(next) = self.next else { return Ok(self.root_of(head)) };
        let ran = self.git.read("merge-base").args([head.as_str(), next.as_str()]).run()?;
        let below = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        Ok(CommitId::parse(&below).ok().or_else(|| self.root_of(head)))
    }

    /// Returns the parent of a commit, or the commit if it has none.
    fn root_of(&self, head: &CommitId) -> Option<CommitId> {
        let call = self.git.read("rev-parse").args(["--verify", "--quiet", &format!("{head}^")]);
        let parent = call.line().ok().and_then(|line| CommitId::parse(&line).ok());
        Some(parent.unwrap_or_else(|| head.clone()))
    }
}

/// Returns the task and the epoch of a branch of an attempt.
pub(super) fn task_of(branch: &str) -> Option<(TaskId, Epoch)> {
    let (task, epoch) = branch.strip_prefix("harness/")?.rsplit_once('.')?;
    Some((TaskId::parse(task).ok()?, Epoch(epoch.parse().ok()?)))
}

fn seconds() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
}
