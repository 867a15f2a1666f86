//! Takes back what landed: a chain of revert commits on top of the target, computed in the object
//! store. It lands as any other result does.

use std::collections::BTreeSet;

use harness_core::{CommitId, TaskId, TreeId};

use super::{
    GitRepository,
    branch::full,
    rebase::{Merged, merge, silent},
};
use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
    object::commit_id,
    path::records,
    rescue::resolve,
    trailer::{TASK_TRAILER, is_of_task},
};

/// The sentence by which git's own reverts name the reverted commit.
const REVERTS: &str = "This reverts commit ";

/// The result of a revert. Nothing has moved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertChain {
    /// The target has no commit of the tasks that is not reverted already.
    Nothing,
    /// The commits are made, and can be judged and landed.
    Made {
        /// The tip of the target, on which they are.
        onto: CommitId,
        /// The last of them.
        commit: CommitId,
        /// Its tree.
        tree: TreeId,
        /// The commits that they take back, newest first.
        reverted: Vec<CommitId>,
    },
    /// Later commits changed the same lines.
    Conflict {
        /// The commit that cannot be taken back.
        commit: CommitId,
        /// The files, sorted.
        files: Vec<String>,
    },
}

/// A commit that landed.
struct LandedCommit {
    commit: CommitId,
    parents: Vec<CommitId>,
    subject: String,
}

impl GitRepository {
    /// Makes commits that take back what landed for `tasks`, newest first, on top of the target.
    pub fn revert(
        &self,
        target: &str,
        tasks: &BTreeSet<TaskId>,
    ) -> Result<RevertChain, WorkspaceError> {
        let onto = resolve(&self.main.git, &full(target))?.ok_or(WorkspaceError::NoCommits)?;
        self.revert_on(&onto, tasks)
    }

    /// Does the same on top of a commit, which may be the tip of a branch of a remote.
    pub fn revert_on(
        &self,
        onto: &CommitId,
        tasks: &BTreeSet<TaskId>,
    ) -> Result<RevertChain, WorkspaceError> {
        self.check_version()?;
        let git = silent(&self.main)?;
        let landed = landed_commits(&git, onto, tasks)?;
        let (mut top, mut tree) = (onto.clone(), git.tree_of(onto)?);
        let mut reverted = Vec::new();
        for LandedCommit { commit, parents, subject } in landed {
            let [parent] = &parents[..] else {
                return Ok(RevertChain::Conflict { commit, files: Vec::new() });
            };
            let next = match merge(&git, &commit, &top, parent)? {
                Merged::Tree(next) => next,
                Merged::Conflict(files) => return Ok(RevertChain::Conflict { commit, files }),
            };
            if next == tree {
                continue;
            }
            let message = format!("Revert \"{subject}\"\n\n{REVERTS}{commit}.\n");
            let parents = std::slice::from_ref(&top);
            top = self.main.policy.signed(&git, &next, parents, &message, &[])?;
            git.memory.remember_tree(&top, &next);
            tree = next;
            reverted.push(commit);
        }
        if reverted.is_empty() {
            return Ok(RevertChain::Nothing);
        }
        Ok(RevertChain::Made { onto: onto.clone(), commit: top, tree, reverted })
    }
}

/// Returns the commits of the tasks below `tip`, newest first, without those that were reverted.
fn landed_commits(
    git: &Git,
    tip: &CommitId,
    tasks: &BTreeSet<TaskId>,
) -> Result<Vec<LandedCommit>, WorkspaceError> {
    let call = git.read("log").args(["-z", "--topo-order", "--fixed-strings"]);
    let call = call.arg(format!("--grep={TASK_TRAILER}")).arg(format!("--grep={REVERTS}"));
    let output = call.args(["--format=%H%n%P%n%s%n%B", tip.as_str()]).output()?;
    let (mut landed, mut gone) = (Vec::new(), BTreeSet::new());
    for record in records(&output) {
        let text = String::from_utf8_lossy(record);
        let fields: Vec<_> = text.splitn(4, '\n').collect();
        let [commit, parents, subject, message] = fields[..] else {
            return Err(failed("log", b"unexpected output"));
        };
        let reverts = message.lines().filter_map(|line| line.trim_end().strip_prefix(REVERTS));
        let reverts = reverts.map(|id| id.trim_end_matches('.').to_owned());
        // A revert that was reverted itself has no effect any more.
        if !gone.contains(commit) {
            gone.extend(reverts);
        }
        let of_task = |line: &str| tasks.iter().any(|task| is_of_task(line.trim_end(), task));
        if gone.contains(commit) || !message.lines().any(of_task) {
            continue;
        }
        let parents = parents.split(' ').filter(|id| !id.is_empty()).map(commit_id);
        landed.push(LandedCommit {
            commit: commit_id(commit)?,
            parents: parents.collect::<Result<_, _>>()?,
            subject: subject.to_owned(),
        });
    }
    Ok(landed)
}
