//! Watches a run, stores messages in the outbox and sends them, each channel from a thread of its
//! own.

use std::{
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness_core::{
    Fact, Run, Stats, Stop,
    notify::{Delivery, Happening, Notice, OutboxStep, Outgoing},
};

use super::{Courier, Recipient};
use crate::{
    clock::Clock,
    event::{Envelope, Event, PromptId},
    hub::Hub,
    process::Redactor,
    queue::BoundedQueue,
    store::{Observer, RunStoreError, Runs, Transaction},
};

/// The limit of steps that wait for the record of runs. Beyond it, the oldest are dropped.
const FILING_MAX: usize = 256;
/// The longest sleep of a sender. Another process may add messages, and quiet hours end.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Receives a warning for a person.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The surroundings of a [`Notifier`].
pub struct NotifierTerms {
    /// The record that holds the outbox.
    pub runs: Arc<dyn Runs>,
    /// The channels, whose names are unique.
    pub channels: Vec<Recipient>,
    /// The state root, in which commands run.
    pub root: PathBuf,
    /// The name of the project for people.
    pub project: String,
    /// The time of messages and tries.
    pub clock: Arc<dyn Clock>,
    /// The texts that are removed from messages.
    pub secrets: Redactor,
    /// The hub whose questions people answer.
    pub hub: Hub,
    /// The name of a question as `harness reply` takes it.
    pub prompt_name: fn(PromptId) -> String,
    /// Receives at most one warning for each channel that does not work.
    pub warn: Warn,
}

/// An observer that turns what happens into messages and sends them. It never waits for a channel.
pub struct Notifier {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    terms: NotifierTerms,
    courier: Courier,
    state: Mutex<State>,
    /// Signals a step to be filed, a message to be sent, or the end.
    changed: Condvar,
    /// Signals that a thread has ended.
    ended: Condvar,
}

struct State {
    filing: BoundedQueue<OutboxStep>,
    /// The number of steps that were filed, so that a sender notices a new one.
    filed: u64,
    /// The clerk has filed everything, and no more will come.
    complete: bool,
    closing: bool,
    /// The number of threads at work.
    active: usize,
}

impl Notifier {
    /// Starts the threads: one that stores messages, and one for each channel. Messages that an
    /// earlier process left are sent too.
    pub fn start(terms: NotifierTerms) -> std::io::Result<Self> {
        let courier = Courier::new(&terms.root);
        let count = terms.channels.len();
        let state = State {
            filing: BoundedQueue::new(FILING_MAX),
            filed: 0,
            complete: false,
            closing: false,
            active: count + 1,
        };
        let shared = Arc::new(Shared {
            terms,
            courier,
            state: Mutex::new(state),
            changed: Condvar::new(),
            ended: Condvar::new(),
        });
        let mut threads = Vec::new();
        for number in 0..=count {
            let at_work = Arc::clone(&shared);
            let work = move || {
                match number {
                    0 => at_work.file_all(),
                    number => at_work.send_all(number - 1),
                }
                at_work.lock().active -= 1;
                at_work.ended.notify_all();
            };
            let name = format!("notify-{number}");
            match thread::Builder::new().name(name).spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    shared.end();
                    return Err(why);
                }
            }
        }
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Reports that a run has stopped.
    pub fn stopped(&self, run: &Run, stop: &Stop, stats: Stats) {
        self.shared.happened(Happening::Stopped { run, stop, stats });
    }

    /// Waits until nothing is left to be sent now, but at most so long. Messages that are left are
    /// sent by the next process. Returns their number.
    pub fn close(&self, within: Duration) -> usize {
        self.shared.end();
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        while state.active > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = match self.shared.ended.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let all_ended = state.active == 0;
        drop(state);
        if all_ended {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            // A panic of a thread was printed there.
            threads.drain(..).for_each(|thread| _ = thread.join());
        }
        let rows = self.shared.terms.runs.outbox().unwrap_or_default();
        rows.iter().filter(|row| row.delivery == Delivery::Waiting).count()
    }
}

impl Observer for Notifier {
    fn committed(&self, transaction: &Transaction<'_>) {
        for fact in transaction.facts {
            let Fact::Failed { task, category, .. } = fact else { continue };
            transaction.look(|ledger| {
                if let Some(task) = ledger.task(task) {
                    self.shared.happened(Happening::Failed { task, category: *category });
                }
            });
        }
    }

