//! The character of an agent: its reports on the way, and its end.

use std::time::Duration;

use harness::clock::Clock as _;
use harness_core::agent::{AgentEvent, End, FailureKind, StoppedBy, Usage};

use super::stage::State;
use crate::random::Random;

/// The character of all agents of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Character {
    /// Behaves differently each time.
    #[default]
    Mixed,
    /// Does the work and reports it.
    Honest,
    /// Reports that it is done, but never is.
    Liar,
    /// Changes nothing and uses no tool. Its text is never the promise.
    Idle,
    /// Hardly ever writes a text.
    Mute,
    /// Fails most of the time.
    Crasher,
}

impl Character {
    pub(super) fn any(random: &mut Random) -> Self {
        let weights = [60, 8, 10, 6, 8, 8];
        [Self::Mixed, Self::Honest, Self::Liar, Self::Idle, Self::Mute, Self::Crasher]
            [random.weighted(&weights)]
    }
}

/// The end of the agent if it is not stopped.
pub(super) enum Says {
    Now(End),
    Nothing,
}

/// The ways to end, in the order of the weights below.
#[derive(Clone, Copy)]
enum Way {
    Promises,
    Talks,
    AlmostPromises,
    Blank,
    Crashed,
    Network,
    Protocol,
    Refused,
    OutOfContext,
    Limited,
    LimitedUntil,
    Silent,
    NotFound,
    Auth,
    Config,
    Hangs,
}

const WAYS: [Way; 16] = [
    Way::Promises,
    Way::Talks,
    Way::AlmostPromises,
    Way::Blank,
    Way::Crashed,
    Way::Network,
    Way::Protocol,
    Way::Refused,
    Way::OutOfContext,
    Way::Limited,
    Way::LimitedUntil,
    Way::Silent,
    Way::NotFound,
    Way::Auth,
    Way::Config,
    Way::Hangs,
];

fn weights(state: &State, limited: bool) -> [u64; 16] {
    // Problems that only a person can fix do not occur in a quiet process.
    let broken = u64::from(!state.fate.quiet);
    // An agent that hangs without a time limit is stopped by a person.
    let hangs = if limited || !state.fate.quiet { 3 } else { 0 };
    match state.character {
        Character::Mixed => [48, 14, 3, 7, 6, 2, 1, 2, 4, 5, 5, 2, broken, broken, broken, hangs],
        Character::Honest => [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        Character::Liar => [90, 0, 0, 4, 0, 0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0],
        Character::Idle => [0, 80, 10, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        Character::Mute => [3, 3, 0, 85, 3, 0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0],
        Character::Crasher => [5, 5, 0, 2, 40, 15, 5, 10, 5, 2, 2, 9, 0, 0, 0, 0],
    }
}

pub(super) fn says(state: &mut State, limit: Option<Duration>) -> Says {
    let weights = weights(state, limit.is_some());
    let way = WAYS[state.random.weighted(&weights)];
    let finished = |text: &str| End::Finished { final_text: text.into(), usage: Usage::default() };
    let failed = |kind| End::Failed { kind, detail: "as simulated".into() };
    Says::Now(match way {
        Way::Promises => {
            let texts = ["TASK_COMPLETE", "All of it. <promise>TASK_COMPLETE</promise>"];
            finished(texts[state.random.below(2)])
        }
        Way::Talks => finished("I am not done yet."),
        Way::AlmostPromises => {
            let texts = [
                "It is TASK_COMPLETED, done",
                "NOT_TASK_COMPLETE",
                "task_complete: done",
                "I will say TASK_COMPLETE later",
            ];
            finished(texts[state.random.below(4)])
        }
        Way::Blank => finished(["", " \n\t "][state.random.below(2)]),
        Way::Crashed => failed(FailureKind::Crashed),
        Way::Network => failed(FailureKind::Network),
        Way::Protocol => failed(FailureKind::Protocol),
        Way::Refused => End::Refused,
        Way::OutOfContext => End::OutOfContext,
        Way::Limited => End::Limited { until: None },
        Way::LimitedUntil => {
            // Some agents report a time that has passed, and some one that is days away.
            let seconds = [0, 1, 90, 4000, 200_000][state.random.below(5)];
            End::Limited { until: Some(state.clock.now().plus(seconds)) }
        }
        Way::Silent => End::Stopped { by: StoppedBy::Stall },
        Way::NotFound => failed(FailureKind::NotFound),
        Way::Auth => failed(FailureKind::Auth),
        Way::Config => failed(FailureKind::Config),
        Way::Hangs => return Says::Nothing,
    })
}

/// Returns an event beside the work.
pub(super) fn tells(state: &mut State) -> Option<AgentEvent> {
    let random = &mut state.random;
    let promises = u64::from(state.character == Character::Mixed) * 2;
    let tools = if state.character == Character::Idle { 0 } else { 25 };
    match random.weighted(&[25, 40, 8, tools, promises]) {
        0 => None,
        1 => Some(AgentEvent::Usage(Usage {
            input_tokens: random.below(4000) as u64,
            output_tokens: random.below(900) as u64,
            #[allow(clippy::cast_precision_loss, reason = "small, and exact as a double")]
            cost_usd: random.percent(60).then(|| random.below(64) as f64 / 256.0),
        })),
        2 => Some(AgentEvent::Session(format!("session-{}", random.below(1000)))),
        3 => Some(AgentEvent::ToolStart { name: "edit".into(), input: None }),
        _ => Some(AgentEvent::Promised),
    }
}
