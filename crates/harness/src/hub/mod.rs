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
mod stream;
mod talk;
mod turn;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[doc(hidden)]
pub use self::stream::lagged;
pub(crate) use self::talk::{Question, Validate, Wait};
pub use self::{
    filter::Filter,
    inbox::{Inbox, Message, Messages},
    stream::{EventStream, StreamItem},
    talk::{Answered, HubStatus, OpenQuestion, UserMessage, UserReply},
};
use self::{record::Record, talk::Talk, turn::Turn};
use crate::event::{Context, Envelope, Event, ExecutionId, PromptId, Scope};

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
}

type Hear = dyn Fn(&Envelope) -> Result<(), String> + Send + Sync;

struct Listener {
    filter: Filter,
    hear: Box<Hear>,
    active: AtomicBool,
}

/// The return value of a listener: nothing, or a result whose error is logged.
pub trait Heard {
    /// Returns the error as text.
    fn heard(self) -> Result<(), String>;
}

impl Heard for () {
    fn heard(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> Heard for Result<(), E> {
    fn heard(self) -> Result<(), String> {
        self.map_err(|e| e.to_string())
    }
}

/// Ends its subscription when it is dropped or [ended](Subscription::end).
#[must_use = "the subscription ends when this is dropped"]
pub struct Subscription {
    core: Weak<Core>,
    listener: Arc<Listener>,
    kept: bool,
}

impl Subscription {
    /// Ends the subscription: the listener is not called any more. It may be called more than once.
    pub fn end(&self) {
        if self.listener.active.swap(false, Ordering::AcqRel)
            && let Some(core) = self.core.upgrade()
        {
            let mut listeners = lock(&core.listeners);
            let left = listeners.iter().filter(|l| !Arc::ptr_eq(l, &self.listener));
            *listeners = Arc::new(left.cloned().collect());
        }
    }

    /// Keeps the subscription for as long as the hub lives.
    pub fn forever(mut self) {
        self.kept = true;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.kept {
            self.end();
        }
    }
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

/// Messages of people to a run. Without [`start_session`](Hub::start_session) these have no effect,
/// except [`send_to_run`](Hub::send_to_run), which always reaches the inbox of a known execution.
impl Hub {
    /// Allows people to send messages to the run from now on.
    pub fn start_session(&self) {
        lock(&self.core.talk).start_session();
    }

    /// Returns whether people can send messages to the run.
    pub fn session_active(&self) -> bool {
        lock(&self.core.talk).session_active()
    }

    /// Returns the status of the run.
    pub fn status(&self) -> HubStatus {
        lock(&self.core.talk).status()
    }

    /// Sets the status. It is for programs that use a hub without an [`Instance`](crate::Instance),
    /// which does it by itself. An abort is never overwritten.
    pub fn set_status(&self, status: HubStatus) {
        lock(&self.core.talk).set_status(status);
    }

    /// Sends a message to the run, for [`Session::read_messages`](crate::Session::read_messages).
    pub fn send(&self, content: impl Into<String>) {
        let content = content.into();
        if lock(&self.core.talk).keep_message(&content, None) {
            self.tell(Event::SessionMessage { content, agent_name: None, run_id: None });
        }
    }

    /// Says something to the run and to every agent that is at work. Returns how many of them can
    /// read it.
    pub fn send_to_all(&self, content: impl Into<String>) -> usize {
        let content = content.into();
        let sent = lock(&self.core.talk).send_to_all(&content);
        if sent.is_some() {
            self.tell(Event::SessionMessage { content, agent_name: None, run_id: None });
        }
        sent.unwrap_or_default()
    }

    /// Says something to an agent. Its inbox gets it when exactly one execution of it is under way;
    /// the run can read it in any case. Returns how many executions can read it.
    pub fn send_to(&self, agent: impl Into<String>, content: impl Into<String>) -> usize {
        let (agent, content) = (agent.into(), content.into());
        let sent = lock(&self.core.talk).send_to(&agent, &content);
        if sent.is_some() {
            let agent_name = Some(agent);
            self.tell(Event::SessionMessage { content, agent_name, run_id: None });
        }
        sent.unwrap_or_default()
    }

    /// Says something to one execution, by its id as written (`run-0`). An unknown id reaches
    /// nobody. The message is for that inbox alone:
    /// [`Session::read_messages`](crate::Session::read_messages) does not return it a second time.
    /// Returns how many executions can read it.
    pub fn send_to_run(&self, run_id: impl Into<String>, content: impl Into<String>) -> usize {
        let (run_id, content) = (run_id.into(), content.into());
        let (received, in_session) = {
            let talk = lock(&self.core.talk);
            (talk.send_to_run(&run_id, &content), talk.session_active())
        };
        if in_session {
            let run_id = Some(run_id);
            self.tell(Event::SessionMessage { content, agent_name: None, run_id });
        }
        received
    }

    /// Answers a question. The first valid answer counts; others change nothing.
    pub fn reply(&self, prompt: PromptId, reply: UserReply) -> Answered {
        let answered = lock(&self.core.talk).reply(prompt, &reply);
        if answered == Answered::Accepted {
            let UserReply { content, choice, .. } = reply;
            self.tell(Event::SessionReply { prompt_id: prompt, content, choice });
            lock(&self.core.talk).resolve(prompt);
        }
        answered
    }

    /// Asks everything that is [driven](crate::Branch::drive) to come to an orderly stop. The
    /// machine receives the request and decides. It works without a session; other flows do not
    /// notice it.
    pub fn interrupt(&self) {
        self.core.interrupts.send_modify(|times| *times += 1);
    }

    pub(crate) fn interrupts(&self) -> watch::Receiver<u64> {
        self.core.interrupts.subscribe()
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn questions(&self) -> Vec<OpenQuestion> {
        lock(&self.core.talk).questions()
    }

    /// Ends the conversation: every waiting question gets
    /// [`Error::Aborted`](crate::Error::Aborted), now and from then on. It stops no agent; the flow
    /// decides how it ends. It may be called more than once, and has no effect after the run has
    /// ended.
    pub fn abort(&self, reason: Option<&str>) {
        let waiters = lock(&self.core.talk).abort();
        if let Some(waiters) = waiters {
            self.tell(Event::SessionAbort { reason: reason.map(str::to_owned) });
            // This is dropped after the event, so that a waiter finds the event emitted.
            drop(waiters);
        }
    }

    /// Emits an event outside of all scopes, because commands come from there.
    fn tell(&self, event: Event) {
        self.core.emit(&self.core.root, event);
    }

    pub(crate) fn ask(&self, question: Question) -> Wait {
        let (event, wait) = lock(&self.core.talk).ask(question);
        self.emit(event);
        wait
    }

    pub(crate) fn forget_question(&self, id: PromptId) {
        lock(&self.core.talk).forget(id);
    }

    pub(crate) fn has_messages(&self) -> bool {
        lock(&self.core.talk).has_messages()
    }

    pub(crate) fn read_messages(&self) -> Vec<UserMessage> {
        lock(&self.core.talk).read_messages()
    }

    /// Opens an execution of `agent`. Its inbox is open before it is announced.
    pub(crate) fn open_execution(&self, agent: &str) -> (ExecutionId, Inbox) {
        lock(&self.core.talk).open_execution(agent)
    }

    pub(crate) fn close_execution(&self, id: ExecutionId) {
        lock(&self.core.talk).close_execution(id);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("scope", &self.scope).finish_non_exhaustive()
    }
}
