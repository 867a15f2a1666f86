//! The way from an execution of an agent to the machine that decides about it, and back: what it is
//! told on the way there, why it has to stop on the way back.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use harness_core::{
    agent::{AgentEvent, StoppedBy, Usage},
    run::Price,
};
use tokio::sync::mpsc;

/// Where an execution tells what decisions need to know, from
/// [`Branch::told`](crate::Branch::told). What one
/// machine receives, the one around it receives as well.
#[derive(Debug, Clone)]
pub struct Told {
    events: mpsc::Sender<AgentEvent>,
    /// What was used and did not fit in: money is never lost, it is only told later.
    pub(crate) overflow: Arc<Mutex<Usage>>,
    around: Option<Arc<Told>>,
    of: TellsOf,
}

/// Whose words they are.
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

    /// For somebody who works for the agent: the machine hears what that one uses and nothing else.
    /// Its session, its tools and its limits would be taken for the agent's.
    pub(crate) fn of_helper(self, price: Option<Price>) -> Self {
        Self { of: TellsOf::Helper(price), ..self }
    }

    /// Never waits: decisions do not hold up an agent. What is only for the eye is not
    /// told here at all.
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

/// Why an effect was asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    pub(crate) cause: Arc<OnceLock<StoppedBy>>,
}
