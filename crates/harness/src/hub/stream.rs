//! Events as a stream. It is bounded: a slow reader loses events and learns how many of which kind,
//! and never slows down those that emit. A stream holds only the events that its reader wants, so that
//! a flood of others cannot displace them.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;
use serde_json::{Value, json};

use super::Filter;
use crate::{event::Envelope, queue::BoundedQueue};

/// The number of events that a stream holds for a busy reader.
pub(super) const CAPACITY: usize = 4096;

/// An item of a stream.
#[derive(Debug, Clone)]
pub enum StreamItem {
    /// The next event.
    Event(Arc<Envelope>),
    /// Some events were lost because the reader was too slow. The next item is the oldest that is
    /// left.
    Lagged {
        /// The number of lost events since the last item.
        missed: u64,
        /// The same number by the kind of event.
        kinds: BTreeMap<String, u64>,
    },
}

/// Events in the order in which they were emitted, until the run ends. See
/// [`Hub::events`](super::Hub::events).
#[derive(Debug)]
pub struct EventStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    filter: Filter,
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    events: BoundedQueue<Arc<Envelope>>,
    /// The kinds of the lost events.
    lost: BTreeMap<String, u64>,
    ended: bool,
    reader: Option<Waker>,
}

impl EventStream {
    pub(super) fn new(filter: Filter) -> (Self, Arc<Shared>) {
        let events = BoundedQueue::new(CAPACITY);
        let waiting = Waiting { events, lost: BTreeMap::new(), ended: false, reader: None };
        let shared = Arc::new(Shared { filter, waiting: Mutex::new(waiting) });
        (Self { shared: Arc::clone(&shared) }, shared)
    }

    /// Returns the next item; `None` when the run has ended and everything was read.
    pub async fn next(&mut self) -> Option<StreamItem> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, envelope: &Arc<Envelope>) {
        if !self.filter.matches(envelope.event.kind()) {
            return;
        }
        let mut waiting = self.lock();
        if let Some(lost) = waiting.events.push(Arc::clone(envelope)) {
            *waiting.lost.entry(lost.event.kind().to_owned()).or_default() += 1;
        }
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
            let kinds = std::mem::take(&mut waiting.lost);
            return Poll::Ready(Some(StreamItem::Lagged { missed, kinds }));
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

/// Returns the line of a subscription about missing events: their number, if it is known, and their
/// kinds.
pub fn lagged(missed: Option<u64>, kinds: &BTreeMap<String, u64>) -> Value {
    let mut line = json!({ "type": "lagged" });
    if let Some(missed) = missed {
        line["missed"] = missed.into();
    }
    if !kinds.is_empty() {
        line["kinds"] = json!(kinds);
    }
    line
}
