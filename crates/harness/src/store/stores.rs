//! The ledger and the runs as one store, so that a caller need not know which of them a command is
//! for.

use std::{pin::Pin, sync::Arc};

use harness_core::Command;

use super::{Commit, Committing, Runs, StoreError, Writer};
use crate::clock::Clock;

/// Sends each command to the store that decides it.
#[derive(Clone)]
pub struct Stores {
    /// The writer of the ledger.
    pub ledger: Arc<Writer>,
    /// The record of runs.
    pub runs: Arc<dyn Runs>,
    /// The clock for commands about runs.
    pub clock: Arc<dyn Clock>,
}

impl Commit for Stores {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let Command::Run(of_run) = command else { return self.ledger.commit(command) };
        let (runs, now) = (Arc::clone(&self.runs), self.clock.now());
        Box::pin(async move {
            let applied = tokio::task::spawn_blocking(move || runs.apply(now, &of_run)).await;
            let failed = |why: String| Arc::new(StoreError::Io(std::io::Error::other(why)));
            match applied {
                Ok(Ok(decided)) => Ok(decided),
                Ok(Err(error)) => Err(failed(error.to_string())),
                Err(gone) => Err(failed(gone.to_string())),
            }
        })
    }
}
