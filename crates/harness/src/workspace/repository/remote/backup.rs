//! The work of an attempt on the server: snapshots of its tree, the result that it announced, and how
//! another clone continues from there.
//!
//! A snapshot is a commit with the files of the tree, on top of HEAD. Its message names the claim, so
//! that a ledger of another clone, whose tasks have the same names, does not take it for its own.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use harness_core::{CommitId, Epoch, TaskId, TreeId, WorkerId};
use sha2::{Digest, Sha256};

use super::{
    RemoteRepository, Sharing,
    names::Names,
    push::{Pushed, Update},
    share::Shareable,
};
use crate::workspace::{
    WorkspaceError,
    git::Git,
    object::tree_id,
    repository::branch::{commit_of, is_below},
    rescue::{BASE_TRAILER, PREFIX, all, commit_tree, create, resolve},
    shared::{BackedUp, Backup, Dead, Rebase, WorkerTree, work_ref},
    snapshot::Snapshot,
    status::Look,
};

/// Names the claim in the message of a snapshot.
const CLAIM_TRAILER: &str = "Harness-Claim: ";

/// The snapshots of an attempt.
#[derive(Debug, Default)]
pub(super) struct Backups {
    /// The state in the last one: HEAD, and the files.
    last: Option<(CommitId, TreeId)>,
    /// `true` once the attempt has announced a result or has ended. A snapshot that is late must not
    /// replace that.
    over: bool,
}

/// A claim that is recorded in a snapshot.
struct Claim<'a> {
    task: &'a TaskId,
    epoch: Epoch,
    base: &'a CommitId,
    tree: &'a Path,
}

impl Claim<'_> {
    fn digest(&self) -> String {
        let Self { task, epoch, base, tree } = self;
        let text = format!("{task}\0{epoch}\0{base}\0{}", tree.display());
        Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Creates the commit that records the files of the attempt.
    fn record(
        &self,
        git: &Git,
        head: &CommitId,
        files: &TreeId,
    ) -> Result<CommitId, WorkspaceError> {
        let (task, base, digest) = (self.task, self.base, self.digest());
        let message =
            format!("{task}: work in progress\n\n{BASE_TRAILER}{base}\n{CLAIM_TRAILER}{digest}\n");
        commit_tree(git, files, std::slice::from_ref(head), &message)
    }

    /// Returns whether a commit is such a record of this claim.
    fn is_recorded_in(&self, git: &Git, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let message = git.read("log").args(["-1", "--format=%B", commit.as_str()]).output()?;
        let line = format!("{CLAIM_TRAILER}{}", self.digest());
        Ok(String::from_utf8_lossy(&message).lines().any(|found| found == line))
    }
}

impl RemoteRepository {
    pub(super) fn push_backup(
        &self,
        worker: &WorkerId,
        backup: &Backup<'_>,
    ) -> Result<BackedUp, WorkspaceError> {
        if self.settings.backups == Sharing::Local || self.names() == Names::Branches {
            return Ok(BackedUp::Not);
        }
        let Backup { task, epoch, base } = *backup;
        let backups = self.backups_of(task, epoch);
        let mut backups = backups.lock().unwrap_or_else(PoisonError::into_inner);
        if backups.over {
            // The result that was announced is there.
            return Ok(BackedUp::Saved);
        }
        let (_, workspace) = self.local.open(worker)?;
        let git = workspace.git()?;
        let look = Look::take(&git, &workspace.own)?;
        let head = look.commit()?;
        let files = Snapshot::take(&git, &workspace.own, look)?.tree;
        let state = Some((head.clone(), files.clone()));
        if backups.last == state {
            return Ok(BackedUp::Saved);
        }
        let tree = self.local.tree_path(worker);
        let claim = Claim { task, epoch, base, tree: &tree };
        let record = claim.record(&git, &head, &files)?;
        let reference = Names::Hidden.work(task, epoch);
        let Some(Shareable { commit, left_out }) = self.shareable(&git, &record, base)? else {
            self.warn(format!("no snapshot of {task} is pushed: the name of a file is a secret"));
            return Ok(BackedUp::Not);
        };
        self.warn_left_out(&format!("the snapshot of {task}"), &left_out);
        match self.transport.push(&[Update::set(&reference, &commit)])? {
            Pushed::Done => {
                backups.last = state;
                return Ok(BackedUp::Saved);
            }
            // The next one is as good.
            Pushed::Overtaken => {}
            Pushed::Refused { why } => self.use_branches(&why),
        }
        Ok(BackedUp::Not)
    }

