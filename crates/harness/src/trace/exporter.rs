//! Sends the traces and metrics of a run to a collector, from a thread of its own. A collector that
//! is slow or dead costs its own data and nothing else.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness_core::{Run, RunId, Stats};
use serde_json::Value;

use super::{Meter, Span, Timeline, otlp};
use crate::{
    event::{Envelope, Moment},
    http::{HttpClient, HttpRequest},
    queue::BoundedQueue,
    store::{Observer, Transaction},
};

/// The limit of events that wait for the thread. Beyond it, the oldest are dropped.
const WAITING_MAX: usize = 8192;
/// The number of spans of one request.
const BATCH_SPANS: usize = 512;
/// The limit of spans that wait while the collector does not answer.
const SPANS_MAX: usize = 4096;
/// The time between two requests.
const SEND_EVERY: Duration = Duration::from_secs(5);
/// The longest time of a request.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// The time between two looks at the ledger.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The collector and the run.
pub struct OtlpTerms {
    /// The address of the collector, to which `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// Headers of each request, such as a token.
    pub headers: Vec<(String, String)>,
    /// The run.
    pub run: RunId,
    /// Receives one warning if the collector does not work.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// An observer that sends spans and metrics.
pub struct OtlpExporter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    terms: OtlpTerms,
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
    looked: Mutex<Option<Instant>>,
}

struct State {
    events: BoundedQueue<Envelope>,
    depths: Option<Vec<(&'static str, u64)>>,
    /// The row of the run at its end.
    last: Option<Box<Run>>,
    closing: bool,
    has_ended: bool,
    /// The last request was not accepted, so nothing waits for the next one.
    has_failed: bool,
}

impl OtlpExporter {
    /// Starts the thread.
    pub fn start(terms: OtlpTerms) -> std::io::Result<Self> {
        let state = State {
            events: BoundedQueue::new(WAITING_MAX),
            depths: None,
            last: None,
            closing: false,
            has_ended: false,
            has_failed: false,
        };
        let shared = Arc::new(Shared {
            terms,
            state: Mutex::new(state),
            changed: Condvar::new(),
            ended: Condvar::new(),
            looked: Mutex::new(None),
        });
        let at_work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            Sender::new(&at_work).work();
            at_work.lock().has_ended = true;
            at_work.ended.notify_all();
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Sends the rest with the row of the run at its end, but waits at most so long, and not at all
    /// for a collector that did not accept the last request.
    pub fn close(&self, run: Option<&Run>, within: Duration) {
        let mut state = self.shared.lock();
        state.last = run.cloned().map(Box::new);
        state.closing = true;
        self.shared.changed.notify_all();
        let deadline = Instant::now() + within;
        while !state.has_ended && !state.has_failed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = match self.shared.ended.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        if !state.has_ended {
            return;
        }
        drop(state);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The panic hook has already reported a panic of the thread.
        _ = thread.map(JoinHandle::join);
    }
}

impl Observer for OtlpExporter {
    fn committed(&self, transaction: &Transaction<'_>) {
        let mut looked = self.shared.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        *looked = Some(Instant::now());
        drop(looked);
        let depths = transaction.look(|ledger| {
            let stats = Stats::of(ledger);
            let landing = ledger.head().landing.len();
            let counts = [
                ("pending", stats.pending),
                ("in_progress", stats.in_progress),
                ("completed", stats.completed),
                ("failed", stats.failed),
                ("blocked", stats.blocked),
                ("landing", landing),
            ];
            counts.map(|(state, count)| (state, count as u64)).to_vec()
        });
        if depths.is_some() {
            self.shared.lock().depths = depths;
        }
    }

    fn event(&self, envelope: &Envelope) {
        if !Timeline::uses(envelope.event.kind()) {
            return;
        }
        let mut state = self.shared.lock();
        if !state.closing {
            state.events.push(envelope.clone());
        }
    }
}

/// The thread also ends if a run is dropped before its end.
impl Drop for OtlpExporter {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own state.
struct Sender<'a> {
    shared: &'a Shared,
    client: HttpClient,
    timeline: Timeline,
    meter: Meter,
    sent: Meter,
    spans: BoundedQueue<Span>,
    start_ms: i64,
    has_warned: bool,
}

impl<'a> Sender<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            client: HttpClient::new(SEND_WITHIN),
            timeline: Timeline::new(&shared.terms.run),
            meter: Meter::default(),
            sent: Meter::default(),
            spans: BoundedQueue::new(SPANS_MAX),
            start_ms: Moment::now().0,
            has_warned: false,
        }
    }

    fn work(&mut self) {
        loop {
            let is_last = self.gather();
            self.send();
            if is_last {
                return;
            }
        }
    }

    /// Waits for the next time to send, and takes what has happened. Returns whether it is the end.
    fn gather(&mut self) -> bool {
        let until = Instant::now() + SEND_EVERY;
        let mut state = self.shared.lock();
        while !state.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = match self.shared.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let (events, depths) = (state.events.take(), state.depths.take());
        let (is_last, last) = (state.closing, state.last.take());
        drop(state);
        for envelope in &events {
            let recorded = serde_json::to_value(envelope).unwrap_or(Value::Null);
            let ended = self.timeline.take(&recorded);
            self.ended(ended);
        }
        for (state, count) in depths.into_iter().flatten() {
            self.meter.depth(state, count);
        }
        if let Some(run) = last {
            let ended = self.timeline.end(&run);
            self.ended(ended);
        }
        is_last
    }

    fn ended(&mut self, spans: Vec<Span>) {
        for span in spans {
            self.meter.count(&span);
            self.spans.push(span);
        }
    }

    fn send(&mut self) {
        while !self.spans.is_empty() {
            let batch: Vec<Span> =
                std::iter::from_fn(|| self.spans.pop()).take(BATCH_SPANS).collect();
            if !self.post("/v1/traces", &otlp::traces(&batch)) {
                // What was in it is lost. The rest is tried later.
                return;
            }
        }
        if self.meter != self.sent {
            let body = otlp::metrics(&self.meter, self.start_ms, Moment::now().0);
            if self.post("/v1/metrics", &body) {
                self.sent = self.meter.clone();
            }
        }
    }

    fn post(&mut self, path: &str, body: &Value) -> bool {
        let terms = &self.shared.terms;
        let mut headers = terms.headers.clone();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let url = format!("{}{path}", terms.endpoint.trim_end_matches('/'));
        let request = HttpRequest { url, headers, body: body.to_string().into_bytes() };
        let answer = self.client.post(&request);
        let is_accepted = answer.as_ref().is_ok_and(|answer| answer.is_success());
        self.shared.lock().has_failed = !is_accepted;
        self.shared.ended.notify_all();
        let problem = match answer {
            Ok(_) if is_accepted => return true,
            Ok(answer) => format!("HTTP {}", answer.status),
            Err(why) => why.to_string(),
        };
        if !std::mem::replace(&mut self.has_warned, true) {
            (terms.warn)(&format!("the collector of traces does not accept them: {problem}"));
        }
        false
    }
}
