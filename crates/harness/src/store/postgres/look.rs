//! Looks that take no lock.

use harness_core::database::Recall;

use super::{
    FleetStore,
    error::{Trouble, placed},
    known::{Caught, Known},
    port::LedgerRows,
};
use crate::store::StoreError;

impl<R: LedgerRows> FleetStore<R> {
    /// Brings the version in memory up to date. Returns `false` if the database has forgotten it.
    pub(super) fn refresh(&mut self) -> Result<bool, StoreError> {
        let until = self.rows.until();
        loop {
            match self.look() {
                Ok(known) => return Ok(known),
                Err(Trouble::Said(error)) => return Err(placed(self.rows.access(), error).into()),
                Err(Trouble::Lost(why)) => {
                    self.rows.close();
                    self.rows.pause(until, why)?;
                }
            }
        }
    }

    fn look(&mut self) -> Result<bool, Trouble> {
        if let Some(known) = &self.known {
            // The usual answer is that nothing happened.
            let seen = self.rows.glance()?;
            if seen == Some((known.version, known.hash, known.beat)) {
                return Ok(true);
            }
        }
        let since = self.since();
        let Some(moment) = self.rows.look(&since)? else {
            self.known = None;
            return self.rows.find_again().map(|()| false);
        };
        if let Some(mut known) = self.known.take() {
            return match known.catch_up(&moment.order, &moment.changes, &moment.whole.leases)? {
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
        if let Some(last) = self.last_seen()
            && last.recall(moment.order.version, moment.at) == Recall::Forgotten
        {
            return Ok(false);
        }
        self.known = Some(Known::load(&moment.order, moment.whole)?);
        self.remember();
        Ok(true)
    }
}
