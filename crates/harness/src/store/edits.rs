//! Decides whether a ledger that another program or a person wrote is accepted.
//!
//! The seal shows whether harness wrote a version. If it did not, and a run or a worker holds the
//! ledger, core judges the changes. A refused edit is archived, and the version that harness knows
//! is written back. After a run that was killed, nothing is written back, and a person decides.

use std::collections::BTreeSet;

use harness_core::{
    Command, Fact, Flag, Ledger, TaskId, Timestamp,
    command::Raise,
    edit_from_outside::{Difference, Held, Judged, describe, held_by_a_run, judge_edit},
    format::{
        Seal,
        journal::{self, Ending},
    },
    ledger::ConcurrencyMode,
    task::Status,
};

use super::{
    Applied, FileStore, StoreError,
    disk::File,
    file::stamp,
    version::{Freshness, Known},
};
use crate::home::Home;

/// The treatment of changes that were made while a killed run held the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InDoubt {
    /// Report them, and do nothing.
    Refuse,
    /// Accept them, because a person confirmed them.
    Take,
}

/// The result of [`FileStore::acknowledge`].
#[derive(Debug)]
pub struct Acknowledged {
    /// The changes in the ledger, if they were in doubt and are accepted from now on.
    pub edit: Option<String>,
    /// The number of alerts that are no longer shown.
    pub alerts: usize,
    /// Warnings for a person.
    pub warnings: Vec<String>,
}

impl FileStore {
    /// Records that a person has looked. Alerts are removed, and a ledger that was changed while a
    /// killed run held it is accepted.
    pub fn acknowledge(&mut self, now: Timestamp) -> Result<Acknowledged, StoreError> {
        self.in_doubt = InDoubt::Take;
        let applied = super::Store::apply(self, now, &[Command::Acknowledge]);
        self.in_doubt = InDoubt::Refuse;
        let Applied { facts, warnings, .. } = applied?;
        let mut said = Acknowledged { edit: None, alerts: 0, warnings };
        for fact in facts {
            match fact {
                Fact::Acknowledged { count } => said.alerts = count,
                Fact::Warned { task: None, message } => said.edit = Some(message),
                _ => {}
            }
        }
        Ok(said)
    }

    /// Decides about a ledger that is not the one that this process wrote last.
    pub(super) fn vet(
        &mut self,
        now: Timestamp,
        mut found: Known,
    ) -> Result<Freshness, StoreError> {
        let memory = self.known.take();
        if self.is_held()
            && let Some(known) = memory.as_ref()
        {
            // No other program may write now, so even an earlier version by harness is an edit.
            let judged = judge_edit(&known.ledger, &found.ledger, &Held::Run);
            return self.follow(now, memory, found, judged);
        }
        let Some(known) = self.known_otherwise(memory, &mut found)? else {
            self.known = Some(found);
            return Ok(Freshness::AsKnown);
        };
        if held_by_a_run(&known.ledger) {
            let judged = judge_edit(&known.ledger, &found.ledger, &Held::Run);
            return match (judged, self.in_doubt) {
                (Judged::Refused { what }, InDoubt::Refuse) => {
                    Err(StoreError::Edited { what: describe(&what) })
                }
                (Judged::Refused { what }, InDoubt::Take) => {
                    let taken = Judged::Taken { what, unproven: Vec::new() };
                    self.follow(now, Some(known), found, taken)
                }
                (taken, _) => self.follow(now, Some(known), found, taken),
            };
        }
        let claims = if self.hosting { live_claims(&known.ledger, now) } else { BTreeSet::new() };
        let several =
            known.ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent;
        if claims.is_empty() && !several {
            self.known = Some(found);
            return Ok(Freshness::AsKnown);
        }
        let judged = judge_edit(&known.ledger, &found.ledger, &Held::Claims(claims));
        let judged = match judged {
            // A row that nobody holds may be edited without a report.
            Judged::Taken { unproven, .. } if unproven.is_empty() => {
                self.known = Some(found);
                return Ok(Freshness::AsKnown);
            }
            other => other,
        };
        self.follow(now, Some(known), found, judged)
    }

