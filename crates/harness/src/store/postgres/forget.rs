//! Records that the database has forgotten changes.

use harness_core::{
    Fact, Timestamp,
    database::Forgotten,
    format::journal::{Receipts, Touched},
};
use uuid::Uuid;

use super::{
    FleetStore,
    change::{Parts, WrittenChange},
    decide::lines,
    known::Known,
    port::{LedgerMoment, LedgerRows, LedgerWrite},
    store::Unanswered,
};

impl<R: LedgerRows> FleetStore<R> {
    /// Records that the database has forgotten changes, in the transaction that noticed. From then on
    /// the version that is left is the one that counts.
    pub(super) fn report(
        &mut self,
        forgotten: &Forgotten,
        moment: &LedgerMoment,
    ) -> Result<(), Unanswered> {
        let mut known = Known::load(&moment.order, self.rows.whole()?)?;
        let now = moment.now.max(known.at);
        let change = forgotten.change(&known.ledger, Timestamp::from_seconds(now));
        known.ledger.put_in(&change);
        known.document.put_in(&change);
        let session = known.ledger.head().session_count;
        let parts = Parts {
            operation: Uuid::now_v7(),
            replies: "[]".to_owned(),
            now,
            touched: Touched::default(),
            receipts: Receipts::new(),
            lines: lines(&change.facts, Timestamp::from_seconds(now), session),
        };
        let written = WrittenChange::of(&mut known, parts);
        // If this is lost, the next attempt notices again, or finds it done.
        self.rows.write(&LedgerWrite::Change(&written))?;
        for fact in &change.facts {
            if let Fact::Warned { message, .. } = fact {
                self.warnings.push(message.clone());
            }
        }
        self.warnings.extend(self.memory.keep(known.remembered()));
        self.rows.committed(known.version);
        self.known = Some(known);
        Ok(())
    }
}
