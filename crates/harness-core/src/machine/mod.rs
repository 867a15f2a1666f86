//! The machines: each says what to do next, from what is known. None of them does it.
//!
//! A machine never touches the truth: it asks for commands. It is never stored: what must survive
//! was committed, and a new machine is made from that. Whoever drives one performs at most one
//! effect at a time.

#[doc(hidden)]
pub mod attempt;
#[doc(hidden)]
pub mod gate;
mod halt;
#[doc(hidden)]
pub mod iterate;
#[doc(hidden)]
pub mod judge;
#[doc(hidden)]
pub mod recovery;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod worker;

use crate::{
    Command, Refusal, Reply, Timestamp,
    agent::{AgentEvent, StoppedBy},
};

/// Decides what to do next, one input at a time. Pure: the same inputs at the same times give the
/// same answers, so that a test needs neither clock nor process. The library's `Branch::drive` is the
/// loop around it.
pub trait Machine {
    /// What it can ask to be done.
    type Effect;
    /// What comes of that.
    type Ended;
    /// What it comes to in the end.
    type Outcome;

    /// What to do next, now that `input` happened. Called first with [`Input::Begin`] and not again
    /// after [`Next::Done`].
    fn step(
        &mut self,
        now: Timestamp,
        input: Input<Self::Ended>,
    ) -> Next<Self::Effect, Self::Outcome>;
}

/// What happened since the last step.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<T> {
    /// Nothing yet: always the first.
    Begin,
    /// The command that was asked for is durable.
    Committed(Reply),
    /// It changed nothing.
    Refused(Refusal),
    /// The effect that was started came to its end.
    Ended(T),
    /// The agent in the effect tells something.
    Told(AgentEvent),
    /// Some time has passed.
    Tick,
    /// Somebody wants everything to stop.
    Interrupt,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Next<E, O> {
    /// Make this durable. The answer is [`Input::Committed`] or [`Input::Refused`], before anything
    /// else is heard.
    Commit(Box<Command>),
    /// Only while no effect is under way.
    Start(E),
    /// Until something happens.
    Wait,
    /// Asks the effect to stop. Its end still arrives.
    Cancel(StoppedBy),
    /// It is over. An effect that is still under way is dropped.
    Done(O),
}
