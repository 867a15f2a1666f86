//! The work of a client: it commits by itself, and a task may be completed by force.

use super::{Effect, Judge, Keeper, Rules, State, Step};
use crate::{
    Epoch, Holder, Ledger, Task, TaskId,
    command::{Authority, Unchecked},
    task::Status,
};

/// A task as it stands in its ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// `None` where there is none of that id.
    pub task: Option<Task>,
    /// What a claim made now would get.
    pub next_epoch: Epoch,
    /// N of `SESSION-N`.
    pub session: u64,
    /// Other tasks of the ledger are claimed too.
    pub shared: bool,
}

impl Standing {
    /// Of one task, as the ledger has it.
    pub fn of(ledger: &Ledger, task: &TaskId) -> Self {
        Self {
            task: ledger.task(task).cloned(),
            next_epoch: ledger.next_epoch(),
            session: ledger.head().session_count,
            shared: ledger.selection().claimed().any(|other| other != task),
        }
    }
}

/// A worker says that its task is done.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose claim it is.
    pub holder: Holder,
    /// Whether the claim has to be the holder's.
    pub authority: Authority,
    /// What a worker's word is worth for a task without a check.
    pub unchecked: Unchecked,
    /// For claims of a session.
    pub lease_seconds: u64,
    /// How strictly the work is judged.
    pub rules: Rules,
    /// What happens to work that is in no commit.
    pub work: ClientWork,
}

/// What a completion does with the work of a client that is in no commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientWork {
    /// It stays uncommitted, and the receipt names its files.
    #[default]
    Left,
    /// The tree that passed the check is committed.
    Committed,
}

impl Judge {
    /// Of the work of a client. A wrong holder is refused at once, not after a check that may take
    /// an hour.
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
            // The init script belongs to a session.
            prepared: true,
            ..Self::of_attempt(task, holder, lease_seconds, rules)
        }
    }

    /// Whether the work is looked at, or the ledger answers at once.
    pub fn looks_at_work(&self) -> bool {
        !self.foregone
    }

    /// A completion by force gets the epoch that is next when it is made; usually that is the one
    /// that was next when we looked.
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
