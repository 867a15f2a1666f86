//! A channel: an attachment with its own state and handlers by filter.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    define::{Cleanup, cleanup},
    event::Envelope,
    hub::{Filter, Hub},
};

type Start<T> = Box<dyn FnOnce(&mut T, &Hub) + Send>;
type Handler<T> = Box<dyn Fn(&mut T, &Envelope, &Hub) + Send + Sync>;

/// An attachment with its own state. Handlers are added, then it is attached.
///
/// ```
/// use harness::{Channel, Cx, Harness};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> harness::Result<()> {
/// let counter = Channel::new(0)
///     .on("task:*", |count, _, _| *count += 1)
///     .on_complete(|count| println!("{count} events of tasks"));
/// let flow = Harness::define("counted")
///     .state(|(): &()| ())
///     .run(async |cx: &mut Cx<'_, (), ()>| cx.task("one", async |_| Ok(())).await);
/// flow.create(()).attach(counter.attachment()).run().await?;
/// # Ok(())
/// # }
/// ```
pub struct Channel<T> {
    state: T,
    handlers: Vec<(Filter, Handler<T>)>,
    start: Option<Start<T>>,
    complete: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T: Send + 'static> Channel<T> {
    /// Creates a channel. Its handlers share `state`, one at a time.
    pub fn new(state: T) -> Self {
        Self { state, handlers: Vec::new(), start: None, complete: None }
    }

    /// Adds a handler for the events that `filter` accepts. The handlers of one event are called in
    /// the order of their addition.
    pub fn on(
        mut self,
        filter: impl Into<Filter>,
        handler: impl Fn(&mut T, &Envelope, &Hub) + Send + Sync + 'static,
    ) -> Self {
        self.handlers.push((filter.into(), Box::new(handler)));
        self
    }

    /// Sets the function that is called when the channel is attached, before any event. A second
    /// call replaces it.
    pub fn on_start(mut self, start: impl FnOnce(&mut T, &Hub) + Send + 'static) -> Self {
        self.start = Some(Box::new(start));
        self
    }

    /// Sets the function that receives the state after the run. A second call replaces it.
    pub fn on_complete(mut self, complete: impl FnOnce(T) + Send + 'static) -> Self {
        self.complete = Some(Box::new(complete));
        self
    }

    /// Returns the attachment for [`Instance::attach`](crate::Instance::attach).
    pub fn attachment(self) -> impl FnOnce(&Hub) -> Cleanup {
        let Self { mut state, handlers, start, complete } = self;
        move |hub| {
            if let Some(start) = start {
                start(&mut state, hub);
            }
            // The state is taken out at the end, so that it outlives no subscription.
            let state = Arc::new(Mutex::new(Some(state)));
            let (shared, speaker) = (Arc::clone(&state), hub.clone());
            let subscription = hub.subscribe("*", move |envelope: &Envelope| {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(state) = state.as_mut() else { return };
                let kind = envelope.event.kind();
                for (_, handler) in handlers.iter().filter(|(filter, _)| filter.matches(kind)) {
                    handler(state, envelope, &speaker);
                }
            });
            cleanup(move || {
                drop(subscription);
                let state = state.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let (Some(state), Some(complete)) = (state, complete) {
                    complete(state);
                }
            })
        }
    }
}
