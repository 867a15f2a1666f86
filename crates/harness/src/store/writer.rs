//! The one writer of a long-lived process: a thread that owns the store.
//!
//! It takes everything that waits, decides it in order, writes once and then answers each. So a
//! hundred clients share one fsync, and nobody hears of a change that is not durable.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
};

use harness_core::{Command, Ledger, Refusal, Reply};

use tokio::sync::oneshot;

use super::{Applied, Observer as _, Observers, Store, StoreError, Transaction};
use crate::clock::Clock;

/// Requests that may wait before a caller has to.
const QUEUE: usize = 1024;
/// Requests written together at most: a bound on how long the first of them waits.
const BATCH: usize = 256;

/// Sends commands to the writer thread. When it is dropped, the writer finishes what waits and
/// ends. For an example see [`FileStore`](super::FileStore).
pub struct Writer {
    requests: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

enum Request {
    Write { command: Box<Command>, answer: Return },
    Look(Look),
    Settle(SyncSender<Result<(), Arc<StoreError>>>),
}

/// Is given the ledger as it stands, in the writer's thread.
type Look = Box<dyn FnOnce(Result<&Ledger, StoreError>) + Send>;

/// A command that became true.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// What it answers.
    pub reply: Reply,
    /// Where the ledger as it was is kept, from the root, if the command threw it away.
    pub archived: Option<PathBuf>,
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

type Answer = Result<Result<Written, Refusal>, Arc<StoreError>>;

/// Why a command did not become true.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
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
    /// Starts the thread. The `clock` is asked once for each batch. The `observers` are called after a
    /// batch is durable and before it is answered.
    pub fn start(
        store: impl Store + 'static,
        clock: Arc<dyn Clock>,
        observers: Observers,
    ) -> std::io::Result<Self> {
        let (sender, requests) = mpsc::sync_channel(QUEUE);
        let thread = thread::Builder::new()
            .name("harness-writer".into())
            .spawn(move || write_all(store, &*clock, &observers, &requests))?;
        Ok(Self { requests: Some(sender), thread: Some(thread) })
    }

    fn requests(&self) -> Result<&SyncSender<Request>, WriterError> {
        self.requests.as_ref().ok_or(WriterError::Ended)
    }

    /// Blocks until the command is durable or refused. Not for async code: see
    /// [`apply_async`](Writer::apply_async).
    pub fn apply(&self, command: Command) -> Result<Reply, WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let request =
            Request::Write { command: Box::new(command), answer: Return::Blocking(answer) };
        self.requests()?.send(request).map_err(|_| WriterError::Ended)?;
        plain(answered.recv().ok()).map(|written| written.reply)
    }

    /// As [`apply`](Writer::apply), without blocking the thread. If the future is dropped, the
    /// command may become true all the same.
    pub async fn apply_async(&self, command: Command) -> Result<Reply, WriterError> {
        self.write_async(command).await.map(|written| written.reply)
    }

    /// The same, and says what was archived. Once polled it is in the queue, if there is room.
    pub async fn write_async(&self, command: Command) -> Result<Written, WriterError> {
        let (answer, answered) = oneshot::channel();
        let command = Box::new(command);
        self.send_async(Request::Write { command, answer: Return::Async(answer) }).await?;
        plain(answered.await.ok())
    }

    /// Looks at the ledger as it stands, without reading the file if it is still the one that the
    /// writer knows. All that was asked for before is done then. It holds up the writer: be short.
    pub async fn look_async<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, WriterError> {
        let (answer, answered) = oneshot::channel();
        let look = Request::Look(Box::new(move |ledger| _ = answer.send(ledger.map(look))));
        self.send_async(look).await?;
        seen(answered.await.ok())
    }

    /// As [`look_async`](Writer::look_async), blocking.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let look = Request::Look(Box::new(move |ledger| _ = answer.send(ledger.map(look))));
        self.requests()?.send(look).map_err(|_| WriterError::Ended)?;
        seen(answered.recv().ok())
    }

    /// Judges and puts in order what others made of the files, as every write does first, and writes
    /// nothing else.
    pub fn settle(&self) -> Result<(), WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.requests()?.send(Request::Settle(answer)).map_err(|_| WriterError::Ended)?;
        answered.recv().map_err(|_| WriterError::Ended)?.map_err(WriterError::Store)
    }

    async fn send_async(&self, request: Request) -> Result<(), WriterError> {
        let requests = self.requests()?;
        match requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(WriterError::Ended),
            // Rare: a thousand others wait. A thread may block where a task may not.
            Err(TrySendError::Full(request)) => {
                let requests = requests.clone();
                let send = move || requests.send(request).is_ok();
                let sent = tokio::task::spawn_blocking(send).await;
                sent.ok().filter(|sent| *sent).map(|_| ()).ok_or(WriterError::Ended)
            }
        }
    }
}

