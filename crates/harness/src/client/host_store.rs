//! A store that writes no file itself: the host of the root makes its transactions.
//!
//! A transaction has the name of this process and a number, which the host writes into the ledger with
//! the change. So a transaction whose answer got lost is made once: if the host does
//! not answer, this store makes it on the files, under the lock, unless the ledger names it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use harness_core::{
    Command, Ledger, Timestamp,
    command::{Code, answer_again},
};
use serde_json::Value;
use uuid::Uuid;

use super::{ClientError, Connection, HostSeat, Reach};
use crate::{
    host::socket::Places,
    protocol::{
        Answer, Call, Request, TRANSACTION_FORM, TransactionAnswer, Verb, WorkerTransaction,
    },
    store::{Applied, AppliedOnce, Recording, Store, StoreError, TransactionId},
};

/// The time within which the host answers. It is much shorter than a lease, so that a worker can
/// renew its claim on the files when the host is frozen.
const WITHIN: Duration = Duration::from_secs(10);
/// The time for which a host that did not answer, or that does not make such transactions, is not
/// asked again.
const AWAY: Duration = Duration::from_secs(30);

/// The ledger of a root through its host, or through the files where there is none.
pub struct HostStore<S> {
    root: PathBuf,
    places: Places,
    files: S,
    seat: HostSeat,
    /// The name of this process in the ledger.
    name: String,
    number: u64,
    connection: Option<Connection>,
    known: Option<Followed>,
    away_until: Option<Instant>,
}

/// The ledger as the host last described it.
struct Followed {
    version: String,
    ledger: Ledger,
}

/// What became of a request.
enum Asked {
    /// The host answered.
    Answered(Box<TransactionAnswer>),
    /// The host was not asked, or refused. Nothing was done.
    NotDone,
    /// There is no answer. It is not known whether it was done, but it will not be done later.
    Lost,
    /// There is no answer yet. It may still be done.
    Unanswered,
}

impl<S: Store> HostStore<S> {
    /// Returns a store over the host of `root`, which is canonical, and over `files` where no host
    /// answers. A vacancy is reported to `seat`.
    pub fn new(root: &Path, places: Places, files: S, seat: HostSeat) -> Self {
        Self {
            root: root.to_owned(),
            places,
            files,
            seat,
            name: Uuid::now_v7().to_string(),
            number: 0,
            connection: None,
            known: None,
            away_until: None,
        }
    }

    /// Asks the host to make a transaction, or only for news if there are no commands.
    fn ask(&mut self, commands: &[Command]) -> Asked {
        // It is held until the answer is there: this process must not become the host meanwhile and
        // wait for itself.
        let seat = self.seat.clone();
        let seat = seat.look();
        if seat.is_ours() || self.away_until.is_some_and(|until| Instant::now() < until) {
            return Asked::NotDone;
        }
        // Commands that cannot be sent are applied to the files.
        let Ok(commands) = serde_json::to_value(commands) else { return Asked::NotDone };
        let Some(mut connection) = self.connect() else { return Asked::NotDone };
        let request = Request::WorkerTransaction(WorkerTransaction {
            form: TRANSACTION_FORM.to_owned(),
            by: self.name.clone(),
            number: self.number,
            commands,
            since: self.known.as_ref().map(|known| known.version.clone()),
        });
        let line = Value::Object(Call::line(&request, &self.root, None));
        let answer = match connection.ask(&line, Some(WITHIN)) {
            Ok(data) => Answer::read(Verb::WorkerTransaction, data),
            Err(ClientError::Refused(why)) => {
                match why.code {
                    Code::UnknownCommand | Code::OnlyOperator | Code::AnotherRoot | Code::Busy => {
                        self.away_until = Some(Instant::now() + AWAY);
                    }
                    _ => self.connection = Some(connection),
                }
                return Asked::NotDone;
            }
            Err(ClientError::TooLong { .. }) => return Asked::NotDone,
            Err(ClientError::Silent) => {
                self.away_until = Some(Instant::now() + AWAY);
                return Asked::Unanswered;
            }
            Err(_) => {
                self.seat.report_vacancy();
                return Asked::Lost;
            }
        };
        match answer {
            Some(Answer::Transaction(answer)) => {
                self.connection = Some(connection);
                Asked::Answered(answer)
            }
            _ => Asked::Lost,
        }
    }

    fn connect(&mut self) -> Option<Connection> {
        if let Some(kept) = self.connection.take().filter(Connection::is_open) {
            return Some(kept);
        }
        match Reach::of(&self.root, &self.places) {
            Reach::Host(connection) => Some(connection),
            Reach::Nobody => {
                self.seat.report_vacancy();
                None
            }
            Reach::Forbidden => None,
        }
    }

    /// Brings the known ledger up to date.
    fn follow(&mut self, answer: &TransactionAnswer) {
        let known = self.known.take();
        let Some(version) = answer.version.clone() else { return };
        let ledger = match &answer.news {
            None => known.map(|known| known.ledger),
            // News that cannot be read are as none: the next look asks for the whole ledger.
            Some(news) => news.follow(known.map(|known| known.ledger)).ok(),
        };
        self.known = ledger.map(|ledger| Followed { version, ledger });
    }

    /// Makes the last transaction on the files, unless the host has made it.
    fn apply_to_files(
        &mut self,
        now: Timestamp,
        commands: &[Command],
        recording: Recording,
    ) -> Result<Applied, StoreError> {
        let of = TransactionId { by: self.name.clone(), number: self.number, recording };
        match self.files.apply_once(now, &of, commands)? {
            AppliedOnce::Now(applied) => Ok(applied),
            AppliedOnce::Before => self.made_before(now, commands),
        }
    }

    /// Returns the answers to a transaction that was made, as far as the ledger shows them.
    fn made_before(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        let ledger = self.ledger()?;
        let replies = commands.iter().map(|command| answer_again(ledger, now, command)).collect();
        Ok(Applied { replies, ..Applied::default() })
    }
}

impl<S: Store> Store for HostStore<S> {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        if commands.is_empty() {
            return self.files.apply(now, commands);
        }
        self.number += 1;
        match self.ask(commands) {
            Asked::Answered(answer) => {
                self.follow(&answer);
                if answer.repeated {
                    return self.made_before(now, commands);
                }
                let TransactionAnswer { replies, facts, archived, warnings, log, .. } = *answer;
                Ok(Applied { replies, facts, archived, warnings, log })
            }
            Asked::NotDone => self.files.apply(now, commands),
            Asked::Lost => self.apply_to_files(now, commands, Recording::WithChange),
            Asked::Unanswered => self.apply_to_files(now, commands, Recording::Always),
        }
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        if let Asked::Answered(answer) = self.ask(&[]) {
            self.follow(&answer);
        } else {
            self.known = None;
        }
        match &self.known {
            Some(known) => Ok(&known.ledger),
            None => self.files.ledger(),
        }
    }
}
