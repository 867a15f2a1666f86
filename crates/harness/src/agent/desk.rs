//! The attempts in this process. A program that acts for an agent, such as the agent itself through
//! the socket, finds its attempt here.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use harness_core::{Category, Holder, TaskId, agent::AgentEvent};
use tokio::sync::watch;

use super::{
    Told,
    pace::{CHECKPOINTS_PER_SECOND, Pace},
};
use crate::workspace::Workspace;

/// The limit of complaints that are remembered.
const COMPLAINTS_MAX: usize = 10_000;

/// The register of attempts. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Desk {
    seats: Arc<Mutex<Seats>>,
    complaints: Arc<Mutex<HashSet<String>>>,
    paces: Arc<Mutex<HashMap<TaskId, Pace>>>,
    bell: Arc<Bell>,
}

/// Ends waits for usage limits. It is under a lock, so that exactly the counted waiters are woken.
#[derive(Debug)]
struct Bell(Mutex<watch::Sender<()>>);

impl Default for Bell {
    fn default() -> Self {
        Self(Mutex::new(watch::Sender::new(())))
    }
}

impl Bell {
    fn rope(&self) -> MutexGuard<'_, watch::Sender<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Seats {
    taken: Vec<Seat>,
    /// The number of seats so far.
    count: u64,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    holder: Holder,
    told: Told,
    tree: Option<Tree>,
}

/// The work tree of an attempt.
struct Tree(Arc<dyn Workspace>);

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.top_level().fmt(f)
    }
}

/// Leaves the desk when it is dropped.
#[derive(Debug)]
pub struct AtWork {
    desk: Desk,
    number: u64,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.desk.seats().taken.retain(|seat| seat.number != self.number);
    }
}

impl Desk {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers work for `holder`. Events for it reach its machine by `told`. An attempt registers
    /// for its whole time, and each of its agents after it. An event of an agent goes to the last
    /// registration.
    pub fn sit(&self, holder: Holder, told: Told) -> AtWork {
        self.take_seat(holder, told, None)
    }

    /// Does the same for an attempt in this work tree.
    pub fn sit_in(&self, tree: Arc<dyn Workspace>, holder: Holder, told: Told) -> AtWork {
        self.take_seat(holder, told, Some(Tree(tree)))
    }

    fn take_seat(&self, holder: Holder, told: Told, tree: Option<Tree>) -> AtWork {
        let mut seats = self.seats();
        seats.count += 1;
        let number = seats.count;
        seats.taken.push(Seat { number, holder, told, tree });
        AtWork { desk: self.clone(), number }
    }

    /// Returns the work tree of an attempt of this process.
    pub(crate) fn tree(&self, holder: &Holder) -> Option<Arc<dyn Workspace>> {
        let seats = self.seats();
        let mut own = seats.taken.iter().filter(|seat| seat.is_of(holder));
        own.find_map(|seat| seat.tree.as_ref()).map(|tree| Arc::clone(&tree.0))
    }

    /// Returns whether `complaint` is new. After very many, all count as known, so that nothing can
    /// fill the log with them.
    pub(crate) fn is_new(&self, complaint: String) -> bool {
        let mut heard = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        heard.len() < COMPLAINTS_MAX && heard.insert(complaint)
    }

    /// Returns how long a checkpoint of `task` must wait, so that the limit per second is kept.
    /// `None` means that it is counted and may be stored now.
    pub(crate) fn checkpoint_waits(&self, task: &TaskId) -> Option<Duration> {
        let now = Instant::now();
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        paces.retain(|_, pace| !pace.is_over(now));
        paces.entry(task.clone()).or_insert(Pace::new(CHECKPOINTS_PER_SECOND)).wait(now)
    }

    /// Returns whether an attempt of this process works on the task now.
    pub fn works_on(&self, task: &TaskId) -> bool {
        self.seats().taken.iter().any(|seat| seat.holder.task == *task)
    }

    /// Reports for the agent that the work is done. The check follows after its end. Returns
    /// whether the agent is there.
    pub fn promise(&self, holder: &Holder) -> bool {
        self.tell(holder, &AgentEvent::Promised)
    }

    /// Reports for the agent that it cannot do the task. Its attempt ends with a rollback. Returns
    /// whether the agent is there.
    pub fn give_up(&self, holder: &Holder, category: Category, message: String) -> bool {
        self.tell(holder, &AgentEvent::GaveUp { category, message })
    }

    /// Ends every wait for a usage limit, and returns their number.
    pub fn kick(&self) -> usize {
        let rope = self.bell.rope();
        let waiting = rope.receiver_count();
        rope.send_replace(());
        waiting
    }

    /// Completes when a person ends the wait.
    pub async fn kicked(&self) {
        let mut heard = self.bell.rope().subscribe();
        // The bell lives as long as the desk.
        _ = heard.changed().await;
    }

    fn tell(&self, holder: &Holder, event: &AgentEvent) -> bool {
        let seats = self.seats();
        let seat = seats.taken.iter().rev().find(|seat| seat.is_of(holder));
        seat.map(|seat| seat.told.tell(event)).is_some()
    }
}

impl Seat {
    fn is_of(&self, holder: &Holder) -> bool {
        self.holder.task == holder.task
            && self.holder.worker == holder.worker
            && (holder.epoch.is_none() || holder.epoch == self.holder.epoch)
    }
}
