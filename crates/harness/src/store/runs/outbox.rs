//! The rows of the outbox in SQLite.

use harness_core::{
    Timestamp,
    notify::{Delivery, OutboxChange, Outgoing},
};
use rusqlite::{Connection, Row, params};

use super::{row::RowError, schema::has_outbox};

/// Returns all rows, in the order in which they were added.
pub(super) fn all(connection: &Connection) -> Result<Vec<Outgoing>, RowError> {
    if !has_outbox(connection)? {
        return Ok(Vec::new());
    }
    let sql =
        "SELECT id, channel, delivery, tries, due_at, error, notice FROM outbox ORDER BY number";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Stores new and changed rows, and removes those that are forgotten. A changed row keeps its place.
pub(super) fn store(connection: &Connection, change: &OutboxChange) -> Result<(), RowError> {
    let sql = "INSERT INTO outbox (id, channel, delivery, tries, due_at, error, notice) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
               ON CONFLICT (id, channel) DO UPDATE SET delivery = excluded.delivery, \
               tries = excluded.tries, due_at = excluded.due_at, error = excluded.error";
    for row in &change.put {
        let notice = serde_json::to_string(&row.notice)
            .map_err(|why| bad(&row.notice.id, "notice", why.to_string()))?;
        let due_at = row.due_at.to_string();
        let Outgoing { channel, delivery, tries, error, .. } = row;
        let delivery = delivery.name();
        connection.prepare_cached(sql)?.execute(params![
            row.notice.id,
            channel,
            delivery,
            tries,
            due_at,
            error,
            notice
        ])?;
    }
    for key in &change.removed {
        let sql = "DELETE FROM outbox WHERE id = ?1 AND channel = ?2";
        connection.prepare_cached(sql)?.execute(params![key.id, key.channel])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Outgoing, RowError> {
    let id: String = row.get("id")?;
    let (delivery, due_at, notice): (String, String, String) =
        (row.get("delivery")?, row.get("due_at")?, row.get("notice")?);
    Ok(Outgoing {
        channel: row.get("channel")?,
        delivery: Delivery::named(&delivery).ok_or_else(|| bad(&id, "delivery", delivery))?,
        tries: row.get("tries")?,
        due_at: Timestamp::parse(&due_at).map_err(|_| bad(&id, "due_at", due_at))?,
        error: row.get("error")?,
        notice: serde_json::from_str(&notice).map_err(|_| bad(&id, "notice", notice))?,
    })
}

fn bad(id: &str, column: &'static str, value: String) -> RowError {
    RowError::Bad { row: format!("message {id}"), column, value }
}
