//! The one writer of a long-lived process: a thread that owns the store.
//!
//! It takes everything that waits, decides it in order, writes once and then answers each. So a
//! hundred clients share one fsync, and nobody hears of a change that is not durable.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
};

use harness_core::{Command, Fact, Refusal, Reply};

use tokio::sync::oneshot;

use super::{Store, StoreError};
use crate::clock::Clock;

/// Requests that may wait before a caller has to.
const QUEUE: usize = 1024;
/// Requests written together at most: a bound on how long the first of them waits.
const BATCH: usize = 256;

/// Hears what became true (and what a person should hear about it), after it is durable and before
/// it is answered. It holds up the writer: be short.
pub type Publish = Box<dyn FnMut(&[Fact], &[String]) + Send>;

/// Sends commands to the writer thread. When it is dropped, the writer finishes what waits and
/// ends. For an example see [`FileStore`](super::FileStore).
pub struct Writer {
    requests: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

struct Request {
    command: Command,
    answer: Return,
}

/// Where the answer goes: to a thread that blocks for it, or to a task that does not.
enum Return {
    Blocking(SyncSender<Answer>),
    Async(oneshot::Sender<Answer>),
}

impl Return {
    /// A caller that no longer listens does not matter to the others.
    fn send(self, answer: Answer) {
        match self {
            Self::Blocking(caller) => _ = caller.send(answer),
            Self::Async(caller) => _ = caller.send(answer),
        }
    }
}

type Answer = Result<Result<Reply, Refusal>, Arc<StoreError>>;

/// Why a command did not become true.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriterError {
    /// By the rules; others that were written with it are not affected.
    #[error("{0}")]
    Refused(Refusal),
    /// All that were to be written with it share this.
    #[error("{0}")]
    Store(Arc<StoreError>),
    /// Its thread is gone. Whether the command became true is not known.
    #[error("the writer has ended")]
    Ended,
}

impl Writer {
    /// Starts the thread. The `clock` is asked once for each batch.
    pub fn start(
        store: impl Store + 'static,
        clock: Arc<dyn Clock>,
        publish: Publish,
    ) -> std::io::Result<Self> {
        let (sender, requests) = mpsc::sync_channel(QUEUE);
        let thread = thread::Builder::new()
            .name("harness-writer".into())
            .spawn(move || write_all(store, &*clock, publish, &requests))?;
        Ok(Self { requests: Some(sender), thread: Some(thread) })
    }

    /// Blocks until the command is durable or refused. Not for async code: see
    /// [`apply_async`](Writer::apply_async).
    pub fn apply(&self, command: Command) -> Result<Reply, WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().ok_or(WriterError::Ended)?;
        let request = Request { command, answer: Return::Blocking(answer) };
        requests.send(request).map_err(|_| WriterError::Ended)?;
        plain(answered.recv().ok())
    }

    /// As [`apply`](Writer::apply), without blocking the thread. If the future is dropped, the
    /// command may become true all the same.
    pub async fn apply_async(&self, command: Command) -> Result<Reply, WriterError> {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(WriterError::Ended)?;
        let request = Request { command, answer: Return::Async(answer) };
        match requests.try_send(request) {
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return Err(WriterError::Ended),
            // Rare: a thousand others wait. A thread may block where a task may not.
            Err(TrySendError::Full(request)) => {
                let requests = requests.clone();
                let send = move || requests.send(request).is_ok();
                let sent = tokio::task::spawn_blocking(send).await;
                sent.ok().filter(|sent| *sent).ok_or(WriterError::Ended)?;
            }
        }
        plain(answered.await.ok())
    }
}

fn plain(answer: Option<Answer>) -> Result<Reply, WriterError> {
    match answer {
        Some(Ok(Ok(reply))) => Ok(reply),
        Some(Ok(Err(refusal))) => Err(WriterError::Refused(refusal)),
        Some(Err(error)) => Err(WriterError::Store(error)),
        None => Err(WriterError::Ended),
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there; here it could only hide the first one.
            let _ = thread.join();
        }
    }
}

fn write_all(
    mut store: impl Store,
    clock: &dyn Clock,
    mut publish: Publish,
    requests: &Receiver<Request>,
) {
    while let Ok(first) = requests.recv() {
        let mut commands = vec![first.command];
        let mut answers = vec![first.answer];
        while commands.len() < BATCH
            && let Ok(next) = requests.try_recv()
        {
            commands.push(next.command);
            answers.push(next.answer);
        }
        match store.apply(clock.now(), &commands) {
            Ok(applied) => {
                publish(&applied.facts, &applied.warnings);
                for (answer, reply) in answers.into_iter().zip(applied.replies) {
                    answer.send(Ok(reply));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in answers {
                    answer.send(Err(Arc::clone(&error)));
                }
            }
        }
    }
}
