//! What kind of agent it is: what it tells on the way, and how it ends.

use std::time::Duration;

use harness::clock::Clock as _;
use harness_core::agent::{AgentEvent, End, FailureKind, StoppedBy, Usage};

use super::stage::State;
use crate::random::Random;

/// Of all agents of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Character {
    /// Now so, now so.
    #[default]
    Mixed,
    /// Does what is asked for, and says so.
    Honest,
    /// Says that it is done, and never is.
    Liar,
    /// Changes nothing and uses no tool; what it says is never the promise.
    Idle,
    /// Hardly ever says a word.
    Mute,
    /// Fails, mostly.
    Crasher,
}

impl Character {
    pub(super) fn any(random: &mut Random) -> Self {
        let weights = [60, 8, 10, 6, 8, 8];
        [Self::Mixed, Self::Honest, Self::Liar, Self::Idle, Self::Mute, Self::Crasher]
            [random.weighted(&weights)]
    }
}

/// How it ends when nobody stops it.
pub(super) enum Says {
    Now(End),
    Nothing,
}

/// In the order of the weights below.
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
    // What only a person can mend does not happen when nobody is to disturb.
    let broken = u64::from(!state.fate.quiet);
    // Who hangs without a limit of time is stopped by a person.
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
            // Some say a time that has passed, some one that is days away.
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

/// What it tells beside its work.
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
