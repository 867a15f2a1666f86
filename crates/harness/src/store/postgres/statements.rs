//! The statements of a transaction over a ledger.
//!
//! A host that shares the ledger with others at work does not hold the lock while the disk writes: it
//! commits, which ends the lock, and then waits for a small transaction of its own. When that is
//! durable, so is everything that was committed before it. Only then the change counts.

use std::{sync::Arc, time::Instant};

use harness_core::{
    Epoch, TaskId, Timestamp, database::ChangeHash, format::State, task::RenewedLease,
};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{
    DatabaseAccess, DatabaseError,
    error::Trouble,
    handle::Shared,
    known::damaged,
    port::{
        ChangeRow, LedgerMoment, LedgerOrder, LedgerRows, LedgerSince, LedgerWhole, LedgerWrite,
    },
    rows::{column, count, get},
    wire::{BEGIN, BEGIN_LOOK, Link, Step},
};

/// The columns of the row that orders the changes.
const ORDER: &str = "version, hash, state, head, beat, log_bytes, snapshot_bytes, \
     floor(extract(epoch FROM changed_at))::bigint, server_line";
/// Reads all tasks in their order.
const TASKS: &str =
    "SELECT entry FROM harness.task WHERE ledger = $1 ORDER BY added_version, added_index";
/// Reads the changes after a version.
const CHANGES: &str = "SELECT version, previous, hash, entry FROM harness.change \
     WHERE ledger = $1 AND version > $2 ORDER BY version LIMIT 500";
/// Reads the renewals after a beat.
const LEASES: &str = "SELECT task, epoch, floor(extract(epoch FROM expires_at))::bigint \
     FROM harness.lease WHERE ledger = $1 AND beat > $2";
/// Reads the time and the line of the server, the changes after a version, and the renewals after a
/// beat, with one answer.
const NEWS: &str = "SELECT 0, floor(extract(epoch FROM clock_timestamp()))::bigint, \
     harness.server_line(), NULL::text, NULL::text, 0::bigint UNION ALL \
     (SELECT 1, version, previous, hash, entry, 0 FROM harness.change \
     WHERE ledger = $1 AND version > $2 ORDER BY version LIMIT 500) UNION ALL \
     SELECT 2, epoch, task, NULL, NULL, floor(extract(epoch FROM expires_at))::bigint \
     FROM harness.lease WHERE ledger = $1 AND beat > $3";
/// Reads the hash of one change.
const HASH_AT: &str = "SELECT hash FROM harness.change WHERE ledger = $1 AND version = $2";
/// Reads the time and the line of the server.
const CLOCK: &str =
    "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint, harness.server_line()";
/// Locks the row. Rows of other tables may refer to it meanwhile.
const LOCK: &str = "SELECT 1 FROM harness.ledger WHERE id = $1 FOR NO KEY UPDATE";
const TOOK_EFFECT: &str = "SELECT 1 FROM harness.operation WHERE ledger = $1 AND id = $2";
/// Returns when everything that was committed before is durable. It writes one short record to the log
/// of the server, and nothing else.
const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'harness', '')";
/// Commits, and waits for the disk when the lock is free again.
const COMMIT_THEN_FLUSH: &str = "SET LOCAL synchronous_commit = off; COMMIT; \
     SELECT pg_logical_emit_message(true, 'harness', '')";

/// The rows of a ledger in PostgreSQL, over a connection of their own.
#[doc(hidden)]
pub struct PostgresRows {
    pub(super) shared: Arc<Shared>,
    pub(super) link: Link,
    /// Whether other hosts changed the ledger since the last transaction.
    others: Others,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    Quiet,
    AtWork,
}

