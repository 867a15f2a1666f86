//! Judging the work of a client. A client commits by itself, and a task may be completed by force.

use super::{Effect, Judge, Keeper, Rules, State, Step};
use crate::{
    Epoch, Holder, Ledger, Task, TaskId,
    command::{Authority, Unchecked},
    task::Status,
};

/// The current state of a task in its ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The task; `None` if the id does not exist.
    pub task: Option<Task>,
    /// The epoch that the next claim would get.
    pub next_epoch: Epoch,
    /// The N of `SESSION-N`.
    pub session: u64,
    /// `true` if other tasks of the ledger are claimed too.
    pub shared: bool,
}

impl Standing {
    /// Reads the state of one task from the ledger.
    pub fn of(ledger: &Ledger, task: &TaskId) -> Self {
        Self {
            task: ledger.task(task).cloned(),
            next_epoch: ledger.next_epoch(),
            session: ledger.head().session_count,
            shared: ledger.selection().claimed().any(|other| other != task),
        }
    }
}

/// A worker's report that its task is done.
#[derive(Debug, Clone)]
pub struct Request {
    /// The holder of the claim.
    pub holder: Holder,
    /// The required relation of the holder to the claim.
    pub authority: Authority,
    /// The rule for a worker's report on a task without a check.
    pub unchecked: Unchecked,
    /// The lease for claims of a session.
    pub lease_seconds: u64,
    /// The strictness of judging.
    pub rules: Rules,
    /// The treatment of work that is in no commit.
    pub work: ClientWork,
}

/// The treatment of a client's work that is in no commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientWork {
    /// It stays uncommitted, and the receipt names its files.
    #[default]
    Left,
    /// The tree that passed the check is committed.
    Committed,
}

impl Judge {
    /// Creates the judge for the work of a client. A wrong holder is refused at once, not after a
    /// check that may take an hour.
    pub fn of_client(standing: Standing, request: Request) -> Self {
        let Request { holder, authority, unchecked, lease_seconds, rules, work } = request;
        let Standing { task, next_epoch, .. } = standing;
        let known = task.is_some();
        let task = task.unwrap_or_else(|| Task::new(holder.task.clone(), ""));
        let held = holder.holds(&task);
        let mine = held || authority == Authority::Force;
        let foregone = !known || task.status() == Status::Completed || !mine;
        let epoch = task.epoch.filter(|_| held).unwrap_or(next_epoch);
        Self {
            authority,
            unchecked,
            keeper: Keeper::Worker,
            work,
            held,
            epoch,
            foregone,
            // Only a session runs the init script.
            prepared: true,
            ..Self::of_attempt(task, holder, lease_seconds, rules)
        }
    }

    /// Returns whether the work is judged. Otherwise the ledger answers at once.
    pub fn looks_at_work(&self) -> bool {
        !self.foregone
    }

    /// Corrects the epoch of the receipt. A completion by force gets the epoch that is next when it
    /// is made, which is usually the one that was next when the ledger was read.
    pub(super) fn looked(&mut self, standing: Standing) -> Step {
        match standing.task.and_then(|task| task.epoch) {
            Some(epoch) if epoch != self.epoch => {
                self.epoch = epoch;
                let receipt = Box::new(self.receipt());
                self.start(State::RecordingAgain, Effect::Record(receipt))
            }
            Some(_) | None => self.completed(),
        }
    }
}
