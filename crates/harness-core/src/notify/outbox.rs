//! The outbox: messages that wait to be sent, one row for each channel, and what becomes of them.
//!
//! A row that is taken is due again after a pause, whether its sender reports a failure or dies. So
//! nothing else marks a row as being sent, and no sender has to be alive for the next try.

use serde::{Deserialize, Serialize};

use super::Notice;
use crate::Timestamp;

/// The limit of waiting rows of one channel. Beyond it, the oldest are given up.
pub const WAITING_MAX: usize = 100;
/// The number of settled rows that are kept, to recognise a repetition and for people to see.
pub const SETTLED_KEPT: usize = 100;
/// The number of tries after which a row is given up.
pub const TRIES_MAX: u32 = 16;
/// A row that is older is given up.
const AGE_MAX_SECONDS: u64 = 7 * 24 * 3600;
/// The pauses after each try. The last one is repeated.
const PAUSES_SECONDS: [u64; 6] = [5, 30, 120, 600, 1800, 3600];
/// The longest time that one try takes. A row is not due again before that.
const TRY_SECONDS: u64 = 45;
/// The longest pause that a channel can ask for.
const ASKED_PAUSE_MAX_SECONDS: u64 = 3600;
/// The limit of an error that is kept.
const ERROR_BYTES: usize = 300;

/// A message on its way through one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The name of the channel.
    pub channel: String,
    /// The message.
    pub notice: Notice,
    /// The state.
    pub delivery: Delivery,
    /// The number of tries that have begun.
    pub tries: u32,
    /// The time of the next try while it waits, and of the end afterwards.
    pub due_at: Timestamp,
    /// The error of the last try, without any address.
    pub error: Option<String>,
}

/// The state of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// It is yet to be sent.
    Waiting,
    /// The channel accepted it.
    Sent,
    /// It was given up, or is no longer of interest.
    Dropped,
}

impl Delivery {
    /// Returns the word that the record of runs uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::Dropped => "dropped",
        }
    }

    /// Returns the state of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Waiting, Self::Sent, Self::Dropped].into_iter().find(|state| state.name() == name)
    }
}

/// The name of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboxKey {
    /// The id of the message.
    pub id: String,
    /// The name of the channel.
    pub channel: String,
}

/// A change that a process asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxStep {
    /// Adds a message for these channels. A message that a channel has had is not added again.
    Put {
        /// The message.
        notice: Notice,
        /// The names of the channels.
        channels: Vec<String>,
    },
    /// Returns the due rows of a channel, each with the time of its next try.
    Take {
        /// The name of the channel.
        channel: String,
    },
    /// The channel accepted a message.
    Sent(OutboxKey),
    /// A try failed.
    Failed {
        /// The row.
        key: OutboxKey,
        /// The reason.
        failure: SendFailure,
    },
    /// The message is no longer of interest, because the question was answered.
    Withdraw {
        /// The id of the message.
        id: String,
    },
}

/// The reason why a try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFailure {
    /// The reason for people, without any address.
    pub error: String,
    /// The pause that the channel asked for.
    pub pause_seconds: Option<u64>,
    /// `true` if no further try can succeed.
    pub is_final: bool,
}

/// The rows that a step changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxChange {
    /// New and changed rows.
    pub put: Vec<Outgoing>,
    /// The rows that are forgotten.
    pub removed: Vec<OutboxKey>,
    /// The rows that the caller has to send now.
    pub taken: Vec<Outgoing>,
}

impl OutboxChange {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }
}

/// Returns the pause after so many tries.
pub fn pause_seconds(tries: u32) -> u64 {
    let at = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX);
    PAUSES_SECONDS[at.min(PAUSES_SECONDS.len() - 1)]
}

impl Outgoing {
    /// Returns the name of the row.
    pub fn key(&self) -> OutboxKey {
        OutboxKey { id: self.notice.id.clone(), channel: self.channel.clone() }
    }

    fn waits(&self) -> bool {
        self.delivery == Delivery::Waiting
    }

    fn settled(&self, delivery: Delivery, error: Option<String>, now: Timestamp) -> Self {
        Self { delivery, error, due_at: now, ..self.clone() }
    }

    /// Returns why the row has to be given up.
    fn hopeless(&self, now: Timestamp) -> Option<String> {
        if self.tries >= TRIES_MAX {
            let last = self.error.as_deref().unwrap_or("no answer");
            return Some(format!("given up after {} tries: {last}", self.tries));
        }
        (now.since(self.notice.at) > AGE_MAX_SECONDS)
            .then(|| "it is more than a week old".to_owned())
    }
}

