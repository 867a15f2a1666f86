//! Flags an attempt, or the ledger as a whole, as something that a person should look at.

use serde::{Deserialize, Serialize};

use super::{Change, Reply, Row};
use crate::{
    Flag, TaskId, Timestamp,
    fact::Fact,
    flag,
    ledger::{Alert, KEPT_ALERTS, Ledger},
    task::Status,
};

/// Puts a flag on the attempt in progress and a warning into the log. It is never refused: if the
/// task was removed or ended meanwhile, the warning remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raise {
    /// The task; `None` if it concerns the whole ledger.
    pub task: Option<TaskId>,
    /// The flag for the finding.
    pub flag: Flag,
    /// A text for people: the finding, and what was done about it.
    pub message: String,
}

impl Raise {
    pub(super) fn decide(&self, ledger: &Ledger, now: Timestamp) -> Change {
        let mut head = ledger.head().clone();
        if self.flag.alarms() && head.alerts.len() < KEPT_ALERTS {
            let (task, message) = (self.task.clone(), self.message.clone());
            head.alerts.push(Alert { time: now, task, message });
        }
        let (flag, message) = (self.flag, self.message.clone());
        let facts = vec![Fact::Flagged { task: self.task.clone(), flag, message }];
        let task = self.task.as_ref().and_then(|id| ledger.task(id));
        let task = task.filter(|task| self.concerns(task.status())).cloned();
        let rows = task.into_iter().map(|mut task| {
            flag::raise(&mut task.flags, self.flag);
            Row::put(task)
        });
        Change { head: Some(head), rows: rows.collect(), facts, reply: Reply::Noted }
    }

    /// An attempt that has ended keeps its flags. Only a completion can turn out to be unproven
    /// later.
    fn concerns(&self, status: Status) -> bool {
        match status {
            Status::InProgress => true,
            Status::Completed => self.flag == Flag::Unproven,
            Status::Pending | Status::Failed => false,
        }
    }
}

/// Records that a person has looked at all alerts, so that they are no longer shown.
pub(super) fn acknowledge(ledger: &Ledger) -> Change {
    let mut head = ledger.head().clone();
    let count = std::mem::take(&mut head.alerts).len();
    if count == 0 {
        return Change::reply(Reply::Noted);
    }
    let facts = vec![Fact::Acknowledged { count }];
    Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted }
}
