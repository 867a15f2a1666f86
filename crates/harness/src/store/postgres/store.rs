//! The store port over PostgreSQL: one transaction, and what happens when its connection is lost.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use harness_core::{
    Command, Ledger, Timestamp,
    database::{ChangeHash, Forgotten, Recall, Remembered},
    task::RenewedLease,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    DatabaseError,
    change::{Parts, WrittenChange, WrittenLeases},
    decide::{Decided, lines, words},
    error::Trouble,
    handle::Shared,
    known::{CHANGES, Caught, HASH_AT, Known, LEASES, ORDER, Order, TASKS},
    memory::Memory,
    rows::{column, get},
    wire::{BEGIN, Link, Step},
};
use crate::store::{Applied, Store, StoreError, transaction::writable};

/// The ledger in PostgreSQL. Get one from [`Database::store`](super::Database::store).
pub struct PostgresStore {
    pub(super) shared: Arc<Shared>,
    pub(super) link: Link,
    pub(super) known: Option<Known>,
    pub(super) memory: Memory,
    time: Time,
    pub(super) root: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
}

/// The clock of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// The clock of the database, so that a machine with a wrong one behaves like any other.
    Database,
    /// The caller's, for histories that are compared.
    Caller,
}

/// A change that was sent, and whose commit is not confirmed.
struct Sent {
    applied: Applied,
    known: Known,
    now: Timestamp,
}

/// The reason why an attempt at a transaction ended without an answer.
pub(super) enum Unanswered {
    Lost(String),
    Again,
    Said(StoreError),
}

impl From<Trouble> for Unanswered {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost(why) => Self::Lost(why),
            Trouble::Said(error) => Self::Said(error.into()),
        }
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        Self::Said(error)
    }
}

