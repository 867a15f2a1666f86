//! The state that all processes of one world share.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness::{
    Hub,
    store::{MemoryRuns, disk::File},
};
use harness_core::{Ledger, Receipt, TaskId, WorkerId, format};
use tokio::sync::Notify;

use super::{
    CrewFlaw, checkers,
    fate::{Doom, Fate, Freeze, Moment},
    landings::Landings,
    user::UsersTree,
};
use crate::{
    checkers::Violation,
    clock::SimClock,
    disk::SimDisk,
    git::{Files, SimGit, SimRepository},
    random::Random,
    story::{Story, Tally},
};

/// The limit of moments. A process that exceeds it runs forever.
const MOMENTS_OF_A_PROCESS: u64 = 8_000;

/// The steps of git in which it writes the main tree.
const MOVES: [&str; 4] = ["land file", "land index", "agree file", "agree index"];

/// One process.
pub(super) struct Life {
    pub(super) fate: Fate,
    pub(super) hub: Hub,
    pub(super) dead: bool,
    /// Tells the runtime that the process is dead.
    pub(super) killed: Arc<Notify>,
    /// The repository as it opened it, with the locks of its workers.
    pub(super) repository: Option<SimRepository>,
    /// The number in the ids of its workers.
    pub(super) slot: u32,
    /// `true` while a git command of a dead process goes on.
    command_lives: bool,
    moments: u64,
}

pub(super) struct State {
    pub(super) random: Random,
    pub(super) story: Story,
    pub(super) tally: Tally,
    pub(super) git: SimGit,
    pub(super) disk: SimDisk,
    pub(super) clock: Arc<SimClock>,
    pub(super) flaw: CrewFlaw,
    /// The ledger at the last look.
    pub(super) ledger: Ledger,
    pub(super) violation: Option<Violation>,
    pub(super) lives: BTreeMap<u32, Life>,
    /// The process that moves the main tree, or that died while it did.
    pub(super) moving: Option<u32>,
    pub(super) landings: Landings,
    pub(super) users: UsersTree,
    /// The receipts that were written.
    pub(super) receipts: Vec<Receipt>,
    /// The trees on which checks passed.
    pub(super) passed: Vec<(TaskId, Files)>,
    /// `true` if nothing disturbs anybody any more.
    pub(super) quiet: bool,
    /// The number of shifts inside of one another.
    pub(super) depth: u32,
    pub(super) files_made: u32,
    pub(super) runs: Arc<MemoryRuns>,
    pub(super) runs_opened: u128,
    /// The work trees, branches and refs of attempts that were there when a process was killed.
    /// Others find them by and by.
    pub(super) orphaned: BTreeSet<String>,
    /// The claimed tasks whose result has been in the line, so that it had passed its check.
    pub(super) joined: BTreeSet<TaskId>,
    /// The files that each claimed task reserved when it was claimed.
    pub(super) reserved: BTreeMap<TaskId, Vec<String>>,
    /// The number of processes so far.
    pub(super) pids: u32,
    /// The folder on a real disk with the marker and the registry of workers.
    pub(super) root: PathBuf,
}

/// A handle. All handles share the same floor.
#[derive(Clone)]
pub(super) struct Floor(Arc<Mutex<State>>);

