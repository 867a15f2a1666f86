//! Defining a harness, making an instance of it, running that.

use std::{
    fmt, future::Future, marker::PhantomData, ops::Deref, pin::Pin, sync::Arc, time::Duration,
};

// The clock of the runtime, so that a test that stops it knows how long a run takes.
use tokio::time::Instant;

use crate::{
    cx::Cx,
    error::{Error, Result},
    event::{Envelope, Event},
    hub::{Hub, HubStatus},
};

/// Where a definition starts: [`Harness::define`], then [`Define::agents`], [`Define::state`],
/// [`WithState::run`], [`Definition::create`], [`Instance::run`].
pub struct Harness;

impl Harness {
    /// A harness of this name, with nothing in it yet.
    ///
    /// ```
    /// use harness::{Cx, Harness, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("hello")
    ///     .state(|name: &String| format!("hello {name}"))
    ///     .run(async |cx: &mut Cx<'_, String, ()>| Ok(cx.state.len()));
    /// let done = flow.create("world".to_owned()).run().await?;
    /// assert_eq!((done.result, done.state.as_str()), (11, "hello world"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn define(name: impl Into<String>) -> Define<()> {
        Define { name: name.into(), agents: () }
    }
}

/// A definition without state: give it agents (if it needs any), then a state.
pub struct Define<A> {
    name: String,
    agents: A,
}

impl<A> Define<A> {
    /// The agents of the harness: a struct of yours with a [`Named`](crate::Named) for each, so
    /// that each keeps its own input and output types.
    pub fn agents<B>(self, agents: B) -> Define<B> {
        Define { name: self.name, agents }
    }

    /// How the state is made of the input, once, when an instance is created. The input's type is
    /// that of the closure's argument; a flow that needs neither says `.state(|(): &()| ())`.
    pub fn state<I, S, M: Fn(&I) -> S>(self, make: M) -> WithState<I, A, M> {
        WithState { name: self.name, agents: self.agents, make, input: PhantomData }
    }
}

/// A definition that lacks only its flow. `M` makes the state of an input `I`.
pub struct WithState<I, A, M> {
    name: String,
    agents: A,
    make: M,
    input: PhantomData<fn(&I)>,
}

impl<I, A, M> WithState<I, A, M> {
    /// The flow. It can be run any number of times, each time in an instance of its own. The
    /// closure has to say the type of its argument: `async |cx: &mut Cx<'_, State, Agents>| …`.
    pub fn run<S, R, F>(self, flow: F) -> Definition<I, A, M, F>
    where
        M: Fn(&I) -> S,
        F: AsyncFn(&mut Cx<'_, S, A>) -> Result<R>,
    {
        Definition {
            name: self.name.into(),
            agents: Arc::new(self.agents),
            make: self.make,
            flow: Arc::new(flow),
            input: PhantomData,
        }
    }
}

/// A complete definition: [`create`](Definition::create) makes an instance. Instances share the
/// agents and nothing else.
pub struct Definition<I, A, M, F> {
    name: Arc<str>,
    agents: Arc<A>,
    make: M,
    flow: Arc<F>,
    input: PhantomData<fn(&I)>,
}

impl<I, A, M, F> Definition<I, A, M, F> {
    /// An instance with a session id of its own.
    pub fn create<S>(&self, input: I) -> Instance<S, A, F>
    where
        M: Fn(&I) -> S,
    {
        self.create_in(Hub::new(uuid::Uuid::now_v7().to_string()), input)
    }