impl OutboxStep {
    /// Decides the step over all rows, oldest first.
    pub fn decide(&self, rows: &[Outgoing], now: Timestamp) -> OutboxChange {
        let mut change = match self {
            Self::Put { notice, channels } => put(rows, notice, channels, now),
            Self::Take { channel } => take(rows, channel, now),
            Self::Sent(key) => {
                let found = rows.iter().find(|row| row.key() == *key && row.waits());
                let sent = found.map(|row| row.settled(Delivery::Sent, None, now));
                OutboxChange { put: sent.into_iter().collect(), ..OutboxChange::default() }
            }
            Self::Failed { key, failure } => {
                let found = rows.iter().find(|row| row.key() == *key && row.waits());
                let failed = found.map(|row| failed(row, failure, now));
                OutboxChange { put: failed.into_iter().collect(), ..OutboxChange::default() }
            }
            Self::Withdraw { id } => {
                let open = rows.iter().filter(|row| row.notice.id == *id && row.waits());
                let why = || Some("it is no longer of interest".to_owned());
                let put = open.map(|row| row.settled(Delivery::Dropped, why(), now)).collect();
                OutboxChange { put, ..OutboxChange::default() }
            }
        };
        change.removed = forgotten(rows, &change.put);
        change
    }
}

fn put(rows: &[Outgoing], notice: &Notice, channels: &[String], now: Timestamp) -> OutboxChange {
    let mut change = OutboxChange::default();
    for channel in channels {
        let of_channel = || rows.iter().filter(|row| row.channel == *channel);
        if of_channel().any(|row| row.notice.id == notice.id) {
            continue;
        }
        let waiting: Vec<_> = of_channel().filter(|row| row.waits()).collect();
        let too_many = (waiting.len() + 1).saturating_sub(WAITING_MAX);
        let why = || Some("too many messages were waiting".to_owned());
        let dropped = waiting.iter().take(too_many);
        change.put.extend(dropped.map(|row| row.settled(Delivery::Dropped, why(), now)));
        change.put.push(Outgoing {
            channel: channel.clone(),
            notice: notice.clone(),
            delivery: Delivery::Waiting,
            tries: 0,
            due_at: now,
            error: None,
        });
    }
    change
}

fn take(rows: &[Outgoing], channel: &str, now: Timestamp) -> OutboxChange {
    let mut change = OutboxChange::default();
    for row in rows.iter().filter(|row| row.waits()) {
        if let Some(why) = row.hopeless(now) {
            change.put.push(row.settled(Delivery::Dropped, Some(why), now));
        } else if row.channel == channel && row.due_at <= now {
            let tries = row.tries + 1;
            let due_at = now.plus(pause_seconds(tries).max(TRY_SECONDS));
            let taken = Outgoing { tries, due_at, ..row.clone() };
            change.put.push(taken.clone());
            change.taken.push(taken);
        }
    }
    change
}

fn failed(row: &Outgoing, failure: &SendFailure, now: Timestamp) -> Outgoing {
    let error = crate::quote::head(&crate::quote::one_line(&failure.error), ERROR_BYTES);
    if failure.is_final {
        return row.settled(Delivery::Dropped, Some(error), now);
    }
    let asked = failure.pause_seconds.unwrap_or(0).min(ASKED_PAUSE_MAX_SECONDS);
    let due_at = now.plus(pause_seconds(row.tries).max(asked));
    let row = Outgoing { due_at, error: Some(error), ..row.clone() };
    match row.hopeless(now) {
        Some(why) => row.settled(Delivery::Dropped, Some(why), now),
        None => row,
    }
}

