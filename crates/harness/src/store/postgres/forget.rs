//! Records that the database has forgotten changes.

use harness_core::{
    Fact, Timestamp,
    database::Forgotten,
    format::journal::{Receipts, Touched},
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    PostgresStore,
    change::{Parts, WrittenChange},
    decide::lines,
    known::{Known, LEASES, ORDER, Order, TASKS},
    rows::{column, get},
    store::Unanswered,
    wire::Step,
};

impl PostgresStore {
    /// Records that the database has forgotten changes, in the transaction that noticed. From then on
    /// the version that is left is the one that counts.
    pub(super) fn report(&mut self, forgotten: &Forgotten) -> Result<(), Unanswered> {
        let ledger = self.shared.ledger();
        let lock = format!("SELECT {ORDER} FROM harness.ledger WHERE id = $1");
        let found = self.link.all(&[
            Step::With(&lock, vec![(&ledger, Type::INT8)]),
            Step::With(TASKS, vec![(&ledger, Type::INT8)]),
            Step::With(LEASES, vec![(&ledger, Type::INT8), (&-1_i64, Type::INT8)]),
            Step::With("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint", Vec::new()),
        ])?;
        let Some(order) = found[0].first() else { return Err(Unanswered::Again) };
        let mut known = Known::load(&Order::read(order)?, &found[1], &found[2])?;
        let now: i64 = found[3].first().map(|row| get(row, 0)).transpose()?.unwrap_or_default();
        let now = now.max(known.at);
        let change = forgotten.change(&known.ledger);
        known.ledger.put_in(&change);
        known.document.put_in(&change);
        let session = known.ledger.head().session_count;
        let parts = Parts {
            ledger,
            operation: Uuid::now_v7(),
            replies: "[]".to_owned(),
            now,
            touched: Touched::default(),
            receipts: Receipts::new(),
            lines: lines(&change.facts, Timestamp::from_seconds(now), session),
        };
        let written = WrittenChange::of(&mut known, parts);
        let last = forgotten.known;
        let (version, epoch) = (column(last.version), column(last.epoch.0));
        let (hash, left) = (last.hash.to_string(), column(forgotten.found));
        let host = self.link.access.host.clone();
        let mut steps = written.steps();
        steps.push(Step::With(
            "INSERT INTO harness.forgotten (ledger, host, known_version, known_hash, known_epoch, \
             found_version) VALUES ($1, $2, $3, $4, $5, $6)",
            vec![
                (&ledger, Type::INT8),
                (&host, Type::TEXT),
                (&version, Type::INT8),
                (&hash, Type::TEXT),
                (&epoch, Type::INT8),
                (&left, Type::INT8),
            ],
        ));
        // If this is lost, the next attempt notices again, or finds it done.
        self.commit(&steps)?;
        for fact in &change.facts {
            if let Fact::Warned { message, .. } = fact {
                self.warnings.push(message.clone());
            }
        }
        self.warnings.extend(self.memory.keep(known.remembered()));
        self.shared.changed(known.version);
        self.known = Some(known);
        Ok(())
    }
}
