//! What the answers promised, kept apart from the rows. Each checker is one function.

use std::collections::BTreeMap;

use harness::store::Applied;
use harness_core::{Command, Reply, TaskId, Timestamp, command::Claimed, database::Remembered};

use super::{
    database::Server,
    host::{Ended, Host, Sent},
};
use crate::checkers::Violation;

/// A version that a host has answered from.
struct Stamp {
    seen: Remembered,
    host: usize,
    /// `true` if a replica took over that lacks it.
    forgotten: bool,
}

/// What became of a task that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// It is in the version with this number of a stamp.
    Added(usize),
    Never,
    Unknown,
}

#[derive(Default)]
pub(super) struct Annals {
    stamps: Vec<Stamp>,
    titles: BTreeMap<String, Asked>,
    /// The claims by their epochs, with the worker.
    epochs: BTreeMap<u64, (TaskId, String)>,
    /// The ends of the leases that count, by task.
    live: BTreeMap<TaskId, (String, Timestamp)>,
    /// The completions, with their stamp.
    completed: BTreeMap<TaskId, usize>,
    takeovers: usize,
}

fn violated<T>(checker: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { checker, what })
}

impl Annals {
    /// Notes the takeovers that happened meanwhile.
    pub(super) fn follow(&mut self, server: &Server) {
        for left in server.takeovers.iter().skip(self.takeovers) {
            for stamp in self.stamps.iter_mut().filter(|stamp| stamp.seen.version > *left) {
                stamp.forgotten = true;
            }
            // Renewals are no history, so nothing shows which of them are left.
            self.live.clear();
        }
        self.takeovers = server.takeovers.len();
    }

    /// Notes the end of a batch, and checks its answers.
    pub(super) fn ended(
        &mut self,
        server: &Server,
        host: &Host,
        batch: &[Sent],
        ended: &Ended,
    ) -> Result<(), Violation> {
        self.follow(server);
        let asked = match ended {
            Ended::Done(_) => None,
            Ended::Failed => Some(Asked::Never),
            Ended::Unknown => Some(Asked::Unknown),
        };
        if let (Ended::Done(applied), Some(seen)) = (ended, host.store.last_seen()) {
            self.stamps.push(Stamp { seen, host: host.number, forgotten: false });
            for (sent, reply) in batch.iter().zip(&applied.replies) {
                let worker = host.worker(sent.worker).to_string();
                match reply {
                    Ok(reply) => self.answered(server, worker, &sent.command, reply)?,
                    Err(_) => self.refused(&sent.command),
                }
            }
        }
        for Sent { command, .. } in batch {
            if let (Command::Add(add), Some(asked)) = (command, asked) {
                self.titles.insert(add.title.clone(), asked);
            }
        }
        self.acknowledged_is_stored(server)
    }

    fn refused(&mut self, command: &Command) {
        if let Command::Add(add) = command {
            self.titles.insert(add.title.clone(), Asked::Never);
        }
    }

    fn answered(
        &mut self,
        server: &Server,
        worker: String,
        command: &Command,
        reply: &Reply,
    ) -> Result<(), Violation> {
        let stamp = self.stamps.len() - 1;
        match (command, reply) {
            (Command::Add(add), _) => {
                self.titles.insert(add.title.clone(), Asked::Added(stamp));
                Ok(())
            }
            (Command::Claim(_) | Command::TakeOver(_), Reply::Claimed(claimed)) => {
                self.a_claim_is_for_one(server, &worker, claimed)?;
                self.epochs_are_new(worker, claimed)
            }
            (Command::Renew(renew), Reply::Lease { expires_at, .. }) => {
                self.live.insert(renew.holder.task.clone(), (worker, *expires_at));
                Ok(())
            }
            (Command::Complete(complete), _) => {
                self.a_task_is_completed_once(&complete.holder.task, stamp)
            }
            _ => Ok(()),
        }
    }

    /// While a lease that was answered lasts, nobody else gets the task.
    fn a_claim_is_for_one(
        &mut self,
        server: &Server,
        worker: &str,
        claimed: &Claimed,
    ) -> Result<(), Violation> {
        let order = &server.rows().order;
        let now = Timestamp::from_seconds(server.clock.max(order.at));
        let task = &claimed.task;
        if let Some((other, end)) = self.live.get(&task.id)
            && other != worker
            && *end > now
        {
            let what = format!("{} has {worker} at {now}, and {other} until {end}", task.id);
            return violated("a_claim_is_for_one", what);
        }
        if let Some(end) = task.lease_expires_at() {
            self.live.insert(task.id.clone(), (worker.to_owned(), end));
        }
        Ok(())
    }

    /// No epoch is given out twice, not even one that a takeover has lost.
    fn epochs_are_new(&mut self, worker: String, claimed: &Claimed) -> Result<(), Violation> {
        let (task, epoch) = (claimed.task.id.clone(), claimed.epoch.0);
        if let Some((other, before)) = self.epochs.get(&epoch)
            && (*other != task || *before != worker)
        {
            let what = format!("{epoch}: {task} of {worker}, and {other} of {before}");
            return violated("epochs_are_new", what);
        }
        self.epochs.insert(epoch, (task, worker));
        Ok(())
    }

    fn a_task_is_completed_once(&mut self, task: &TaskId, stamp: usize) -> Result<(), Violation> {
        self.live.remove(task);
        if let Some(before) = self.completed.insert(task.clone(), stamp)
            && !self.stamps[before].forgotten
        {
            return violated("a_task_is_completed_once", task.to_string());
        }
        Ok(())
    }

    /// What was answered is in the chain, unless a takeover has lost it.
    pub(super) fn acknowledged_is_stored(&self, server: &Server) -> Result<(), Violation> {
        match self.stamps.iter().find(|stamp| !stamp.forgotten && !server.has(&stamp.seen)) {
            Some(stamp) => {
                let what = format!("version {} of host {}", stamp.seen.version, stamp.host);
                violated("acknowledged_is_stored", what)
            }
            None => Ok(()),
        }
    }

    /// A host whose last change is gone says so.
    pub(super) fn loss_is_noticed(
        server: &Server,
        before: Option<Remembered>,
        applied: &Applied,
    ) -> Result<(), Violation> {
        let lost = before.filter(|seen| !server.has(seen));
        match lost {
            Some(seen) if !applied.warnings.iter().any(|line| line.contains("forgotten")) => {
                violated("loss_is_noticed", format!("version {} is gone", seen.version))
            }
            _ => Ok(()),
        }
    }

    /// Each command took effect once, if it was answered, and never, if it failed.
    pub(super) fn commands_take_effect_once(&self, server: &Server) -> Result<(), Violation> {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (_, text) in &server.rows().tasks {
            let task: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            *found.entry(task["title"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        for (title, asked) in &self.titles {
            let count = found.get(title).copied().unwrap_or_default();
            let fits = match asked {
                Asked::Added(stamp) if !self.stamps[*stamp].forgotten => count == 1,
                Asked::Added(_) | Asked::Unknown => count <= 1,
                Asked::Never => count == 0,
            };
            if !fits {
                return violated("commands_take_effect_once", format!("{title:?}: {count} times"));
            }
        }
        Ok(())
    }
}
