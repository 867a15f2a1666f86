//! Determines the end of an execution of Claude Code. Its result line contains `success` beside
//! many errors. So the reason, the flag and the exit code must agree before it counts as a regular
//! end.

use harness_core::{
    Timestamp,
    agent::{End, FailureKind, StoppedBy, Usage},
};

use super::parse::Outcome;
use crate::process::JobExit;

/// Everything that determines the end, except a stop by harness.
#[derive(Debug)]
pub(super) struct Signs<'a> {
    /// The last result line, if one came.
    pub(super) outcome: Option<&'a Outcome>,
    /// The kind of the last error that came in place of an answer.
    pub(super) api_error: Option<&'a str>,
    /// The end of the last reported limit.
    pub(super) limit_until: Option<Timestamp>,
    /// The number of lines that do not belong to the protocol.
    pub(super) noise_lines: u64,
    /// The number of lines that were too long to be read.
    pub(super) missed_lines: u64,
    pub(super) exit: JobExit,
    /// The end according to the exit alone; `None` for 0.
    pub(super) crash: Option<End>,
    pub(super) usage: Usage,
}

impl Signs<'_> {
    pub(super) fn end(self) -> End {
        let Some(outcome) = self.outcome else { return self.without_outcome() };
        let words = outcome.words();
        match (outcome.is_error == Some(true), outcome.terminal_reason.as_deref()) {
            (false, Some("completed")) => self.proper(outcome),
            (false, None) if words.trim().is_empty() => self.proper(outcome),
            // A hook removed the prompt, or the prompt was a command of Claude Code itself.
            (false, None) => failed(FailureKind::Config, "it did not work on the prompt", &words),
            (_, Some("hook_stopped" | "stop_hook_prevented")) => {
                failed(FailureKind::Config, "a hook of Claude Code stopped it", &words)
            }
            (_, Some("max_turns")) => {
                let detail = if words.is_empty() { "its limit of turns".to_owned() } else { words };
                End::CutShort { detail }
            }
            (_, Some("budget_exhausted")) => End::Stopped { by: StoppedBy::Budget },
            (_, Some("prompt_too_long" | "blocking_limit" | "rapid_refill_breaker")) => {
                End::OutOfContext
            }
            (_, Some("turn_setup_failed")) => {
                failed(FailureKind::Config, "it could not begin", &words)
            }
            (true, _) if outcome.stop_reason.as_deref() == Some("refusal") => End::Refused,
            (true, Some("api_error") | None) => self.api_error(outcome, &words),
            (_, Some(reason)) => {
                failed(FailureKind::Crashed, &format!("it ended with {reason}"), &words)
            }
        }
    }

    fn proper(self, outcome: &Outcome) -> End {
        let final_text = outcome.result.clone().unwrap_or_default();
        self.crash.unwrap_or(End::Finished { final_text, usage: self.usage })
    }

    fn api_error(self, outcome: &Outcome, words: &str) -> End {
        let status = outcome.api_error_status;
        let kind = self.api_error.unwrap_or_default();
        let is_too_long = words.to_ascii_lowercase().contains("prompt is too long");
        match (status, kind) {
            (Some(429), _) | (_, "rate_limit") => End::Limited { until: self.limit_until },
            (Some(400 | 413), _) if is_too_long => End::OutOfContext,
            (Some(413), _) => End::OutOfContext,
            (Some(401 | 403), _)
            | (
                _,
                "authentication_failed"
                | "oauth_org_not_allowed"
                | "account_on_hold"
                | "verification_required"
                | "billing_error"
                | "cloud_credential_error",
            ) => failed(FailureKind::Auth, "Claude Code is not signed in", words),
            (Some(404), _) | (_, "model_not_found") => {
                failed(FailureKind::Config, "the model is not available to it", words)
            }
            (Some(500..), _) | (_, "overloaded" | "server_error") => {
                failed(FailureKind::Network, "its model was not found", words)
            }
            (Some(400..500), _) | (_, "invalid_request") => {
                failed(FailureKind::Protocol, "its request was rejected", words)
            }
            // There is no status at all: the connection was refused, or broke off too often.
            (None, _) if outcome.terminal_reason.is_some() => {
                failed(FailureKind::Network, "it cannot reach its model", words)
            }
            _ => failed(FailureKind::Crashed, "it ended with an error", words),
        }
    }

    /// Returns the end of a process that was killed or never began.
    fn without_outcome(self) -> End {
        match (self.exit, self.crash) {
            (JobExit::Code(127), Some(End::Failed { detail, .. })) => {
                End::Failed { kind: FailureKind::NotFound, detail }
            }
            (JobExit::Code(126), Some(End::Failed { detail, .. })) => {
                End::Failed { kind: FailureKind::Config, detail }
            }
            (JobExit::Code(_), Some(End::Failed { detail, .. })) if is_about_flags(&detail) => {
                End::Failed { kind: FailureKind::Config, detail }
            }
            (_, Some(crash)) => crash,
            (_, None) => {
                let noise = [
                    (self.noise_lines, "lines were not stream-json"),
                    (self.missed_lines, "lines were longer than 16 MiB and were skipped"),
                ];
                let noise = noise.iter().filter(|(count, _)| *count > 0);
                let noise: Vec<_> = noise.map(|(count, what)| format!("{count} {what}")).collect();
                failed(FailureKind::Protocol, "it ended without a result", &noise.join("; "))
            }
        }
    }
}

/// Returns whether the message is about unknown flags.
fn is_about_flags(detail: &str) -> bool {
    ["error: unknown option", "error: option ", "cannot be used with", "Error: --"]
        .iter()
        .any(|words| detail.contains(words))
}

fn failed(kind: FailureKind, what: &str, words: &str) -> End {
    let words = words.trim();
    let detail = if words.is_empty() { what.to_owned() } else { format!("{what}: {words}") };
    End::Failed { kind, detail }
}
