//! The state that all ports of one world share: the fate of the process, and what has happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use harness::{
    Hub,
    store::{MemoryRuns, disk::File},
    workspace::Workspace as _,
};
use harness_core::{CommitId, Epoch, Ledger, TaskId, format};

use super::{
    Flaw, books::Books, character::Character, checkers, lies::Lies, sessions::SessionBook,
};
use crate::{
    checkers::Violation,
    clock::SimClock,
    disk::SimDisk,
    git::{Files, Head, SimGit},
    random::Random,
    story::{Story, Tally},
};

/// The limit of moments. A process that exceeds it runs forever.
const MOMENTS_OF_A_PROCESS: u64 = 20_000;

/// The point at which the process dies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doom {
    /// It dies before one of its steps in git.
    Git(u32),
    /// It dies in one of its steps on the disk.
    Disk(u32),
    /// It dies before a commit or a script, or while its agent works.
    Effect(u32),
    /// It dies after a commit, before it receives the answer.
    Answer(u32),
    /// It dies after this many seconds, whatever it does then.
    Time(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Git,
    Effect,
    Answer,
}

/// The planned events of one process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) doom: Option<Doom>,
    /// The number of moments until an interrupt.
    pub(super) interrupt: Option<u32>,
    /// The number of seconds until an interrupt.
    pub(super) interrupt_at: Option<u64>,
    /// The number of seconds until a person ends the wait for usage limits.
    pub(super) kick_at: Option<u64>,
    /// `true` if the process does not wait for limits.
    pub(super) no_wait: bool,
    /// `true` if a second interrupt follows the first.
    pub(super) impatient: bool,
    /// `true` if the environment lacks the checks.
    pub(super) lacks_checks: bool,
    pub(super) init_fails: bool,
    /// `true` if only agents cause trouble.
    pub(super) quiet: bool,
}

/// A repository at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) work: Files,
    pub(super) index: Files,
    pub(super) head: Head,
    pub(super) commit: Option<CommitId>,
}

impl Snapshot {
    pub(super) fn of(git: &SimGit) -> Self {
        let model = git.model();
        Self {
            work: model.work.clone(),
            index: model.index.clone(),
            head: model.head.clone(),
            commit: model.head_commit().ok(),
        }
    }
}

/// One attempt, as an observer of the disk, of git and of the scripts sees it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) epoch: Option<Epoch>,
    pub(super) claim: Snapshot,
    /// The state after the last action of the agent.
    pub(super) mess: Option<Snapshot>,
    /// `true` if harness has committed that since, so that the index equals that commit.
    pub(super) kept: bool,
    /// The first intent.
    pub(super) intent: Option<String>,
    /// The work trees on which its check passed.
    pub(super) passed: Vec<Files>,
    /// The trees before checks that passed although files changed meanwhile.
    pub(super) unsteady: Vec<Files>,
}

pub(super) struct State {
    pub(super) random: Random,
    pub(super) story: Story,
    pub(super) tally: Tally,
    pub(super) fate: Fate,
    pub(super) dead: bool,
    pub(super) hub: Option<Hub>,
    moments: u64,
    /// The moment of the first interrupt in this process.
    pub(super) interrupted_at: Option<u64>,
    interrupts: u32,
    /// The number of moments after an interrupt within which the process must end.
    pub(super) stops_within: u64,
    pub(super) git: SimGit,
    pub(super) disk: SimDisk,
    pub(super) clock: Arc<SimClock>,
    pub(super) flaw: Flaw,
    /// The ledger at the last look.
    pub(super) ledger: Ledger,
    pub(super) attempts: BTreeMap<TaskId, Seen>,
    /// The attempts of the receipts that were written.
    pub(super) receipts: BTreeSet<(TaskId, Epoch)>,
    /// `true` if the process judges the work of a client.
    pub(super) judges_client: bool,
    pub(super) violation: Option<Violation>,
    /// The character of all agents of this process.
    pub(super) character: Character,
    /// The tasks that the objective requires.
    pub(super) wants: Vec<TaskId>,
    pub(super) books: Books,
    pub(super) sessions: SessionBook,
    /// The folder on a real disk with the marker, the init script and the handoff.
    pub(super) root: PathBuf,
    pub(super) files_made: u32,
    /// The record of runs. It survives every process.
    pub(super) runs: Arc<MemoryRuns>,
    pub(super) runs_opened: u128,
    pub(super) lies: Lies,
    /// `true` if an undo that only a person can make stopped a process.
    pub(super) stuck: bool,
}

/// A handle. All handles share the same stage.
#[derive(Clone)]
pub(super) struct Stage {
    state: Arc<Mutex<State>>,
    parked: Arc<AtomicBool>,
}

/// The longest wait of a thread for an event that is certain to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

impl Stage {
    pub(super) fn new(
        seed: u64,
        flaw: Flaw,
        story: Story,
        ledger: Ledger,
        disk: SimDisk,
        root: &Path,
    ) -> Self {
        let clock = Arc::new(SimClock::at(harness_core::Timestamp::from_seconds(1_751_364_000)));
        let state = State {
            random: Random::new(seed),
            story,
            tally: Tally::default(),
            fate: Fate::default(),
            dead: false,
            hub: None,
            moments: 0,
            interrupted_at: None,
            interrupts: 0,
            stops_within: MOMENTS_OF_A_PROCESS,
            git: crate::git::repository(),
            disk,
            clock,
            flaw,
            ledger,
            attempts: BTreeMap::new(),
            receipts: BTreeSet::new(),
            judges_client: false,
            violation: None,
            character: Character::default(),
            wants: Vec::new(),
            books: Books::default(),
            sessions: SessionBook::default(),
            root: root.to_owned(),
            files_made: 0,
            runs: Arc::default(),
            runs_opened: 0,
            lies: Lies::default(),
            stuck: false,
        };
        Self { state: Arc::new(Mutex::new(state)), parked: Arc::default() }
    }

