//! The store port over the rows of a database: one transaction, and what happens when its connection is lost.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use harness_core::{
    Command, Ledger, Timestamp,
    database::{Forgotten, Recall, Remembered},
    task::RenewedLease,
};
use uuid::Uuid;

use super::{
    DatabaseError,
    change::{Parts, WrittenChange, WrittenLeases},
    decide::{Decided, lines, words},
    error::{Trouble, placed},
    known::{Caught, Known},
    memory::Memory,
    once::Operation,
    port::{LedgerMoment, LedgerRows, LedgerSince, LedgerWrite},
    statements::PostgresRows,
};
use crate::store::{
    Applied, AppliedOnce, Recording, Store, StoreError, TransactionId, transaction::writable,
};

/// A ledger that several hosts share, over the rows of a database.
pub struct FleetStore<R> {
    pub(super) rows: R,
    pub(super) known: Option<Known>,
    pub(super) memory: Memory,
    time: Time,
    pub(super) root: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
}

/// The ledger in PostgreSQL. Get one from [`Database::store`](super::Database::store).
pub type PostgresStore = FleetStore<PostgresRows>;

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

impl<R: LedgerRows> FleetStore<R> {
    /// Returns the store over these rows.
    #[doc(hidden)]
    pub fn over(rows: R) -> Self {
        Self {
            rows,
            known: None,
            memory: Memory::default(),
            time: Time::Database,
            root: None,
            warnings: Vec::new(),
        }
    }

    /// Remembers what an earlier life of this host remembered.
    #[doc(hidden)]
    #[must_use]
    pub fn recalling(mut self, last: Option<Remembered>) -> Self {
        self.memory = Memory::of(last);
        self
    }

    /// Returns the connection.
    #[doc(hidden)]
    pub fn rows_mut(&mut self) -> &mut R {
        &mut self.rows
    }

