//! The ledger and the runs as one store, so that a caller need not know which of them a command is
//! for.

use std::{pin::Pin, sync::Arc};

use harness_core::Command;

use super::{Commit, Committing, Flushed, RunStoreError, Runs, StoreError, Writer};
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
        Box::pin(blocking(move || runs.apply(now, &of_run)))
    }

    fn flush(&self) -> Flushed<'_> {
        if self.runs.is_flushed() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let runs = Arc::clone(&self.runs);
        Box::pin(blocking(move || runs.flush()))
    }
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, RunStoreError> + Send + 'static,
) -> Result<T, Arc<StoreError>> {
    match tokio::task::spawn_blocking(act).await {
        Ok(acted) => acted.map_err(|error| Arc::new(error.into_store())),
        Err(gone) => Err(Arc::new(StoreError::Io(std::io::Error::other(gone.to_string())))),
    }
}
