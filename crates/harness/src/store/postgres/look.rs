//! Looks that take no lock.

use harness_core::database::{ChangeHash, Recall};
use tokio_postgres::types::Type;

use super::{
    PostgresStore,
    error::Trouble,
    known::{CHANGES, Caught, HASH_AT, Known, LEASES, ORDER, Order, TASKS},
    rows::{column, count, get},
    wire::{BEGIN_LOOK, Step},
};
use crate::store::StoreError;

impl PostgresStore {
    /// Brings the version in memory up to date. Returns `false` if the database has forgotten it.
    pub(super) fn refresh(&mut self) -> Result<bool, StoreError> {
        let until = std::time::Instant::now() + self.link.access.patience;
        loop {
            match self.look() {
                Ok(known) => return Ok(known),
                Err(Trouble::Said(error)) => return Err(self.link.placed(error).into()),
                Err(Trouble::Lost(why)) => {
                    self.link.close();
                    self.link.pause_until(until, why)?;
                }
            }
        }
    }

    fn look(&mut self) -> Result<bool, Trouble> {
        let ledger = self.ledger_number();
        if let Some(known) = &self.known {
            // The usual answer is that nothing happened.
            let sql = "SELECT version, hash, beat FROM harness.ledger WHERE id = $1";
            let rows = self.link.query(sql, vec![(&ledger, Type::INT8)])?;
            if let Some(row) = rows.first() {
                let hash: String = get(row, 1)?;
                let same = (count(row, 0)?, get::<i64>(row, 2)?) == (known.version, known.beat);
                if same && ChangeHash::parse(&hash) == Some(known.hash) {
                    return Ok(true);
                }
            }
        }
        let order = format!("SELECT {ORDER} FROM harness.ledger WHERE id = $1");
        let (version, beat) = self.known.as_ref().map_or((-1, -1), |k| (column(k.version), k.beat));
        let remembered = self.last_seen().map_or(-1, |last| column(last.version));
        let by = |number| vec![(&ledger as _, Type::INT8), (number as _, Type::INT8)];
        let rows = match self.known {
            Some(_) => Step::With(CHANGES, by(&version)),
            None => Step::With(TASKS, vec![(&ledger, Type::INT8)]),
        };
        let found = self.link.all(&[
            Step::Plain(BEGIN_LOOK),
            Step::With(&order, vec![(&ledger, Type::INT8)]),
            rows,
            Step::With(LEASES, by(&beat)),
            Step::With(HASH_AT, by(&remembered)),
            Step::Plain("COMMIT"),
        ])?;
        let Some(order) = found[1].first() else {
            self.known = None;
            return self.find_again().map(|()| false);
        };
        let order = Order::read(order)?;
        if let Some(mut known) = self.known.take() {
            return match known.catch_up(&order, &found[2], &found[3])? {
                Caught::Up => {
                    self.known = Some(known);
                    self.remember();
                    Ok(true)
                }
                Caught::Forgotten => Ok(false),
                Caught::More => {
                    self.known = Some(known);
                    self.look()
                }
                // Without a known version, the next look loads all of it.
                Caught::Behind => self.look(),
            };
        }
        if let Some(last) = self.last_seen() {
            let at: Option<String> = found[4].first().map(|row| get(row, 0)).transpose()?;
            let at = at.and_then(|hash| ChangeHash::parse(&hash));
            if last.recall(order.version, at) == Recall::Forgotten {
                return Ok(false);
            }
        }
        self.known = Some(Known::load(&order, &found[2], &found[3])?);
        self.remember();
        Ok(true)
    }
}
