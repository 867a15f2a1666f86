//! The branches of a shared repository: the target, [`LANDED_BRANCH`], and one for each attempt.

use std::fs;

use harness_core::{CommitId, Epoch, TaskId, WorkerId};

use super::{
    GitRepository,
    entry::TreeEntry,
    land::RefChanges,
    place::{TreeLock, lock_of},
    remote::KNOWN,
};
use crate::workspace::{
    GitWorkspace, Rescue, WorkspaceError,
    git::{Git, failed},
    rescue::{PREFIX, create, resolve},
    restore,
    shared::{LANDED_BRANCH, task_branch, work_ref},
    status::Look,
};

impl GitWorkspace {
    /// Returns the changes from one commit to another as a patch with a summary, without harness's own
    /// files.
    pub fn diff(&self, from: &CommitId, to: &CommitId) -> Result<String, WorkspaceError> {
        restore::diff(&self.git, &self.own, from.as_str(), to.as_str())
    }

    /// Returns the commit that the attempt of a rescue started from; `None` if that is not recorded.
    pub fn base_of_rescue(&self, rescue: &Rescue) -> Result<Option<CommitId>, WorkspaceError> {
        restore::base_of_rescue(&self.git, rescue)
    }

    /// Returns the number of commits that `branch` has and the branch `than` has not; without `than`,
    /// compared with HEAD. There are none if there is no such branch.
    pub fn commits_ahead(&self, branch: &str, than: Option<&str>) -> Result<u32, WorkspaceError> {
        let than = than.map_or_else(|| "HEAD".to_owned(), full);
        self.ahead_of(&full(branch), &than)
    }

    /// Returns the number of commits that a branch of a remote has, as far as this clone knows, and
    /// HEAD has not.
    pub fn commits_to_pull(&self, remote: &str, branch: &str) -> Result<u32, WorkspaceError> {
        self.ahead_of(&format!("{KNOWN}{remote}/{branch}"), "HEAD")
    }

    fn ahead_of(&self, reference: &str, than: &str) -> Result<u32, WorkspaceError> {
        match resolve(&self.git, reference)? {
            Some(commit) if resolve(&self.git, than)?.is_some() => {
                ahead(&self.git, than, commit.as_str())
            }
            Some(_) | None => Ok(0),
        }
    }
}

impl GitRepository {
    pub(super) fn find_target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        let git = &self.main.git;
        let Some(branch) = wanted.map(str::to_owned).or_else(|| self.main.branch()) else {
            create_branch(git, LANDED_BRANCH, "HEAD")?;
            return Ok(LANDED_BRANCH.to_owned());
        };
        if wanted.is_some() {
            refuse_name(git, &branch)?;
            create_branch(git, &branch, "HEAD")?;
        } else if resolve(git, &full(&branch))?.is_none() {
            return Err(WorkspaceError::NoCommits);
        }
        Ok(branch)
    }

    pub(super) fn start_task_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        let (_, workspace) = self.open(worker)?;
        let (git, branch) = (&workspace.git, task_branch(task, epoch));
        if workspace.branch().as_deref() == Some(&branch) && resolve(git, "HEAD")?.is_some() {
            return Ok(());
        }
        let last = workspace.last_look();
        let call = git.write("checkout").args(["--quiet", "--no-track", "-b", &branch]);
        if call.run()?.code == Some(0) {
            if let Some(last) = last {
                workspace.remember_look(Look { branch: Some(branch), ..last });
            }
            return Ok(());
        }
        // The branch is there: this call was cut short, or a ledger with the same names existed
        // before, whose work is kept under another name. Or a merge is under way in the tree.
        let head = resolve(git, "HEAD")?.ok_or(WorkspaceError::NoCommits)?;
        let old = resolve(git, &full(&branch))?;
        if let Some(old) = old.as_ref().filter(|old| **old != head) {
            create(git, &format!("{PREFIX}{task}/{epoch}"), old)?;
        }
        let old = old.map_or_else(|| "0".repeat(head.as_str().len()), |old| old.to_string());
        let call = git.write("update-ref").args(["-m", "harness: start", &full(&branch)]);
        call.args([head.as_str(), &old]).output()?;
        let call = git.write("symbolic-ref").args(["-m", "harness: start", "HEAD"]);
        call.arg(full(&branch)).output().map(drop)
    }

    pub(super) fn end_task_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        let branch = task_branch(task, epoch);
        let reference = full(&branch);
        let git = &self.main.git;
        let Some(commit) = commit_of(git, &reference)? else { return Ok(()) };
        let path = self.place.tree(worker);
        let own = self.trees().get(worker).cloned();
        for entry in TreeEntry::all(git)? {
            if entry.head_ref().as_deref() != Some(&reference) {
                continue;
            }
            let Some(place) = entry.tree() else { return Ok(()) };
            let held = own.is_some() && place == path;
            if !held && !self.is_abandoned(&place)? {
                // The branch is in use.
                return Ok(());
            }
            detach(git, &entry, &commit)?;
        }
        if !self.has_landed(target, &commit) && !is_held(git, &commit, task, target)? {
            // For example, the user took back the commit that the attempt started from.
            create(git, &format!("{PREFIX}{task}/{epoch}"), &commit)?;
        }
        let work = work_ref(task, epoch);
        let mut refs = RefChanges::default().delete(&reference, &commit);
        if let Some(kept) = commit_of(git, &work)? {
            refs = refs.delete(&work, &kept);
        }
        let ran = refs.run(git, "harness: end of the attempt")?;
        if ran.code != Some(0) {
            return Err(failed("update-ref", &ran.stderr));
        }
        if let Some(tree) = own {
            tree.set_held(&commit);
        }
        Ok(())
    }

    /// Returns whether a work tree is one of ours whose lock nothing holds.
    fn is_abandoned(&self, tree: &std::path::Path) -> Result<bool, WorkspaceError> {
        let folder = self.place.folder().canonicalize();
        if !folder.is_ok_and(|folder| tree.parent() == Some(&folder)) {
            return Ok(false);
        }
        let lock = lock_of(tree);
        Ok(!lock.exists() || TreeLock::take(lock)?.is_some())
    }
}