    /// Returns the last version that this host remembers.
    #[doc(hidden)]
    pub fn last_seen(&self) -> Option<Remembered> {
        self.memory.last()
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

    pub(super) fn since(&self) -> LedgerSince {
        let known = self.known.as_ref().map(|known| (known.version, known.beat));
        LedgerSince { known, remembered: self.memory.last().map(|last| last.version) }
    }

    /// Remembers the version in memory.
    pub(super) fn remember(&mut self) {
        if let Some(known) = &self.known {
            self.warnings.extend(self.memory.keep(known.remembered()));
        }
    }

    fn no_ledger(&self) -> DatabaseError {
        let access = self.rows.access();
        DatabaseError::NoLedger { server: access.server(), ledger: access.ledger.to_string() }
    }

    fn transaction(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.transaction_as(Operation::new(), now, commands)
    }

    pub(super) fn transaction_as(
        &mut self,
        operation: Operation,
        now: Timestamp,
        commands: &[Command],
    ) -> Result<Applied, StoreError> {
        let until = self.rows.until();
        let (mut sent, mut in_doubt_until) = (None::<Sent>, None::<Instant>);
        loop {
            let tried = match sent.take() {
                Some(in_doubt) => self.settle(operation.id, in_doubt, &mut sent),
                None => self.attempt(operation, now, commands, &mut sent),
            };
            let why = match tried {
                Ok(applied) => {
                    self.warnings.clear();
                    return Ok(applied);
                }
                Err(Unanswered::Again) => continue,
                Err(Unanswered::Said(error)) => {
                    // A transaction may still be open.
                    self.rows.close();
                    self.known = None;
                    return Err(match error {
                        StoreError::Database(error) => placed(self.rows.access(), *error).into(),
                        error => error,
                    });
                }
                Err(Unanswered::Lost(why)) => why,
            };
            self.rows.close();
            let paused = match &sent {
                None => self.rows.pause(until, why),
                Some(_) => {
                    let until = *in_doubt_until.get_or_insert_with(|| self.rows.until());
                    let server = self.rows.access().server();
                    let unknown = |_| DatabaseError::OutcomeUnknown { server, why: why.clone() };
                    self.rows.pause_in_doubt(until, why.clone()).map_err(unknown)
                }
            };
            if let Err(error) = paused {
                self.known = None;
                return Err(error.into());
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
        match self.rows.took_effect(operation) {
            Ok(false) => Err(Unanswered::Again),
            Ok(true) => Ok(self.answer(in_doubt)),
            Err(trouble) => {
                *sent = Some(in_doubt);
                Err(Unanswered::Lost(trouble.in_doubt()))
            }
        }
    }

    /// Takes the change as true.
    fn answer(&mut self, Sent { mut applied, known, now }: Sent) -> Applied {
        applied.warnings.extend(self.memory.keep(known.remembered()));
        applied.warnings.extend(self.tell_trajectory(now, &applied.facts));
        self.rows.committed(known.version);
        self.known = Some(known);
        applied
    }

    /// Makes one attempt at the transaction.
    fn attempt(
        &mut self,
        operation: Operation,
        now: Timestamp,
        commands: &[Command],
        sent: &mut Option<Sent>,
    ) -> Result<Applied, Unanswered> {
        let (mut known, database_now) = match self.enter()? {
            Entered::Known(known, now) => (*known, now),
            Entered::Forgotten(forgotten, moment) => {
                self.report(&forgotten, &moment)?;
                return Err(Unanswered::Again);
            }
        };
        let now = match self.time {
            Time::Database => Timestamp::from_seconds(database_now.max(known.at)),
            Time::Caller => now,
        };
        // They are given out with the answer, which this attempt may not lead to.
        let applied = Applied { warnings: self.warnings.clone(), ..Applied::default() };
        if let Err(error) = writable(&known.ledger) {
            self.rows.leave()?;
            self.known = Some(known);
            return Err(error.into());
        }
        let decided = self.decide(now, commands, &mut known, applied)?;
        let Decided { mut applied, touched, renewed, plain_leases } = decided;
        let is_recorded = operation.recording == Recording::Always;
        if touched.is_none() && !is_recorded {
            self.rows.leave()?;
            applied.warnings.extend(self.memory.keep(known.remembered()));
            self.known = Some(known);
            return Ok(applied);
        }
        // A name without a change is stored as renewals of nothing are.
        let plain_leases = plain_leases || touched.is_none();
        let parts = Parts {
            operation: operation.id,
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
            self.rows.write(&LedgerWrite::Leases(&leases))
        } else {
            applied.log = parts.lines.iter().map(|line| format!("{line}\n")).collect();
            let change = WrittenChange::of(&mut known, parts);
            self.rows.write(&LedgerWrite::Change(&change))
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

    /// Locks the row of the ledger and brings the version in memory up to date.
    fn enter(&mut self) -> Result<Entered, Unanswered> {
        let since = self.since();
        let Some(moment) = self.rows.enter(&since)? else {
            self.rows.find_again()?;
            return Err(Unanswered::Again);
        };
        let order = &moment.order;
        let moved = moment.has_moved().then_some(Forgotten { known: None, found: order.version });
        let forgotten = |known| Forgotten { known: Some(known), found: order.version };
        if let Some(mut known) = self.known.take() {
            let remembered = known.remembered();
            let leases = &moment.whole.leases;
            let mut caught = known.catch_up(order, &moment.changes, leases)?;
            while let Caught::More = caught {
                let more = self.rows.changes_after(known.version)?;
                caught = known.catch_up(order, &more, leases)?;
            }
            return Ok(match (caught, moved) {
                (Caught::Forgotten, _) => {
                    Entered::Forgotten(forgotten(remembered), Box::new(moment))
                }
                (_, Some(moved)) => Entered::Forgotten(moved, Box::new(moment)),
                (Caught::Up | Caught::More, None) => Entered::Known(Box::new(known), moment.now),
                (Caught::Behind, None) => {
                    let known = Known::load(order, self.rows.whole()?)?;
                    Entered::Known(Box::new(known), moment.now)
                }
            });
        }
        if let Some(last) = self.memory.last()
            && last.recall(order.version, moment.at) == Recall::Forgotten
        {
            return Ok(Entered::Forgotten(forgotten(last), Box::new(moment)));
        }
        if let Some(moved) = moved {
            return Ok(Entered::Forgotten(moved, Box::new(moment)));
        }
        Ok(Entered::Known(Box::new(Known::load(&moment.order, moment.whole)?), moment.now))
    }
}

/// The state of a transaction that has the lock.
enum Entered {
    Known(Box<Known>, i64),
    Forgotten(Forgotten, Box<LedgerMoment>),
}

impl<R: LedgerRows> Store for FleetStore<R> {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        self.transaction(now, commands)
    }

    fn apply_once(
        &mut self,
        now: Timestamp,
        of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        self.transaction_once(now, of, commands)
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
