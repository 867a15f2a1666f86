//! A ledger that is put into a database as a whole: an empty one, or one from files.

use harness_core::{
    Ledger,
    database::ChangeHash,
    format::{
        Document,
        journal::{self, Receipts},
    },
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    Database, DatabaseError,
    change::{receipts, seeded},
    error::Trouble,
    rows::{column, get, text},
    wire::{BEGIN, Link, Step},
};

/// A ledger that is put into a database as a whole.
pub(super) struct Seed {
    pub(super) ledger: Ledger,
    pub(super) document: Document,
    pub(super) log: Vec<String>,
    pub(super) receipts: Receipts,
}

impl Database {
    /// Puts a whole ledger into the database. Its name must be free.
    pub(super) fn seed(&self, mut seed: Seed) -> Result<(), DatabaseError> {
        let origin = Uuid::now_v7().to_string();
        let entry = journal::snapshot(&mut seed.document, &seed.log, &seed.receipts);
        let entry = entry.trim_end_matches('\n').to_owned();
        let previous = ChangeHash::origin(&origin);
        let row = SeedRow {
            name: self.0.access.ledger.to_string(),
            version: column(seed.document.revision()),
            previous: previous.to_string(),
            hash: previous.then(&entry).to_string(),
            state: seed.document.state().to_string(),
            head: seed.document.root(),
            log_bytes: column(seed.log.iter().map(|line| line.len() as u64 + 1).sum()),
            base: column(entry.len() as u64),
            origin,
            entry,
        };
        let lines: Vec<String> = seed.log.iter().map(|line| text(line)).collect();
        let kept: (Vec<String>, Vec<String>) = seed.receipts.clone().into_iter().unzip();
        self.0.side().again(|link| self.try_seed(link, &seed, &row, &lines, &kept))?;
        let mut link = self.0.side();
        self.0.find_again(&mut link).map_err(|trouble| link.given_up(trouble))
    }

    fn try_seed(
        &self,
        link: &mut Link,
        seed: &Seed,
        row: &SeedRow,
        lines: &Vec<String>,
        kept: &(Vec<String>, Vec<String>),
    ) -> Result<(), Trouble> {
        let sql = "SELECT origin FROM harness.ledger WHERE name = $1";
        let found = link.query(sql, vec![(&row.name, Type::TEXT)])?;
        if let Some(found) = found.first() {
            // The connection may have been lost when this very ledger was committed.
            let ours = get::<String>(found, 0)? == row.origin;
            let taken = DatabaseError::LedgerTaken {
                server: link.access.server(),
                ledger: row.name.clone(),
            };
            return if ours { Ok(()) } else { Err(taken.into()) };
        }
        let made = link.all(&[Step::Plain(BEGIN), row.ledger()]);
        let made = match made {
            // Another host was faster.
            Err(Trouble::Said(DatabaseError::Refused { why, .. }))
                if why.contains("ledger_name_key") =>
            {
                let ledger = row.name.clone();
                return Err(
                    DatabaseError::LedgerTaken { server: link.access.server(), ledger }.into()
                );
            }
            made => made?,
        };
        let ledger: i64 = made[1].first().map(|row| get(row, 0)).transpose()?.unwrap_or_default();
        let tasks = seeded(&seed.ledger, &seed.document);
        let mut steps = vec![row.change(&ledger)];
        steps.push(Step::With(
            "INSERT INTO harness.book (ledger) VALUES ($1)",
            vec![(&ledger, Type::INT8)],
        ));
        if !tasks.is_empty() {
            steps.push(tasks.step(&ledger, &row.version));
        }
        steps.push(Step::With(
            "INSERT INTO harness.log (ledger, version, number, line) \
             SELECT $1, $2, n, line FROM unnest($3::text[]) WITH ORDINALITY AS u (line, n)",
            vec![(&ledger, Type::INT8), (&row.version, Type::INT8), (lines, Type::TEXT_ARRAY)],
        ));
        steps.extend(receipts(&ledger, kept));
        steps.push(Step::Plain("COMMIT"));
        link.all(&steps).map(|_| ())
    }
}

/// The row of a new ledger, and its first change.
struct SeedRow {
    name: String,
    origin: String,
    version: i64,
    previous: String,
    hash: String,
    state: String,
    head: String,
    log_bytes: i64,
    base: i64,
    entry: String,
}

impl SeedRow {
    fn ledger(&self) -> Step<'_> {
        Step::With(
            "INSERT INTO harness.ledger (name, origin, version, hash, state, head, log_bytes, \
             snapshot_bytes, changed_at, server_line) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp(), harness.server_line()) \
             RETURNING id",
            vec![
                (&self.name, Type::TEXT),
                (&self.origin, Type::TEXT),
                (&self.version, Type::INT8),
                (&self.hash, Type::TEXT),
                (&self.state, Type::TEXT),
                (&self.head, Type::TEXT),
                (&self.log_bytes, Type::INT8),
                (&self.base, Type::INT8),
            ],
        )
    }

    fn change<'a>(&'a self, ledger: &'a i64) -> Step<'a> {
        Step::With(
            "INSERT INTO harness.change (ledger, version, previous, hash, at, entry) \
             VALUES ($1, $2, $3, $4, clock_timestamp(), $5)",
            vec![
                (ledger, Type::INT8),
                (&self.version, Type::INT8),
                (&self.previous, Type::TEXT),
                (&self.hash, Type::TEXT),
                (&self.entry, Type::TEXT),
            ],
        )
    }
}