    /// An instance on a hub that the caller made: with its session id, or its number of events kept.
    pub fn create_in<S>(&self, hub: Hub, input: I) -> Instance<S, A, F>
    where
        M: Fn(&I) -> S,
    {
        Instance {
            name: Arc::clone(&self.name),
            hub,
            state: (self.make)(&input),
            agents: Arc::clone(&self.agents),
            flow: Arc::clone(&self.flow),
            cleanups: Vec::new(),
        }
    }
}

/// One run to be. It is a hub: everything that a [`Hub`] can do works on it.
///
/// ```
/// use harness::{Cx, Envelope, Harness, Hub, Result, cleanup};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let flow = Harness::define("attached")
///     .state(|(): &()| ())
///     .run(async |_: &mut Cx<'_, (), ()>| Ok("done"));
/// let instance = flow.create(()).attach(|hub: &Hub| {
///     let seen = hub.subscribe("*", |e: &Envelope| println!("{}", e.event.kind()));
///     // The subscription lives as long as the cleanup that holds it.
///     cleanup(move || drop(seen))
/// });
/// assert_eq!(instance.run().await?.result, "done");
/// # Ok(())
/// # }
/// ```
#[must_use = "an instance does nothing until it is run"]
pub struct Instance<S, A, F> {
    name: Arc<str>,
    hub: Hub,
    /// As made of the input; may be changed until the run.
    pub state: S,
    agents: Arc<A>,
    flow: Arc<F>,
    cleanups: Vec<Cleanup>,
}

impl<S, A, F> Deref for Instance<S, A, F> {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}

/// What an attachment does when the run is over. Most are made with [`cleanup`].
pub type Cleanup = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// What an attachment may return: nothing, or a cleanup.
pub trait IntoCleanup {
    /// `None` if there is nothing to do.
    fn into_cleanup(self) -> Option<Cleanup>;
}

impl IntoCleanup for () {
    fn into_cleanup(self) -> Option<Cleanup> {
        None
    }
}

impl IntoCleanup for Cleanup {
    fn into_cleanup(self) -> Option<Cleanup> {
        Some(self)
    }
}

impl IntoCleanup for Option<Cleanup> {
    fn into_cleanup(self) -> Option<Cleanup> {
        self
    }
}

/// A cleanup of a plain function, which should not block for long.
pub fn cleanup(end: impl FnOnce() + Send + 'static) -> Cleanup {
    Box::new(move || {
        end();
        Box::pin(std::future::ready(()))
    })
}

/// What a run gave whose flow returned `Ok`.
#[derive(Debug)]
#[non_exhaustive]
pub struct HarnessResult<S, R> {
    /// What the flow returned.
    pub result: R,
    /// The state as the flow left it.
    pub state: S,
    /// The last events of this run, from `harness:start` on: at most 10,000 unless
    /// [the hub](Hub::keeping) has another bound. What was emitted before the run is not among them.
    pub events: Vec<Arc<Envelope>>,
    /// How many events of this run came before those.
    pub events_dropped: u64,
    /// How long the flow took, cleanups not counted.
    pub duration: Duration,
    /// [`HubStatus::Complete`], or [`HubStatus::Aborted`] if somebody ended the conversation and the
    /// flow returned `Ok` all the same.
    pub status: HubStatus,
}

/// A run whose flow returned an error: that error, and all that a
/// [`HarnessResult`] has but the result.
#[non_exhaustive]
pub struct HarnessFailure<S> {
    /// What the flow returned.
    pub error: Box<Error>,
    /// The state as the flow left it.
    pub state: S,
    /// As [`HarnessResult::events`].
    pub events: Vec<Arc<Envelope>>,
    /// As [`HarnessResult::events_dropped`].
    pub events_dropped: u64,
    /// As [`HarnessResult::duration`].
    pub duration: Duration,
    /// [`HubStatus::Idle`], or [`HubStatus::Aborted`] if somebody ended the conversation.
    pub status: HubStatus,
}

impl<S> fmt::Debug for HarnessFailure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any state can be in it, also one that has no Debug.
        f.debug_struct("HarnessFailure")
            .field("error", &self.error)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Display for HarnessFailure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for HarnessFailure<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message is that of the error itself, so its source is next in the chain.
        self.error.source()
    }
}

impl<S> From<HarnessFailure<S>> for Error {
    fn from(failure: HarnessFailure<S>) -> Self {
        *failure.error
    }
}

impl<S, A, F> Instance<S, A, F> {
    /// Attaches something that listens or speaks. It is called at once with the hub, and what it
    /// returns is called after `harness:complete`, in order, whatever happened. (After `run` began
    /// there is no instance left to attach to.)
    pub fn attach<C: IntoCleanup>(mut self, attachment: impl FnOnce(&Hub) -> C) -> Self {
        self.cleanups.extend(attachment(&self.hub).into_cleanup());
        self
    }

    /// Lets people speak to the run: without it, [`Branch::session`](crate::Branch::session) is
    /// `None` and what people send is not heard.
    pub fn start_session(self) -> Self {
        self.hub.start_session();
        self
    }

    /// The hub, for those who want to speak to the run from elsewhere.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Runs the flow to its end, then the cleanups. If this future is dropped, the agents are stopped
    /// and no cleanup is called.
    ///
    /// # Errors
    ///
    /// The error of the flow, with the state as the flow left it. `?` in a function that returns
    /// [`harness::Result`](crate::Result) keeps the error alone.
    ///
    /// ```
    /// use harness::{Cx, Harness, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("three steps").state(|(): &()| Vec::new()).run(
    ///     async |cx: &mut Cx<'_, Vec<u32>, ()>| {
    ///         for step in [1, 2, 3] {
    ///             if step == 3 {
    ///                 return Err("no third step".into());
    ///             }
    ///             cx.state.push(step);
    ///         }
    ///         Ok(())
    ///     },
    /// );
    /// let failed = flow.create(()).run().await.unwrap_err();
    /// assert_eq!((failed.to_string().as_str(), failed.state), ("no third step", vec![1, 2]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<R>(self) -> Result<HarnessResult<S, R>, HarnessFailure<S>>
    where
        F: AsyncFn(&mut Cx<'_, S, A>) -> Result<R>,
    {
        let Self { name, hub, mut state, agents, flow, cleanups } = self;
        let stop = StopAgents(hub.clone());
        let started = Instant::now();
        let before = hub.event_count();
        hub.set_status(HubStatus::Running);
        hub.emit(Event::HarnessStart { name: name.to_string() });
        let result = flow(&mut Cx::new(&mut state, agents, hub.clone())).await;
        let duration = started.elapsed();
        let success = result.is_ok();
        hub.set_status(if success { HubStatus::Complete } else { HubStatus::Idle });
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        hub.emit(Event::HarnessComplete { success, duration_ms });
        for end in cleanups {
            end().await;
        }
        hub.end();
        drop(stop);
        let (events, events_dropped) = hub.kept_after(before);
        let status = hub.status();
        match result {
            Ok(result) => {
                Ok(HarnessResult { result, state, events, events_dropped, duration, status })
            }
            Err(error) => {
                let error = Box::new(error);
                Err(HarnessFailure { error, state, events, events_dropped, duration, status })
            }
        }
    }
}

/// A run that is over, or was dropped in its middle, leaves no agent behind.
struct StopAgents(Hub);

impl Drop for StopAgents {
    fn drop(&mut self) {
        self.0.cancelled().cancel();
        self.0.end();
    }
}
