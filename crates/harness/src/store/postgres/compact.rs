//! Replaces the oldest changes by a snapshot.

use harness_core::{Timestamp, format::journal};
use tokio_postgres::types::Type;

use super::{
    Database, DatabaseError, PostgresStore,
    error::Trouble,
    known::damaged,
    rows::{column, count, get},
    wire::{BEGIN, By, Link, Step},
};
use crate::store::{Store as _, StoreError};

/// Reads the changes up to a version, the oldest first. The first one is a snapshot.
const UP_TO: &str =
    "SELECT entry FROM harness.change WHERE ledger = $1 AND version <= $2 ORDER BY version";

/// The result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The number of changes that a snapshot replaced.
    pub replaced: u64,
    /// The version of the snapshot.
    pub version: u64,
    /// The time of the database.
    pub at: Timestamp,
}

impl Database {
    /// Replaces all changes but the newest `keep` by a snapshot. Only the owner of the tables may do it,
    /// because only the owner can lift the ban on rewriting changes, for this transaction.
    pub fn compact(&self, keep: u64) -> Result<Compacted, DatabaseError> {
        let ledger = self.0.ledger();
        let at = self.now()?;
        let mut link = self.0.side();
        let done = compact(&mut link, ledger, keep);
        let (replaced, version) = done.map_err(|trouble| {
            let error = link.given_up(trouble);
            // A transaction may still be open.
            link.close();
            error
        })?;
        Ok(Compacted { replaced, version, at })
    }
}

fn compact(link: &mut Link, ledger: i64, keep: u64) -> Result<(u64, u64), Trouble> {
    let found = link.all(&[
        Step::Plain(BEGIN),
        Step::With(
            "SELECT version FROM harness.ledger WHERE id = $1 FOR UPDATE",
            vec![(&ledger, Type::INT8)],
        ),
        Step::With(
            "SELECT min(version) FROM harness.change WHERE ledger = $1",
            vec![(&ledger, Type::INT8)],
        ),
    ])?;
    let (Some(newest), Some(oldest)) = (found[1].first(), found[2].first()) else {
        return Err(damaged("the ledger has no changes"));
    };
    let (newest, oldest) = (count(newest, 0)?, count(oldest, 0)?);
    let version = newest.saturating_sub(keep);
    if version <= oldest {
        link.all(&[Step::Plain("ROLLBACK")])?;
        return Ok((0, oldest));
    }
    let upto = column(version);
    let rows = link.query(UP_TO, vec![(&ledger, Type::INT8), (&upto, Type::INT8)])?;
    let replayed = journal::replay(journal_text(&rows)?.as_bytes());
    let mut replayed = replayed
        .filter(|replayed| replayed.revision == version)
        .ok_or_else(|| damaged("the changes do not lead to the version that they name"))?;
    let kept = &replayed.kept;
    let entry = journal::snapshot(&mut replayed.document, &kept.log, &kept.receipts);
    let entry = entry.trim_end_matches('\n').to_owned();
    let size = column(entry.len() as u64);
    let by = || -> By<'_> { vec![(&ledger, Type::INT8), (&upto, Type::INT8)] };
    let mut replace = by();
    replace.push((&entry, Type::TEXT));
    link.all(&[
        Step::Plain("ALTER TABLE harness.change DISABLE TRIGGER append_only"),
        Step::With("DELETE FROM harness.change WHERE ledger = $1 AND version < $2", by()),
        Step::With(
            "UPDATE harness.change SET entry = $3 WHERE ledger = $1 AND version = $2",
            replace,
        ),
        Step::Plain("ALTER TABLE harness.change ENABLE TRIGGER append_only"),
        Step::With(
            "UPDATE harness.ledger SET snapshot_bytes = $2 WHERE id = $1",
            vec![(&ledger, Type::INT8), (&size, Type::INT8)],
        ),
        Step::Plain("COMMIT"),
    ])?;
    Ok((version - oldest, version))
}

fn journal_text(rows: &[tokio_postgres::Row]) -> Result<String, Trouble> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&get::<String>(row, 0)?);
        text.push('\n');
    }
    Ok(text)
}

impl PostgresStore {
    /// Replays all changes from the first one. The result is the ledger in the form of its file, without
    /// renewals, which are no history.
    pub fn replayed(&mut self) -> Result<String, StoreError> {
        self.ledger()?;
        let (ledger, all) = (self.rows.shared.ledger(), i64::MAX);
        let rows = self
            .rows
            .link
            .again(|link| link.query(UP_TO, vec![(&ledger, Type::INT8), (&all, Type::INT8)]))?;
        let text = match journal_text(&rows) {
            Ok(text) => text,
            Err(trouble) => return Err(self.rows.link.given_up(trouble).into()),
        };
        let replayed = journal::replay(text.as_bytes());
        let replayed = replayed.map(|mut replayed| replayed.document.render(&replayed.ledger));
        let damaged = || self.rows.link.given_up(damaged("the changes cannot be replayed"));
        replayed.ok_or_else(|| damaged().into())
    }
}
