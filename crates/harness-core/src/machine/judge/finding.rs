//! The reasons why a task is not completed, as text for its log and for its worker.

use crate::{Category, TaskId, check::took_too_long, protect};

/// The number of output lines that a worker is shown. Checks report the problem at the end.
const SHOWN_LINES: usize = 20;
/// The number of bytes of the last line that go into the log.
const LAST_LINE: usize = 200;

/// The reason why a task is not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The work is not good enough.
    CheckFailed {
        /// The exit code or the signal, as text.
        why: String,
        /// The end of its output.
        output: String,
        /// `true` if it ran in a clean checkout.
        clean: bool,
    },
    /// The check exceeded its time limit.
    CheckTimedOut {
        /// The limit.
        seconds: u64,
        /// The end of its output.
        output: String,
    },
    /// The environment lacks the check, which says nothing about the work.
    CheckMissing {
        /// The exact command line.
        command: String,
        /// The end of its output.
        output: String,
    },
    /// Protected files were touched, and the rules refuse that.
    Protected {
        /// The files, relative to the top of the work tree.
        files: Vec<String>,
    },
    /// The existing commits cannot be the work of this attempt.
    NotKept {
        /// A description.
        why: String,
    },
    /// Others commit on the branch every time the check runs.
    Restless,
    /// The work could not be committed, which says nothing about it.
    Blocked {
        /// A description.
        why: String,
    },
    /// A clean checkout is required, but there is no commit to check out.
    NoCommit,
    /// The judging was stopped.
    Stopped,
}

/// The party that can fix the problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// The worker.
    #[default]
    Request,
    /// A person, in the ledger or the configuration.
    Config,
    /// Nothing is wrong; the judging was stopped.
    Stopped,
}

/// A finding in the form for the worker. The task stays unchanged, and no attempt is counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotDone {
    /// The party that can fix it.
    pub fault: Fault,
    /// The description of the problem.
    pub message: String,
    /// The suggested next steps.
    pub hints: Vec<String>,
}

impl Finding {
    /// Returns the category of a failed attempt; `None` if the work is not to blame.
    pub fn category(&self) -> Option<Category> {
        match self {
            Self::CheckFailed { .. } => Some(Category::TestFail),
            Self::CheckTimedOut { .. } => Some(Category::Timeout),
            Self::Protected { .. } | Self::NotKept { .. } => Some(Category::TaskExec),
            Self::CheckMissing { .. }
            | Self::Restless
            | Self::Blocked { .. }
            | Self::NoCommit
            | Self::Stopped => None,
        }
    }

    /// Describes the finding without output.
    pub fn sentence(&self) -> String {
        match self {
            Self::CheckFailed { why, .. } => format!("the check failed ({why})"),
            Self::CheckTimedOut { seconds, .. } => took_too_long(*seconds),
            Self::CheckMissing { command, .. } => {
                format!("the check cannot be run here: {command}")
            }
            Self::Protected { files } => protect::touched(files),
            Self::NotKept { why } => why.clone(),
            Self::Restless => {
                "each time the check ran, another commit was made on the branch".to_owned()
            }
            Self::Blocked { why } => format!("the work cannot be committed: {why}"),
            Self::NoCommit => "validation.clean judges a commit, and there is none here".to_owned(),
            Self::Stopped => "the check was stopped".to_owned(),
        }
    }

    /// Returns one line for the log and the error log of the task.
    pub fn log_message(&self) -> String {
        match self {
            Self::CheckFailed { output, .. } => {
                let last = last_line(output).map(|line| format!(": {line}"));
                capital(&self.sentence()) + &last.unwrap_or_default()
            }
            Self::CheckTimedOut { .. } => capital(&self.sentence()),
            Self::CheckMissing { .. }
            | Self::Protected { .. }
            | Self::NotKept { .. }
            | Self::Restless
            | Self::Blocked { .. }
            | Self::NoCommit
            | Self::Stopped => self.sentence(),
        }
    }

    /// Returns the finding for the worker that asked. The task still belongs to it.
    pub fn for_worker(&self, task: &TaskId) -> NotDone {
        let shown = match self {
            Self::CheckFailed { output, .. }
            | Self::CheckTimedOut { output, .. }
            | Self::CheckMissing { output, .. } => tail(output),
            Self::Protected { .. }
            | Self::NotKept { .. }
            | Self::Restless
            | Self::Blocked { .. }
            | Self::NoCommit
            | Self::Stopped => String::new(),
        };
        let message = format!("Task {task}: {}{shown}", self.sentence());
        NotDone { fault: self.fault(), message, hints: self.hints(task) }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoCommit => Fault::Config,
            Self::Stopped => Fault::Stopped,
            Self::CheckFailed { .. }
            | Self::CheckTimedOut { .. }
            | Self::CheckMissing { .. }
            | Self::Protected { .. }
            | Self::Restless
            | Self::Blocked { .. }
            | Self::NotKept { .. } => Fault::Request,
        }
    }

    fn hints(&self, task: &TaskId) -> Vec<String> {
        let again = "the task is still yours: fix it and complete it again";
        match self {
            Self::CheckFailed { clean: true, .. } => {
                vec![again.into(), "validation.clean: only what is committed was judged".into()]
            }
            Self::CheckFailed { clean: false, .. } | Self::NotKept { .. } | Self::Restless => {
                vec![again.into()]
            }
            Self::CheckTimedOut { .. } => {
                vec![format!("`harness task edit {task} --timeout SECONDS` gives it more")]
            }
            Self::CheckMissing { .. } => {
                vec!["install what it needs; the task is still yours".into()]
            }
            Self::Protected { .. } => {
                vec!["put them back and complete it again: the task is still yours".into()]
            }
            Self::Blocked { .. } => vec!["the task is still yours: complete it again".into()],
            Self::NoCommit => vec!["commit the work, or set validation.clean to false".into()],
            Self::Stopped => vec!["the task is still yours".into()],
        }
    }
}

fn capital(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(rest.as_str().chars()).collect()
    })
}

fn last_line(output: &str) -> Option<String> {
    let line = output.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_LINE).collect())
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| format!("\n  | {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_the_last_line_and_the_worker_the_last_twenty() {
        let output = (1..=25).map(|n| format!("line {n}\n")).collect::<String>() + "\n  \n";
        let failed = Finding::CheckFailed { why: "exit code 1".into(), output, clean: true };
        assert_eq!(failed.log_message(), "The check failed (exit code 1): line 25");
        let shown = failed.for_worker(&TaskId::numbered(1));
        assert!(
            shown
                .message
                .starts_with("Task task-001: the check failed (exit code 1)\n  | line 8\n")
        );
        assert_eq!(shown.hints.len(), 2);
    }
}