impl PostgresRows {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), link: shared.link(), others: Others::Quiet }
    }

    /// Reads a moment between the statement that begins a transaction and those that follow.
    fn read(
        &mut self,
        begin: &str,
        lock: &str,
        since: &LedgerSince,
        end: &[Step<'_>],
    ) -> Result<Option<LedgerMoment>, Trouble> {
        let ledger = self.shared.ledger();
        let order = format!(
            "SELECT {ORDER} FROM harness.ledger WHERE id = $1 AND retired_at IS NULL{lock}"
        );
        let (version, beat) =
            since.known.map_or((-1, -1), |(version, beat)| (column(version), beat));
        let remembered = since.remembered.map_or(-1, column);
        let of = || (&ledger as _, Type::INT8);
        let mut steps = vec![Step::Plain(begin), Step::With(&order, vec![of()])];
        match since.known {
            Some(_) => {
                let by = vec![of(), (&version as _, Type::INT8), (&beat as _, Type::INT8)];
                steps.push(Step::With(NEWS, by));
            }
            None => steps.extend([
                Step::With(CLOCK, Vec::new()),
                Step::With(LEASES, vec![of(), (&beat as _, Type::INT8)]),
                Step::With(TASKS, vec![of()]),
                Step::With(HASH_AT, vec![of(), (&remembered as _, Type::INT8)]),
            ]),
        }
        let found = self.link.each(steps.iter().chain(end))?;
        let Some(row) = found[1].first() else { return Ok(None) };
        let order = read_order(row)?;
        let moment = match since.known {
            Some(_) => news(order, &found[2])?,
            None => all(order, &found[2..6])?,
        };
        self.link.access.clock.note(moment.now);
        Ok(Some(moment))
    }
}

/// Reads the rows of [`NEWS`].
fn news(order: LedgerOrder, rows: &[Row]) -> Result<LedgerMoment, Trouble> {
    let (changes, whole) = (Vec::new(), LedgerWhole::default());
    let mut moment = LedgerMoment { order, changes, whole, now: 0, at: None, line: None };
    for row in rows {
        let hash = |at| -> Result<Option<ChangeHash>, Trouble> {
            Ok(get::<Option<String>>(row, at)?.and_then(|hash| ChangeHash::parse(&hash)))
        };
        match get::<i32>(row, 0)? {
            0 => (moment.now, moment.line) = (get(row, 1)?, get(row, 2)?),
            1 => {
                let (version, previous, hash) = (count(row, 1)?, hash(2)?, hash(3)?);
                let entry = get(row, 4)?;
                moment.changes.push(ChangeRow { version, previous, hash, entry });
            }
            _ => {
                let (task, epoch): (String, i64) = (get(row, 2)?, get(row, 1)?);
                moment.whole.leases.push(lease(&task, epoch, get(row, 5)?)?);
            }
        }
    }
    moment.changes.sort_by_key(|change| change.version);
    Ok(moment)
}

/// Reads the time and the line of the server, all renewals, all tasks, and the hash of the remembered version.
fn all(order: LedgerOrder, found: &[Vec<Row>]) -> Result<LedgerMoment, Trouble> {
    let clock = found[0].first().ok_or_else(|| damaged("the server does not tell the time"))?;
    let (now, line) = (get(clock, 0)?, get(clock, 1)?);
    let whole = read_whole(&found[2], &found[1])?;
    let hash: Option<String> = found[3].first().map(|row| get(row, 0)).transpose()?;
    let at = hash.and_then(|hash| ChangeHash::parse(&hash));
    Ok(LedgerMoment { order, changes: Vec::new(), whole, now, at, line })
}

fn read_whole(tasks: &[Row], leases: &[Row]) -> Result<LedgerWhole, Trouble> {
    let tasks = tasks.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
    let leases =
        leases.iter().map(|row| lease(&get::<String>(row, 0)?, get(row, 1)?, get(row, 2)?));
    Ok(LedgerWhole { tasks, leases: leases.collect::<Result<_, _>>()? })
}

