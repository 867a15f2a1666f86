//! Holds the steps of a run while its store cannot be reached, so that an absence of the database does
//! not end the run. Only errors that say so are waited for; any other one is returned at once.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harness_core::{
    Command,
    backoff::Backoff,
    command::{OfRun, RunStep},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, Result},
    hub::Hub,
    store::{Commit, Committing, Flushed, StoreError},
};

/// The pauses between two tries. Each try takes a while itself.
const PAUSES: Backoff =
    Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(5) };

/// The time without an answer after which a database counts as away. It is longer than the patience of a
/// call whose connection was lost.
const SILENCE: Duration = Duration::from_secs(20);

/// Repeats what needs the store until the store is back. An interrupt ends the wait, and so does a fence.
///
/// It is a store itself, whose commits are held.
#[derive(Clone)]
pub struct Hold {
    store: Arc<dyn Commit>,
    interrupts: watch::Receiver<u64>,
    fence: CancellationToken,
    /// The time without an answer after which the store counts as away. A store that does not know
    /// whether a change was made says nothing until it knows.
    silence: Option<Duration>,
    absence: Arc<Mutex<Option<Arc<StoreError>>>>,
}

/// Whether a success shows that the store is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Reached,
    /// It may not have been needed.
    Perhaps,
}

impl Hold {
    /// Holds steps over `store` until a person interrupts the run on `hub`.
    pub fn over(store: Arc<dyn Commit>, hub: &Hub) -> Self {
        let (interrupts, fence) = (hub.interrupts(), CancellationToken::new());
        Self { store, interrupts, fence, silence: None, absence: Arc::default() }
    }

    /// Does not wait for ever for an answer, if the store is a database.
    #[must_use]
    pub fn of_database(self) -> Self {
        Self { silence: Some(SILENCE), ..self }
    }

    /// Returns the same that also ends at this fence, over the store that `through` returns.
    #[must_use]
    pub fn fenced(
        &self,
        fence: CancellationToken,
        through: impl FnOnce(Arc<dyn Commit>) -> Arc<dyn Commit>,
    ) -> Self {
        Self { store: through(Arc::clone(&self.store)), fence, ..self.clone() }
    }

    /// Returns whether the store could not be reached when it was last needed.
    pub fn is_cut_off(&self) -> bool {
        self.absence().is_some()
    }

    /// Does `act`, again and again as long as the store cannot be reached.
    pub async fn hold<T, F>(&self, act: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.repeat(Proof::Reached, act).await
    }

    async fn repeat<T, F>(&self, proof: Proof, mut act: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        for failed in 0.. {
            let absence = self.absence().clone();
            if let Some(why) = absence.filter(|_| self.has_ended()) {
                return Err(Error::Commit(why));
            }
            let done = tokio::select! {
                biased;
                done = act() => done,
                why = self.given_up() => return Err(Error::Commit(why)),
            };
            let why = match done.map_err(Error::into_unreachable) {
                Ok(done) => {
                    if proof == Proof::Reached || failed > 0 {
                        self.is_back();
                    }
                    return Ok(done);
                }
                Err(Ok(why)) => why,
                Err(Err(other)) => return Err(other),
            };
            self.is_away(&why);
            let random = uuid::Uuid::now_v7().as_u64_pair().1;
            tokio::select! {
                biased;
                () = self.ended() => return Err(Error::Commit(why)),
                () = tokio::time::sleep(PAUSES.pause(failed, random)) => {}
            }
        }
        Err(Error::message("the store could not be reached"))
    }

    /// Completes when nothing is waited for any more and the store is away.
    async fn given_up(&self) -> Arc<StoreError> {
        let absence = self.absence().clone();
        let why = match (absence, self.silence) {
            (Some(why), _) => why,
            (None, None) => return std::future::pending().await,
            (None, Some(silence)) => {
                tokio::time::sleep(silence).await;
                let why = Arc::new(StoreError::Silent { seconds: silence.as_secs() });
                self.is_away(&why);
                why
            }
        };
        self.ended().await;
        why
    }

    fn has_ended(&self) -> bool {
        *self.interrupts.borrow() > 0 || self.fence.is_cancelled()
    }

    /// Completes when nothing is waited for any more.
    async fn ended(&self) {
        let mut interrupts = self.interrupts.clone();
        tokio::select! {
            // Without a hub there is nobody left who waits.
            _ = interrupts.wait_for(|count| *count > 0) => {}
            () = self.fence.cancelled() => {}
        }
    }

    fn absence(&self) -> MutexGuard<'_, Option<Arc<StoreError>>> {
        self.absence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_away(&self, why: &Arc<StoreError>) {
        if self.absence().replace(Arc::clone(why)).is_none() {
            tracing::warn!("{why}; waiting until it is back");
        }
    }

    fn is_back(&self) {
        if self.absence().take().is_some() {
            tracing::warn!("the database is back; work goes on");
        }
    }
}

impl Commit for Hold {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        if is_answered_meanwhile(&command) {
            return Box::pin(async move {
                tokio::select! {
                    biased;
                    done = self.store.commit(command) => done,
                    // Another step may be in doubt, and this one waits for it.
                    why = self.given_up() => Err(why),
                }
            });
        }
        Box::pin(async move {
            let commit = || {
                let command = command.clone();
                async move { self.store.commit(command).await.map_err(Error::Commit) }
            };
            self.hold(commit).await.map_err(of_store)
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            let flush = || async { self.store.flush().await.map_err(Error::Commit) };
            self.repeat(Proof::Perhaps, flush).await.map_err(of_store)
        })
    }
}

/// Returns whether the record of runs answers a command although it cannot be reached.
fn is_answered_meanwhile(command: &Command) -> bool {
    let Command::Run(of_run) = command else { return false };
    let OfRun { step, .. } = &**of_run;
    matches!(step, RunStep::Spend(_) | RunStep::Session(_) | RunStep::Beat { .. })
}

fn of_store(error: Error) -> Arc<StoreError> {
    match error {
        Error::Commit(error) => error,
        other => Arc::new(StoreError::Io(std::io::Error::other(other.to_string()))),
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests;
