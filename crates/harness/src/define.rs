//! The definition of a harness, its instances and their runs.

use std::{
    fmt, future::Future, marker::PhantomData, ops::Deref, pin::Pin, sync::Arc, time::Duration,
};

// The clock of the runtime is used, so that a test that pauses it knows the duration of a run.
use tokio::time::Instant;

use crate::{
    cx::Cx,
    error::{Error, Result},
    event::{Envelope, Event},
    hub::{Hub, HubStatus},
};

/// The start of a definition: [`Harness::define`], then [`Define::agents`], [`Define::state`],
/// [`WithState::run`], [`Definition::create`], [`Instance::run`].
pub struct Harness;

impl Harness {
    /// Starts the definition of a harness with this name.
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

/// A definition without state. It needs agents, if any, and then a state.
pub struct Define<A> {
    name: String,
    agents: A,
}

impl<A> Define<A> {
    /// Sets the agents of the harness: a struct of yours with a [`Named`](crate::Named) for each,
    /// so that each keeps its own input and output types.
    pub fn agents<B>(self, agents: B) -> Define<B> {
        Define { name: self.name, agents }
    }

    /// Sets how the state is made from the input, once, when an instance is created. The type of
    /// the input is that of the closure's argument; a flow that needs neither uses `.state(|():
    /// &()| ())`.
    pub fn state<I, S, M: Fn(&I) -> S>(self, make: M) -> WithState<I, A, M> {
        WithState { name: self.name, agents: self.agents, make, input: PhantomData }
    }
}

/// A definition that lacks only its flow. `M` makes the state from an input `I`.
pub struct WithState<I, A, M> {
    name: String,
    agents: A,
    make: M,
    input: PhantomData<fn(&I)>,
}

impl<I, A, M> WithState<I, A, M> {
    /// Sets the flow. It can be run any number of times, each time in its own instance. The closure
    /// must name the type of its argument: `async |cx: &mut Cx<'_, State, Agents>| …`.
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

/// A complete definition. [`create`](Definition::create) creates an instance. Instances share the
/// agents and nothing else.
pub struct Definition<I, A, M, F> {
    name: Arc<str>,
    agents: Arc<A>,
    make: M,
    flow: Arc<F>,
    input: PhantomData<fn(&I)>,
}

impl<I, A, M, F> Definition<I, A, M, F> {
    /// Creates an instance with its own session id.
    pub fn create<S>(&self, input: I) -> Instance<S, A, F>
    where
        M: Fn(&I) -> S,
    {
        self.create_in(Hub::new(uuid::Uuid::now_v7().to_string()), input)
    }

    /// Creates an instance on a hub of the caller, with its session id or its number of kept
    /// events.
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

/// A run that has not begun. It is a hub: everything that a [`Hub`] can do works on it.
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
    /// The state that was made from the input. It may be changed until the run.
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

/// The action of an attachment when the run is over. Most are made with [`cleanup`].
pub type Cleanup = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The return value of an attachment: nothing, or a cleanup.
pub trait IntoCleanup {
    /// Returns `None` if there is nothing to do.
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

/// Makes a cleanup of a plain function, which should not block for long.
pub fn cleanup(end: impl FnOnce() + Send + 'static) -> Cleanup {
    Box::new(move || {
        end();
        Box::pin(std::future::ready(()))
    })
}

/// The result of a run whose flow returned `Ok`.
#[derive(Debug)]
#[non_exhaustive]
pub struct HarnessResult<S, R> {
    /// The value that the flow returned.
    pub result: R,
    /// The state that the flow left.
    pub state: S,
    /// The last events of this run, from `harness:start` on: at most 10,000 unless [the
    /// hub](Hub::keeping) has another limit. Events from before the run are not among them.
    pub events: Vec<Arc<Envelope>>,
    /// The number of events of this run that came before those.
    pub events_dropped: u64,
    /// The duration of the flow, without cleanups.
    pub duration: Duration,
    /// [`HubStatus::Complete`], or [`HubStatus::Aborted`] if the conversation was ended and the
    /// flow returned `Ok` nevertheless.
    pub status: HubStatus,
}

/// A run whose flow returned an error: that error, and everything of a [`HarnessResult`] except the
/// result.
#[non_exhaustive]
pub struct HarnessFailure<S> {
    /// The error that the flow returned.
    pub error: Box<Error>,
    /// The state that the flow left.
    pub state: S,
    /// The same as [`HarnessResult::events`].
    pub events: Vec<Arc<Envelope>>,
    /// The same as [`HarnessResult::events_dropped`].
    pub events_dropped: u64,
    /// The same as [`HarnessResult::duration`].
    pub duration: Duration,
    /// [`HubStatus::Idle`], or [`HubStatus::Aborted`] if the conversation was ended.
    pub status: HubStatus,
}

impl<S> fmt::Debug for HarnessFailure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state may be of any type, including one without Debug.
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
    /// Attaches something that listens or sends. It is called at once with the hub. Its return
    /// value is called after `harness:complete`, in order, whatever happened. (After `run` began
    /// there is no instance left to attach to.)
    pub fn attach<C: IntoCleanup>(mut self, attachment: impl FnOnce(&Hub) -> C) -> Self {
        self.cleanups.extend(attachment(&self.hub).into_cleanup());
        self
    }

    /// Allows people to send messages to the run. Without it,
    /// [`Branch::session`](crate::Branch::session) is `None` and messages of people are ignored.
    pub fn start_session(self) -> Self {
        self.hub.start_session();
        self
    }

    /// Returns the hub, for sending messages to the run from elsewhere.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Runs the flow to its end, then the cleanups. If this future is dropped, the agents are stopped
    /// and no cleanup is called.
    ///
    /// # Errors
    ///
    /// Returns the error of the flow, with the state that the flow left. `?` in a function that returns
    /// [`harness::Result`](crate::Result) keeps only the error.
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

/// Stops the agents of a run that is over or was dropped in its middle.
struct StopAgents(Hub);

impl Drop for StopAgents {
    fn drop(&mut self) {
        self.0.cancelled().cancel();
        self.0.end();
    }
}
