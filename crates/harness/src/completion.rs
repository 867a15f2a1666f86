//! A worker says that its task is done: the check is run, what the completion rests on is kept as a
//! receipt, and only then is it recorded. A client without a host and a daemon do it alike.
//!
//! Blocking. The check runs outside of any lock, and the lease is renewed meanwhile.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use harness_core::{
    Command, CommitId, Epoch, Holder, Receipt, Reply, Task, TaskId, TreeId,
    check::Verdict,
    command::{Authority, Complete, Note, Proof, Renew, Unchecked},
    machine::attempt::Rules,
    protect::{self, OnTouch},
    receipt::{self, CheckRecord},
    task::Status,
};

use crate::{
    check::{Check, Checked},
    clock::{Clock, SystemClock},
    shell::{Cancel, SystemShell},
    workspace::{Base, GitWorkspace, Workspace as _, WorkspaceError, glance},
};

/// How much of a failing check's output is shown; the tail is where checks say what is wrong.
const SHOWN_LINES: usize = 20;

/// Who has the ledger, and may have things run.
pub trait Clerk: Sync {
    /// Why not, in the caller's form.
    type Error: From<NotDone> + From<WorkspaceError> + From<io::Error> + Send;

    /// The task and what goes with it, now.
    fn standing(&self, task: &TaskId) -> Result<Standing, Self::Error>;
    /// Makes a command true.
    fn apply(&self, command: Command) -> Result<Reply, Self::Error>;
    /// Whether commands of this ledger may be run on this machine.
    fn may_run(&self) -> Result<(), Self::Error>;
    /// A check of this task begins: how it can be stopped.
    fn checking(&self, task: &Task) -> Result<Cancel, Self::Error>;
    /// The repository that `directory` lies in.
    fn workspace(&self, directory: &Path) -> Result<GitWorkspace, Self::Error>;
    /// Something to tell although it goes on.
    fn warn(&self, text: &str);
    /// The tree of a commit, where that can be told.
    fn tree_of(&self, directory: &Path, commit: &CommitId) -> Option<TreeId> {
        self.workspace(directory).ok()?.tree_of(commit).ok()
    }
}

/// A task in its ledger.
#[derive(Debug, Clone)]
pub struct Standing {
    /// `None` where there is none of that id.
    pub task: Option<Task>,
    /// What a claim made now would get.
    pub next_epoch: Epoch,
    /// N of `SESSION-N`.
    pub session: u64,
}

/// Why a task is not completed. It stays as it is, and no attempt is counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotDone {
    /// Who can mend it.
    pub fault: Fault,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hints: Vec<String>,
}

/// Who can mend what went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// Whoever asked.
    #[default]
    Request,
    /// A person, in the ledger or the configuration.
    Config,
    /// Nothing is wrong: somebody stopped it.
    Stopped,
}

impl NotDone {
    fn new(fault: Fault, message: String, hint: &str) -> Self {
        Self { fault, message, hints: vec![hint.to_owned()] }
    }
}

/// One task that a worker says is done.
pub struct Completion<'a, C> {
    /// Who records it.
    pub clerk: &'a C,
    /// The state root.
    pub root: &'a Path,
    /// Where the work is, if the claim does not say.
    pub worktree: &'a (dyn Fn() -> PathBuf + Sync),
    /// How strictly it is judged.
    pub rules: &'a Rules,
    /// What a worker's word is worth for a task without a check.
    pub unchecked: Unchecked,
    /// For claims of a session.
    pub lease_seconds: u64,
    /// Who says so.
    pub holder: Holder,
    /// Whether the claim has to be the holder's.
    pub authority: Authority,
}

