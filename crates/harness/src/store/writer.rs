//! The writer of a long-lived process: a thread that owns the store.
//!
//! It takes all waiting requests, decides them in order, writes once and then answers each. So a
//! hundred clients share one fsync, and no change is reported before it is durable.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness_core::{Command, Ledger, Refusal, Reply, Timestamp};
use tokio::sync::oneshot;

use super::{
    Applied, AppliedOnce, NewsSince, Observer as _, Observers, Store, StoreError, Transaction,
    TransactionId,
};
use crate::clock::Clock;

/// The number of requests that may wait before a caller must.
const QUEUE: usize = 1024;
/// The limit of requests that are written together. It bounds the wait of the first one.
const BATCH: usize = 256;
/// The limit of the wait for callers that were answered together.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// Sends commands to the writer thread. When it is dropped, the writer finishes the waiting
/// requests and ends. For an example see [`FileStore`](super::FileStore).
pub struct Writer(Hand);

/// The executor of requests.
enum Hand {
    Thread { requests: Option<SyncSender<Request>>, thread: Option<JoinHandle<()>> },
    Caller(Box<Mutex<dyn Handle>>),
}

/// A store with its clock and observers.
struct Owned<S> {
    store: S,
    clock: Arc<dyn Clock>,
    observers: Observers,
}

/// Handles requests, whatever the type of the store is.
trait Handle: Send {
    fn handle(&mut self, batch: Batch);
}

enum Request {
    Write { command: Box<Command>, answer: Return },
    Look(Look),
    Relay(Relay),
    Settle(SyncSender<Result<(), Arc<StoreError>>>),
}

/// Receives the current ledger in the writer's thread.
type Look = Box<dyn FnOnce(Result<&Ledger, StoreError>) + Send>;

/// A transaction of another process.
struct Relay {
    of: TransactionId,
    commands: Vec<Command>,
    since: Option<String>,
    answer: oneshot::Sender<Result<Relayed, Arc<StoreError>>>,
}

/// The result of a transaction of another process.
#[derive(Debug)]
pub struct Relayed {
    /// The transaction; `None` if there was nothing to do.
    pub applied: Option<AppliedOnce>,
    /// The changes of the ledger that the other process does not know; `None` if they could not be
    /// read.
    pub news: Option<NewsSince>,
}

/// A command that became true.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// The answer to the command.
    pub reply: Reply,
    /// The path of the archived ledger relative to the root, if the command discarded it.
    pub archived: Option<PathBuf>,
}

/// The receiver of the answer: a thread that blocks for it, or a task that does not.
enum Return {
    Blocking(SyncSender<Answer>),
    Async(oneshot::Sender<Answer>),
}

impl Return {
    /// Sends the answer. A caller that is gone does not affect the others.
    fn send(self, answer: Answer) {
        match self {
            Self::Blocking(caller) => _ = caller.send(answer),
            Self::Async(caller) => _ = caller.send(answer),
        }
    }
}

type Answer = Result<Result<Written, Refusal>, Arc<StoreError>>;

/// The reason why a command did not become true.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WriterError {
    /// The rules refused it. Other commands of the same write are not affected.
    #[error("{0}")]
    Refused(Refusal),
    /// The store failed. All commands of the same write share this error.
    #[error("{0}")]
    Store(Arc<StoreError>),
    /// The writer thread is gone. It is not known whether the command became true.
    #[error("the writer has ended")]
    Ended,
}

impl Writer {
    /// Starts the thread. The `clock` is read once for each batch. The `observers` are called after
    /// a batch is durable and before it is answered.
    pub fn start(
        store: impl Store + 'static,
        clock: Arc<dyn Clock>,
        observers: Observers,
    ) -> std::io::Result<Self> {
        let (sender, requests) = mpsc::sync_channel(QUEUE);
        let mut owned = Owned { store, clock, observers };
        let thread = thread::Builder::new()
            .name("harness-writer".into())
            .spawn(move || write_all(&mut owned, &requests))?;
        Ok(Self(Hand::Thread { requests: Some(sender), thread: Some(thread) }))
    }

    /// Returns a writer without a thread, which handles each request while its caller waits. It is
    /// for simulated time, which must not pass while a thread writes.
    pub fn without_thread(
        store: impl Store + 'static,
        clock: Arc<dyn Clock>,
        observers: Observers,
    ) -> Self {
        Self(Hand::Caller(Box::new(Mutex::new(Owned { store, clock, observers }))))
    }

    /// Passes a request on. It blocks while too many wait.
    fn give(&self, request: Request) -> Result<(), WriterError> {
        match &self.0 {
            Hand::Thread { requests, .. } => {
                let requests = requests.as_ref().ok_or(WriterError::Ended)?;
                requests.send(request).map_err(|_| WriterError::Ended)
            }
            Hand::Caller(owned) => {
                let mut batch = Batch::default();
                batch.add(request);
                owned.lock().unwrap_or_else(PoisonError::into_inner).handle(batch);
                Ok(())
            }
        }
    }

