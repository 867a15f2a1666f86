//! A change as one statement. Statements of their own would each be parsed, answered and waited
//! for while the ledger is locked.

use tokio_postgres::types::Type;

use super::{change::WrittenChange, wire::Step};

/// Writes the change, the operation, the tasks, the log and the new version, and removes the renewals
/// that the change contains. The parts do not depend on each other.
const TOGETHER: &str = "WITH \
     c AS (INSERT INTO harness.change (ledger, version, previous, hash, at, entry) \
     VALUES ($1, $2, $3, $4, to_timestamp($5::bigint), $6)), \
     o AS (INSERT INTO harness.operation (ledger, id, version, replies) VALUES ($1, $7, $2, $8)), \
     l AS (DELETE FROM harness.lease WHERE ledger = $1 AND task = ANY ($9)), \
     t AS (INSERT INTO harness.task (ledger, id, added_version, added_index, title, status, attempts, \
     epoch, claimed_by, entry) \
     SELECT $1, id, $2, n, title, status, attempts, epoch, claimed_by, entry \
     FROM unnest($10::text[], $11::text[], $12::text[], $13::integer[], $14::bigint[], $15::text[], \
     $16::text[]) WITH ORDINALITY AS u (id, title, status, attempts, epoch, claimed_by, entry, n) \
     ON CONFLICT (ledger, id) DO UPDATE SET title = excluded.title, status = excluded.status, \
     attempts = excluded.attempts, epoch = excluded.epoch, claimed_by = excluded.claimed_by, \
     entry = excluded.entry), \
     g AS (INSERT INTO harness.log (ledger, version, number, line) \
     SELECT $1, $2, n, line FROM unnest($17::text[]) WITH ORDINALITY AS u (line, n)) \
     UPDATE harness.ledger SET version = $2, hash = $4, state = $18, head = $19, log_bytes = $20, \
     changed_at = to_timestamp($5::bigint), server_line = harness.server_line() WHERE id = $1";

impl WrittenChange {
    /// Returns the one statement that writes a change. Tasks that it removes are gone before.
    pub(super) fn together<'a>(&'a self, ledger: &'a i64) -> Step<'a> {
        let tasks = &self.tasks;
        Step::With(
            TOGETHER,
            vec![
                (ledger, Type::INT8),
                (&self.version, Type::INT8),
                (&self.previous, Type::TEXT),
                (&self.hash, Type::TEXT),
                (&self.at, Type::INT8),
                (&self.entry, Type::TEXT),
                (&self.operation, Type::UUID),
                (&self.replies, Type::TEXT),
                (&self.touched, Type::TEXT_ARRAY),
                (&tasks.ids, Type::TEXT_ARRAY),
                (&tasks.titles, Type::TEXT_ARRAY),
                (&tasks.statuses, Type::TEXT_ARRAY),
                (&tasks.attempts, Type::INT4_ARRAY),
                (&tasks.epochs, Type::INT8_ARRAY),
                (&tasks.workers, Type::TEXT_ARRAY),
                (&tasks.entries, Type::TEXT_ARRAY),
                (&self.lines, Type::TEXT_ARRAY),
                (&self.state, Type::TEXT),
                (&self.head, Type::TEXT),
                (&self.log_bytes, Type::INT8),
            ],
        )
    }
}
