//! The line in which results wait to become part of the target branch. Each step of an entry is one
//! small change of the head.

use serde::{Deserialize, Serialize};

use super::{Change, Gone, Holder, Refusal, Reply};
use crate::{
    CommitId, Epoch, Task, TaskId, Timestamp, WorkerId,
    fact::{Fact, LineStep},
    ledger::{Head, LandingEntry, Ledger},
    line,
};

/// A step of the entry of a claim in the line. Entries that have lost their place are dropped on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// The holder of the claim whose result it is.
    pub holder: Holder,
    /// The step.
    pub step: LandingStep,
    /// The lease of the claim, which is renewed with each step.
    pub lease_seconds: u64,
}

/// A step of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandingStep {
    /// It joins the end of the line. An entry that is there keeps its place.
    Join,
    /// It was put on top of `onto`. Entries behind it may build on the result.
    Announce {
        /// The commit below.
        onto: CommitId,
        /// The result; `None` if it conflicts with what has not landed yet.
        commit: Option<CommitId>,
    },
    /// The check judged the announced commit.
    Judge {
        /// The commit that the check ran on.
        commit: CommitId,
        /// The result of the check.
        green: bool,
    },
    /// It is still at work.
    Renew,
    /// It leaves the line.
    Leave {
        /// The files in which it conflicts with what has landed, if that is the reason.
        conflicts: Vec<String>,
    },
}

/// Removes the entry of a worker that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evict {
    /// The task of the entry.
    pub task: TaskId,
    /// The epoch of the entry.
    pub epoch: Epoch,
    /// How it is known that the worker is gone. An older version sends this only for a dead worker.
    #[serde(default = "dead")]
    pub gone: Gone,
}

fn dead() -> Gone {
    Gone::Dead
}

impl Landing {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Result<Change, Refusal> {
        let mut task = self.holder.claimed(ledger)?.clone();
        let epoch = task.epoch.unwrap_or_default();
        let mut head = ledger.head().clone();
        head.landing.retain(|entry| !line::has_lost_place(ledger, entry, now));
        let at = line::position(&head.landing, &task.id, epoch);
        let missing = || Refusal::NotInLine { task: task.id.clone() };
        match (&self.step, at) {
            (LandingStep::Join, None) => head.landing.push(LandingEntry {
                task: task.id.clone(),
                epoch,
                onto: None,
                commit: None,
                green: None,
                renewed_at: Some(now),
            }),
            (LandingStep::Leave { conflicts }, None) if *conflicts == task.conflicts => {
                return Ok(Change::reply(Reply::Task(task.id)));
            }
            (LandingStep::Leave { conflicts }, None) => task.conflicts.clone_from(conflicts),
            (_, None) => return Err(missing()),
            (LandingStep::Leave { conflicts }, Some(at)) => {
                task.conflicts.clone_from(conflicts);
                head.landing.remove(at);
            }
            (LandingStep::Join | LandingStep::Renew, Some(at)) => {
                head.landing[at].renewed_at = Some(now);
            }
            (LandingStep::Announce { onto, commit }, Some(at)) => {
                let entry = &mut head.landing[at];
                entry.onto = Some(onto.clone());
                entry.green = None;
                entry.commit.clone_from(commit);
                entry.renewed_at = Some(now);
            }
            (LandingStep::Judge { commit, green }, Some(at)) => {
                let entry = &mut head.landing[at];
                if entry.commit.as_ref() != Some(commit) {
                    return Err(missing());
                }
                entry.green = Some(*green);
                entry.renewed_at = Some(now);
            }
        }
        crate::lease::renew(&mut task, self.lease_seconds, now);
        let step = match self.step {
            LandingStep::Join => LineStep::Joined,
            LandingStep::Announce { .. } => LineStep::Announced,
            LandingStep::Judge { green: true, .. } => LineStep::Green,
            LandingStep::Judge { green: false, .. } => LineStep::Red,
            LandingStep::Renew => LineStep::Renewed,
            LandingStep::Leave { .. } => LineStep::Left,
        };
        let (id, reply) = (task.id.clone(), Reply::Task(task.id.clone()));
        let change = Change::put(task, Fact::Line { task: id, step }, reply);
        Ok(Change { head: Some(head), ..change })
    }
}

impl Evict {
    /// Returns the command for the first entry whose worker is gone; `None` if there is none. `is_dead`
    /// returns whether a worker is surely dead.
    pub fn first(
        ledger: &Ledger,
        now: Timestamp,
        is_dead: impl Fn(&WorkerId) -> bool,
    ) -> Option<Self> {
        let gone = |entry: &LandingEntry| {
            let by = ledger.task(&entry.task).and_then(Task::claimed_by);
            match line::has_lost_place(ledger, entry, now) {
                true => Some(Gone::LeaseRanOut),
                false => by.is_some_and(&is_dead).then_some(Gone::Dead),
            }
        };
        ledger.head().landing.iter().find_map(|entry| {
            let (task, epoch) = (entry.task.clone(), entry.epoch);
            gone(entry).map(|gone| Self { task, epoch, gone })
        })
    }

    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Change {
        let mut head = ledger.head().clone();
        let reply = Reply::Task(self.task.clone());
        let is_gone = |at: &usize| match self.gone {
            Gone::Dead => true,
            Gone::LeaseRanOut => line::has_lost_place(ledger, &head.landing[*at], now),
        };
        match line::position(&head.landing, &self.task, self.epoch).filter(is_gone) {
            None => Change::reply(reply),
            Some(at) => {
                head.landing.remove(at);
                let fact = Fact::Line { task: self.task.clone(), step: LineStep::Left };
                Change { head: Some(head), rows: Vec::new(), facts: vec![fact], reply }
            }
        }
    }
}

/// Removes the entries of a task whose claim ends, if there are any.
pub(super) fn without(head: &Head, task: &TaskId) -> Option<Head> {
    let waits = head.landing.iter().any(|entry| entry.task == *task);
    waits.then(|| {
        let mut head = head.clone();
        head.landing.retain(|entry| entry.task != *task);
        head
    })
}
