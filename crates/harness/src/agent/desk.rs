//! The attempts that are under way in this process: where somebody who speaks for an agent, such as
//! the agent itself by way of the socket, finds the one that it works on.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use harness_core::{Category, Holder, TaskId, agent::AgentEvent};
use tokio::sync::watch;

use super::{
    Told,
    pace::{CHECKPOINTS_PER_SECOND, Pace},
};

/// Upper bound for the complaints that are remembered.
const COMPLAINTS_MAX: usize = 10_000;

/// Clones are the same desk.
#[derive(Debug, Clone, Default)]
pub struct Desk {
    seats: Arc<Mutex<Seats>>,
    complaints: Arc<Mutex<HashSet<String>>>,
    paces: Arc<Mutex<HashMap<TaskId, Pace>>>,
    bell: Arc<Bell>,
}

/// Who waits for a usage limit hears it. Under a lock, so that each waiter that is counted is woken and nobody
/// else is.
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
    /// So far.
    count: u64,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    holder: Holder,
    told: Told,
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

    /// Somebody begins to work for `holder`; what is said for it reaches its machine by `told`. An
    /// attempt sits down for its whole time, and each of its agents before it: what an agent says
    /// goes to the last who sat down.
    pub fn sit(&self, holder: Holder, told: Told) -> AtWork {
        let mut seats = self.seats();
        seats.count += 1;
        let number = seats.count;
        seats.taken.push(Seat { number, holder, told });
        AtWork { desk: self.clone(), number }
    }

    /// Whether this is the first time that `complaint` is heard. After very many all count as heard:
    /// nobody fills the log by trying.
    pub(crate) fn is_new(&self, complaint: String) -> bool {
        let mut heard = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        heard.len() < COMPLAINTS_MAX && heard.insert(complaint)
    }

    /// How long a checkpoint of `task` has to wait, so that no more of them are stored in a second
    /// than a task may have. `None`: it is counted, and may be stored now.
    pub(crate) fn checkpoint_waits(&self, task: &TaskId) -> Option<Duration> {
        let now = Instant::now();
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        paces.retain(|_, pace| !pace.is_over(now));
        paces.entry(task.clone()).or_insert(Pace::new(CHECKPOINTS_PER_SECOND)).wait(now)
    }

    /// Whether an attempt of this process works on it now.
    pub fn works_on(&self, task: &TaskId) -> bool {
        self.seats().taken.iter().any(|seat| seat.holder.task == *task)
    }

    /// The agent says that it is done: the check follows its end. Whether it is there.
    pub fn promise(&self, holder: &Holder) -> bool {
        self.tell(holder, &AgentEvent::Promised)
    }

    /// The agent says that it cannot do it: its attempt ends with a rollback. Whether it is there.
    pub fn give_up(&self, holder: &Holder, category: Category, message: String) -> bool {
        self.tell(holder, &AgentEvent::GaveUp { category, message })
    }

    /// Ends every wait for a usage limit; how many there were.
    pub fn kick(&self) -> usize {
        let rope = self.bell.rope();
        let waiting = rope.receiver_count();
        rope.send_replace(());
        waiting
    }

    /// Is ready when somebody has enough of waiting.
    pub async fn kicked(&self) {
        let mut heard = self.bell.rope().subscribe();
        // The bell lives as long as the desk does.
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
