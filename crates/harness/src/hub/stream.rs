//! Events as a stream: bounded, so that a slow reader loses events and is told how many, and never
//! slows whoever emits.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;
use serde_json::{Value, json};

use crate::{event::Envelope, queue::BoundedQueue};

/// How many events a stream holds for a reader that is busy.
pub(super) const CAPACITY: usize = 4096;

/// What a stream yields.
#[derive(Debug, Clone)]
pub enum StreamItem {
    /// The next event.
    Event(Arc<Envelope>),
    /// This many events were lost because the reader was too slow; the next item is the oldest that
    /// is left.
    Lagged {
        /// Since the last item.
        missed: u64,
    },
}

/// Events in the order in which they were emitted, until the run ends. See
/// [`Hub::events`](super::Hub::events).
#[derive(Debug)]
pub struct EventStream {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    events: BoundedQueue<Arc<Envelope>>,
    ended: bool,
    reader: Option<Waker>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { events: BoundedQueue::new(CAPACITY), ended: false, reader: None }
    }
}

impl EventStream {
    pub(super) fn new() -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared::default());
        (Self { shared: Arc::clone(&shared) }, shared)
    }

    /// The next item; `None` when the run has ended and all was read.
    pub async fn next(&mut self) -> Option<StreamItem> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, envelope: &Arc<Envelope>) {
        let mut waiting = self.lock();
        waiting.events.push(Arc::clone(envelope));
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(super) fn end(&self) {
        let mut waiting = self.lock();
        waiting.ended = true;
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Stream for EventStream {
    type Item = StreamItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let mut waiting = self.shared.lock();
        let missed = waiting.events.take_lost();
        if missed > 0 {
            return Poll::Ready(Some(StreamItem::Lagged { missed }));
        }
        if let Some(envelope) = waiting.events.pop() {
            return Poll::Ready(Some(StreamItem::Event(envelope)));
        }
        if waiting.ended {
            return Poll::Ready(None);
        }
        waiting.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// In a subscription: events are missing here; how many, where that is known.
pub fn lagged(missed: Option<u64>) -> Value {
    match missed {
        Some(missed) => json!({ "type": "lagged", "missed": missed }),
        None => json!({ "type": "lagged" }),
    }
}
