//! The hub: a run emits its events here and receives the messages of people.
//!
//! The emitting thread calls the listeners, one event at a time, in the order of their
//! subscription. An event that a listener emits is delivered after the current one, so that all
//! listeners see the same order. A listener must not wait for another thread that emits, because
//! that thread waits for its turn.

mod facts;
mod filter;
mod inbox;
mod record;
mod session;
mod stream;
mod subscription;
mod talk;
mod turn;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use harness_core::run::Allowance;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[doc(hidden)]
pub use self::stream::lagged;
pub(crate) use self::talk::{Question, Validate};
pub use self::{
    filter::Filter,
    inbox::{Inbox, Message, Messages},
    stream::{EventStream, StreamItem},
    subscription::{Heard, Subscription},
    talk::{Answered, HubStatus, OpenQuestion, UserMessage, UserReply},
};
use self::{record::Record, subscription::Listener, talk::Talk, turn::Turn};
use crate::event::{Context, Envelope, Event, Scope};

/// A handle to a hub. Clones are handles to the same hub. The events of a handle have the scope in
/// which the handle was created.
///
/// A flow has one in [`Branch::hub`](crate::Branch::hub), an attachment receives one, and an
/// [`Instance`](crate::Instance) is one.
#[derive(Clone)]
pub struct Hub {
    core: Arc<Core>,
    scope: Arc<Context>,
}

struct Core {
    /// The context outside of all scopes.
    root: Arc<Context>,
    turn: Turn,
    record: Mutex<Record>,
    listeners: Mutex<Arc<Vec<Arc<Listener>>>>,
    talk: Mutex<Talk>,
    cancelled: CancellationToken,
    /// The number of requests to stop everything.
    interrupts: watch::Sender<u64>,
    /// The budget of the run, once it was changed.
    allowance: watch::Sender<Option<Allowance>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic leaves nothing that is guarded here half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Creates a hub for a session of this name.
    pub fn new(session_id: impl Into<String>) -> Self {
        Self::keeping(session_id, record::KEPT_EVENTS)
    }

    /// Does the same, with the number of events that are kept for [the result of a
    /// run](crate::HarnessResult::events); [`new`](Hub::new) keeps 10,000.
    pub fn keeping(session_id: impl Into<String>, kept_events: usize) -> Self {
        let root = Arc::new(Context { session_id: session_id.into(), ..Context::default() });
        let core = Arc::new(Core {
            root: Arc::clone(&root),
            turn: Turn::default(),
            record: Mutex::new(Record::new(kept_events)),
            listeners: Mutex::default(),
            talk: Mutex::new(Talk::default()),
            cancelled: CancellationToken::new(),
            interrupts: watch::Sender::new(0),
            allowance: watch::Sender::new(None),
        });
        Self { core, scope: root }
    }

    /// Calls `listener` for every event that `filter` accepts, until the guard is dropped.
    ///
    /// The emitting thread calls it and waits for it, so it should do little. See
    /// [`events`](Hub::events) for more. A failure or a panic of a listener is only logged.
    ///
    /// ```
    /// use harness::{Event, Hub};
    /// let hub = Hub::new("session");
    /// let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    /// let kinds = seen.clone();
    /// let subscription = hub.subscribe("agent:*", move |e: &harness::Envelope| {
    ///     kinds.lock().unwrap().push(e.event.kind().to_owned());
    /// });
    /// hub.emit(Event::AgentText { content: "hello".into(), run_id: None });
    /// hub.emit(Event::HarnessStart { name: "not wanted".into() });
    /// assert_eq!(*seen.lock().unwrap(), ["agent:text"]);
    /// ```
    pub fn subscribe<H: Heard>(
        &self,
        filter: impl Into<Filter>,
        listener: impl Fn(&Envelope) -> H + Send + Sync + 'static,
    ) -> Subscription {
        let listener = Arc::new(Listener {
            filter: filter.into(),
            hear: Box::new(move |envelope| listener(envelope).heard()),
            active: AtomicBool::new(true),
        });
        let mut listeners = lock(&self.core.listeners);
        let mut all: Vec<_> = listeners.iter().cloned().collect();
        all.push(Arc::clone(&listener));
        *listeners = Arc::new(all);
        Subscription { core: Arc::downgrade(&self.core), listener, kept: false }
    }

