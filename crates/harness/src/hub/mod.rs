//! The hub: where a run tells what happens and hears what people say.
//!
//! Listeners are called one event at a time, in the order of their subscription, by the emitter.
//! An event that a listener emits is delivered after the one it was called for, so that all see the
//! same order. A listener must not wait for another thread that emits: that one waits for its turn.

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

/// A handle on a hub. Clones are handles on the same one; what a handle emits carries the scope
/// that the handle was made in.
///
/// A flow has one in [`Branch::hub`](crate::Branch::hub), an attachment is given one, and an
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
    /// How often somebody wanted everything to stop.
    interrupts: watch::Sender<u64>,
}

type Hear = dyn Fn(&Envelope) -> Result<(), String> + Send + Sync;

struct Listener {
    filter: Filter,
    hear: Box<Hear>,
    active: AtomicBool,
}

/// What a listener may return: nothing, or a result whose error is logged.
pub trait Heard {
    /// The error in words.
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
    /// From now on the listener is not called. Fine more than once.
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
    // Nothing that is guarded here is left half changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub of its own, for a session of this name.
    pub fn new(session_id: impl Into<String>) -> Self {
        Self::keeping(session_id, record::KEPT_EVENTS)
    }

    /// The same, with the number of events that are kept for
    /// [the result of a run](crate::HarnessResult::events); [`new`](Hub::new) keeps 10,000.
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

    /// Calls `listener` for every event that `filter` takes, until the guard is dropped.
    ///
    /// It is called by the emitter, which waits for it: do little here, and see
    /// [`events`](Hub::events) for more. A listener that fails or panics is logged, no more.
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

    /// All events from now on, as a stream that ends with the run.
    ///
    /// A reader never slows the run: one that is more than 4096 events behind loses the oldest and
    /// is told how many. A hub that no [`Instance`](crate::Instance) runs on never ends its streams.
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

    /// As [`events`](Hub::events), of the kinds that the filter takes. Others do not count against the
    /// bound.
    pub fn events_matching(&self, filter: impl Into<Filter>) -> EventStream {
        lock(&self.core.record).stream(filter.into())
    }

    /// As [`events`](Hub::events) for a reader that comes back: of the last 4096 events those after
    /// the one that it saw last, how many it missed between the two (`None`: nobody knows, for that
    /// one is gone), and all that follow.
    pub fn events_since(
        &self,
        last: uuid::Uuid,
        filter: impl Into<Filter>,
    ) -> (Vec<Arc<Envelope>>, Option<u64>, EventStream) {
        lock(&self.core.record).resume(last, stream::CAPACITY, filter.into())
    }

    /// Tells an event, in the scope of this handle.
    pub fn emit(&self, event: Event) {
        self.core.emit(&self.scope, event);
    }

    /// Tells an event in another scope, laid over that of this handle.
    pub fn emit_with(&self, event: Event, scope: Scope) {
        self.core.emit(&Arc::new(scope.over(&self.scope)), event);
    }

    /// A handle whose events carry `scope`, laid over that of this handle.
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

    /// The scope of this handle.
    pub fn current(&self) -> &Context {
        &self.scope
    }

    /// The `sessionId` of all its events. Not the conversation: that is [`session_active`](Hub::session_active).
    pub fn session_id(&self) -> &str {
        &self.core.root.session_id
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.core.cancelled
    }

    /// How many events there have been.
    pub(crate) fn event_count(&self) -> u64 {
        lock(&self.core.record).count()
    }

    /// The events that are kept of those after the first `before`, and how many of those are gone.
    pub(crate) fn kept_after(&self, before: u64) -> (Vec<Arc<Envelope>>, u64) {
        lock(&self.core.record).kept_after(before)
    }

    /// The run is over: streams end, and an abort means nothing any more.
    pub(crate) fn end(&self) {
        lock(&self.core.record).end_streams();
        lock(&self.core.talk).end();
    }
}

