//! The next step for a person, as the command that performs it.

use std::fmt;

use harness_core::{RunId, TaskId, run::Run};
use serde::{Serialize, Serializer};

/// The next step for a person. Its text is the command line, and it is serialised as that text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// Start a run over the ledger.
    Run,
    /// Start a run whose workers have these labels.
    RunWithLabels(Vec<String>),
    /// Resume a run.
    Resume {
        /// The run.
        run: RunId,
        /// The limit that has to be raised, because the run would stop at once.
        raise: Option<SpentLimit>,
    },
    /// Answer a question.
    Reply {
        /// The question.
        prompt_id: String,
        /// The answer, if only one lets the work continue.
        answer: Option<&'static str>,
    },
    /// List the open questions.
    Questions,
    /// End the wait for a usage limit.
    Kick,
    /// Start claiming again.
    ResumeClaiming,
    /// Agree to what the ledger would run.
    Trust,
    /// Take the results from a branch.
    Merge {
        /// The branch.
        branch: String,
    },
    /// Take the results from a branch of a remote.
    Pull {
        /// The remote.
        remote: String,
        /// The branch.
        branch: String,
    },
    /// Mark the alerts as seen.
    Acknowledge,
    /// Show the state of the project.
    Status,
    /// Explain the state of a task.
    Why(TaskId),
    /// Show a task.
    Show(TaskId),
    /// Repeat the check of a completed task.
    Verify(TaskId),
    /// Give a failed task new attempts.
    Retry(TaskId),
    /// Take a claim back.
    Release(TaskId),
    /// Follow the log of a task.
    Follow(TaskId),
    /// Change what a task depends on.
    SetDependencies(TaskId),
    /// Give a task a check.
    SetCheck(TaskId),
}

/// A limit of a run that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpentLimit {
    /// Money.
    Cost,
    /// Tokens.
    Tokens,
    /// Restarts.
    Iterations,
    /// Sessions of the ledger.
    Sessions,
}

impl NextStep {
    /// Returns the step that resumes a stopped run.
    pub(super) fn resume(run: &Run) -> Self {
        Self::Resume { run: run.id.clone(), raise: SpentLimit::of(run) }
    }
}

impl SpentLimit {
    /// Returns the limit that `run` has reached. Time is not among them, because it starts again
    /// with a resume.
    fn of(run: &Run) -> Option<Self> {
        use harness_core::run::StopReason;
        let (limits, usage) = (&run.limits, &run.usage);
        let cost = limits.max_cost_usd.is_some_and(|most| usage.cost_usd.unwrap_or(0.0) >= most);
        let tokens = limits.max_tokens.is_some_and(|most| usage.tokens() >= most);
        match run.stop_reason {
            Some(StopReason::Budget) if cost => Some(Self::Cost),
            Some(StopReason::Budget) if tokens => Some(Self::Tokens),
            Some(StopReason::MaxIterations) => Some(Self::Iterations),
            Some(StopReason::MaxSessions) => Some(Self::Sessions),
            _ => None,
        }
    }

    const fn flag(self) -> &'static str {
        match self {
            Self::Cost => "--max-cost AMOUNT",
            Self::Tokens => "--max-tokens COUNT",
            Self::Iterations => "--max-iterations COUNT",
            Self::Sessions => "--max-sessions COUNT",
        }
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("harness run"),
            Self::RunWithLabels(labels) => {
                f.write_str("harness run")?;
                labels.iter().try_for_each(|label| write!(f, " --label {label}"))
            }
            Self::Resume { run, raise: None } => write!(f, "harness run --resume --run-id {run}"),
            Self::Resume { run, raise: Some(limit) } => {
                write!(f, "harness run --resume --run-id {run} {}", limit.flag())
            }
            Self::Reply { prompt_id, answer } => {
                write!(f, "harness reply {prompt_id} {}", answer.unwrap_or("ANSWER"))
            }
            Self::Questions => f.write_str("harness questions"),
            Self::Kick => f.write_str("harness kick"),
            Self::ResumeClaiming => f.write_str("harness resume"),
            Self::Trust => f.write_str("harness trust"),
            Self::Merge { branch } => write!(f, "git merge {branch}"),
            Self::Pull { remote, branch } => write!(f, "git pull {remote} {branch}"),
            Self::Acknowledge => f.write_str("harness status --ack"),
            Self::Status => f.write_str("harness status"),
            Self::Why(task) => write!(f, "harness why {task}"),
            Self::Show(task) => write!(f, "harness task show {task}"),
            Self::Verify(task) => write!(f, "harness verify {task}"),
            Self::Retry(task) => write!(f, "harness task retry {task}"),
            Self::Release(task) => write!(f, "harness task release {task}"),
            Self::Follow(task) => write!(f, "harness log -f --task {task}"),
            Self::SetDependencies(task) => write!(f, "harness task edit {task} --depends-on …"),
            Self::SetCheck(task) => write!(f, "harness task edit {task} --validate COMMAND"),
        }
    }
}

impl Serialize for NextStep {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