    fn backups_of(&self, task: &TaskId, epoch: Epoch) -> Arc<Mutex<Backups>> {
        Arc::clone(self.state().backups.entry((task.clone(), epoch)).or_default())
    }

    /// Ends the snapshots of an attempt. One that is on its way arrives first.
    fn end_backups(&self, task: &TaskId, epoch: Epoch) {
        let backups = self.backups_of(task, epoch);
        backups.lock().unwrap_or_else(PoisonError::into_inner).over = true;
    }

    /// Pushes a result that is about to be announced, with the original work that it is made from.
    pub(super) fn publish(
        &self,
        worker: &WorkerId,
        rebase: &Rebase,
        result: &CommitId,
    ) -> Result<(), WorkspaceError> {
        let git = &self.local.main.git;
        let Rebase { task, epoch, base, .. } = rebase;
        let work = commit_of(git, &work_ref(task, *epoch))?;
        let work = work.unwrap_or_else(|| rebase.work.clone());
        let tree = self.local.tree_path(worker);
        let claim = Claim { task, epoch: *epoch, base, tree: &tree };
        let files = git.read("rev-parse").args(["--verify", &format!("{work}^{{tree}}")]).line()?;
        let record = claim.record(git, &work, &tree_id(&files)?)?;
        // What the work had on the way to its result is shared as any other unfinished work is.
        let original = match self.settings.backups {
            Sharing::Shared => self.shareable(git, &record, base)?.map(|original| original.commit),
            Sharing::Local => None,
        };
        self.end_backups(task, *epoch);
        self.push_ours(|names| {
            let announced = Update::set(&names.work(task, *epoch), result);
            let original = original.as_ref();
            let original =
                original.map(|commit| Update::set(&names.original(task, *epoch), commit));
            [announced].into_iter().chain(original).collect()
        })
    }

    /// Brings the work of an attempt of another clone into the tree of `worker`, from what that one
    /// pushed. It is saved as a rescue in any case.
    pub(super) fn recover(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        let git = &self.local.main.git;
        let Some(of) = dead.base.epoch else { return Ok(None) };
        let claim = Claim { task: dead.task, epoch: of, base: &dead.base.commit, tree: dead.tree };
        let originals = Names::ALL.map(|names| (names.original(dead.task, of), true));
        let snapshots = Names::ALL.map(|names| (names.work(dead.task, of), false));
        for (reference, is_result) in originals.into_iter().chain(snapshots) {
            let Some(record) = self.reach(|| self.fetch_one(&reference))? else { continue };
            if !claim.is_recorded_in(git, &record)? {
                continue;
            }
            let Some(head) = resolve(git, &format!("{record}^1"))? else { continue };
            self.keep(dead, &record)?;
            if !is_below(git, &dead.base.commit, &head)? {
                return Ok(None);
            }
            let files = git.read("rev-parse").args(["--verify", &format!("{record}^{{tree}}")]);
            let files = tree_id(&files.line()?)?;
            let files = (!is_result).then_some(&files);
            let brought = self.local.bring_work(worker, (dead.task, epoch), &head, files)?;
            return Ok(Some(brought));
        }
        Ok(None)
    }

    /// Keeps a record as a rescue of the attempt, once.
    fn keep(&self, dead: &Dead<'_>, record: &CommitId) -> Result<(), WorkspaceError> {
        let git = &self.local.main.git;
        if all(git, Some(dead.task))?.iter().any(|rescue| rescue.commit == *record) {
            return Ok(());
        }
        create(git, &format!("{PREFIX}{}/{}", dead.task, dead.attempt), record).map(drop)
    }

    /// Removes the refs of an attempt that has ended from the server, if its branch is gone: then its
    /// work is on the target or saved here.
    pub(super) fn end_work(&self, task: &TaskId, epoch: Epoch) -> Result<(), WorkspaceError> {
        let git = &self.local.main.git;
        self.end_backups(task, epoch);
        let branch = format!("refs/heads/{}", crate::workspace::shared::task_branch(task, epoch));
        if commit_of(git, &branch)?.is_some() {
            return Ok(());
        }
        let all = Names::ALL.into_iter();
        let names: Vec<_> =
            all.flat_map(|names| [names.work(task, epoch), names.original(task, epoch)]).collect();
        let listed = self.transport.list(&names)?;
        let ours = listed.iter().filter(|(_, commit)| self.has(commit).unwrap_or(false));
        let updates: Vec<_> = ours.map(|(name, commit)| Update::delete(name, commit)).collect();
        if !updates.is_empty() {
            // What stays is found by `gc`.
            let _ = self.transport.push(&updates)?;
        }
        Ok(())
    }
}
