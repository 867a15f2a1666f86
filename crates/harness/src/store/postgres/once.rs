//! Transactions of other processes, which may have made them already: a worker that gets no answer from
//! the host of its root goes to the database itself, and the host may still be at it.

use harness_core::{Command, Timestamp};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{
    DatabaseError, FleetStore,
    error::{Trouble, placed},
    port::LedgerRows,
};
use crate::store::{AppliedOnce, Recording, StoreError, TransactionId};

/// The name of a transaction, and whether it is stored if it changes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) id: Uuid,
    pub(super) recording: Recording,
}

impl Operation {
    /// Returns the name of a new transaction of this process.
    pub(super) fn new() -> Self {
        Self { id: Uuid::now_v7(), recording: Recording::WithChange }
    }

    /// Returns the name that a transaction has for all who try to make it.
    fn of(of: &TransactionId) -> Self {
        let digest = Sha256::digest(format!("{}\0{}", of.by, of.number));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self { id: uuid::Builder::from_random_bytes(bytes).into_uuid(), recording: of.recording }
    }
}

impl<R: LedgerRows> FleetStore<R> {
    pub(super) fn transaction_once(
        &mut self,
        now: Timestamp,
        of: &TransactionId,
        commands: &[Command],
    ) -> Result<AppliedOnce, StoreError> {
        let operation = Operation::of(of);
        if self.has_made(operation.id)? {
            return Ok(AppliedOnce::Before);
        }
        match self.transaction_as(operation, now, commands) {
            Ok(applied) => Ok(AppliedOnce::Now(applied)),
            // Another process has stored it meanwhile.
            Err(why) if is_refused(&why) && self.has_made(operation.id)? => Ok(AppliedOnce::Before),
            Err(why) => Err(why),
        }
    }

    /// Returns whether an operation took effect, after those that are under way.
    fn has_made(&mut self, operation: Uuid) -> Result<bool, StoreError> {
        let until = self.rows.until();
        loop {
            match self.rows.took_effect(operation) {
                Ok(made) => return Ok(made),
                Err(Trouble::Said(error)) => return Err(placed(self.rows.access(), error).into()),
                Err(Trouble::Lost(why)) => {
                    self.rows.close();
                    self.rows.pause(until, why)?;
                }
            }
        }
    }
}

fn is_refused(why: &StoreError) -> bool {
    matches!(why, StoreError::Database(why) if matches!(**why, DatabaseError::Refused { .. }))
}
