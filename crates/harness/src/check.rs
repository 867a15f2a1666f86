//! Runs a check in the current work tree, or in a clean checkout of a commit.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use harness_core::{
    CommitId, Task, TaskId,
    check::{Exit, Found, Verdict},
    receipt::CheckRecord,
    variables,
};

use crate::{
    event::Event,
    shell::{Cancel, Ran, Script, Shell},
    workspace::{Workspace, WorkspaceError},
};

/// The time limit of the init script.
const INIT_SECONDS: u64 = 600;
const INIT: &str = "harness-init.sh";

/// A command that judges, and its environment.
#[derive(Debug, Clone)]
pub struct Check {
    /// A line for `sh -c`.
    pub command: String,
    /// The time limit.
    pub timeout_seconds: u64,
    /// Variables that are added to the inherited environment.
    pub environment: Vec<(String, String)>,
}

/// The result of a [`Check`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Checked {
    /// The verdict.
    pub verdict: Verdict,
    /// The run of the check, or of an init script that failed before it.
    pub ran: Ran,
    clean: bool,
}

impl Check {
    /// Returns the check of a task.
    pub fn of(task: &Task, environment: Vec<(String, String)>) -> Self {
        Self {
            command: task.check().unwrap_or_default().to_owned(),
            timeout_seconds: task.validation.timeout_seconds,
            environment,
        }
    }

    /// Returns the task that it judges, as its environment names it.
    pub fn task(&self) -> Option<TaskId> {
        let found = self.environment.iter().find(|(name, _)| name == variables::TASK);
        found.and_then(|(_, value)| TaskId::parse(value).ok())
    }

    /// Runs the check in a folder.
    pub fn run_in(
        &self,
        shell: &dyn Shell,
        directory: &Path,
        cancel: &Cancel,
    ) -> io::Result<Checked> {
        let found = if shell.lacks(&self.command, directory) { Found::No } else { Found::Yes };
        let script = self.script(self.command.clone(), directory, self.timeout_seconds);
        let ran = shell.run_until(&script, cancel)?;
        Ok(Checked { verdict: Verdict::of(found, ran.exit), ran, clean: false })
    }

    /// Runs the check in a clean checkout of `commit`, after the init script of the checkout or, if
    /// there is none, of the state root. A script that fails means that the environment lacks
    /// something.
    pub fn run_clean(
        &self,
        shell: &dyn Shell,
        workspace: &dyn Workspace,
        root: &Path,
        commit: &CommitId,
        cancel: &Cancel,
    ) -> Result<Checked, WorkspaceError> {
        let checkout = workspace.checkout(commit)?;
        let below = root.strip_prefix(workspace.top_level()).unwrap_or(Path::new(""));
        let place = checkout.path().join(below);
        let own = place.join(INIT);
        let script = [own, root.join(INIT)].into_iter().find(|script| script.is_file());
        if let Some(init) = script.filter(|_| place.is_dir()) {
            let script = self.script(run_script(&init), &place, INIT_SECONDS);
            let ran = shell.run_until(&script, cancel)?;
            match ran.exit {
                Exit::Code(0) => {}
                Exit::Cancelled => {
                    return Ok(Checked { verdict: Verdict::Cancelled, ran, clean: true });
                }
                Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
                    return Ok(Checked { verdict: Verdict::Missing, ran, clean: true });
                }
            }
        }
        let checked = self.run_in(shell, checkout.path(), cancel)?;
        Ok(Checked { clean: true, ..checked })
    }

    fn script(&self, command: String, directory: &Path, seconds: u64) -> Script {
        Script {
            command,
            directory: directory.to_owned(),
            timeout: Duration::from_secs(seconds.max(1)),
            environment: self.environment.clone(),
        }
    }
}

impl Checked {
    /// Returns the event that reports it.
    pub fn event(&self, task_id: Option<TaskId>) -> Event {
        let verdict = match self.verdict {
            Verdict::Passed => "passed",
            Verdict::Red { .. } => "failed",
            Verdict::TimedOut => "timed_out",
            Verdict::Cancelled => "cancelled",
            Verdict::Missing => "missing",
        };
        let duration_ms = u64::try_from(self.ran.duration.as_millis()).unwrap_or(u64::MAX);
        Event::RunCheck { task_id, verdict: verdict.to_owned(), duration_ms }
    }

    /// Returns the record for the receipt.
    pub fn record(&self, check: &Check) -> CheckRecord {
        CheckRecord {
            command: check.command.clone(),
            timeout_seconds: check.timeout_seconds,
            clean: self.clean,
            exit_code: match self.ran.exit {
                Exit::Code(code) => code,
                Exit::Signal(signal) => 128 + signal,
                Exit::TimedOut | Exit::Cancelled => -1,
            },
            duration_ms: u64::try_from(self.ran.duration.as_millis()).unwrap_or(u64::MAX),
            output_bytes: self.ran.output_bytes,
            output_sha256: self.ran.output_sha256.clone(),
            output_tail: CheckRecord::tail(&self.ran.tail),
        }
    }
}

/// Returns the command that runs the script by its own first line if it is executable, and
/// otherwise with sh.
fn run_script(path: &Path) -> String {
    let path = PathBuf::from(path);
    let quoted = format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    format!("if [ -x {quoted} ]; then {quoted}; else sh {quoted}; fi")
}