    fn event(&self, envelope: &Envelope) {
        let terms = &self.shared.terms;
        match &envelope.event {
            Event::SessionPrompt { prompt_id, prompt, .. } => {
                let open = terms.hub.questions().into_iter().find(|open| open.id == *prompt_id);
                let phase = open.and_then(|open| open.phase);
                let name = (terms.prompt_name)(*prompt_id);
                let phase = phase.as_deref();
                let asked = Happening::Asked { prompt: &name, question: prompt, phase };
                self.shared.happened(asked);
            }
            Event::SessionReply { prompt_id, .. } => {
                let name = (terms.prompt_name)(*prompt_id);
                for phase in [None, Some("")] {
                    let id = Notice::id_of_question(&name, phase);
                    self.shared.file(OutboxStep::Withdraw { id });
                }
            }
            Event::RunWaiting { row_id, task_id, until } => {
                let task = task_id.as_ref();
                self.shared.happened(Happening::Waiting { run: row_id, task, until: *until });
            }
            _ => {}
        }
    }
}

/// The threads also end if a run is dropped before its end.
impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    fn happened(&self, happening: Happening<'_>) {
        let NotifierTerms { channels, project, clock, secrets, .. } = &self.terms;
        let Some(mut notice) = Notice::of(happening, project, clock.now()) else { return };
        for text in [&mut notice.title, &mut notice.text] {
            *text = secrets.text(text).into_owned();
        }
        let wanting = channels.iter().filter(|channel| channel.wants(&notice));
        let channels: Vec<String> = wanting.map(|channel| channel.name.clone()).collect();
        if !channels.is_empty() {
            self.file(OutboxStep::Put { notice, channels });
        }
    }

    fn file(&self, step: OutboxStep) {
        let mut state = self.lock();
        if !state.closing {
            state.filing.push(step);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Stores the steps in the outbox, one after the other.
    fn file_all(&self) {
        loop {
            let mut state = self.lock();
            let step = loop {
                match state.filing.pop() {
                    Some(step) => break Some(step),
                    None if state.closing => break None,
                    None => {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(state);
            let Some(step) = step else { break };
            if let Err(why) = self.terms.runs.post(self.terms.clock.now(), &step) {
                (self.terms.warn)(&format!("a notification was not stored: {why}"));
            }
            self.lock().filed += 1;
            self.changed.notify_all();
        }
        self.lock().complete = true;
        self.changed.notify_all();
    }

    /// Sends the due messages of a channel until the end.
    fn send_all(&self, number: usize) {
        let Some(channel) = self.terms.channels.get(number) else { return };
        let mut has_warned = false;
        let mut warn = |text: &str| {
            if !std::mem::replace(&mut has_warned, true) {
                (self.terms.warn)(&format!("notify: {}: {text}", channel.name));
            }
        };
        loop {
            let (seen, is_last) = {
                let state = self.lock();
                (state.filed, state.complete)
            };
            if let Err(why) = self.send_due(channel, &mut warn) {
                warn(&why.to_string());
            }
            if is_last {
                return;
            }
            let until = Instant::now() + self.pause(channel);
            let mut state = self.lock();
            while state.filed == seen && !state.complete {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = match self.changed.wait_timeout(state, left) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
        }
    }

    fn send_due(
        &self,
        channel: &Recipient,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), RunStoreError> {
        let NotifierTerms { runs, clock, .. } = &self.terms;
        if !channel.is_awake(clock.now()) {
            return Ok(());
        }
        let taken = runs.post(clock.now(), &OutboxStep::Take { channel: channel.name.clone() })?;
        for Outgoing { notice, channel: name, .. } in taken {
            let sent = self.courier.send(channel, &notice, clock.now());
            let key = harness_core::notify::OutboxKey { id: notice.id, channel: name };
            let step = match sent {
                Ok(()) => OutboxStep::Sent(key),
                Err(failure) => {
                    warn(&failure.error);
                    OutboxStep::Failed { key, failure }
                }
            };
            runs.post(clock.now(), &step)?;
        }
        Ok(())
    }

    /// Returns the time until something is due again, as far as is known.
    fn pause(&self, channel: &Recipient) -> Duration {
        let now = self.terms.clock.now();
        let rows = self.terms.runs.outbox().unwrap_or_default();
        let waiting =
            |row: &&Outgoing| row.channel == channel.name && row.delivery == Delivery::Waiting;
        let next = rows.iter().filter(waiting).map(|row| row.due_at.since(now)).min();
        next.map_or(LOOK_EVERY, |seconds| Duration::from_secs(seconds.max(1)).min(LOOK_EVERY))
    }
}
