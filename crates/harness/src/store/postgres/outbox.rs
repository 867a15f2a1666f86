//! The messages to people, in PostgreSQL.

use harness_core::notify::{OutboxChange, Outgoing};
use tokio_postgres::{Row, types::Type};

use super::{
    entries,
    error::Trouble,
    known::damaged,
    rows::{get, text},
    run_change::Statement,
};

/// Reads all rows, in the order in which they were added.
pub(super) const ALL: &str = "SELECT entry FROM harness.outbox WHERE ledger = $1 ORDER BY number";

pub(super) fn read(row: &Row) -> Result<Outgoing, Trouble> {
    let entry: String = get(row, 0)?;
    entries::outgoing(&entry).ok_or_else(|| damaged("a message in the outbox cannot be read"))
}

/// Returns the statements of a change. A changed row keeps its place.
pub(super) fn statements(ledger: i64, change: &OutboxChange) -> Vec<Statement> {
    let put = change.put.iter().map(|row| Statement {
        sql: "INSERT INTO harness.outbox (ledger, id, channel, delivery, entry) \
              VALUES ($1, $2, $3, $4, $5) ON CONFLICT (ledger, id, channel) DO UPDATE SET \
              delivery = excluded.delivery, entry = excluded.entry",
        by: vec![
            (Box::new(ledger), Type::INT8),
            (Box::new(text(&row.notice.id)), Type::TEXT),
            (Box::new(text(&row.channel)), Type::TEXT),
            (Box::new(row.delivery.name().to_owned()), Type::TEXT),
            (Box::new(entries::of_outgoing(row)), Type::TEXT),
        ],
    });
    let removed = change.removed.iter().map(|key| Statement {
        sql: "DELETE FROM harness.outbox WHERE ledger = $1 AND id = $2 AND channel = $3",
        by: vec![
            (Box::new(ledger), Type::INT8),
            (Box::new(text(&key.id)), Type::TEXT),
            (Box::new(text(&key.channel)), Type::TEXT),
        ],
    });
    put.chain(removed).collect()
}
