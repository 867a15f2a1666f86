//! Determines the end of a session from the reports of the agent and the exit of its process.

use harness_core::{
    Timestamp,
    agent::{End, FailureKind},
};

use super::{
    session::{Said, Session},
    wire::Problem,
};
use crate::{
    agent::{reason, supervise::Ran},
    process::JobExit,
};

/// The error code of an agent that must be signed in first.
const AUTH_REQUIRED: i64 = -32000;

pub(super) fn end(session: &Session, ran: &Ran, now: Timestamp) -> End {
    if let Some(by) = ran.finished.stopped_by {
        return End::Stopped { by };
    }
    let failed = |kind, what: &str| {
        let detail = reason::detail(&ran.redactor.text(what));
        End::Failed { kind, detail }
    };
    match &session.said {
        Some(Said::Stopped(_)) if session.is_broken => {
            reason::end(&ran.redactor.text(&session.message.text), now)
        }
        Some(Said::Stopped(why)) => stopped(session, ran, why),
        Some(Said::Refused(what, problem)) => refused(what, problem, ran, now),
        Some(Said::Strange(what)) => failed(FailureKind::Protocol, what),
        Some(Said::Unable(what)) => failed(FailureKind::Config, what),
        None => without_a_word(ran, now),
    }
}

fn stopped(session: &Session, ran: &Ran, why: &str) -> End {
    let failed = |kind, detail: String| End::Failed { kind, detail };
    match why {
        "max_turn_requests" => End::CutShort { detail: "as many turns as it may take".to_owned() },
        "end_turn" => {
            let final_text = ran.redactor.text(&session.final_text()).into_owned();
            End::Finished { final_text, usage: session.meter.used() }
        }
        "max_tokens" => End::OutOfContext,
        "refusal" => End::Refused,
        // Some agents give up when a permission is refused.
        "cancelled" => {
            let rejected = session.rejected.as_deref().map(|what| ran.redactor.text(what));
            let detail = match rejected {
                Some(what) => format!("it gave up because it was not allowed to: {what}"),
                None => "it cancelled its own turn".to_owned(),
            };
            failed(FailureKind::Crashed, reason::detail(&detail))
        }
        other => failed(
            FailureKind::Protocol,
            reason::detail(&format!("its turn ended with the unknown reason {other:?}")),
        ),
    }
}

fn refused(what: &str, problem: &Problem, ran: &Ran, now: Timestamp) -> End {
    let words = ran.redactor.text(&problem.words()).into_owned();
    if problem.code == AUTH_REQUIRED {
        let detail = reason::detail(&format!("the agent is not signed in: {words}"));
        return End::Failed { kind: FailureKind::Auth, detail };
    }
    match reason::end(&words, now) {
        End::Failed { kind, detail } => {
            End::Failed { kind, detail: format!("{what} failed: {detail}") }
        }
        end => end,
    }
}

/// The agent left before it had answered.
fn without_a_word(ran: &Ran, now: Timestamp) -> End {
    let Some(crash) = ran.improper() else {
        let detail = "the agent ended before its turn did".to_owned();
        return End::Failed { kind: FailureKind::Protocol, detail };
    };
    let End::Failed { detail, .. } = &crash else { return crash };
    let failed = |kind| End::Failed { kind, detail: detail.clone() };
    match ran.finished.exit {
        JobExit::Code(126) => failed(FailureKind::Config),
        JobExit::Code(127) => failed(FailureKind::NotFound),
        JobExit::Code(_) => reason::end(detail, now),
        JobExit::Signal(_) | JobExit::Unknown => crash,
    }
}
