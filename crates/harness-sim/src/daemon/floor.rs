//! Everything of a world that outlives its daemons, and the turns of their threads.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use harness_core::{Epoch, TaskId, Timestamp};
use tokio::{runtime::Handle, sync::Notify, task::Id};

use super::fault::DaemonFault;
use crate::{
    clock::SimClock,
    disk::{Quirk, SimDisk},
    git::SimGit,
    random::Random,
    story::{Story, Tally},
};

/// The longest wait of a thread for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// More questions than a runtime wakes itself in a row.
const QUESTIONS: usize = 3;

/// A handle. All handles share the same floor.
#[derive(Clone)]
pub(super) struct Floor {
    state: Arc<Mutex<State>>,
    turn: Arc<Mutex<Turn>>,
    news: Arc<Notify>,
}

pub(super) struct State {
    pub(super) random: Random,
    /// Decides the results of checks, in the order of the blocking thread.
    pub(super) luck: Random,
    pub(super) story: Story,
    pub(super) tally: Tally,
    pub(super) clock: Arc<SimClock>,
    pub(super) disk: SimDisk,
    pub(super) git: SimGit,
    pub(super) fault: DaemonFault,
    /// The claims whose check really passed.
    pub(super) passed: BTreeSet<(TaskId, Epoch)>,
    /// The claims with a receipt.
    pub(super) receipts: BTreeSet<(TaskId, Epoch)>,
    /// The gates that really passed.
    pub(super) gates: BTreeSet<String>,
    /// The claim whose client vanishes while its check hangs.
    pub(super) deserted: Option<TaskId>,
    /// `true` if checks may hang until their client vanishes.
    pub(super) hangs: bool,
    /// `true` if the daemon is being dropped.
    pub(super) over: bool,
}

/// The runtime and the one thread beside it, which must not act at the same time.
#[derive(Default)]
struct Turn {
    parked: bool,
    /// How often the runtime had nothing to do.
    parks: u64,
    /// The number of questions to the runtime.
    asked: u64,
    /// The last question that the runtime reached, and `parks` at that time.
    reached: (u64, u64),
    /// The blocking task that acted last.
    last: Option<Id>,
}

impl State {
    pub(super) fn is_dead(&self) -> bool {
        self.over || self.disk.crashed().is_some()
    }
}

impl Floor {
    pub(super) fn new(seed: u64, fault: DaemonFault, story: Story) -> Self {
        let state = State {
            random: Random::new(seed),
            luck: Random::new(seed ^ 0x10C4),
            story,
            tally: Tally::default(),
            clock: Arc::new(SimClock::at(Timestamp::from_seconds(1_751_363_000))),
            disk: SimDisk::new(seed, Quirk::None),
            git: crate::git::repository(),
            fault,
            passed: BTreeSet::new(),
            receipts: BTreeSet::new(),
            gates: BTreeSet::new(),
            deserted: None,
            hangs: false,
            over: false,
        };
        Self { state: Arc::new(Mutex::new(state)), turn: Arc::default(), news: Arc::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parks(&self) {
        let mut turn = self.turn();
        turn.parked = true;
        turn.parks += 1;
    }

    pub(super) fn wakes(&self) {
        self.turn().parked = false;
    }

    /// Waits until the runtime has nothing to do and has seen the end of the last blocking task.
    /// Otherwise chance would decide the order of the two, and a seed would not replay.
    pub(super) fn in_turn(&self) {
        let me = tokio::task::try_id();
        if self.turn().last == me {
            return;
        }
        // A runtime that parks may have woken itself, and continues at once.
        for _ in 0..QUESTIONS {
            self.reach_runtime();
        }
        self.turn().last = me;
    }

    /// Waits until the runtime has reached everything that it was woken for until now, and parks.
    fn reach_runtime(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let question = {
            let mut turn = self.turn();
            turn.asked += 1;
            turn.asked
        };
        let floor = self.clone();
        runtime.spawn(async move {
            let mut turn = floor.turn();
            turn.reached = (question, turn.parks);
        });
        let since = Instant::now();
        while since.elapsed() < PATIENCE && !self.state().over {
            let turn = self.turn();
            let (reached, parks) = turn.reached;
            if reached == question && turn.parked && turn.parks > parks {
                return;
            }
            drop(turn);
            std::thread::yield_now();
        }
    }

    /// Reports that the clients that have this task judged vanish. The epoch does not matter: a faulty
    /// daemon also judges for a client that names an old one.
    pub(super) fn desert(&self, task: TaskId) {
        self.state().deserted = Some(task);
        self.news.notify_waiters();
    }

    /// Completes when the clients of this task have vanished.
    pub(super) async fn deserted(&self, task: Option<TaskId>) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if task.is_some() && self.state().deserted == task {
                return;
            }
            news.await;
        }
    }
}
