//! Facts of the ledger as events of the hub.

use super::Hub;
use crate::{
    event::Event,
    store::{Observer, Transaction},
};

impl Observer for Hub {
    /// Emits an event for each fact.
    fn committed(&self, transaction: &Transaction<'_>) {
        transaction.facts.iter().for_each(|fact| self.emit(Event::from(fact)));
    }
}
