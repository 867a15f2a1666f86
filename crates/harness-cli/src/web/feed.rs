//! The events of the host for all readers: one subscription, and the last events of it.
//!
//! The subscription exists only while someone reads, because a host without connections may end. A
//! reader that is too slow finds that events are missing. It slows nobody.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use harness::{
    Client, ClientError, ClientOptions,
    client::{EventLines, Hosts},
    home::{FileStamp, Home},
    shell::Cancel,
    view::ActivityLog,
};
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{elsewhere::Elsewhere, root::StateRoot};

/// The number of events that are kept for readers.
const EVENTS_MAX: usize = 4096;
/// Their size.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// The interval of tries to reach a host, and of looks at the files.
const EVERY: Duration = Duration::from_secs(1);

/// One line of the host.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The id of the event; `None` for the remark that events are missing.
    pub(super) id: Option<Uuid>,
    pub(super) line: Arc<str>,
}

/// The answer to a reader.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The number of events that came and went since the last read, if it is known.
    pub(super) missed: Option<u64>,
    pub(super) items: Vec<Item>,
}

#[derive(Debug)]
pub(super) struct Feed {
    state: Mutex<State>,
    /// Woken when the first reader comes, and at the end.
    woken: Condvar,
    /// Counts changes of any kind.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    /// The number of items that were dropped before the first one.
    dropped: u64,
    last: Option<Uuid>,
    readers: usize,
    /// Ends the current subscription.
    stop: Option<Cancel>,
    ended: bool,
    /// What agents were last seen doing; `None` if nothing was read yet.
    activity: Option<ActivityLog>,
}

/// Keeps the subscription alive.
#[derive(Debug)]
pub(super) struct Reading(Arc<Feed>);

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.readers -= 1;
        if state.readers == 0
            && let Some(stop) = state.stop.take()
        {
            stop.cancel();
        }
    }
}