/// Returns the oldest settled rows beyond those that are kept.
fn forgotten(rows: &[Outgoing], changed: &[Outgoing]) -> Vec<OutboxKey> {
    let is_changed = |row: &&Outgoing| changed.iter().any(|other| other.key() == row.key());
    let settled = rows.iter().filter(|row| !row.waits()).filter(|row| !is_changed(row));
    let settled: Vec<_> = settled.collect();
    let more = changed.iter().filter(|row| !row.waits()).count();
    let too_many = (settled.len() + more).saturating_sub(SETTLED_KEPT);
    settled.into_iter().take(too_many).map(Outgoing::key).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::notify::{Happening, Topic};

    fn at(second: u64) -> Timestamp {
        Timestamp::from_seconds(1_751_364_000).plus(second)
    }

    fn notice(number: u64) -> Notice {
        let asked =
            Happening::Asked { prompt: &format!("prompt-{number}"), question: "?", phase: None };
        Notice::of(asked, "shop", at(number)).unwrap()
    }

    /// Rows in the order in which they were added, as every record keeps them.
    #[derive(Default)]
    struct Box(Vec<Outgoing>);

    impl Box {
        fn step(&mut self, second: u64, step: OutboxStep) -> Vec<Outgoing> {
            let change = step.decide(&self.0, at(second));
            for row in change.put {
                match self.0.iter_mut().find(|known| known.key() == row.key()) {
                    Some(known) => *known = row,
                    None => self.0.push(row),
                }
            }
            self.0.retain(|row| !change.removed.contains(&row.key()));
            change.taken
        }

        fn put(&mut self, second: u64, number: u64) {
            let channels = vec!["a".to_owned(), "b".to_owned()];
            self.step(second, OutboxStep::Put { notice: notice(number), channels });
        }

        fn take(&mut self, second: u64, channel: &str) -> Vec<Outgoing> {
            self.step(second, OutboxStep::Take { channel: channel.to_owned() })
        }

        fn fail(&mut self, second: u64, row: &Outgoing, pause_seconds: Option<u64>) {
            let failure = SendFailure { error: "HTTP 500".into(), pause_seconds, is_final: false };
            self.step(second, OutboxStep::Failed { key: row.key(), failure });
        }
    }

    #[test]
    fn each_channel_sends_a_message_by_itself_and_once() {
        let mut rows = Box::default();
        rows.put(0, 1);
        rows.put(0, 1);
        assert_eq!(rows.0.len(), 2);
        let taken = rows.take(1, "a");
        assert_eq!(taken.len(), 1);
        assert_eq!(rows.take(2, "a"), [], "it is on its way");
        rows.step(3, OutboxStep::Sent(taken[0].key()));
        rows.put(4, 1);
        assert_eq!(rows.take(1000, "a"), [], "a message that was sent is not added again");
        assert_eq!(rows.take(1000, "b").len(), 1);
    }

    #[test]
    fn a_sender_that_dies_or_fails_is_followed_by_another_try() {
        let mut rows = Box::default();
        rows.put(0, 1);
        assert_eq!(rows.take(0, "a")[0].tries, 1);
        assert_eq!(rows.take(44, "a"), []);
        let again = rows.take(45, "a");
        assert_eq!(again[0].tries, 2, "its sender died");
        rows.fail(50, &again[0], None);
        assert_eq!(rows.take(79, "a"), []);
        let third = rows.take(80, "a");
        assert_eq!((third[0].tries, third[0].error.as_deref()), (3, Some("HTTP 500")));
        rows.fail(81, &third[0], Some(900));
        assert_eq!(rows.take(980, "a"), [], "the channel asked for a longer pause");
        assert_eq!(rows.take(981, "a").len(), 1);
    }

    #[test]
    fn pauses_grow_up_to_an_hour() {
        let pauses: Vec<_> = (0..9).map(pause_seconds).collect();
        assert_eq!(pauses, [5, 5, 30, 120, 600, 1800, 3600, 3600, 3600]);
    }

    #[test]
    fn a_message_is_given_up_after_many_tries_a_week_or_a_final_error() {
        let mut rows = Box::default();
        rows.put(0, 1);
        let mut second = 0;
        for _ in 0..TRIES_MAX {
            let taken = rows.take(second, "a");
            rows.fail(second, &taken[0], None);
            second += 3600;
        }
        let a = &rows.0[0];
        assert_eq!(a.delivery, Delivery::Dropped);
        assert_eq!(a.error.as_deref(), Some("given up after 16 tries: HTTP 500"));
        assert_eq!(rows.take(AGE_MAX_SECONDS + 2, "b"), []);
        assert_eq!(rows.0[1].error.as_deref(), Some("it is more than a week old"));
        rows.put(9, 2);
        let taken = rows.take(9, "a");
        let failure = SendFailure { error: "gone".into(), pause_seconds: None, is_final: true };
        rows.step(10, OutboxStep::Failed { key: taken[0].key(), failure });
        assert_eq!(rows.0[2].delivery, Delivery::Dropped);
    }

    #[test]
    fn an_answered_question_is_withdrawn_unless_it_was_sent() {
        let mut rows = Box::default();
        rows.put(0, 1);
        let taken = rows.take(0, "a");
        rows.step(1, OutboxStep::Sent(taken[0].key()));
        rows.step(2, OutboxStep::Withdraw { id: notice(1).id });
        let states: Vec<_> = rows.0.iter().map(|row| row.delivery).collect();
        assert_eq!(states, [Delivery::Sent, Delivery::Dropped]);
        assert_eq!(rows.take(3, "b"), []);
        assert!(rows.0[0].notice.concerns(&[Topic::Question]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_outbox_is_bounded(steps in proptest::collection::vec((0_u64..400, 0_u8..4), 200..350)) {
            let mut rows = Box::default();
            let mut taken = Vec::new();
            for (second, (number, what)) in steps.into_iter().enumerate() {
                let second = second as u64 * 7;
                match what {
                    0 | 1 => rows.put(second, number),
                    2 => taken.extend(rows.take(second, "a")),
                    _ => if let Some(row) = taken.pop() {
                        let step = OutboxStep::Sent(Outgoing::key(&row));
                        rows.step(second, step);
                    },
                }
                let waiting = |name: &str| {
                    let of = |row: &&Outgoing| row.channel == name && row.waits();
                    rows.0.iter().filter(of).count()
                };
                prop_assert!(waiting("a") <= WAITING_MAX && waiting("b") <= WAITING_MAX);
                let settled = rows.0.iter().filter(|row| !row.waits()).count();
                prop_assert!(settled <= SETTLED_KEPT, "{settled}");
            }
        }
    }
}
