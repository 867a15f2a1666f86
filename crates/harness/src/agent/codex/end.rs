//! Determines the end of a turn of Codex from its reports and the exit of its process.

use harness_core::{
    Timestamp,
    agent::{End, FailureKind},
};

use super::Turn;
use crate::{
    agent::{reason, supervise::Ran},
    process::JobExit,
};

/// The end of a turn, as the turn itself reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Completed,
    Failed(String),
}

/// Determines the end. A completed turn counts only if the exit code agrees.
pub(super) fn end(turn: &Turn, ran: &Ran, now: Timestamp) -> End {
    if let Some(by) = ran.finished.stopped_by {
        return End::Stopped { by };
    }
    let improper = ran.improper();
    match (&turn.said, improper) {
        (Some(Said::Completed), None) => {
            let final_text = ran.redactor.text(&turn.final_text).into_owned();
            End::Finished { final_text, usage: turn.meter.used() }
        }
        (Some(Said::Completed), Some(crash)) => crash,
        (Some(Said::Failed(why)), _) => reason::end(&ran.redactor.text(why), now),
        (None, None) => End::Failed {
            kind: FailureKind::Protocol,
            detail: "codex ended without reporting the end of its turn".to_owned(),
        },
        (None, Some(crash)) => without_a_word(turn, ran, crash, now),
    }
}

/// Returns the end of a process that did not finish a turn.
fn without_a_word(turn: &Turn, ran: &Ran, crash: End, now: Timestamp) -> End {
    let End::Failed { detail, .. } = &crash else { return crash };
    let failed = |kind| End::Failed { kind, detail: detail.clone() };
    match ran.finished.exit {
        // It does not accept the arguments.
        JobExit::Code(2 | 126) => failed(FailureKind::Config),
        JobExit::Code(127) => failed(FailureKind::NotFound),
        JobExit::Code(_) => match &turn.complaint {
            Some(why) => reason::end(&ran.redactor.text(why), now),
            None => reason::end(detail, now),
        },
        JobExit::Signal(_) | JobExit::Unknown => crash,
    }
}
