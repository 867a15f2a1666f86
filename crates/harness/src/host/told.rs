//! Facts as hub events, for those who subscribe.

use harness_core::Fact;

use crate::{event::Event, hub::Hub};

/// Emits an event for each fact.
pub fn tell_facts(hub: &Hub, facts: &[Fact]) {
    facts.iter().for_each(|fact| hub.emit(Event::from(fact)));
}