    /// Returns all events from now on, as a stream that ends with the run.
    ///
    /// A reader never slows the run. If it is more than 4096 events behind, it loses the oldest and
    /// receives their number. A hub without an [`Instance`](crate::Instance) never ends its streams.
    ///
    /// ```
    /// use harness::{Cx, Harness, Result, hub::StreamItem};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("watched")
    ///     .state(|(): &()| ())
    ///     .run(async |cx: &mut Cx<'_, (), ()>| cx.task("one", async |_| Ok(())).await);
    /// let instance = flow.create(());
    /// let mut events = instance.events();
    /// let watch = async {
    ///     let mut kinds = Vec::new();
    ///     while let Some(item) = events.next().await {
    ///         match item {
    ///             StreamItem::Event(envelope) => kinds.push(envelope.event.kind().to_owned()),
    ///             StreamItem::Lagged { missed, .. } => eprintln!("too slow for {missed} events"),
    ///         }
    ///     }
    ///     kinds
    /// };
    /// let (done, kinds) = tokio::join!(instance.run(), watch);
    /// done?;
    /// assert_eq!(kinds, ["harness:start", "task:start", "task:complete", "harness:complete"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> EventStream {
        self.events_matching(Filter::all())
    }

    /// Returns the same as [`events`](Hub::events), for the kinds that the filter accepts. Other
    /// events do not count against the limit.
    pub fn events_matching(&self, filter: impl Into<Filter>) -> EventStream {
        lock(&self.core.record).stream(filter.into())
    }

    /// Does the same as [`events`](Hub::events) for a reader that comes back. It returns those of
    /// the last 4096 events that follow the last seen one, the number of missed events between the
    /// two (`None` if the last seen one is gone), and the stream of all that follow.
    pub fn events_since(
        &self,
        last: uuid::Uuid,
        filter: impl Into<Filter>,
    ) -> (Vec<Arc<Envelope>>, Option<u64>, EventStream) {
        lock(&self.core.record).resume(last, stream::CAPACITY, filter.into())
    }

    /// Emits an event in the scope of this handle.
    pub fn emit(&self, event: Event) {
        self.core.emit(&self.scope, event);
    }

    /// Emits an event in another scope, laid over that of this handle.
    pub fn emit_with(&self, event: Event, scope: Scope) {
        self.core.emit(&Arc::new(scope.over(&self.scope)), event);
    }

    /// Returns a handle whose events have `scope`, laid over that of this handle.
    ///
    /// The scope belongs to the handle and not to the thread or task, so whatever is spawned with
    /// the handle keeps it.
    ///
    /// ```
    /// use harness::{Event, Hub, Scope};
    ///
    /// let hub = Hub::new("session");
    /// let build = hub.scoped(Scope::phase("Build"));
    /// let parser = build.scoped(Scope::task("parser"));
    /// let subscription = hub.subscribe("narrative", |e: &harness::Envelope| {
    ///     assert_eq!(e.context.phase.as_ref().unwrap().name, "Build");
    ///     assert_eq!(e.context.task.as_ref().unwrap().id, "parser");
    /// });
    /// parser.emit(Event::Narrative { text: "half done".into(), importance: None });
    /// assert_eq!(hub.current().phase, None);
    /// ```
    pub fn scoped(&self, scope: Scope) -> Self {
        Self { core: Arc::clone(&self.core), scope: Arc::new(scope.over(&self.scope)) }
    }

    /// Returns the scope of this handle.
    pub fn current(&self) -> &Context {
        &self.scope
    }

    /// Returns the `sessionId` of all its events. It is not the conversation; see
    /// [`session_active`](Hub::session_active).
    pub fn session_id(&self) -> &str {
        &self.core.root.session_id
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.core.cancelled
    }

    /// Returns the number of events so far.
    pub(crate) fn event_count(&self) -> u64 {
        lock(&self.core.record).count()
    }

    /// Returns the kept events after the first `before`, and how many of those were dropped.
    pub(crate) fn kept_after(&self, before: u64) -> (Vec<Arc<Envelope>>, u64) {
        lock(&self.core.record).kept_after(before)
    }

    /// Ends the run: streams end, and an abort has no effect any more.
    pub(crate) fn end(&self) {
        lock(&self.core.record).end_streams();
        lock(&self.core.talk).end();
    }
}

impl Core {
    fn emit(&self, context: &Arc<Context>, event: Event) {
        let Some(_turn) = self.turn.take() else {
            // A listener on this thread emits. Its event follows the one that it was called for.
            let envelope = lock(&self.record).add(Arc::clone(context), event);
            self.turn.queue(envelope);
            return;
        };
        let envelope = lock(&self.record).add(Arc::clone(context), event);
        self.deliver(&envelope);
        while let Some(next) = self.turn.next() {
            self.deliver(&next);
        }
    }

    fn deliver(&self, envelope: &Envelope) {
        let listeners = Arc::clone(&lock(&self.listeners));
        let kind = envelope.event.kind();
        for listener in listeners.iter() {
            if !listener.filter.matches(kind) || !listener.active.load(Ordering::Acquire) {
                continue;
            }
            match catch_unwind(AssertUnwindSafe(|| (listener.hear)(envelope))) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => tracing::error!(kind, why, "a listener failed"),
                Err(_) => tracing::error!(kind, "a listener panicked"),
            }
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("scope", &self.scope).finish_non_exhaustive()
    }
}