fn plain(answer: Option<Answer>) -> Result<Written, WriterError> {
    match answer {
        Some(Ok(Ok(written))) => Ok(written),
        Some(Ok(Err(refusal))) => Err(WriterError::Refused(refusal)),
        Some(Err(error)) => Err(WriterError::Store(error)),
        None => Err(WriterError::Ended),
    }
}

fn seen<T>(answer: Option<Result<T, StoreError>>) -> Result<T, WriterError> {
    match answer {
        Some(seen) => seen.map_err(|error| WriterError::Store(Arc::new(error))),
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
    observers: &Observers,
    requests: &Receiver<Request>,
) {
    while let Ok(first) = requests.recv() {
        let mut batch = Batch::default();
        batch.add(first);
        while batch.len() < BATCH
            && let Ok(next) = requests.try_recv()
        {
            batch.add(next);
        }
        if !batch.commands.is_empty() || !batch.settles.is_empty() {
            let applied = store.apply(clock.now(), &batch.commands);
            if let Ok(applied) = &applied {
                observers.committed(&Transaction::new(&mut store, applied));
            }
            answer(batch.answers, batch.settles, applied);
        }
        for look in batch.looks {
            match store.ledger() {
                Ok(ledger) => look(Ok(ledger)),
                Err(error) => look(Err(error)),
            }
        }
    }
}

/// What is done together: one write, then all who only look.
#[derive(Default)]
struct Batch {
    commands: Vec<Command>,
    answers: Vec<Return>,
    looks: Vec<Look>,
    settles: Vec<SyncSender<Result<(), Arc<StoreError>>>>,
}

impl Batch {
    fn add(&mut self, request: Request) {
        match request {
            Request::Write { command, answer } => {
                self.commands.push(*command);
                self.answers.push(answer);
            }
            Request::Look(look) => self.looks.push(look),
            Request::Settle(answer) => self.settles.push(answer),
        }
    }

    fn len(&self) -> usize {
        self.commands.len() + self.looks.len() + self.settles.len()
    }
}

fn answer(
    answers: Vec<Return>,
    settles: Vec<SyncSender<Result<(), Arc<StoreError>>>>,
    applied: Result<Applied, StoreError>,
) {
    match applied {
        Ok(Applied { replies, mut archived, .. }) => {
            // A caller that no longer listens does not matter to the others.
            settles.into_iter().for_each(|caller| _ = caller.send(Ok(())));
            for (n, (answer, reply)) in answers.into_iter().zip(replies).enumerate() {
                let kept = archived.iter().position(|(of, _)| *of == n);
                let archived = kept.map(|at| archived.swap_remove(at).1);
                answer.send(Ok(reply.map(|reply| Written { reply, archived })));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            settles.into_iter().for_each(|caller| _ = caller.send(Err(Arc::clone(&error))));
            for answer in answers {
                answer.send(Err(Arc::clone(&error)));
            }
        }
    }
}