impl PostgresStore {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            link: shared.link(),
            known: None,
            memory: Memory::default(),
            time: Time::Database,
            root: None,
            warnings: Vec::new(),
        }
    }

    /// Remembers the last version in this file of the user's state directory, so that a database that
    /// has forgotten something is recognized after a restart too.
    pub fn remembering(mut self, file: &Path) -> Result<Self, StoreError> {
        self.memory = Memory::at(file)?;
        Ok(self)
    }

    /// Works for this state root: its receipts are stored with completions, replaced ledgers are
    /// archived there, and its processes are seen at work.
    #[must_use]
    pub fn for_root(mut self, root: &Path) -> Self {
        self.root = Some(root.to_owned());
        self
    }

    /// Uses the time of the caller and not that of the database.
    #[doc(hidden)]
    #[must_use]
    pub fn timed_by_caller(mut self) -> Self {
        self.time = Time::Caller;
        self
    }

    /// Returns the current ledger in the form of its file.
    pub fn export(&mut self) -> Result<String, StoreError> {
        self.ledger()?;
        self.known.as_ref().map(Known::export).ok_or_else(|| self.no_ledger().into())
    }

    pub(super) fn ledger_number(&self) -> i64 {
        self.shared.ledger()
    }

    pub(super) fn find_again(&mut self) -> Result<(), Trouble> {
        self.shared.find_again(&mut self.link)
    }

    pub(super) fn last_seen(&self) -> Option<Remembered> {
        self.memory.last()
    }

    /// Remembers the version in memory.
    pub(super) fn remember(&mut self) {
        if let Some(known) = &self.known {
            self.warnings.extend(self.memory.keep(known.remembered()));
        }
    }

    fn no_ledger(&self) -> DatabaseError {
        self.shared.no_ledger()
    }

    fn transaction(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        let operation = Uuid::now_v7();
        let until = Instant::now() + self.link.access.patience;
        let mut sent: Option<Sent> = None;
        loop {
            let tried = match sent.take() {
                Some(in_doubt) => self.settle(operation, in_doubt, &mut sent),
                None => self.attempt(operation, now, commands, &mut sent),
            };
            let why = match tried {
                Ok(applied) => return Ok(applied),
                Err(Unanswered::Again) => continue,
                Err(Unanswered::Said(error)) => {
                    // A transaction may still be open.
                    self.link.close();
                    self.known = None;
                    return Err(match error {
                        StoreError::Database(error) => self.link.placed(*error).into(),
                        error => error,
                    });
                }
                Err(Unanswered::Lost(why)) => why,
            };
            self.link.close();
            if let Err(error) = self.link.pause_until(until, why.clone()) {
                self.known = None;
                let server = self.link.access.server();
                return Err(match sent {
                    Some(_) => DatabaseError::OutcomeUnknown { server, why },
                    None => error,
                }
                .into());
            }
        }
    }

    /// Finds out whether a change whose connection was lost took effect. The lock waits for the old
    /// transaction, if it is still there.
    fn settle(
        &mut self,
        operation: Uuid,
        in_doubt: Sent,
        sent: &mut Option<Sent>,
    ) -> Result<Applied, Unanswered> {
        let ledger = self.shared.ledger();
        let steps = [
            Step::Plain(BEGIN),
            Step::With(
                "SELECT 1 FROM harness.ledger WHERE id = $1 FOR UPDATE",
                vec![(&ledger, Type::INT8)],
            ),
            Step::With(
                "SELECT 1 FROM harness.operation WHERE ledger = $1 AND id = $2",
                vec![(&ledger, Type::INT8), (&operation, Type::UUID)],
            ),
            Step::Plain("ROLLBACK"),
        ];
        match self.link.all(&steps) {
            Ok(rows) if rows[2].is_empty() => Err(Unanswered::Again),
            Ok(_) => Ok(self.answer(in_doubt)),
            Err(trouble) => {
                *sent = Some(in_doubt);
                match trouble {
                    Trouble::Said(DatabaseError::Busy { .. }) => {
                        Err(Unanswered::Lost("another host holds the ledger".to_owned()))
                    }
                    trouble => Err(trouble.into()),
                }
            }
        }
    }

    /// Takes the change as true.
    fn answer(&mut self, Sent { mut applied, known, now }: Sent) -> Applied {
        applied.warnings.extend(self.memory.keep(known.remembered()));
        applied.warnings.extend(self.tell_trajectory(now, &applied.facts));
        self.shared.changed(known.version);
        self.known = Some(known);
        applied
    }

    /// Makes one attempt at the transaction.
    fn attempt(
        &mut self,
        operation: Uuid,
        now: Timestamp,
        commands: &[Command],
        sent: &mut Option<Sent>,
    ) -> Result<Applied, Unanswered> {
        let (mut known, database_now) = match self.enter()? {
            Entered::Known(known, now) => (*known, now),
            Entered::Forgotten(forgotten) => {
                self.report(&forgotten)?;
                return Err(Unanswered::Again);
            }
        };
        let now = match self.time {
            Time::Database => Timestamp::from_seconds(database_now.max(known.at)),
            Time::Caller => now,
        };
        let applied =
            Applied { warnings: std::mem::take(&mut self.warnings), ..Applied::default() };
        if let Err(error) = writable(&known.ledger) {
            self.link.all(&[Step::Plain("ROLLBACK")])?;
            self.known = Some(known);
            return Err(error.into());
        }
        let decided = self.decide(now, commands, &mut known, applied)?;
        let Decided { mut applied, touched, renewed, plain_leases } = decided;
        if touched.is_none() {
            self.link.all(&[Step::Plain("ROLLBACK")])?;
            applied.warnings.extend(self.memory.keep(known.remembered()));
            self.known = Some(known);
            return Ok(applied);
        }
        let parts = Parts {
            ledger: self.shared.ledger(),
            operation,
            replies: words(&applied),
            now: now.seconds(),
            touched: touched.unwrap_or_default(),
            receipts: self.receipts(&known.ledger, &applied.facts)?,
            lines: lines(&applied.facts, now, known.ledger.head().session_count),
        };
        let written = if plain_leases {
            let renewed: Vec<RenewedLease> = renewed.into_values().collect();
            for lease in &renewed {
                known.leases.insert(lease.task.clone(), lease.clone());
            }
            let leases = WrittenLeases::of(&mut known, parts, renewed);
            self.commit(&leases.steps())
        } else {
            applied.log = parts.lines.iter().map(|line| format!("{line}\n")).collect();
            let change = WrittenChange::of(&mut known, parts);
            self.commit(&change.steps())
        };
        let done = Sent { applied, known, now };
        match written {
            Ok(()) => Ok(self.answer(done)),
            Err(Trouble::Lost(why)) => {
                *sent = Some(done);
                Err(Unanswered::Lost(why))
            }
            Err(said) => Err(said.into()),
        }
    }

    pub(super) fn commit(&mut self, steps: &[Step<'_>]) -> Result<(), Trouble> {
        // A failed statement makes the commit a rollback, and its error comes first.
        let all: Vec<&Step<'_>> = steps.iter().collect();
        let commit = Step::Plain("COMMIT");
        self.link.each(all.into_iter().chain([&commit])).map(|_| ())
    }

    /// Locks the row of the ledger and brings the version in memory up to date, both in one round trip.
    fn enter(&mut self) -> Result<Entered, Unanswered> {
        let ledger = self.shared.ledger();
        let lock = format!("SELECT {ORDER} FROM harness.ledger WHERE id = $1 FOR UPDATE");
        let clock = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";
        let (version, beat) = self.known.as_ref().map_or((-1, -1), |k| (column(k.version), k.beat));
        let remembered = self.memory.last().map_or(-1, |last| column(last.version));
        let by = |number| vec![(&ledger as _, Type::INT8), (number as _, Type::INT8)];
        let rows = match self.known {
            Some(_) => Step::With(CHANGES, by(&version)),
            None => Step::With(TASKS, vec![(&ledger, Type::INT8)]),
        };
        let steps = [
            Step::Plain(BEGIN),
            Step::With(&lock, vec![(&ledger, Type::INT8)]),
            rows,
            Step::With(LEASES, by(&beat)),
            Step::With(clock, Vec::new()),
            Step::With(HASH_AT, by(&remembered)),
        ];
        let found = self.link.all(&steps)?;
        let now: i64 = found[4].first().map(|row| get(row, 0)).transpose()?.unwrap_or_default();
        let Some(order) = found[1].first() else {
            self.link.all(&[Step::Plain("ROLLBACK")])?;
            self.shared.find_again(&mut self.link)?;
            return Err(Unanswered::Again);
        };
        let order = Order::read(order)?;
        if let Some(mut known) = self.known.take() {
            let remembered = known.remembered();
            let mut caught = known.catch_up(&order, &found[2], &found[3])?;
            while let Caught::More = caught {
                let from = column(known.version);
                let next = vec![(&ledger as _, Type::INT8), (&from as _, Type::INT8)];
                let more = self.link.query(CHANGES, next)?;
                caught = known.catch_up(&order, &more, &found[3])?;
            }
            match caught {
                Caught::Up | Caught::More => return Ok(Entered::Known(Box::new(known), now)),
                Caught::Forgotten => {
                    let found = order.version;
                    return Ok(Entered::Forgotten(Forgotten { known: remembered, found }));
                }
                Caught::Behind => {
                    let rows = self.link.all(&[
                        Step::With(TASKS, vec![(&ledger, Type::INT8)]),
                        Step::With(LEASES, by(&-1)),
                    ])?;
                    let known = Known::load(&order, &rows[0], &rows[1])?;
                    return Ok(Entered::Known(Box::new(known), now));
                }
            }
        }
        if let Some(last) = self.memory.last() {
            let at: Option<String> = found[5].first().map(|row| get(row, 0)).transpose()?;
            let at = at.and_then(|hash| ChangeHash::parse(&hash));
            if last.recall(order.version, at) == Recall::Forgotten {
                return Ok(Entered::Forgotten(Forgotten { known: last, found: order.version }));
            }
        }
        Ok(Entered::Known(Box::new(Known::load(&order, &found[2], &found[3])?), now))
    }
}

/// The state of a transaction that has the lock.
enum Entered {
    Known(Box<Known>, i64),
    Forgotten(Forgotten),
}

impl Store for PostgresStore {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.transaction(now, commands)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        if !self.refresh()? {
            // The database has forgotten something. A transaction records that.
            let noticed = self.transaction(Timestamp::from_seconds(0), &[])?;
            self.warnings.extend(noticed.warnings);
            self.refresh()?;
        }
        match &self.known {
            Some(known) => Ok(&known.ledger),
            None => Err(self.no_ledger().into()),
        }
    }
}