    /// Blocks until the command is durable or refused. Async code uses
    /// [`apply_async`](Writer::apply_async).
    pub fn apply(&self, command: Command) -> Result<Reply, WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let request =
            Request::Write { command: Box::new(command), answer: Return::Blocking(answer) };
        self.give(request)?;
        plain(answered.recv().ok()).map(|written| written.reply)
    }

    /// Does the same as [`apply`](Writer::apply) without blocking the thread. If the future is
    /// dropped, the command may still become true.
    pub async fn apply_async(&self, command: Command) -> Result<Reply, WriterError> {
        self.write_async(command).await.map(|written| written.reply)
    }

    /// Does the same, and returns the path of an archived ledger. Once polled it is in the queue,
    /// if there is room.
    pub async fn write_async(&self, command: Command) -> Result<Written, WriterError> {
        let (answer, answered) = oneshot::channel();
        let command = Box::new(command);
        self.send_async(Request::Write { command, answer: Return::Async(answer) }).await?;
        plain(answered.await.ok())
    }

    /// Makes a transaction of another process, unless it was made before, and returns what changed
    /// since the version `since`. It is one write of its own, because its facts belong to that
    /// process. Without commands it only reads.
    pub(crate) async fn relay_async(
        &self,
        of: TransactionId,
        commands: Vec<Command>,
        since: Option<String>,
    ) -> Result<Relayed, WriterError> {
        let (answer, answered) = oneshot::channel();
        self.send_async(Request::Relay(Relay { of, commands, since, answer })).await?;
        match answered.await {
            Ok(relayed) => relayed.map_err(WriterError::Store),
            Err(_) => Err(WriterError::Ended),
        }
    }

    /// Reads the current ledger, without reading the file if the writer knows it. All earlier
    /// requests are done by then. It blocks the writer, so it must be short.
    pub async fn look_async<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, WriterError> {
        let (answer, answered) = oneshot::channel();
        let look = Request::Look(Box::new(move |ledger| _ = answer.send(ledger.map(look))));
        self.send_async(look).await?;
        seen(answered.await.ok())
    }

    /// Does the same as [`look_async`](Writer::look_async), blocking.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let look = Request::Look(Box::new(move |ledger| _ = answer.send(ledger.map(look))));
        self.give(look)?;
        seen(answered.recv().ok())
    }

    /// Judges and repairs changes of other programs to the files, as every write does first, and
    /// writes nothing else.
    pub fn settle(&self) -> Result<(), WriterError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.give(Request::Settle(answer))?;
        answered.recv().map_err(|_| WriterError::Ended)?.map_err(WriterError::Store)
    }

    async fn send_async(&self, request: Request) -> Result<(), WriterError> {
        let Hand::Thread { requests: Some(requests), .. } = &self.0 else {
            return self.give(request);
        };
        match requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(WriterError::Ended),
            // This is rare: a thousand others wait. A thread may block where a task may not.
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
        let Hand::Thread { requests, thread } = &mut self.0 else { return };
        *requests = None;
        if let Some(thread) = thread.take() {
            // A panic of the thread was printed there. Repeating it here could hide the first one.
            let _ = thread.join();
        }
    }
}

/// Several callers that were answered together often ask again at once. A small part of the time of
/// their last turn is waited for them, so that they share the next one too.
fn write_all(owned: &mut impl Handle, requests: &Receiver<Request>) {
    let (mut company, mut patience) = (1, Duration::ZERO);
    while let Ok(first) = requests.recv() {
        let mut batch = Batch::default();
        batch.add(first);
        let until = Instant::now() + patience;
        while batch.len() < BATCH
            && let wait = if batch.len() < company { until } else { Instant::now() }
            && let Ok(next) = requests.recv_timeout(wait.saturating_duration_since(Instant::now()))
        {
            batch.add(next);
        }
        let started = Instant::now();
        company = batch.len();
        owned.handle(batch);
        patience = (started.elapsed() / 8).min(WAIT_MAX);
    }
}

impl<S: Store> Handle for Owned<S> {
    fn handle(&mut self, batch: Batch) {
        let Self { store, clock, observers } = self;
        if !batch.commands.is_empty() || !batch.settles.is_empty() {
            let applied = store.apply(clock.now(), &batch.commands);
            if let Ok(applied) = &applied {
                observers.committed(&Transaction::new(store, applied));
            }
            answer(batch.answers, batch.settles, applied);
        }
        for Relay { of, commands, since, answer } in batch.relays {
            let relayed = relay(store, clock.now(), &of, &commands, since.as_deref());
            if let Ok(Relayed { applied: Some(AppliedOnce::Now(applied)), .. }) = &relayed {
                observers.relayed(&Transaction::new(store, applied));
            }
            // A caller that is gone does not affect the others.
            _ = answer.send(relayed.map_err(Arc::new));
        }
        for look in batch.looks {
            match store.ledger() {
                Ok(ledger) => look(Ok(ledger)),
                Err(error) => look(Err(error)),
            }
        }
    }
}

fn relay(
    store: &mut impl Store,
    now: Timestamp,
    of: &TransactionId,
    commands: &[Command],
    since: Option<&str>,
) -> Result<Relayed, StoreError> {
    if commands.is_empty() {
        return Ok(Relayed { applied: None, news: Some(store.news(since)?) });
    }
    let applied = store.apply_once(now, of, commands)?;
    // The transaction is durable, whatever happens to the look.
    Ok(Relayed { applied: Some(applied), news: store.news(since).ok() })
}

/// The requests that are handled together: one write, then those of other processes, then all looks.
#[derive(Default)]
struct Batch {
    commands: Vec<Command>,
    answers: Vec<Return>,
    looks: Vec<Look>,
    relays: Vec<Relay>,
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
            Request::Relay(relay) => self.relays.push(relay),
            Request::Settle(answer) => self.settles.push(answer),
        }
    }

    fn len(&self) -> usize {
        self.commands.len() + self.looks.len() + self.relays.len() + self.settles.len()
    }
}

fn answer(
    answers: Vec<Return>,
    settles: Vec<SyncSender<Result<(), Arc<StoreError>>>>,
    applied: Result<Applied, StoreError>,
) {
    match applied {
        Ok(Applied { replies, mut archived, .. }) => {
            // A caller that is gone does not affect the others.
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
