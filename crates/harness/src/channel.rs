//! A channel: an attachment with a state of its own and handlers by filter.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    define::{Cleanup, cleanup},
    event::Envelope,
    hub::{Filter, Hub},
};

type Start<T> = Box<dyn FnOnce(&mut T, &Hub) + Send>;
type Handler<T> = Box<dyn Fn(&mut T, &Envelope, &Hub) + Send + Sync>;

/// An attachment with a state of its own. Built up by its handlers, then attached.
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
    /// Its handlers share `state`, one at a time.
    pub fn new(state: T) -> Self {
        Self { state, handlers: Vec::new(), start: None, complete: None }
    }

    /// Is called for the events that `filter` takes. Of one event, in the order in which the
    /// handlers were given.
    pub fn on(
        mut self,
        filter: impl Into<Filter>,
        handler: impl Fn(&mut T, &Envelope, &Hub) + Send + Sync + 'static,
    ) -> Self {
        self.handlers.push((filter.into(), Box::new(handler)));
        self
    }

    /// Is called when the channel is attached, before any event. The last one given counts.
    pub fn on_start(mut self, start: impl FnOnce(&mut T, &Hub) + Send + 'static) -> Self {
        self.start = Some(Box::new(start));
        self
    }

    /// Is given the state after the run. The last one given counts.
    pub fn on_complete(mut self, complete: impl FnOnce(T) + Send + 'static) -> Self {
        self.complete = Some(Box::new(complete));
        self
    }

    /// What [`Instance::attach`](crate::Instance::attach) takes.
    pub fn attachment(self) -> impl FnOnce(&Hub) -> Cleanup {
        let Self { mut state, handlers, start, complete } = self;
        move |hub| {
            if let Some(start) = start {
                start(&mut state, hub);
            }
            // Taken out at the end, so that the state outlives no subscription.
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
