//! Server-sent events: the envelopes of the hub for programs, and the news that a page changed.
//!
//! Both begin after the event in `Last-Event-ID`. Where events are missing, a message says so.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{StreamExt as _, stream};
use harness::hub::lagged;
use tokio::sync::{OwnedSemaphorePermit, watch};
use uuid::Uuid;

use super::{
    answer::plain,
    feed::{Feed, Item, Reading},
    site::Site,
};

const LAST_EVENT_ID: &str = "last-event-id";
/// The interval of comments that keep a stream open.
const ALIVE_EVERY: Duration = Duration::from_secs(25);
/// The time in which events of one moment are combined.
const SETTLE: Duration = Duration::from_millis(50);
/// The shortest interval of news for a page.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// The number of events that are taken at a time.
const BATCH: usize = 256;

/// The state of one stream. It counts against the limit until it is dropped.
struct Follower {
    feed: Arc<Feed>,
    changes: watch::Receiver<u64>,
    position: u64,
    /// Events are missing before the first one.
    gap: bool,
    _reading: Reading,
    _place: OwnedSemaphorePermit,
}

/// `GET /api/events`
pub(super) async fn all(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let Some(follower) = Follower::new(&site, &headers) else { return too_many() };
    let batches = stream::unfold(follower, async |mut follower| {
        let events = follower.next().await?;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), follower))
    });
    answer(batches.flatten())
}

/// `GET /live`
pub(super) async fn live(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let Some(follower) = Follower::new(&site, &headers) else { return too_many() };
    let news = stream::unfold(follower, async |mut follower| {
        let event = follower.news().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    answer(news)
}

fn answer(
    events: impl stream::Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

fn too_many() -> Response {
    plain(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open.\n")
}

impl Follower {
    /// Returns `None` if there are too many.
    fn new(site: &Site, headers: &HeaderMap) -> Option<Self> {
        let place = Arc::clone(&site.streams).try_acquire_owned().ok()?;
        let feed = Arc::clone(&site.feed);
        let seen =
            headers.get(LAST_EVENT_ID).and_then(|id| Uuid::parse_str(id.to_str().ok()?).ok());
        let after = seen.and_then(|seen| feed.position_after(seen));
        let (position, gap) = match (seen, after) {
            (None, _) => (feed.position(), false),
            (Some(_), Some(position)) => (position, false),
            (Some(_), None) => (feed.oldest(), true),
        };
        let (changes, reading) = (feed.changes(), feed.read());
        Some(Self { feed, changes, position, gap, _reading: reading, _place: place })
    }

    /// Waits for events. Returns `None` when there will be no more.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let gap = std::mem::take(&mut self.gap);
            self.changes.mark_unchanged();
            let batch = self.feed.take(&mut self.position, BATCH);
            if gap || batch.missed.is_some() || !batch.items.is_empty() {
                let gap = (gap || batch.missed.is_some()).then(|| missing(batch.missed));
                return Some(gap.into_iter().chain(batch.items.iter().map(message)).collect());
            }
            self.changes.changed().await.ok()?;
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Waits until something changed. Events that came meanwhile are one piece of news.
    async fn news(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.gap) {
            self.position = self.feed.position();
            return Some(self.named("gap"));
        }
        if self.position == self.feed.position() {
            self.changes.changed().await.ok()?;
        }
        tokio::time::sleep(SETTLE).await;
        self.changes.mark_unchanged();
        self.position = self.feed.position();
        let news = self.named("change");
        tokio::time::sleep(NEWS_EVERY).await;
        Some(news)
    }

    fn named(&self, name: &str) -> Event {
        let event = Event::default().event(name).data(self.feed.version().to_string());
        match self.feed.last() {
            Some(last) => event.id(last.to_string()),
            None => event,
        }
    }
}

fn missing(missed: Option<u64>) -> Event {
    Event::default().event("lagged").data(lagged(missed, &Default::default()).to_string())
}

fn message(item: &Item) -> Event {
    match item.id {
        Some(id) => Event::default().id(id.to_string()).data(&*item.line),
        // The host itself could not send all events.
        None => Event::default().event("lagged").data(&*item.line),
    }
}