impl Core {
    fn emit(&self, context: &Arc<Context>, event: Event) {
        let Some(_turn) = self.turn.take() else {
            // A listener of this very thread emits: its event comes after the one it was told.
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

/// What people say to a run. Without [`start_session`](Hub::start_session) these do nothing, but
/// for [`send_to_run`](Hub::send_to_run), which always reaches the inbox of a known execution.
impl Hub {
    /// From now on people can speak to the run.
    pub fn start_session(&self) {
        lock(&self.core.talk).start_session();
    }

    /// Whether people can speak to the run.
    pub fn session_active(&self) -> bool {
        lock(&self.core.talk).session_active()
    }

    /// Where the run stands.
    pub fn status(&self) -> HubStatus {
        lock(&self.core.talk).status()
    }

    /// For those who run something on a hub without an [`Instance`](crate::Instance), which does it
    /// by itself. An abort is never overwritten.
    pub fn set_status(&self, status: HubStatus) {
        lock(&self.core.talk).set_status(status);
    }

    /// Says something to the run, for
    /// [`Session::read_messages`](crate::Session::read_messages) to find.
    pub fn send(&self, content: impl Into<String>) {
        let content = content.into();
        if lock(&self.core.talk).keep_message(&content, None) {
            self.tell(Event::SessionMessage { content, agent_name: None, run_id: None });
        }
    }

    /// Says something to an agent. Its inbox gets it when exactly one execution of it is under way;
    /// the run can read it in any case.
    pub fn send_to(&self, agent: impl Into<String>, content: impl Into<String>) {
        let (agent, content) = (agent.into(), content.into());
        if lock(&self.core.talk).send_to(&agent, &content) {
            let agent_name = Some(agent);
            self.tell(Event::SessionMessage { content, agent_name, run_id: None });
        }
    }

    /// Says something to one execution, by its id as written (`run-0`). An unknown id reaches
    /// nobody. The message is for that inbox alone:
    /// [`Session::read_messages`](crate::Session::read_messages) does not return it a second time.
    pub fn send_to_run(&self, run_id: impl Into<String>, content: impl Into<String>) {
        let (run_id, content) = (run_id.into(), content.into());
        let in_session = {
            let talk = lock(&self.core.talk);
            talk.send_to_run(&run_id, &content);
            talk.session_active()
        };
        if in_session {
            let run_id = Some(run_id);
            self.tell(Event::SessionMessage { content, agent_name: None, run_id });
        }
    }

    /// Answers a question. The first answer that fits counts; others change nothing.
    pub fn reply(&self, prompt: PromptId, reply: UserReply) -> Answered {
        let answered = lock(&self.core.talk).reply(prompt, &reply);
        if answered == Answered::Accepted {
            let UserReply { content, choice, .. } = reply;
            self.tell(Event::SessionReply { prompt_id: prompt, content, choice });
            lock(&self.core.talk).resolve(prompt);
        }
        answered
    }

    /// Asks everything that is [driven](crate::Branch::drive) to come to an orderly stop: its
    /// machine is told, and decides. Works without a session; other flows do not notice.
    pub fn interrupt(&self) {
        self.core.interrupts.send_modify(|times| *times += 1);
    }

    pub(crate) fn interrupts(&self) -> watch::Receiver<u64> {
        self.core.interrupts.subscribe()
    }

    /// The questions that wait for an answer, oldest first.
    pub fn questions(&self) -> Vec<OpenQuestion> {
        lock(&self.core.talk).questions()
    }

    /// Ends the conversation: everybody who waits for an answer gets
    /// [`Error::Aborted`](crate::Error::Aborted), now and from then on. It stops no agent: the flow
    /// ends as it sees fit. Fine more than once, and nothing after the run has ended.
    pub fn abort(&self, reason: Option<&str>) {
        let waiters = lock(&self.core.talk).abort();
        if let Some(waiters) = waiters {
            self.tell(Event::SessionAbort { reason: reason.map(str::to_owned) });
            // Dropped after the event: who waits finds it told.
            drop(waiters);
        }
    }

    /// Commands come from outside of all scopes.
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

    /// A new execution of `agent`, its inbox open before anybody can hear of it.
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