impl LedgerRows for PostgresRows {
    fn enter(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble> {
        let found = self.read(BEGIN, " FOR NO KEY UPDATE", since, &[])?;
        let Some(moment) = found else {
            self.link.all(&[Step::Plain("ROLLBACK")])?;
            return Ok(None);
        };
        let quiet = since.known.is_some() && moment.changes.is_empty();
        self.others = if quiet { Others::Quiet } else { Others::AtWork };
        Ok(Some(moment))
    }

    fn look(&mut self, since: &LedgerSince) -> Result<Option<LedgerMoment>, Trouble> {
        let end = [Step::Plain("COMMIT"), Step::Plain(FLUSH)];
        self.read(BEGIN_LOOK, "", since, &end)
    }

    fn glance(&mut self) -> Result<Option<(u64, ChangeHash, i64)>, Trouble> {
        let ledger = self.shared.ledger();
        let sql = "SELECT version, hash, beat FROM harness.ledger WHERE id = $1";
        let rows = self.link.query(sql, vec![(&ledger, Type::INT8)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let hash: String = get(row, 1)?;
        let (version, beat) = (count(row, 0)?, get(row, 2)?);
        Ok(ChangeHash::parse(&hash).map(|hash| (version, hash, beat)))
    }

    fn changes_after(&mut self, version: u64) -> Result<Vec<ChangeRow>, Trouble> {
        let (ledger, version) = (self.shared.ledger(), column(version));
        let by = vec![(&ledger as _, Type::INT8), (&version as _, Type::INT8)];
        self.link.query(CHANGES, by)?.iter().map(change).collect()
    }

    fn whole(&mut self) -> Result<LedgerWhole, Trouble> {
        let ledger = self.shared.ledger();
        let rows = self.link.all(&[
            Step::With(TASKS, vec![(&ledger, Type::INT8)]),
            Step::With(LEASES, vec![(&ledger, Type::INT8), (&-1_i64, Type::INT8)]),
        ])?;
        read_whole(&rows[0], &rows[1])
    }

    fn leave(&mut self) -> Result<(), Trouble> {
        let all = [Step::Plain("ROLLBACK"), Step::Plain(FLUSH)];
        let steps = if self.others == Others::AtWork { &all[..] } else { &all[..1] };
        self.link.all(steps).map(|_| ())
    }

    fn write(&mut self, write: &LedgerWrite<'_>) -> Result<(), Trouble> {
        // A failed statement makes the commit a rollback, and its error comes first.
        let commit = Step::Plain(match self.others {
            Others::Quiet => "COMMIT",
            Others::AtWork => COMMIT_THEN_FLUSH,
        });
        let ledger = self.shared.ledger();
        let mut steps = match write {
            LedgerWrite::Change(change) => change.steps(&ledger),
            LedgerWrite::Leases(leases) => leases.steps(&ledger),
        };
        steps.push(commit);
        self.link.all(&steps).map(|_| ())
    }

    fn took_effect(&mut self, operation: Uuid) -> Result<bool, Trouble> {
        let ledger = self.shared.ledger();
        let found = self.link.all(&[
            Step::Plain(BEGIN),
            Step::With(LOCK, vec![(&ledger, Type::INT8)]),
            Step::With(TOOK_EFFECT, vec![(&ledger, Type::INT8), (&operation, Type::UUID)]),
            Step::Plain("ROLLBACK"),
            Step::Plain(FLUSH),
        ])?;
        Ok(!found[2].is_empty())
    }

    fn find_again(&mut self) -> Result<(), Trouble> {
        self.shared.find_again(&mut self.link)
    }

    fn committed(&mut self, version: u64) {
        self.shared.changed(version);
    }

    fn close(&mut self) {
        self.link.close();
    }

    fn pause(&mut self, until: Instant, why: String) -> Result<(), DatabaseError> {
        self.link.pause_until(until, why)
    }

    fn pause_in_doubt(&mut self, until: Instant, why: String) -> Result<(), DatabaseError> {
        self.link.pause_in_doubt(until, why)
    }

    fn until(&self) -> Instant {
        self.link.until()
    }

    fn access(&self) -> &DatabaseAccess {
        &self.link.access
    }
}

fn read_order(row: &Row) -> Result<LedgerOrder, Trouble> {
    let damaged = |what: &str| damaged(&format!("the row of the ledger has an invalid {what}"));
    let (hash, state): (String, String) = (get(row, 1)?, get(row, 2)?);
    Ok(LedgerOrder {
        version: count(row, 0)?,
        hash: ChangeHash::parse(&hash).ok_or_else(|| damaged("hash"))?,
        state: State::parse(&state).ok_or_else(|| damaged("state"))?,
        head: get(row, 3)?,
        beat: get(row, 4)?,
        log_bytes: count(row, 5)?,
        base: count(row, 6)?,
        at: get(row, 7)?,
        line: get(row, 8)?,
    })
}

fn change(row: &Row) -> Result<ChangeRow, Trouble> {
    let (previous, hash): (String, String) = (get(row, 1)?, get(row, 2)?);
    let (previous, hash) = (ChangeHash::parse(&previous), ChangeHash::parse(&hash));
    Ok(ChangeRow { version: count(row, 0)?, previous, hash, entry: get(row, 3)? })
}

fn lease(task: &str, epoch: i64, ends: i64) -> Result<RenewedLease, Trouble> {
    let task = TaskId::parse(task).map_err(|why| damaged(&why.to_string()))?;
    let epoch = Epoch(u64::try_from(epoch).unwrap_or_default());
    Ok(RenewedLease { task, epoch, expires_at: Timestamp::from_seconds(ends) })
}
