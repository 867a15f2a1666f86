//! The decisions of one batch, over a working copy.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use harness_core::{
    Command, Fact, Ledger, TaskId, Timestamp,
    database::renewals,
    decide,
    format::journal::{Receipts, Touched},
    task::{Intent, RenewedLease},
};

use super::{FleetStore, known::Known};
use crate::{
    home::Home,
    store::{
        Applied, StoreError, alive,
        disk::{Disk as _, RealDisk},
        file::stamp,
        journal, trajectory,
    },
};

/// The result of the decisions.
pub(super) struct Decided {
    pub(super) applied: Applied,
    /// The tasks that changed; `None` if nothing did.
    pub(super) touched: Option<Touched>,
    /// The renewals among the changes.
    pub(super) renewed: BTreeMap<TaskId, RenewedLease>,
    /// `true` if there is nothing but renewals.
    pub(super) plain_leases: bool,
}

pub(super) fn lines(facts: &[Fact], now: Timestamp, session: u64) -> Vec<String> {
    let lines = facts.iter().filter_map(|fact| fact.log_line(now, session));
    lines.map(|line| line.to_string()).collect()
}

/// Returns the answers for people who look at the table. A caller gets its answers from memory: only
/// the process that sent an operation asks for it again.
pub(super) fn words(applied: &Applied) -> String {
    const LONGEST: usize = 500;
    let words = applied.replies.iter().map(|reply| match reply {
        Ok(reply) => format!("{reply:?}").chars().take(LONGEST).collect::<String>(),
        Err(refusal) => format!("refused: {refusal}"),
    });
    let words: Vec<String> = words.map(|text| text.replace('\0', "")).collect();
    serde_json::to_string(&words).unwrap_or_default()
}

impl<R> FleetStore<R> {
    /// Decides all commands on one working copy. It becomes the known version when it is committed.
    pub(super) fn decide(
        &self,
        now: Timestamp,
        commands: &[Command],
        known: &mut Known,
        mut applied: Applied,
    ) -> Result<Decided, StoreError> {
        let mut touched: Option<Touched> = None;
        let mut renewed: BTreeMap<_, RenewedLease> = BTreeMap::new();
        // The text changes only with the first change that is more than a renewal.
        let mut plain_leases = true;
        let mut waiting = Vec::new();
        if let Some(root) = &self.root
            && commands.iter().any(|c| matches!(c, Command::Claim(_) | Command::Upkeep))
        {
            let alive = alive::among(root, &known.ledger, now);
            known.ledger.set_alive(alive);
        }
        for (n, command) in commands.iter().enumerate() {
            let change = match decide(&known.ledger, now, command) {
                Ok(change) => change,
                Err(refusal) => {
                    applied.replies.push(Err(refusal));
                    continue;
                }
            };
            if !change.is_empty() {
                match renewals(&known.ledger, &change).filter(|_| plain_leases) {
                    Some(leases) => {
                        renewed.extend(leases.into_iter().map(|lease| (lease.task.clone(), lease)));
                        waiting.push(change.clone());
                    }
                    None => {
                        plain_leases = false;
                        waiting.drain(..).for_each(|earlier| known.document.put_in(&earlier));
                        if change.archives() {
                            let kept = self.archive(now, known)?;
                            applied.archived.extend(kept.map(|path| (n, path)));
                        }
                        known.document.put_in(&change);
                    }
                }
                known.ledger.put_in(&change);
                touched.get_or_insert_default().note(&change);
            }
            applied.facts.extend(change.facts);
            applied.replies.push(Ok(change.reply));
        }
        Ok(Decided { applied, touched, renewed, plain_leases })
    }

    /// Keeps a copy of a ledger that is about to be discarded. All of it is in the changes too.
    fn archive(&self, now: Timestamp, known: &Known) -> Result<Option<PathBuf>, StoreError> {
        let Some(root) = &self.root else { return Ok(None) };
        let disk = RealDisk::open(root)?;
        disk.ensure_home()?;
        let name = format!("harness-tasks.{}.json", stamp(now));
        let kept = disk.archive(&name, known.export().as_bytes())?;
        Ok(Some(Path::new(Home::ARCHIVE).join(kept)))
    }

    /// Returns the receipts of the completions and intended landings among `facts`. They were made
    /// durable here before. Another machine may have to complete what has landed.
    pub(super) fn receipts(&self, ledger: &Ledger, facts: &[Fact]) -> Result<Receipts, StoreError> {
        let with_receipt = facts.iter().filter_map(|fact| match fact {
            Fact::Completed { task, .. } | Fact::Intended { task, intent: Intent::Land { .. } } => {
                Some(task)
            }
            _ => None,
        });
        let tasks: Vec<&TaskId> = with_receipt.collect();
        match &self.root {
            Some(root) if !tasks.is_empty() => {
                Ok(journal::receipts_of(&RealDisk::open(root)?, ledger, &tasks)?)
            }
            _ => Ok(Receipts::new()),
        }
    }

    /// Appends the facts to the trajectory of the root. Returns a warning, if there is one.
    pub(super) fn tell_trajectory(&self, now: Timestamp, facts: &[Fact]) -> Option<String> {
        let root = self.root.as_ref()?;
        let told = RealDisk::open(root).and_then(|disk| trajectory::tell(&disk, now, facts));
        told.err().map(|why| format!("the change was made, but not added to the trajectory: {why}"))
    }
}