impl<C: Clerk> Completion<'_, C> {
    /// Checks, keeps the receipt, records the completion; answers when that is durable.
    pub fn run(&self) -> Result<TaskId, C::Error> {
        let standing = self.clerk.standing(&self.holder.task)?;
        // A wrong holder hears so at once, not after a check that may take an hour.
        let task = standing.task.as_ref().filter(|task| {
            task.status != Status::Completed
                && (self.authority == Authority::Force || self.held(task))
        });
        let (mut proof, mut written, mut commit) = (Proof::Word, None, None);
        if let Some(task) = task {
            let judged = Judged { of: self, task, session: standing.session };
            // By force it is a new claim.
            let claim = task.epoch.filter(|_| self.held(task));
            let mut receipt = judged.receipt(claim.unwrap_or(standing.next_epoch));
            commit.clone_from(&receipt.commit);
            receipt.protected = judged.protected()?;
            if let Some(command) = task.check() {
                receipt.check = Some(judged.check()?);
                proof = Proof::Passed { command: command.to_owned() };
            }
            if proof != Proof::Word || self.unchecked == Unchecked::Allowed {
                crate::store::record(self.root, &receipt)?;
                written = Some(receipt).filter(|_| claim.is_none());
            }
        }
        let (holder, authority, unchecked) = (self.holder.clone(), self.authority, self.unchecked);
        let complete = Complete { holder, authority, proof, unchecked, commit };
        self.clerk.apply(Command::Complete(complete))?;
        if let Some(receipt) = written {
            self.under_its_epoch(receipt)?;
        }
        Ok(self.holder.task.clone())
    }

    /// A completion by force gets the epoch that is next when it is made; usually that is the one
    /// that was next when we looked.
    fn under_its_epoch(&self, receipt: Receipt) -> Result<(), C::Error> {
        let standing = self.clerk.standing(&receipt.task)?;
        match standing.task.and_then(|task| task.epoch) {
            Some(epoch) if epoch != receipt.epoch => {
                Ok(crate::store::record(self.root, &Receipt { epoch, ..receipt })?)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn held(&self, task: &Task) -> bool {
        task.status == Status::InProgress
            && task.claimed_by.as_ref() == Some(&self.holder.worker)
            && self.holder.epoch.is_none_or(|epoch| task.epoch == Some(epoch))
    }
}

/// The task as it stands while it is judged.
struct Judged<'a, C> {
    of: &'a Completion<'a, C>,
    task: &'a Task,
    session: u64,
}

impl<C: Clerk> Judged<'_, C> {
    /// The claim's work tree, else that of whoever judges.
    fn directory(&self) -> PathBuf {
        self.task.worktree.as_ref().map_or_else(self.of.worktree, PathBuf::from)
    }

    fn receipt(&self, epoch: Epoch) -> Receipt {
        let directory = self.directory();
        let commit = glance::head(&directory);
        let tree = commit.as_ref().and_then(|at| self.of.clerk.tree_of(&directory, at));
        Receipt {
            version: receipt::VERSION,
            task: self.task.id.clone(),
            epoch,
            worker: self.of.holder.worker.clone(),
            attempt: self.task.attempts + 1,
            base: self.task.started_at_commit.clone(),
            commit,
            tree,
            check: None,
            baseline: None,
            protected: Vec::new(),
            flags: self.task.flags.clone(),
            agent: None,
            iterations: None,
            tokens: None,
            cost_usd: None,
            time: SystemClock.now(),
        }
    }

    /// Runs the check and gives its record; a check that does not pass is an error.
    fn check(&self) -> Result<CheckRecord, C::Error> {
        let (clerk, task) = (self.of.clerk, self.task);
        clerk.may_run()?;
        let check = Check {
            command: task.check().unwrap_or_default().to_owned(),
            timeout_seconds: task.validation.timeout_seconds,
            environment: self.environment(),
        };
        let cancel = clerk.checking(task)?;
        let clean = task.validation.clean.unwrap_or(self.of.rules.clean);
        let directory = self.directory();
        let commit = if clean { Some(self.commit_to_judge(&directory)?) } else { None };
        let checked = self.while_renewing(|| self.run(&check, &directory, commit, &cancel))?;
        Ok(self.passed(&check, &checked)?)
    }

    fn run(
        &self,
        check: &Check,
        directory: &Path,
        commit: Option<CommitId>,
        cancel: &Cancel,
    ) -> Result<Checked, C::Error> {
        let shell = SystemShell::default();
        let Some(commit) = commit else { return Ok(check.run_in(&shell, directory, cancel)?) };
        let workspace = self.of.clerk.workspace(directory)?;
        Ok(check.run_clean(&shell, &workspace, self.of.root, &commit, cancel)?)
    }

    fn commit_to_judge(&self, directory: &Path) -> Result<CommitId, NotDone> {
        glance::head(directory).ok_or_else(|| {
            let message = "validation.clean judges a commit, and there is none here";
            let hint = "commit the work, or set validation.clean to false";
            NotDone::new(Fault::Config, message.to_owned(), hint)
        })
    }

    fn passed(&self, check: &Check, checked: &Checked) -> Result<CheckRecord, NotDone> {
        let (id, told) = (&self.task.id, tail(&checked.ran.tail));
        match &checked.verdict {
            Verdict::Passed => Ok(checked.record(check)),
            Verdict::Red { why } => {
                let message = format!("Task {id}: the check failed ({why}){told}");
                let hint = "the task is still yours: mend it and complete it again";
                let mut failed = NotDone::new(Fault::Request, message, hint);
                if checked.record(check).clean {
                    let clean = "validation.clean: only what is committed was judged";
                    failed.hints.push(clean.to_owned());
                }
                Err(failed)
            }
            Verdict::TimedOut => {
                let limit = check.timeout_seconds.max(1);
                let message = format!("Task {id}: the check took longer than {limit} s{told}");
                let hint = format!("`harness task edit {id} --timeout SECONDS` gives it more");
                Err(NotDone::new(Fault::Request, message, &hint))
            }
            Verdict::Missing => {
                let command = &check.command;
                let message = format!("Task {id}: the check can not be run here: {command}{told}");
                let hint = "install what it needs; the task is still yours";
                Err(NotDone::new(Fault::Request, message, hint))
            }
            Verdict::Cancelled => {
                let message = format!("Task {id}: the check was stopped");
                Err(NotDone::new(Fault::Stopped, message, "the task is still yours"))
            }
        }
    }

    /// The protected files that the work touched: said, or refused.
    fn protected(&self) -> Result<Vec<String>, C::Error> {
        let (clerk, protected) = (self.of.clerk, &self.of.rules.protected);
        let Some(commit) = self.task.started_at_commit.clone() else { return Ok(Vec::new()) };
        if protected.is_empty() {
            return Ok(Vec::new());
        }
        let workspace = clerk.workspace(&self.directory())?;
        let (branch, worktree) = (None, workspace.top_level().to_owned());
        let untracked = self.task.base_untracked.clone();
        let (epoch, claimed_at) = (self.task.epoch, self.task.claimed_at);
        let base = Base { commit, branch, untracked, worktree, epoch, claimed_at };
        let files = protected.among(&workspace.touched(&base)?);
        let told = protect::touched(&files);
        match protected.on_touch() {
            _ if files.is_empty() => {}
            OnTouch::Refuse => {
                let message = format!("Task {}: {told}", self.task.id);
                let hint = "put them back and complete it again: the task is still yours";
                return Err(NotDone::new(Fault::Request, message, hint).into());
            }
            OnTouch::Flag => {
                let note = Note::Warning { task: Some(self.task.id.clone()), message: told };
                clerk.apply(Command::Note(note))?;
            }
        }
        Ok(files)
    }

    fn environment(&self) -> Vec<(String, String)> {
        let task = self.task;
        [
            ("HARNESS_STATE_ROOT", self.of.root.display().to_string()),
            ("HARNESS_TASK_ID", task.id.to_string()),
            ("HARNESS_EPOCH", task.epoch.unwrap_or_default().to_string()),
            ("HARNESS_ATTEMPT", (task.attempts + 1).to_string()),
            ("HARNESS_WORKER_ID", self.of.holder.worker.to_string()),
            ("HARNESS_SESSION", self.session.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// A check may outlast the lease: it is renewed meanwhile, outside of any lock.
    fn while_renewing<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, C::Error> + Send,
    ) -> Result<T, C::Error> {
        let (clerk, task) = (self.of.clerk, self.task);
        if !self.of.held(task) {
            return work();
        }
        let lease = task.timeout_seconds.unwrap_or(harness_core::lease::CLIENT_LEASE_SECONDS);
        let third = Duration::from_millis((lease.max(1).saturating_mul(1000) / 3).max(300));
        let lease_seconds = self.of.lease_seconds;
        let (finished, waiting) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let working = scope.spawn(move || {
                let _finished = finished;
                work()
            });
            while waiting.recv_timeout(third) == Err(RecvTimeoutError::Timeout) {
                let holder = self.of.holder.clone();
                if clerk.apply(Command::Renew(Renew { holder, lease_seconds })).is_err() {
                    // Whether the claim was lost is told when the result is recorded.
                    clerk.warn(&format!("the lease of {} was not renewed", task.id));
                }
            }
            match working.join() {
                Ok(done) => done,
                Err(_) => Err(io::Error::other("the check could not be watched").into()),
            }
        })
    }
}

fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| format!("\n  | {line}")).collect()
}