/// Puts HEAD of a work tree on a commit instead of a branch. Files and index stay.
fn detach(git: &Git, entry: &TreeEntry, commit: &CommitId) -> Result<(), WorkspaceError> {
    let git = Git { git_dir: entry.git_dir.clone(), ..git.clone() };
    let call = git.write("update-ref").args(["--no-deref", "-m", "harness: end of the attempt"]);
    call.args(["HEAD", commit.as_str()]).output().map(drop)
}

/// Returns whether the target, a branch of a remote or a rescue of the task contains the commit.
fn is_held(
    git: &Git,
    commit: &CommitId,
    task: &TaskId,
    target: &str,
) -> Result<bool, WorkspaceError> {
    let call = git.read("for-each-ref").args(["--count=1", "--format=%(refname)"]);
    let call = call.arg(format!("--contains={commit}"));
    let held = call.args([&full(target), &format!("{PREFIX}{task}/"), KNOWN]).output()?;
    Ok(!held.is_empty())
}

/// Creates a branch at the commit of `start`, unless it exists. Returns its commit.
pub(super) fn create_branch(
    git: &Git,
    branch: &str,
    start: &str,
) -> Result<CommitId, WorkspaceError> {
    let reference = full(branch);
    if let Some(commit) = resolve(git, &reference)? {
        return Ok(commit);
    }
    let start = resolve(git, start)?.ok_or(WorkspaceError::NoCommits)?;
    let nothing = "0".repeat(start.as_str().len());
    let call = git.write("update-ref").args(["-m", "harness: results land here", &reference]);
    let ran = call.args([start.as_str(), &nothing]).run()?;
    match (ran.code, resolve(git, &reference)?) {
        (_, Some(commit)) => Ok(commit),
        (_, None) => Err(failed("update-ref", &ran.stderr)),
    }
}

pub(super) fn refuse_name(git: &Git, branch: &str) -> Result<(), WorkspaceError> {
    let good = !branch.starts_with('-')
        && git.read("check-ref-format").arg(full(branch)).answer()?
        && branch != "harness";
    if good {
        return Ok(());
    }
    Err(WorkspaceError::Unsafe {
        what: format!("{branch:?} cannot be the branch on which results land"),
        hint: "use the name of a branch, for example `main`".to_owned(),
    })
}

/// Returns the full name of a branch.
pub(super) fn full(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns the commit of a ref. A ref that changed lately is read without git.
pub(super) fn commit_of(git: &Git, reference: &str) -> Result<Option<CommitId>, WorkspaceError> {
    match loose(git, reference) {
        Some(commit) => Ok(Some(commit)),
        None => resolve(git, reference),
    }
}

/// Returns the commit of a ref that is a file of its own, as each ref is after a change.
pub(super) fn loose(git: &Git, reference: &str) -> Option<CommitId> {
    let text = fs::read_to_string(git.common_dir().join(reference)).ok()?;
    CommitId::parse(text.trim_end()).ok()
}

/// Returns the number of commits that `to` has and `from` has not.
pub(super) fn ahead(git: &Git, from: &str, to: &str) -> Result<u32, WorkspaceError> {
    let line = git.read("rev-list").args(["--count", to, "--not", from]).line()?;
    line.parse().map_err(|_| failed("rev-list", b"unexpected output"))
}

/// Returns whether `ancestor` is `commit` or below it. A missing object is below nothing.
pub(super) fn is_below(
    git: &Git,
    ancestor: &CommitId,
    commit: &CommitId,
) -> Result<bool, WorkspaceError> {
    if ancestor == commit {
        return Ok(true);
    }
    let call = git.read("merge-base").arg("--is-ancestor");
    let ran = call.args([ancestor.as_str(), commit.as_str()]).run()?;
    match ran.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        Some(_) | None => {
            let exists = git.read("cat-file").args(["-t", ancestor.as_str()]).run()?;
            match exists.code == Some(0) && exists.stdout == b"commit\n" {
                true => Err(failed("merge-base", &ran.stderr)),
                false => Ok(false),
            }
        }
    }
}
