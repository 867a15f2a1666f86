//! What `harness task complete` rests on: the check, run now, and what else the receipt says.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use harness::{
    check::{Check, Checked},
    shell::SystemShell,
    workspace::{Base, GitWorkspace, Workspace, glance},
};
use harness_core::{
    Command, CommitId, Holder, Task,
    check::Verdict,
    command::{Note, Renew},
    machine::attempt::Rules,
    protect::{self, OnTouch},
    receipt::CheckRecord,
    task::Status,
};

use super::Invocation;
use crate::{
    failure::{Failure, Kind, Result},
    interrupt,
    render::visible,
    root::StateRoot,
    store::warn,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// How much of a failing check's output is shown; the tail is where checks say what is wrong.
const SHOWN_LINES: usize = 20;

/// One task that its worker says is done.
pub(super) struct Candidate<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) root: &'a StateRoot,
    pub(super) task: &'a Task,
    pub(super) holder: &'a Holder,
    pub(super) session: u64,
    pub(super) rules: &'a Rules,
}

impl Candidate<'_> {
    /// Where the work is: the claim's work tree, else HARNESS_WORKTREE, else the top of the
    /// repository, else the state root.
    pub(super) fn directory(&self) -> PathBuf {
        let told = || self.invocation.env.path("HARNESS_WORKTREE").map(PathBuf::from);
        let claimed = self.task.worktree.as_ref().map(PathBuf::from);
        let found = claimed.or_else(told).or_else(|| glance::top_level(self.root.path()));
        found.unwrap_or_else(|| self.root.path().to_owned())
    }

    pub(super) fn workspace(&self) -> Result<GitWorkspace> {
        self.invocation.workspace_of(self.root, &self.directory())
    }

    /// Runs the check and gives its record; a check that does not pass is a failure.
    pub(super) fn check(&self) -> Result<CheckRecord> {
        let Self { invocation, root, task, .. } = self;
        if !Trust::of_user(&invocation.env)?.is_trusted(root)? {
            return Err(trust::refusal(root, &WouldRun::in_root(root)?));
        }
        let check = Check {
            command: task.check().unwrap_or_default().to_owned(),
            timeout_seconds: task.validation.timeout_seconds,
            environment: self.environment(),
        };
        _ = writeln!(std::io::stderr(), "checking {}: {}", task.id, visible(&check.command));
        let clean = task.validation.clean.unwrap_or(self.rules.clean);
        let directory = self.directory();
        let commit = if clean { Some(self.commit_to_judge(&directory)?) } else { None };
        let checked = self.while_renewing(|| self.run(&check, &directory, commit))?;
        self.passed(&check, checked)
    }

    fn run(&self, check: &Check, directory: &Path, commit: Option<CommitId>) -> Result<Checked> {
        // Ctrl-C ends the check with everything that it started.
        let (shell, cancel) = (SystemShell::default(), interrupt::request()?);
        let Some(commit) = commit else { return Ok(check.run_in(&shell, directory, &cancel)?) };
        let workspace = self.workspace()?;
        Ok(check.run_clean(&shell, &workspace, self.root.path(), &commit, &cancel)?)
    }

    fn commit_to_judge(&self, directory: &Path) -> Result<CommitId> {
        glance::head(directory).ok_or_else(|| {
            Failure::config("validation.clean judges a commit, and there is none here")
                .hint("commit the work, or set validation.clean to false")
        })
    }

    fn passed(&self, check: &Check, checked: Checked) -> Result<CheckRecord> {
        let (id, told) = (&self.task.id, tail(&checked.ran.tail));
        match &checked.verdict {
            Verdict::Passed => Ok(checked.record(check)),
            Verdict::Red { why } => {
                let record = checked.record(check);
                let failure = Failure::error(format!("Task {id}: the check failed ({why}){told}"))
                    .hint("the task is still yours: mend it and complete it again");
                Err(if record.clean {
                    failure.hint("validation.clean: only what is committed was judged")
                } else {
                    failure
                })
            }
            Verdict::TimedOut => {
                let limit = check.timeout_seconds.max(1);
                Err(Failure::error(format!(
                    "Task {id}: the check took longer than {limit} s{told}"
                ))
                .hint(format!("`harness task edit {id} --timeout SECONDS` gives it more")))
            }
            Verdict::Missing => Err(Failure::error(format!(
                "Task {id}: the check can not be run here: {}{told}",
                visible(&check.command)
            ))
            .hint("install what it needs; the task is still yours")),
            Verdict::Cancelled => {
                let stopped = format!("Task {id}: the check was stopped");
                Err(Failure::new(Kind::Interrupted, stopped).hint("the task is still yours"))
            }
        }
    }

    /// The protected files that the work touched: said, or refused.
    pub(super) fn protected(&self) -> Result<Vec<String>> {
        let Some(commit) = self.task.started_at_commit.clone() else { return Ok(Vec::new()) };
        if self.rules.protected.is_empty() {
            return Ok(Vec::new());
        }
        let workspace = self.workspace()?;
        let (branch, worktree) = (None, workspace.top_level().to_owned());
        let untracked = self.task.base_untracked.clone();
        let base = Base { commit, branch, untracked, worktree };
        let files = self.rules.protected.among(&workspace.touched(&base)?);
        let told = protect::touched(&files);
        match self.rules.protected.on_touch() {
            _ if files.is_empty() => {}
            OnTouch::Refuse => {
                return Err(Failure::error(format!("Task {}: {told}", self.task.id))
                    .hint("put them back and complete it again: the task is still yours"));
            }
            OnTouch::Flag => {
                let note = Note::Warning { task: Some(self.task.id.clone()), message: told };
                self.invocation.apply(self.root, Command::Note(note))?;
            }
        }
        Ok(files)
    }

    fn environment(&self) -> Vec<(String, String)> {
        let Self { root, task, holder, session, .. } = self;
        [
            ("HARNESS_STATE_ROOT", root.path().display().to_string()),
            ("HARNESS_TASK_ID", task.id.to_string()),
            ("HARNESS_EPOCH", task.epoch.unwrap_or_default().to_string()),
            ("HARNESS_ATTEMPT", (task.attempts + 1).to_string()),
            ("HARNESS_WORKER_ID", holder.worker.to_string()),
            ("HARNESS_SESSION", session.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// A check may outlast the lease: it is renewed meanwhile, outside of any lock.
    fn while_renewing<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Self { invocation, root, task, holder, .. } = self;
        if task.status != Status::InProgress {
            return work();
        }
        let lease = task.timeout_seconds.unwrap_or(harness_core::lease::CLIENT_LEASE_SECONDS);
        let third = Duration::from_millis((lease.max(1) * 1000 / 3).max(300));
        let lease_seconds = invocation.lease_seconds()?;
        let (finished, waiting) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let working = scope.spawn(move || {
                let _finished = finished;
                work()
            });
            while waiting.recv_timeout(third) == Err(RecvTimeoutError::Timeout) {
                let holder = Holder::clone(holder);
                let renew = Command::Renew(Renew { holder, lease_seconds });
                if let Err(failure) = invocation.apply(root, renew) {
                    // Whether the claim was lost is told when the result is recorded.
                    warn(&format!("the lease of {} was not renewed: {failure}", task.id));
                }
            }
            working.join().unwrap_or_else(|_| Err(Failure::error("the check could not be watched")))
        })
    }
}

fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| format!("\n  | {line}")).collect()
}