impl Feed {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            woken: Condvar::new(),
            changes: watch::Sender::new(0),
        })
    }

    /// Subscribes to the host of `root` in a thread of its own, until [`end`](Self::end).
    pub(super) fn start(self: &Arc<Self>, root: PathBuf, options: ClientOptions) {
        let feed = Arc::clone(self);
        let spawned = thread::Builder::new().name("web-feed".to_owned()).spawn(move || {
            while feed.wait_for_readers() {
                feed.listen(&root, &options);
                feed.pause();
            }
        });
        if let Err(why) = spawned {
            tracing::warn!(%why, "events cannot be shown");
        }
    }

    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        if let Some(stop) = state.stop.take() {
            stop.cancel();
        }
        drop(state);
        self.woken.notify_all();
    }

    /// Reports that someone reads, until the value is dropped.
    pub(super) fn read(self: &Arc<Self>) -> Reading {
        self.state().readers += 1;
        self.woken.notify_all();
        Reading(Arc::clone(self))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the number of changes so far.
    pub(super) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns the id of the newest event.
    pub(super) fn last(&self) -> Option<Uuid> {
        self.state().last
    }

    /// Returns the position after the newest event.
    pub(super) fn position(&self) -> u64 {
        let state = self.state();
        state.dropped + state.items.len() as u64
    }

    /// Returns the position after the event `last`; `None` if it is not among the kept ones.
    pub(super) fn position_after(&self, last: Uuid) -> Option<u64> {
        let state = self.state();
        let at = state.items.iter().rposition(|item| item.id == Some(last))?;
        Some(state.dropped + at as u64 + 1)
    }

    /// Returns the position of the oldest kept event.
    pub(super) fn oldest(&self) -> u64 {
        self.state().dropped
    }

    /// Returns the items from `position` on, at most `most`, and moves the position.
    pub(super) fn take(&self, position: &mut u64, most: usize) -> Batch {
        let state = self.state();
        let missed = state.dropped.saturating_sub(*position);
        let from = position.saturating_sub(state.dropped) as usize;
        let items: Vec<Item> = state.items.iter().skip(from).take(most).cloned().collect();
        *position = state.dropped + (from + items.len()) as u64;
        Batch { missed: (missed > 0).then_some(missed), items }
    }

    /// Returns what agents were last seen doing. `begin` reads what happened before anyone looked.
    pub(super) fn activity(&self, begin: impl FnOnce() -> ActivityLog) -> ActivityLog {
        {
            let state = self.state();
            // Without readers there are no events, and what was seen is old.
            if let Some(known) = state.activity.as_ref().filter(|_| state.readers > 0) {
                return known.clone();
            }
        }
        let begun = begin();
        self.state().activity = Some(begun.clone());
        begun
    }

    fn push(&self, line: &Value) {
        let id = line["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
        if let Some(activity) = &mut self.state().activity {
            activity.see(id, &line["event"], &line["context"]);
        }
        let line: Arc<str> = line.to_string().into();
        let mut state = self.state();
        state.bytes += line.len();
        state.last = id.or(state.last);
        state.items.push_back(Item { id, line });
        while state.items.len() > EVENTS_MAX || state.bytes > BYTES_MAX {
            let Some(gone) = state.items.pop_front() else { break };
            state.bytes -= gone.line.len();
            state.dropped += 1;
        }
        drop(state);
        self.changed();
    }

    /// Reads lines until the host ends or nobody reads any more.
    fn listen(&self, root: &Path, options: &ClientOptions) {
        let Some(lines) = self.subscribe(root, options) else { return };
        let mut lines = lines;
        while let Some(Ok(line)) = lines.next_line() {
            self.push(&line);
        }
        self.state().stop = None;
        self.changed();
    }

    fn subscribe(&self, root: &Path, options: &ClientOptions) -> Option<EventLines> {
        if options.hosts == Hosts::Ignored {
            return None;
        }
        let stop = Cancel::new().ok()?;
        let mut options = options.clone();
        options.stop = Some(stop.clone());
        let since = {
            let mut state = self.state();
            if state.readers == 0 || state.ended {
                return None;
            }
            state.stop = Some(stop);
            state.last
        };
        let subscribed =
            Client::with(root, options).and_then(|client| client.subscribe(&[], since));
        match subscribed {
            Ok(lines) => Some(lines),
            Err(ClientError::Nobody { .. }) => None,
            Err(why) => {
                tracing::debug!(%why, "the host sends no events");
                None
            }
        }
    }

    /// Returns `false` at the end.
    fn wait_for_readers(&self) -> bool {
        let mut state = self.state();
        while state.readers == 0 && !state.ended {
            state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.ended
    }

    fn pause(&self) {
        let state = self.state();
        if !state.ended {
            drop(self.woken.wait_timeout(state, EVERY));
        }
    }

    /// Looks for changes of the files, or of the ledger in a database, while someone reads. Several
    /// processes may work in one root, and not all of them report to the host.
    pub(super) async fn watch_files(self: Arc<Self>, root: StateRoot) {
        let home = Home::of(root.path());
        let log_of_database = root.path().join(format!("{}-wal", Home::DATABASE));
        let files = [home.ledger(), home.log(), home.database(), log_of_database];
        let of = root.clone();
        let following = tokio::task::spawn_blocking(move || Elsewhere::follow(&of, || {}));
        let elsewhere = following.await.ok().flatten();
        let look = || {
            let stamps = files.iter().map(|file| FileStamp::at(file)).collect::<Vec<_>>();
            (stamps, elsewhere.as_ref().map(Elsewhere::seen))
        };
        let mut seen = look();
        loop {
            tokio::time::sleep(EVERY).await;
            if self.state().readers == 0 {
                continue;
            }
            let now = look();
            if now != seen {
                seen = now;
                self.changed();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn event(n: u128) -> Value {
        json!({ "id": Uuid::from_u128(n), "event": { "type": "narrative" } })
    }

    #[test]
    fn a_slow_reader_learns_how_much_it_missed_and_others_are_not_affected() {
        let feed = Feed::new();
        let (mut slow, mut fast) = (feed.position(), feed.position());
        for n in 0..(EVENTS_MAX as u128 + 10) {
            feed.push(&event(n));
            let batch = feed.take(&mut fast, 9);
            assert_eq!((batch.missed, batch.items.len()), (None, 1));
        }
        let batch = feed.take(&mut slow, EVENTS_MAX);
        assert_eq!(batch.missed, Some(10));
        assert_eq!(batch.items[0].id, Some(Uuid::from_u128(10)));
        assert_eq!(batch.items.len(), EVENTS_MAX);
        assert!(feed.take(&mut slow, 1).items.is_empty());
    }

    #[test]
    fn a_reader_that_comes_back_continues_after_the_event_it_saw() {
        let feed = Feed::new();
        (0..5).for_each(|n| feed.push(&event(n)));
        let mut position = feed.position_after(Uuid::from_u128(2)).unwrap();
        let ids: Vec<_> = feed.take(&mut position, 9).items.iter().map(|item| item.id).collect();
        assert_eq!(ids, [Some(Uuid::from_u128(3)), Some(Uuid::from_u128(4))]);
        assert_eq!(feed.position_after(Uuid::from_u128(99)), None);
        assert_eq!(feed.last(), Some(Uuid::from_u128(4)));
    }

    #[test]
    fn large_events_are_bounded_by_their_size() {
        let feed = Feed::new();
        for n in 0..20 {
            let mut large = event(n);
            large["event"]["text"] = "x".repeat(1024 * 1024).into();
            feed.push(&large);
        }
        assert!(feed.state().bytes <= BYTES_MAX && feed.state().dropped > 10);
    }
}
