//! What all ports of one world share: what is going to happen to the process, and what happened.

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

use super::{Flaw, books::Books, character::Character, checkers, lies::Lies};
use crate::{
    checkers::Violation,
    clock::SimClock,
    disk::SimDisk,
    git::{Files, Head, SimGit},
    random::Random,
    story::{Story, Tally},
};

/// No process has so much to do: one that goes on after it goes on for ever.
const MOMENTS_OF_A_PROCESS: u64 = 20_000;

/// Where the process dies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doom {
    /// Before one of its steps in git.
    Git(u32),
    /// In one of its steps on the disk.
    Disk(u32),
    /// Before it commits or runs a script, or while its agent works.
    Effect(u32),
    /// After something was committed, before it hears of that.
    Answer(u32),
    /// After so many seconds, whatever it does or waits for then.
    Time(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Git,
    Effect,
    Answer,
}

/// What is to happen to one process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) doom: Option<Doom>,
    /// Somebody wants it to stop, after so many moments.
    pub(super) interrupt: Option<u32>,
    /// Or after so many seconds.
    pub(super) interrupt_at: Option<u64>,
    /// Somebody does not believe in usage limits, after so many seconds.
    pub(super) kick_at: Option<u64>,
    /// Nobody waits for limits.
    pub(super) no_wait: bool,
    /// And once more, if it is still there.
    pub(super) impatient: bool,
    /// The environment lacks the checks.
    pub(super) lacks_checks: bool,
    pub(super) init_fails: bool,
    /// Nothing but what agents do goes wrong.
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

/// One attempt, as somebody saw it who only looks at the disk, at git and at the scripts that ran.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) epoch: Option<Epoch>,
    pub(super) claim: Snapshot,
    /// What the agent left when it last did something.
    pub(super) mess: Option<Snapshot>,
    /// The harness has committed that since, and the index is that commit.
    pub(super) kept: bool,
    /// What was intended first.
    pub(super) intent: Option<String>,
    /// The work trees on which its check passed.
    pub(super) passed: Vec<Files>,
    /// Those with which a check began that passed when files had changed.
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
    /// The moment of the first interrupt, in this process.
    pub(super) interrupted_at: Option<u64>,
    interrupts: u32,
    /// So many moments after an interrupt it has to be over.
    pub(super) stops_within: u64,
    pub(super) git: SimGit,
    pub(super) disk: SimDisk,
    pub(super) clock: Arc<SimClock>,
    pub(super) flaw: Flaw,
    /// As last seen.
    pub(super) ledger: Ledger,
    pub(super) attempts: BTreeMap<TaskId, Seen>,
    /// What the receipts that were written are about.
    pub(super) receipts: BTreeSet<(TaskId, Epoch)>,
    /// The process judges the work of a client.
    pub(super) judges_client: bool,
    pub(super) violation: Option<Violation>,
    /// Of all agents of this process.
    pub(super) character: Character,
    /// What the objective asks for.
    pub(super) wants: Vec<TaskId>,
    pub(super) books: Books,
    /// What little there is on a real disk: the marker, the init script and the handoff.
    pub(super) root: PathBuf,
    pub(super) files_made: u32,
    /// The record of runs: what was written there is there, whoever dies.
    pub(super) runs: Arc<MemoryRuns>,
    pub(super) runs_opened: u128,
    pub(super) lies: Lies,
    /// An undo that only a person can make stopped a process.
    pub(super) stuck: bool,
}

/// A handle; all handles share the one stage.
#[derive(Clone)]
pub(super) struct Stage {
    state: Arc<Mutex<State>>,
    parked: Arc<AtomicBool>,
}

/// How long a thread waits for what is certain to come.
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
            root: root.to_owned(),
            files_made: 0,
            runs: Arc::default(),
            runs_opened: 0,
            lies: Lies::default(),
            stuck: false,
        };
        Self { state: Arc::new(Mutex::new(state)), parked: Arc::default() }
    }

    /// Whether the runtime has nothing to do but to wait.
    pub(super) fn set_parked(&self, parked: bool) {
        self.parked.store(parked, Ordering::SeqCst);
    }

    /// What blocks begins only when all else was heard. Else it would be chance whether its end
    /// comes before an interrupt that was there first, and a seed would not replay.
    pub(super) fn in_turn(&self) {
        let since = Instant::now();
        while !self.parked.load(Ordering::SeqCst) && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Git as the process has it, that dies in its steps.
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
    }

    /// The process is over, one way or the other.
    pub(super) fn end(&mut self) {
        self.hub = None;
        if self.lies.forged.is_none() {
            self.observe();
        }
        self.close_books(self.interrupts > 1);
    }

    /// Something is about to happen in the process, if it lives.
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

    /// None, where there was no interrupt.
    pub(super) fn moments_since_interrupt(&self) -> u64 {
        self.interrupted_at.map_or(0, |at| self.moments - at)
    }

    pub(super) fn dies(&mut self) {
        self.story.tell(|| "      the process is killed".into());
        self.tally.kills += 1;
        self.dead = true;
    }

    /// Only the first is told: the others may follow from it.
    pub(super) fn broken(&mut self, checker: &'static str, what: String) {
        self.violation.get_or_insert(Violation { checker, what });
    }

    /// Looks at the disk and judges what changed since the last look.
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

    /// The agent did something.
    pub(super) fn messed(&mut self, task: &TaskId) {
        let mess = Snapshot::of(&self.git);
        if let Some(seen) = self.attempts.get_mut(task) {
            seen.mess = Some(mess);
            seen.kept = false;
        }
    }

    /// Where agents leave word for their next context.
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
