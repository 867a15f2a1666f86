//! The chain of changes, and what a host remembers of it.
//!
//! Each change has the hash of the one before it. A host remembers the version and the hash of the
//! last change that it has seen. A database that does not have this change has forgotten it: a
//! replica that lagged behind took over, or somebody restored an older state.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{
    Change, Epoch, Fact, Ledger, Reply, Timestamp,
    ledger::{EPOCHS_OF_A_TRANSACTION, Head, Unsettled},
};

/// The hash of a change and of everything before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeHash([u8; 32]);

impl ChangeHash {
    /// Returns the start of the chain of a ledger. `origin` is a random name of the ledger, so that two
    /// ledgers with the same content have different chains.
    pub fn origin(origin: &str) -> Self {
        Self(Sha256::new().chain_update("harness ledger ").chain_update(origin).finalize().into())
    }

    /// Returns the hash of the change with the text `entry` after this one.
    #[must_use]
    pub fn then(&self, entry: &str) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(entry).finalize().into())
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        crate::format::State::parse(text).map(|state| Self(state.bytes()))
    }
}

impl fmt::Display for ChangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangeHash({self})")
    }
}

/// What a host remembers of a ledger between two looks, and between two of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// The version of the last change that it has seen.
    pub version: u64,
    /// The hash of that change.
    pub hash: ChangeHash,
    /// The largest epoch that was assigned up to that change.
    pub epoch: Epoch,
}

impl Remembered {
    /// Reads the text of the file. A file that is cut off or foreign is no memory.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let mut next = || words.next();
        let (name, version, hash, epoch) = (next()?, next()?, next()?, next()?);
        let (version, epoch) = (version.parse().ok()?, Epoch(epoch.parse().ok()?));
        let found = Self { version, hash: ChangeHash::parse(hash)?, epoch };
        (name == "harness-memory" && found.to_text() == text).then_some(found)
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let Self { version, hash, epoch } = self;
        format!("harness-memory {version} {hash} {epoch} end\n")
    }

    /// Compares the memory with a database. `version` is the newest version there, and `at` the hash
    /// that the change of the remembered version has there, if that change is still stored.
    pub fn recall(&self, version: u64, at: Option<ChangeHash>) -> Recall {
        match at {
            _ if version < self.version => Recall::Forgotten,
            Some(hash) if hash != self.hash => Recall::Forgotten,
            Some(_) => Recall::Known,
            None => Recall::TooOld,
        }
    }
}

/// The result of comparing a memory with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    /// The database has the remembered change.
    Known,
    /// The database does not have it.
    Forgotten,
    /// A snapshot has replaced the change, so nothing can be said.
    TooOld,
}

/// A database that has forgotten changes, or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    /// The last change that this host knew; `None` if it misses nothing, but another server has taken
    /// over, and other hosts may miss something.
    pub known: Option<Remembered>,
    /// The newest version that is left.
    pub found: u64,
}

/// A second has more epochs than claims are made in it, over a long time.
const EPOCHS_BITS: u32 = 8;
/// The number of changes that a server that takes over may lack unnoticed. Hosts that know of more say so
/// themselves.
const LAG_MAX: u64 = 1000;

impl Forgotten {
    /// Returns the change that a host makes when it notices: a warning, and epochs that no lost claim
    /// can have had.
    pub fn change(&self, ledger: &Ledger, now: Timestamp) -> Change {
        let epoch = self.next_epoch(ledger.epoch(), now);
        let before = ledger.head();
        let unsettled = Some(Self::unsettled(ledger, epoch));
        let head = Head { epoch, unsettled, ..before.clone() };
        let found = self.found;
        let lost = match &self.known {
            Some(known) => format!(
                "the database has forgotten changes: version {} was seen here, and it has version \
                 {found}",
                known.version
            ),
            None => format!(
                "another server has taken over with version {found}, and may have forgotten changes"
            ),
        };
        let message = format!(
            "{lost}; epochs continue after {epoch}, and results that landed are looked for before \
             work goes on"
        );
        let facts = vec![Fact::Warned { task: None, message }];
        Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted }
    }

    /// A forgotten claim has a later epoch than all that are left. What was forgotten before and is not
    /// settled yet is looked for at the same time.
    fn unsettled(ledger: &Ledger, until: Epoch) -> Unsettled {
        match ledger.head().unsettled {
            Some(earlier) => Unsettled { until, ..earlier },
            None => Unsettled { after: ledger.epoch(), until },
        }
    }

    /// Each lost version may have assigned as many epochs as one transaction can, and so may those
    /// that only other hosts have seen. A jump may be forgotten too: the time makes the next one larger.
    fn next_epoch(&self, found: Epoch, now: Timestamp) -> Epoch {
        let (known, lost) = match &self.known {
            Some(known) => (known.epoch, known.version.saturating_sub(self.found).max(1)),
            None => (found, LAG_MAX),
        };
        let of_time = u64::try_from(now.seconds()).unwrap_or_default() << EPOCHS_BITS;
        let skipped = lost.saturating_mul(EPOCHS_OF_A_TRANSACTION);
        Epoch(found.max(known).0.max(of_time).saturating_add(skipped))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn remembered(version: u64) -> Remembered {
        Remembered { version, hash: ChangeHash::origin("a").then("x"), epoch: Epoch(7) }
    }

    #[test]
    fn a_memory_is_read_back_and_a_part_of_one_is_not() {
        let text = remembered(12).to_text();
        assert_eq!(Remembered::parse(&text), Some(remembered(12)));
        for cut in 0..text.len() {
            assert_eq!(Remembered::parse(&text[..cut]), None, "{cut}");
        }
        assert_ne!(ChangeHash::origin("a"), ChangeHash::origin("b"));
    }

    #[test]
    fn a_database_without_the_remembered_change_has_forgotten() {
        let known = remembered(12);
        let other = ChangeHash::origin("b");
        for (version, at, expected) in [
            (12, Some(known.hash), Recall::Known),
            (15, Some(known.hash), Recall::Known),
            (11, None, Recall::Forgotten),
            (12, Some(other), Recall::Forgotten),
            (20, Some(other), Recall::Forgotten),
            (20, None, Recall::TooOld),
        ] {
            assert_eq!(known.recall(version, at), expected, "{version} {at:?}");
        }
    }

    #[test]
    fn epochs_jump_over_all_that_may_be_lost() {
        let ledger = Ledger::new(Head::new(Timestamp::from_seconds(0)), Vec::new()).unwrap();
        for (known, expected, told) in [
            (Some(remembered(12)), 7 + 3 * EPOCHS_OF_A_TRANSACTION, "version 12 was seen"),
            (None, LAG_MAX * EPOCHS_OF_A_TRANSACTION, "another server has taken over"),
        ] {
            let change = Forgotten { known, found: 9 }.change(&ledger, Timestamp::from_seconds(0));
            let head = change.head.unwrap();
            let (after, until) = (Epoch(0), Epoch(expected));
            assert_eq!(head.epoch, until);
            assert_eq!(head.unsettled, Some(Unsettled { after, until }));
            assert!(
                matches!(&change.facts[0], Fact::Warned { message, .. } if message.contains(told))
            );
        }
        let [sooner, later] = [100, 110].map(|second| {
            let forgotten = Forgotten { known: None, found: 9 };
            forgotten.change(&ledger, Timestamp::from_seconds(second)).head.unwrap().epoch
        });
        assert!(later.0 > sooner.0 + 1000, "a jump that was forgotten is not made again");
    }
}
