//! The machines. Each decides the next step from what is known. None of them carries it out.
//!
//! A machine never changes the ledger; it asks for commands. It is never stored: everything that
//! must survive was committed, and a new machine is built from that. The driver performs at most
//! one effect at a time.

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
pub mod land;
#[doc(hidden)]
pub mod recovery;
pub mod scope;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod worker;

use crate::{
    Command, Refusal, Reply, Timestamp,
    agent::{AgentEvent, StoppedBy},
    run::Allowance,
};

/// Decides the next step, one input at a time. It is pure: the same inputs at the same times give
/// the same steps, so a test needs neither clock nor process. The library's `Branch::drive` is the
/// loop around it.
pub trait Machine {
    /// The effects that it can ask for.
    type Effect;
    /// The results of those effects.
    type Ended;
    /// The final result of the machine.
    type Outcome;

    /// Returns the next step after `input`. The first call has [`Input::Begin`]. There is no call
    /// after [`Next::Done`].
    fn step(
        &mut self,
        now: Timestamp,
        input: Input<Self::Ended>,
    ) -> Next<Self::Effect, Self::Outcome>;
}

/// The event since the last step.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<T> {
    /// The machine was just created. This is always the first input.
    Begin,
    /// The requested command is durable.
    Committed(Reply),
    /// The requested command was refused and changed nothing.
    Refused(Refusal),
    /// The effect that was started ended.
    Ended(T),
    /// The agent in the effect reported an event.
    Told(AgentEvent),
    /// Some time has passed.
    Tick,
    /// A user or a program asked for a stop.
    Interrupt,
    /// The budget of the run was changed.
    Allowed(Allowance),
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Next<E, O> {
    /// Make this durable. The next input is [`Input::Committed`] or [`Input::Refused`]; no other
    /// input comes before it.
    Commit(Box<Command>),
    /// Start this effect. It is allowed only while no effect is under way.
    Start(E),
    /// Wait for the next input.
    Wait,
    /// Ask the effect to stop. Its end still arrives as an input.
    Cancel(StoppedBy),
    /// The machine is finished. An effect that is still under way is dropped.
    Done(O),
}
