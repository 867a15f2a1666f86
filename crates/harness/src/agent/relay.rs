//! The connection between an execution of an agent and the machine that decides about it: events in
//! one direction, the reason for a stop in the other.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use harness_core::{
    agent::{AgentEvent, StoppedBy, Usage},
    run::Price,
};
use tokio::sync::mpsc;

/// Sends the events of an execution that decisions need, from
/// [`Branch::told`](crate::Branch::told). The enclosing machine receives them as well.
#[derive(Debug, Clone)]
pub struct Told {
    events: mpsc::Sender<AgentEvent>,
    /// Usage that did not fit into the channel. It is never lost, but only reported later.
    pub(crate) overflow: Arc<Mutex<Usage>>,
    around: Option<Arc<Told>>,
    of: TellsOf,
}

/// The sender of the events.
#[derive(Debug, Clone, Copy)]
enum TellsOf {
    TheAgent,
    Helper(Option<Price>),
}

impl Told {
    pub(crate) fn new(events: mpsc::Sender<AgentEvent>, around: Option<Told>) -> Self {
        let around = around.map(Arc::new);
        Self { events, overflow: Arc::default(), around, of: TellsOf::TheAgent }
    }

    /// Returns a relay for a helper of the agent. The machine receives only its usage, because its
    /// session, its tools and its limits would be taken for the agent's.
    pub(crate) fn of_helper(self, price: Option<Price>) -> Self {
        Self { of: TellsOf::Helper(price), ..self }
    }

    /// Sends an event. It never waits, because decisions must not delay an agent. Events that are
    /// only for display are not sent.
    pub fn tell(&self, event: &AgentEvent) {
        match (self.of, event) {
            (TellsOf::TheAgent, event) => self.pass_on(event),
            (TellsOf::Helper(price), AgentEvent::Usage(usage)) => {
                let usage = price.map_or(*usage, |price| price.fill_in(*usage));
                self.pass_on(&AgentEvent::Helped(usage));
            }
            (TellsOf::Helper(_), _) => {}
        }
    }

    fn pass_on(&self, event: &AgentEvent) {
        if matches!(event, AgentEvent::Text(_) | AgentEvent::Thinking(_)) {
            return;
        }
        if let Some(around) = &self.around {
            around.tell(event);
        }
        match (self.events.try_send(event.clone()), event) {
            (Ok(()), _) => {}
            (Err(_), AgentEvent::Usage(usage) | AgentEvent::Helped(usage)) => {
                *self.overflow.lock().unwrap_or_else(PoisonError::into_inner) += *usage;
            }
            (Err(_), event) => {
                tracing::warn!(?event, "the machine is behind: an event of its agent is lost");
            }
        }
    }
}

/// The reason why an effect was asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    cause: Arc<OnceLock<StoppedBy>>,
    /// The one around it.
    above: Option<Arc<Stop>>,
}

impl Stop {
    /// Returns one that can be stopped by itself, and is stopped with this one.
    pub(crate) fn below(&self) -> Self {
        Self { cause: Arc::default(), above: Some(Arc::new(self.clone())) }
    }

    /// Sets the reason. The first one counts.
    pub(crate) fn set(&self, cause: StoppedBy) {
        _ = self.cause.set(cause);
    }

    /// Returns the reason, the innermost one first.
    pub(crate) fn cause(&self) -> Option<StoppedBy> {
        let above = || self.above.as_ref().and_then(|above| above.cause());
        self.cause.get().copied().or_else(above)
    }
}
