//! Wakes tasks of this process that wait for a change of the ledger.

use std::sync::Arc;

use harness_core::{Fact, fact::LineStep};
use tokio::sync::watch;

use super::{Observer, Transaction};

/// Counts the transactions of a writer. It is one of its observers.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<watch::Sender<u64>>);

impl Changes {
    /// Returns a receiver that sees every change from now on.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    /// Wakes everybody who waits.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

impl Observer for Changes {
    /// A sign of life of a worker frees no work, and nor does a look that changed nothing. Otherwise
    /// workers that wait would wake each other.
    fn committed(&self, transaction: &Transaction<'_>) {
        let news = |fact: &Fact| {
            !matches!(fact, Fact::Renewed { .. } | Fact::Line { step: LineStep::Renewed, .. })
        };
        if transaction.facts.iter().any(news) {
            self.notify();
        }
    }

    fn relayed(&self, transaction: &Transaction<'_>) {
        self.committed(transaction);
    }

    fn changed_elsewhere(&self) {
        self.notify();
    }
}