impl Floor {
    pub(super) fn new(
        seed: u64,
        flaw: CrewFlaw,
        story: Story,
        disk: SimDisk,
        ledger: Ledger,
        root: &Path,
    ) -> Self {
        let git = crate::git::repository();
        let users = UsersTree::of(&git);
        let mut state = State {
            random: Random::new(seed),
            story,
            tally: Tally::default(),
            git,
            disk,
            clock: Arc::new(SimClock::at(harness_core::Timestamp::from_seconds(1_751_364_000))),
            flaw,
            ledger,
            violation: None,
            lives: BTreeMap::new(),
            moving: None,
            landings: Landings::default(),
            users,
            receipts: Vec::new(),
            passed: Vec::new(),
            quiet: false,
            depth: 0,
            files_made: 0,
            runs: Arc::default(),
            runs_opened: 0,
            orphaned: BTreeSet::new(),
            joined: BTreeSet::new(),
            reserved: BTreeMap::new(),
            pids: 0,
            root: root.to_owned(),
        };
        state.know_refs();
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Starts a process, and returns the number in the ids of its workers: one that no other process
    /// has the lock for.
    pub(super) fn begin(&mut self, pid: u32, fate: Fate, hub: Hub) -> u32 {
        let slot = (0..).find(|slot| self.lives.values().all(|life| life.slot != *slot));
        let slot = slot.unwrap_or_default();
        self.story.tell(|| format!("process {pid} with the workers w{slot} starts: {fate:?}"));
        let (killed, moments) = (Arc::default(), 0);
        let (repository, command_lives, dead) = (None, false, false);
        let life = Life { fate, hub, dead, killed, repository, slot, command_lives, moments };
        self.lives.insert(pid, life);
        slot
    }

    /// Ends a process, in whatever way. Its locks are free.
    pub(super) fn end(&mut self, pid: u32) {
        if let Some(life) = self.lives.remove(&pid) {
            let prefix = format!("w{}.", life.slot);
            let holds = |by: &WorkerId| by.as_str().starts_with(&prefix);
            let claims = self.ledger.tasks().filter(|task| task.claim().is_some());
            if claims.filter_map(|task| task.claimed_by()).any(holds) {
                // The next worker finds the work there.
                self.orphaned.extend(checkers::belongings(&self.git.model()));
            }
            if let Some(repository) = life.repository {
                repository.release();
            }
        }
        self.observe();
    }

    /// Returns whether the lock of a worker's life is free.
    pub(super) fn is_free(&self, worker: &WorkerId) -> bool {
        let mut alive = self.lives.values().filter(|life| !life.dead);
        !alive.any(|life| worker.as_str().starts_with(&format!("w{}.", life.slot)))
    }

    pub(super) fn is_dead(&self, pid: u32) -> bool {
        self.lives.get(&pid).is_none_or(|life| life.dead)
    }

    /// Starts the next moment of a process, if it is alive.
    pub(super) fn moment(&mut self, pid: u32, moment: Moment) -> io::Result<()> {
        let Some(life) = self.lives.get_mut(&pid) else { return Err(gone()) };
        if life.dead {
            return if life.command_lives && moment == Moment::Git { Ok(()) } else { Err(gone()) };
        }
        self.tally.steps += 1;
        self.goes_on(pid)?;
        self.meanwhile();
        let Some(life) = self.lives.get_mut(&pid) else { return Err(gone()) };
        if let Some(Doom::At(kind, more)) = &mut life.fate.doom
            && *kind == moment
        {
            if *more == 0 {
                self.dies(pid);
                return Err(gone());
            }
            *more -= 1;
        }
        let interrupted = match &mut life.fate.interrupt {
            Some(0) => life.fate.interrupt.take().is_some(),
            Some(more) => {
                *more -= 1;
                false
            }
            None => false,
        };
        if interrupted {
            let hub = life.hub.clone();
            self.story.tell(|| format!("      somebody interrupts process {pid}"));
            self.tally.interrupts += 1;
            hub.interrupt();
        }
        Ok(())
    }

    /// Counts what a process does, so that it does not do so for ever.
    pub(super) fn goes_on(&mut self, pid: u32) -> io::Result<()> {
        let Some(life) = self.lives.get_mut(&pid).filter(|life| !life.dead) else {
            return Err(gone());
        };
        life.moments += 1;
        if life.moments > MOMENTS_OF_A_PROCESS {
            self.broken("the_line_never_stops", "a process goes on and on".into());
            self.dies(pid);
            return Err(gone());
        }
        Ok(())
    }

    /// Starts a step of git. Returns the freeze that begins before it.
    pub(super) fn git_step(&mut self, pid: u32, step: &'static str) -> io::Result<Option<Freeze>> {
        self.follow_refs();
        self.moment(pid, Moment::Git)?;
        self.story.tell(|| format!("      {pid} git: {step}"));
        let Some(life) = self.lives.get_mut(&pid).filter(|life| !life.dead) else {
            return Ok(None);
        };
        if let Some(Doom::Step(name, more)) = &mut life.fate.doom
            && *name == step
        {
            if *more == 0 {
                self.dies(pid);
                return Err(gone());
            }
            *more -= 1;
        }
        match &mut life.fate.freeze {
            Some(freeze) if freeze.step.is_none_or(|name| name == step) && freeze.after > 0 => {
                freeze.after -= 1;
                Ok(None)
            }
            Some(freeze) if freeze.step.is_none_or(|name| name == step) => {
                let freeze = *freeze;
                life.fate.freeze = None;
                // What happens while a process is frozen is not frozen itself.
                Ok(Some(freeze).filter(|_| self.depth == 1))
            }
            _ => Ok(None),
        }
    }

    /// Kills a process whose git command goes on with this step.
    pub(super) fn orphans(&mut self, pid: u32, step: &str) {
        self.dies(pid);
        if let Some(life) = self.lives.get_mut(&pid) {
            life.command_lives = true;
            // Git holds the lock of a move while it writes the main tree.
            let release = match MOVES.contains(&step) {
                true => SimRepository::release_trees,
                false => SimRepository::release,
            };
            life.repository.iter().for_each(release);
        }
    }

    /// Returns whether a process has ended, and its git command too.
    pub(super) fn is_gone(&self, pid: u32) -> bool {
        self.lives.get(&pid).is_none_or(|life| life.dead && !life.command_lives)
    }

    /// Ends the git command of a dead process.
    pub(super) fn command_ends(&mut self, pid: u32) -> io::Result<()> {
        let Some(life) = self.lives.get_mut(&pid) else { return Err(gone()) };
        let late = std::mem::take(&mut life.command_lives);
        if life.dead {
            if late {
                self.orphaned.extend(checkers::belongings(&self.git.model()));
            }
            return Err(gone());
        }
        Ok(())
    }

    pub(super) fn dies(&mut self, pid: u32) {
        self.story.tell(|| format!("      process {pid} is killed"));
        self.tally.kills += 1;
        self.orphaned.extend(checkers::belongings(&self.git.model()));
        if let Some(life) = self.lives.get_mut(&pid) {
            life.dead = true;
            life.killed.notify_one();
        }
    }

    /// Records only the first violation, because others may follow from it.
    pub(super) fn broken(&mut self, checker: &'static str, what: String) {
        self.story.tell(|| format!("      {checker}: {what}"));
        self.violation.get_or_insert(Violation { checker, what });
    }

    /// Reads the disk and judges the changes since the last look.
    pub(super) fn observe(&mut self) {
        self.follow_refs();
        self.judge_users_tree();
        let after = match format::read_ledger(&self.disk.bytes(File::Ledger)) {
            Ok(ledger) => ledger,
            Err(e) => return self.broken("ledger_or_backup_always_parses", e.to_string()),
        };
        let before = std::mem::replace(&mut self.ledger, after.clone());
        self.joined.extend(after.head().landing.iter().map(|entry| entry.task.clone()));
        for task in after.tasks() {
            let Some(earlier) = before.task(&task.id).filter(|earlier| *earlier != task) else {
                continue;
            };
            if let Err(violation) = checkers::changed(self, earlier, task) {
                self.broken(violation.checker, violation.what);
            }
        }
    }

    /// Returns the folder of the workers' trees. Agents leave their handoffs there, on a real disk.
    pub(super) fn worktrees(&self) -> PathBuf {
        self.root.join(".harness/worktrees")
    }

    pub(super) fn tasks(&self) -> Vec<TaskId> {
        self.ledger.tasks().map(|task| task.id.clone()).collect()
    }
}

pub(super) fn gone() -> io::Error {
    io::Error::other("this process is dead")
}