    /// Returns the version that harness knows, if `found` differs from it and harness did not write
    /// it.
    fn known_otherwise(
        &self,
        memory: Option<Known>,
        found: &mut Known,
    ) -> Result<Option<Known>, StoreError> {
        let Some(key) = &self.key else { return Ok(None) };
        let journal = match self.disk.journals() {
            true => Ending::of(
                &self.disk.tail(File::Journal, journal::ENDING_BYTES).unwrap_or_default(),
            ),
            false => None,
        };
        let older = journal.is_some_and(|ending| ending.revision > found.document.revision());
        let sealed = found.document.seal(key) == Seal::Fits;
        if sealed && !older {
            return Ok(None);
        }
        let replayed =
            self.replayed()?.map(|replayed| Known::new(replayed.ledger, replayed.document, None));
        let replayed = match replayed {
            Some(known) if self.wrote(&known.document) => Some(known),
            // A journal that harness did not write does not contradict a ledger that it wrote.
            _ if sealed => return Ok(None),
            // An agent that replaced or removed the journal may have left the backup.
            other => self.sealed_backup()?.or(other),
        };
        let newest = match (memory, replayed) {
            (Some(memory), Some(replayed))
                if replayed.document.revision() > memory.document.revision() =>
            {
                Some(replayed)
            }
            (Some(memory), _) => Some(memory),
            (None, replayed) => replayed,
        };
        // The key was lost, or the file was only rewritten: the content is the same.
        let state = found.state();
        Ok(newest.and_then(|mut known| (known.state() != state).then_some(known)))
    }

    fn follow(
        &mut self,
        now: Timestamp,
        known: Option<Known>,
        mut found: Known,
        judged: Judged,
    ) -> Result<Freshness, StoreError> {
        let Some(known) = known else { return Ok(Freshness::AsKnown) };
        match judged {
            Judged::Refused { what } => {
                self.known = Some(Known { identity: None, ..known });
                self.refuse_edit(now, found.document.source().as_bytes(), &describe(&what))
            }
            Judged::Taken { what, unproven } => {
                let head = known.ledger.head();
                found.ledger.set_log_tail(head.log_tail.clone(), head.log_at);
                self.known = Some(found);
                Ok(Freshness::Taken { what, unproven })
            }
        }
    }

    /// Archives the foreign file. The transaction writes the known version back.
    pub(super) fn refuse_edit(
        &self,
        now: Timestamp,
        bytes: &[u8],
        what: &str,
    ) -> Result<Freshness, StoreError> {
        self.disk.ensure_home()?;
        let name = format!("harness-tasks.{}.foreign", stamp(now));
        let kept = self.disk.archive(&name, bytes)?;
        let message = format!(
            "{} was changed from outside and written back ({what}); the foreign file is {}/{kept}",
            Home::LEDGER,
            Home::ARCHIVE
        );
        Ok(Freshness::Refused { message })
    }
}

/// Returns the claims that workers hold now.
fn live_claims(ledger: &Ledger, now: Timestamp) -> BTreeSet<TaskId> {
    let live = |end: Option<Timestamp>| end.is_some_and(|end| end > now);
    let held = ledger.tasks().filter(|task| task.status() == Status::InProgress);
    held.filter(|task| live(task.lease_expires_at())).map(|task| task.id.clone()).collect()
}

/// Returns the flags for a refused edit, one on each attempt in progress.
pub(super) fn raised(ledger: &Ledger, message: &str) -> Vec<Command> {
    let raise =
        |task| Command::Raise(Raise { task, flag: Flag::Edit, message: message.to_owned() });
    let working = ledger.tasks().filter(|task| task.status() == Status::InProgress);
    let mut raised: Vec<Command> = working.map(|task| raise(Some(task.id.clone()))).collect();
    if raised.is_empty() {
        raised.push(raise(None));
    }
    raised
}

/// Returns the report about an accepted edit.
pub(super) fn report(
    in_doubt: InDoubt,
    what: &[Difference],
    unproven: Vec<TaskId>,
) -> (Vec<Fact>, Vec<Command>) {
    let who = match in_doubt {
        InDoubt::Take => "the operator took an edit of harness-tasks.json from outside",
        InDoubt::Refuse => "an edit of harness-tasks.json from outside was taken",
    };
    let fact = Fact::Warned { task: None, message: format!("{who}: {}", describe(what)) };
    let raise = |task| {
        let message =
            "unproven: completed by an edit of harness-tasks.json, there is no receipt".to_owned();
        Command::Raise(Raise { task: Some(task), flag: Flag::Unproven, message })
    };
    (vec![fact], unproven.into_iter().map(raise).collect())
}
