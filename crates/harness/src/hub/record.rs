//! The events of a run in order: their ids, the last of them, and their streams.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use uuid::Uuid;

use super::{
    Filter,
    stream::{EventStream, Shared},
};
use crate::{
    event::{Context, Envelope, Event, Moment},
    queue::BoundedQueue,
};

/// The number of events that the result of a run holds.
pub(super) const KEPT_EVENTS: usize = 10_000;

pub(super) struct Record {
    kept: BoundedQueue<Arc<Envelope>>,
    streams: Vec<Arc<Shared>>,
    ended: bool,
    last: Moment,
    random: u64,
}

impl Record {
    pub(super) fn new(keep: usize) -> Self {
        // The system's randomness is read once. Reading it for each event would cost more than the
        // rest of emitting it.
        let random = RandomState::new().hash_one(std::process::id());
        Self {
            kept: BoundedQueue::new(keep),
            streams: Vec::new(),
            ended: false,
            last: Moment::default(),
            random,
        }
    }

    pub(super) fn add(&mut self, context: Arc<Context>, event: Event) -> Arc<Envelope> {
        // A clock that steps back must not make a later event look earlier.
        self.last = self.last.max(Moment::now());
        let envelope =
            Arc::new(Envelope { id: self.new_id(), timestamp: self.last, context, event });
        // A stream without a reader is removed.
        self.streams.retain(|stream| Arc::strong_count(stream) > 1);
        for stream in &self.streams {
            stream.push(&envelope);
        }
        self.kept.push(Arc::clone(&envelope));
        envelope
    }

    fn new_id(&mut self) -> Uuid {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.next_random().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next_random().to_le_bytes()[..2]);
        let millis = u64::try_from(self.last.0).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    /// Returns the next number of SplitMix64. Every state is visited once, so no two ids of a hub
    /// share their random bits.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn stream(&mut self, filter: Filter) -> EventStream {
        let (stream, shared) = EventStream::new(filter);
        if self.ended {
            shared.end();
        }
        self.streams.push(shared);
        stream
    }

    /// Returns those of the last `most` events that follow `since`, the number of missing events
    /// between the two (`None` if unknown), and the stream of all that follow.
    pub(super) fn resume(
        &mut self,
        since: Uuid,
        most: usize,
        filter: Filter,
    ) -> (Vec<Arc<Envelope>>, Option<u64>, EventStream) {
        let oldest = self.kept.len().saturating_sub(most);
        let seen = self.kept.iter().rposition(|envelope| envelope.id == since);
        let from = seen.map_or(oldest, |at| oldest.max(at + 1));
        let missed = seen.map(|at| u64::try_from(from - at - 1).unwrap_or(u64::MAX));
        let later = self.kept.iter().skip(from);
        let later = later.filter(|envelope| filter.matches(envelope.event.kind())).cloned();
        (later.collect(), missed, self.stream(filter))
    }

    pub(super) fn end_streams(&mut self) {
        self.ended = true;
        self.streams.drain(..).for_each(|stream| stream.end());
    }

    /// Returns the number of events so far.
    pub(super) fn count(&self) -> u64 {
        self.kept.lost() + u64::try_from(self.kept.len()).unwrap_or(u64::MAX)
    }

    /// The events that are kept of those after the first `before`, and how many of those are gone.
    pub(super) fn kept_after(&self, before: u64) -> (Vec<Arc<Envelope>>, u64) {
        let lost = self.kept.lost();
        let skipped = usize::try_from(before.saturating_sub(lost)).unwrap_or(usize::MAX);
        (self.kept.iter().skip(skipped).cloned().collect(), lost.saturating_sub(before))
    }
}
