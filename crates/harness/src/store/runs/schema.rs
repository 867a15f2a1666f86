//! The schema of the database. Migrations are numbered and go forward only. Step n takes a database
//! of version n to n + 1, and a released step is never changed.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::row::AGENTS;

/// The version that this program reads and writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: [&str; 2] = [
    "
CREATE TABLE runs (
    run_id TEXT NOT NULL PRIMARY KEY,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting_for_human', 'succeeded',
        'failed', 'cancelled', 'stopped')),
    objective TEXT,
    task_id TEXT,
    agent TEXT NOT NULL,
    agent_command TEXT,
    verify TEXT,
    workspace TEXT NOT NULL,
    iteration_count INTEGER NOT NULL DEFAULT 0,
    max_iterations INTEGER NOT NULL DEFAULT 10,
    completion_promise TEXT NOT NULL,
    stop_reason TEXT,
    provider_session_id TEXT,
    parent_run_id TEXT REFERENCES runs (run_id),
    epoch INTEGER,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL,
    max_cost_usd REAL,
    max_tokens INTEGER,
    max_duration_seconds INTEGER,
    deadline TEXT,
    wake_at TEXT,
    lease_owner TEXT,
    lease_expires_at TEXT,
    UNIQUE (task_id, epoch)
) STRICT;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
CREATE INDEX runs_by_parent ON runs (parent_run_id);
CREATE TABLE iterations (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    number INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT,
    detail TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL,
    final_text TEXT,
    transcript TEXT,
    head_before TEXT,
    head_after TEXT,
    mark_before TEXT,
    mark_after TEXT,
    PRIMARY KEY (run_id, number)
) STRICT;
",
    "ALTER TABLE iterations ADD COLUMN starts INTEGER NOT NULL DEFAULT 1;",
];

/// A column that was added without a new version. A program that does not know it names its columns
/// and leaves this one alone, and one that does reads a database without it.
const ADDED: &str = "ALTER TABLE iterations ADD COLUMN agents TEXT;";

/// A table that was added in the same way.
const ADDED_TABLE: &str = "
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    delivery TEXT NOT NULL CHECK (delivery IN ('waiting', 'sent', 'dropped')),
    tries INTEGER NOT NULL DEFAULT 0,
    due_at TEXT NOT NULL,
    error TEXT,
    notice TEXT NOT NULL,
    UNIQUE (id, channel)
) STRICT;
";

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The database is empty.
    Empty,
    /// The database has tables, but none of ours.
    Foreign,
    Known,
    /// The database has a version that only a later program knows.
    Newer(i64),
}

pub(super) fn found(connection: &Connection) -> rusqlite::Result<Found> {
    // One statement reads both, so that they belong to the same moment. Another process may be
    // creating the database.
    let sql = "SELECT (SELECT user_version FROM pragma_user_version), count(*) FROM sqlite_master";
    let (version, tables): (i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if version > VERSION {
        return Ok(Found::Newer(version));
    }
    Ok(match (version, tables) {
        (0, 0) => Found::Empty,
        (1.., 1..) => Found::Known,
        _ => Found::Foreign,
    })
}

/// Migrates the database to [`VERSION`] in one transaction. The first process does it, so the
/// version is read again inside.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<Found> {
    let now = found(connection)?;
    let version = version(connection)?;
    let is_current = version == VERSION && has_added(connection)? && has_outbox(connection)?;
    if matches!(now, Found::Foreign | Found::Newer(_)) || is_current {
        return Ok(now);
    }
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    let now = found(&transaction)?;
    if matches!(now, Found::Foreign | Found::Newer(_)) {
        return Ok(now);
    }
    let from = usize::try_from(self::version(&transaction)?).unwrap_or_default();
    for step in MIGRATIONS.iter().skip(from) {
        transaction.execute_batch(step)?;
    }
    if !has_added(&transaction)? {
        transaction.execute_batch(ADDED)?;
    }
    transaction.execute_batch(ADDED_TABLE)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(Found::Known)
}

fn has_added(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info('iterations') WHERE name = ?1";
    connection.query_row(sql, [AGENTS], |row| Ok(row.get::<_, i64>(0)? > 0))
}

/// Returns whether there is an outbox. A database that an older program made has none.
pub(super) fn has_outbox(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'outbox'";
    connection.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? > 0))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
