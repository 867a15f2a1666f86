//! The content of a prompt, and its form for a template.
//!
//! The objective, the promise, phases and the texts of a task come from the user and are inserted
//! unchanged. Everything else comes from an agent or a program and is quoted.

use harness_core::{
    promise::Match,
    quote::{fenced, head, one_line, plain, tail},
};
use minijinja::{Value, context};

const LAST_TEXT_BYTES: usize = 4 * 1024;
const OUTPUT_BYTES: usize = 8 * 1024;
const STATE_BYTES: usize = 16 * 1024;
const SUMMARY_BYTES: usize = 16 * 1024;
const ENTRY_BYTES: usize = 2 * 1024;
const STEP_BYTES: usize = 512;
const FAILURES_MAX: usize = 5;
const CHECKPOINTS_MAX: usize = 20;

const HANDOFF_KEYS: &str = "a JSON object with the keys `phase`, `completed` (a list), `next_step`, \
                            `critical_files` (a list of paths) and `memory_notes`";

/// The way in which an agent reports to harness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Means {
    /// It runs `harness …` in its shell.
    #[default]
    CommandLine,
    /// It uses the tools of a [`ToolServer`](crate::agent::ToolServer).
    Tools,
}

impl Means {
    fn handoff(self) -> String {
        match self {
            Self::CommandLine => HANDOFF_KEYS.to_owned(),
            Self::Tools => format!("with your tool `handoff_write`, or by hand: {HANDOFF_KEYS}"),
        }
    }

    fn report(self) -> &'static str {
        match self {
            Self::CommandLine => {
                "after each step of the work, run `harness task checkpoint --step N --total M \
                 \"what is done\"`."
            }
            Self::Tools => {
                "after each step of the work, call your tool `task_checkpoint` (of the MCP server \
                 `harness`) with the step, the total and what is done. If only a person can \
                 decide something, ask with `ask_user`."
            }
        }
    }
}

/// The common content of every prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The user's text; for a task, [`TaskBrief::objective`].
    pub objective: String,
    /// The text that the agent writes when it is done.
    pub promise: String,
    /// The current phase of the ledger, if it has any.
    pub phase: Option<String>,
    /// Files to read first, relative to the work tree; see [`artifacts`](super::artifacts()).
    pub artifacts: Vec<String>,
    /// The form in which the promise must be written.
    pub promise_match: Match,
    /// The way in which the agent reports.
    pub means: Means,
}

/// The information about the last context for a later one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Again {
    /// The number of restarts: 1 in the second context.
    pub iteration: u32,
    /// The limit of restarts.
    pub max_iterations: u32,
    /// The reason for another context.
    pub why: Why,
    /// The block of the handoff:
    /// [`Handoff::resumed_state`](harness_core::handoff::Handoff::resumed_state).
    pub resumed_state: Option<String>,
    /// The summary of the last context.
    pub summary: Option<String>,
    /// The output of the last failed check.
    pub verify_failure: Option<String>,
    /// The final text of the last context, or the end of it.
    pub last_text: Option<String>,
}

/// The reason why a run continues with another context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Why {
    /// The agent stopped without the promise.
    #[default]
    NoPromise,
    /// The agent mentioned the promise in a way that does not count.
    OnlyMentioned,
    /// It said so, but the check is red.
    VerifyFailed,
    /// The agent ended with this error.
    Failed(String),
    /// The context was full.
    OutOfContext,
    /// The gate of the phase failed. The text is its output.
    GateFailed(String),
    /// The gate of the phase passed, and the next phase begins.
    NextPhase,
}

/// A task, in the form for its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskBrief {
    /// The id in the ledger.
    pub id: String,
    /// The title, one line.
    pub title: String,
    /// The other texts of the user.
    pub instructions: Option<String>,
    /// The role of the worker.
    pub role: Option<String>,
    /// The command that judges the work.
    pub check: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The limit of attempts.
    pub max_attempts: u32,
    /// The step up to which the work of an interrupted attempt was kept.
    pub after_step: Option<u32>,
    /// The step, the total and the description, oldest first.
    pub checkpoints: Vec<(u32, u32, String)>,
    /// The reasons why earlier attempts failed, newest last.
    pub failures: Vec<String>,
    /// The output of the last failure.
    pub failure_output: Option<String>,
}

/// Returns a text of others as a block of data; `None` if it is empty.
fn data(text: &str) -> Option<String> {
    (!plain(text).trim().is_empty()).then(|| fenced("text", text))
}

fn end_of(text: Option<&str>, bytes: usize) -> Option<String> {
    let text = plain(text?);
    data(tail(text.trim_end(), bytes))
}

