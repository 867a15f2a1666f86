//! The attempts that are under way in this process: where somebody who speaks for an agent, such as
//! the agent itself by way of the socket, finds the one that it works on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harness_core::{Category, Holder, TaskId, agent::AgentEvent};

use crate::drive::Told;

/// Clones are the same desk.
#[derive(Debug, Clone, Default)]
pub struct Desk(Arc<Mutex<Vec<Seat>>>);

#[derive(Debug)]
struct Seat {
    holder: Holder,
    told: Told,
    /// The agent asked for its check.
    promised: bool,
}

/// Leaves the desk when it is dropped.
#[derive(Debug)]
pub struct AtWork {
    desk: Desk,
    holder: Holder,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.desk.seats().retain(|seat| seat.holder != self.holder);
    }
}

impl Desk {
    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent begins to work for `holder`; what is said for it reaches its machine by `told`.
    pub fn sit(&self, holder: Holder, told: Told) -> AtWork {
        self.seats().push(Seat { holder: holder.clone(), told, promised: false });
        AtWork { desk: self.clone(), holder }
    }

    /// Whether an agent of this process works on it now.
    pub fn works_on(&self, task: &TaskId) -> bool {
        self.seats().iter().any(|seat| seat.holder.task == *task)
    }

    /// The agent says that it is done. Remembered; the check follows its end. Whether it is there.
    pub fn promise(&self, holder: &Holder) -> bool {
        let mut seats = self.seats();
        let seat = seats.iter_mut().find(|seat| seat.is_of(holder));
        seat.map(|seat| seat.promised = true).is_some()
    }

    /// Whether the agent of `holder` has asked for its check.
    pub fn has_promised(&self, holder: &Holder) -> bool {
        self.seats().iter().any(|seat| seat.is_of(holder) && seat.promised)
    }

    /// The agent says that it can not do it: its attempt ends with a rollback. Whether it is there.
    pub fn give_up(&self, holder: &Holder, category: Category, message: String) -> bool {
        let seats = self.seats();
        let seat = seats.iter().find(|seat| seat.is_of(holder));
        seat.map(|seat| seat.told.tell(&AgentEvent::GaveUp { category, message })).is_some()
    }
}

impl Seat {
    fn is_of(&self, holder: &Holder) -> bool {
        self.holder.task == holder.task
            && self.holder.worker == holder.worker
            && (holder.epoch.is_none() || holder.epoch == self.holder.epoch)
    }
}