    /// Sets whether the runtime is idle.
    pub(super) fn set_parked(&self, parked: bool) {
        self.parked.store(parked, Ordering::SeqCst);
    }

    /// Waits until everything else was processed before a blocking call starts. Otherwise chance
    /// would decide whether its end comes before an earlier interrupt, and a seed would not replay.
    pub(super) fn in_turn(&self) {
        let since = Instant::now();
        while !self.parked.load(Ordering::SeqCst) && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the git of the process, which dies in its steps.
    pub(super) fn git(&self) -> SimGit {
        let stage = self.clone();
        let hook = move |step: &'static str| {
            let mut state = stage.state();
            state.story.tell(|| format!("      git: {step}"));
            state.moment(Moment::Git)?;
            state.meanwhile_in_git(step);
            if step == "commit index" {
                state.attempts.values_mut().for_each(|seen| seen.kept = true);
            }
            Ok(())
        };
        self.state().git.with_hook(Arc::new(hook))
    }
}

impl State {
    pub(super) fn begin(&mut self, fate: Fate, hub: Hub) {
        self.fate = fate;
        self.hub = Some(hub);
        self.dead = false;
        self.moments = 0;
        self.interrupted_at = None;
        self.interrupts = 0;
        self.sessions = SessionBook::default();
    }

    /// Ends the process, in whatever way.
    pub(super) fn end(&mut self) {
        self.hub = None;
        if self.lies.forged.is_none() {
            self.observe();
        }
        self.close_books(self.interrupts > 1);
    }

    /// Starts the next moment of the process, if it is alive.
    pub(super) fn moment(&mut self, moment: Moment) -> io::Result<()> {
        if self.dead {
            return Err(gone());
        }
        self.meanwhile(moment);
        self.tally.steps += 1;
        self.moments += 1;
        if self.moments > MOMENTS_OF_A_PROCESS {
            self.broken("stops_within_bounds", "a process goes on and on".into());
            self.dead = true;
            return Err(gone());
        }
        let stops_by = self.interrupted_at.map(|at| at + self.stops_within);
        if stops_by.is_some_and(|by| self.moments > by) {
            self.broken("an_interrupt_is_heard", "it goes on and on".into());
            self.dead = true;
            return Err(gone());
        }
        let doom = match (&mut self.fate.doom, moment) {
            (Some(Doom::Git(more)), Moment::Git)
            | (Some(Doom::Effect(more)), Moment::Effect)
            | (Some(Doom::Answer(more)), Moment::Answer) => Some(more),
            _ => None,
        };
        match doom {
            Some(0) => {
                self.dies();
                return Err(gone());
            }
            Some(more) => *more -= 1,
            None => {}
        }
        match self.fate.interrupt {
            Some(0) => {
                self.fate.interrupt = None;
                self.interrupt();
            }
            Some(more) => self.fate.interrupt = Some(more - 1),
            None => {}
        }
        Ok(())
    }

    pub(super) fn interrupt(&mut self) {
        self.story.tell(|| "      somebody interrupts".into());
        self.tally.interrupts += 1;
        self.interrupts += 1;
        self.interrupted_at.get_or_insert(self.moments);
        match &self.hub {
            Some(hub) if self.flaw != Flaw::Deaf => hub.interrupt(),
            _ => {}
        }
    }

    /// Returns 0 if there was no interrupt.
    pub(super) fn moments_since_interrupt(&self) -> u64 {
        self.interrupted_at.map_or(0, |at| self.moments - at)
    }

    pub(super) fn dies(&mut self) {
        self.story.tell(|| "      the process is killed".into());
        self.tally.kills += 1;
        self.dead = true;
    }

    /// Records only the first violation, because others may follow from it.
    pub(super) fn broken(&mut self, checker: &'static str, what: String) {
        self.violation.get_or_insert(Violation { checker, what });
    }

    /// Reads the disk and judges the changes since the last look.
    pub(super) fn observe(&mut self) {
        let after = match format::read_ledger(&self.disk.bytes(File::Ledger)) {
            Ok(ledger) => ledger,
            Err(e) => return self.broken("ledger_or_backup_always_parses", e.to_string()),
        };
        let before = std::mem::replace(&mut self.ledger, after.clone());
        if self.lies.on {
            self.learn_tasks();
        }
        for task in after.tasks() {
            let Some(earlier) = before.task(&task.id) else { continue };
            if earlier == task {
                continue;
            }
            if let Err(violation) = checkers::changed(self, earlier, task) {
                self.broken(violation.checker, violation.what);
            }
        }
    }

    /// Records the state after an action of the agent.
    pub(super) fn messed(&mut self, task: &TaskId) {
        let mess = Snapshot::of(&self.git);
        if let Some(seen) = self.attempts.get_mut(task) {
            seen.mess = Some(mess);
            seen.kept = false;
        }
    }

    /// Returns the path of the file in which agents leave notes for their next context.
    pub(super) fn handoff(&self) -> PathBuf {
        self.root.join("state/handoff.json")
    }

    pub(super) fn head(&self) -> Option<CommitId> {
        self.git.head().ok()
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::other("this process is dead")
}