fn beginning_of(text: Option<&str>, bytes: usize) -> Option<String> {
    let text = plain(text?);
    data(&head(text.trim(), bytes))
}

impl About {
    pub(super) fn promise_line(&self) -> String {
        self.promise_match.spelled(&self.promise)
    }

    pub(super) fn values(&self) -> Value {
        let artifacts = self.artifacts.iter().map(|path| code(path)).collect::<Vec<_>>();
        context! {
            objective => self.objective.trim(),
            promise => &self.promise,
            promise_line => self.promise_line(),
            phase => self.phase.as_deref().map(one_line).filter(|phase| !phase.is_empty()),
            artifacts,
            handoff_keys => self.means.handoff(),
        }
    }
}

/// Formats a path in a line of text. Paths are found in the file system, so they may contain
/// anything.
fn code(path: &str) -> String {
    format!("`{}`", one_line(path).replace('`', "'"))
}

impl Why {
    fn sentence(&self) -> &'static str {
        match self {
            Self::NoPromise => "The last context ended without it.",
            Self::OnlyMentioned => {
                "The last context mentioned it within other text, which does not count: it has to \
                 stand alone on a line."
            }
            Self::VerifyFailed => "The last context gave it, but the validation failed.",
            Self::Failed(_) => "The last context ended with an error.",
            Self::OutOfContext => "The last context was full before the work was done.",
            Self::GateFailed(_) => "The last context ended, but the gate of the phase failed.",
            Self::NextPhase => "The gate of the last phase passed; this is the next one.",
        }
    }

    fn detail(&self) -> Option<&str> {
        match self {
            Self::Failed(detail) | Self::GateFailed(detail) => Some(detail),
            Self::NoPromise
            | Self::OnlyMentioned
            | Self::VerifyFailed
            | Self::OutOfContext
            | Self::NextPhase => None,
        }
    }
}

impl Again {
    pub(super) fn values(&self, about: &About) -> Value {
        context! {
            iteration => self.iteration,
            max_iterations => self.max_iterations,
            why => self.why.sentence(),
            error => end_of(self.why.detail(), OUTPUT_BYTES),
            resumed_state => beginning_of(self.resumed_state.as_deref(), STATE_BYTES),
            summary => beginning_of(self.summary.as_deref(), SUMMARY_BYTES),
            verify_failure => end_of(self.verify_failure.as_deref(), OUTPUT_BYTES),
            last_text => end_of(self.last_text.as_deref(), LAST_TEXT_BYTES),
            ..about.values()
        }
    }
}

impl TaskBrief {
    /// Returns the task as an objective: the work, the check, and the way to report. It contains
    /// everything that a later context of the same attempt needs.
    pub fn objective(&self, means: Means) -> String {
        let mut text = format!("Task {}: {}\n", self.id, one_line(&self.title));
        if let Some(instructions) = filled(self.instructions.as_deref()) {
            text += &format!("\n{instructions}\n");
        }
        if let Some(role) = filled(self.role.as_deref()) {
            text += &format!("\nYour role: {}\n", one_line(role));
        }
        if let Some(check) = filled(self.check.as_deref()) {
            text += &format!(
                "\nHow it is judged: when you say that it is done, the harness runs this check. \
                 The task is done if it exits with 0, and not otherwise:\n\n{}\n",
                fenced("sh", check)
            );
        }
        text += &format!("\nHow to report: {}\n\n", means.report());
        text + "Do not commit: the harness commits what you leave when the check has passed."
    }

    pub(super) fn values(&self, about: &About) -> Value {
        let about = About { objective: self.objective(about.means), ..about.clone() };
        let recent = self.checkpoints.len().saturating_sub(CHECKPOINTS_MAX);
        let steps = self.checkpoints[recent..].iter().map(|(step, total, done)| {
            format!("{step}/{total} {}", head(&one_line(done), STEP_BYTES))
        });
        let latest = self.failures.len().saturating_sub(FAILURES_MAX);
        let failures =
            self.failures[latest..].iter().map(|why| head(plain(why).trim(), ENTRY_BYTES));
        context! {
            task => context! {
                id => &self.id,
                title => one_line(&self.title),
                instructions => filled(self.instructions.as_deref()),
                role => filled(self.role.as_deref()),
                check => filled(self.check.as_deref()),
                attempt => self.attempt,
                max_attempts => self.max_attempts,
            },
            after_step => self.after_step.filter(|step| *step > 0),
            checkpoints => data(&steps.collect::<Vec<_>>().join("\n")),
            failures => data(&failures.collect::<Vec<_>>().join("\n")),
            failure_output => end_of(self.failure_output.as_deref(), OUTPUT_BYTES),
            ..about.values()
        }
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}
