//! One seed with liars: some tasks, and processes that work on them until nothing is left. Between
//! two processes, the person resolves what only a person can resolve.

use std::path::Path;

use harness::{
    clock::Clock as _,
    store::{FileStore, Locking, Store as _, StoreError, disk::File},
    workspace::undo_message,
};
use harness_core::{
    Run, RunId, Stop, Timestamp,
    command::Anew,
    fact::Source,
    format::{self, Key},
    run::{RunStatus, StopReason},
    task::{Intent, Status},
};

use super::{Kind, checkers, tree};
use crate::{
    checkers::Violation,
    disk::{Quirk, SimDisk},
    random::Random,
    run::{
        Flaw,
        character::Character,
        fate::{limits, prices, raised},
        process::{Life, Process, row, session},
        stage::Stage,
        world::{cannot_set_up, found},
    },
    story::{Story, Tally},
};

/// The number of processes after which only the agents cause trouble.
const DISTURBED: usize = 6;
/// The limit of processes. No world needs more.
const PROCESSES: usize = 200;

/// Returns the key that seals versions in all simulated worlds.
pub(in crate::run) fn key() -> Key {
    Key::new([7; 32])
}

pub struct LiarWorld {
    stage: Stage,
    root: tempfile::TempDir,
    row: Run,
    max_tasks: i64,
    disturbed: usize,
}

/// Whether there is more to do.
enum After {
    Over,
    More,
}

impl LiarWorld {
    pub fn new(seed: u64, flaw: Flaw, story: Story) -> Result<Self, Violation> {
        // The worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x4C_49_45);
        let mut random = Random::new(seed ^ 0x0BEE);
        let root = tempfile::tempdir().map_err(cannot_set_up)?;
        let quirk = if flaw == Flaw::Mute { Quirk::ForgetsAlerts } else { Quirk::None };
        let disk = SimDisk::new(seed, quirk);
        found(root.path(), &disk, &mut random, Some(key())).map_err(cannot_set_up)?;
        let ledger = format::read_ledger(&disk.bytes(File::Ledger)).map_err(cannot_set_up)?;
        let max_tasks = [1, 2, 20][random.below(3)];
        let disturbed = 1 + random.below(DISTURBED);
        let stage = Stage::new(seed, flaw, story, ledger, disk, root.path());
        let row = {
            let mut state = stage.state();
            state.lies.on = true;
            state.lies.killer = random.percent(8);
            state.lies.spender = random.percent(20);
            state.learn_tasks();
            tree::flag_a_file(&state.git).map_err(cannot_set_up)?;
            state.books.prices = prices(&mut random);
            let mut limits = limits(&mut random);
            if state.lies.spender || random.percent(40) {
                // The limit is small, so that it is reached.
                limits.max_tokens = Some(1000 + random.below(9000) as u64);
            }
            row(limits)
        };
        Ok(Self { stage, root, row, max_tasks, disturbed })
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        let mut state = self.stage.state();
        (state.tally, std::mem::take(&mut state.story))
    }

    /// Runs the whole seed.
    pub fn run(&mut self) -> Result<(), Violation> {
        for number in 0..PROCESSES {
            match self.process(number)? {
                After::Over => {
                    self.restore(true)?;
                    return checkers::at_the_end(&self.stage.state());
                }
                After::More => self.settle()?,
            }
        }
        Violation::of("ends_with_nothing_to_do", format!("{PROCESSES} processes did not do it"))
    }

    fn process(&self, number: usize) -> Result<After, Violation> {
        let quiet = (number >= self.disturbed).then_some(Character::Mixed);
        let (stage, root, row) = (&self.stage, self.root.path(), &self.row);
        let process = Process { stage, root, number, row, quiet };
        let session = session(self.max_tasks, process.owner().pid).map_err(cannot_set_up)?;
        self.stage.state().lies.alarmed = false;
        let lived = process.run(Life::Ledger(Box::new(session)), |random| {
            let more = quiet.is_some() || random.percent(15);
            if more { raised(None) } else { Anew::default() }
        });
        let alarmed = self.stage.state().lies.alarmed;
        match lived? {
            Some(stop) if stop == Stop::because(StopReason::Complete) && alarmed => {
                let what = "a forgery was found, and all is well".into();
                Violation::of("a_forgery_is_no_plain_success", what)
            }
            Some(stop) if stop.reason == StopReason::Complete => Ok(After::Over),
            Some(stop) => {
                let by_config = stop.reason == StopReason::Config && stop.words().is_some();
                self.stage.state().stuck = by_config;
                Ok(After::More)
            }
            None => Ok(After::More),
        }
    }

    /// Does what only a person can do between two processes.
    fn settle(&self) -> Result<(), Violation> {
        self.restore(false)?;
        let mut state = self.stage.state();
        // All leftover processes of agents have ended by now.
        state.lies.behind = 0;
        // A run whose row is marked as succeeded is not resumed. The person starts another one.
        state.runs.forge(&RunId::of_bits(0), |run| {
            if run.status == RunStatus::Succeeded {
                (run.status, run.stop_reason) = (RunStatus::Running, None);
            }
        });
        let stuck = state.ledger.tasks().find(|task| {
            task.status() == Status::InProgress
                && matches!(task.intent(), Some(Intent::Rollback { .. }))
        });
        let stuck = stuck.map(|task| (task.id.clone(), task.epoch));
        let git = state.git.clone();
        if let Some((task, epoch)) = stuck.filter(|_| state.stuck) {
            state.story.tell(|| format!("the person settles the undo of {task}"));
            // An empty commit on the branch marks it as resolved.
            let mut model = git.model();
            if let Some(tip) = model.branches.get("main").cloned() {
                let (files, message) = (model.files_of(&tip), undo_message(&task, epoch));
                let commit = model.add_commit(vec![tip], files, &message, None);
                model.branches.insert("main".to_owned(), commit.map_err(cannot_set_up)?);
            }
        }
        state.stuck = false;
        let working = state.ledger.tasks().any(|task| task.status() == Status::InProgress);
        if !working {
            state.story.tell(|| "the person discards what is uncommitted".into());
            let mut model = git.model();
            let head = model.head_files();
            let index = std::mem::replace(&mut model.index, head.clone());
            for path in index.keys().chain(head.keys()) {
                if model.settings.assumed.contains(path) {
                    continue;
                }
                match head.get(path) {
                    Some(bytes) => drop(model.work.insert(path.clone(), bytes.clone())),
                    None => drop(model.work.remove(path)),
                }
            }
        }
        Ok(())
    }

    /// Performs `harness init --restore` if the last process left a ledger that it did not write,
    /// and at the end.
    fn restore(&self, over: bool) -> Result<(), Violation> {
        let mut state = self.stage.state();
        let forged = state.lies.forged.as_ref().map(|forged| forged.kind);
        if forged.is_none() && !over {
            return Ok(());
        }
        let now: Timestamp = state.clock.now();
        let held = state.ledger.tasks().any(|task| task.status() == Status::InProgress);
        if held && forged == Some(Kind::Edit) && !state.lies.copies_forged {
            let liars = state.flaw != Flaw::BelievesLedger;
            let mut run = store(self.root.path(), state.disk.clone(), liars);
            let found = run.apply(now, &[]);
            if !matches!(found, Err(StoreError::Edited { .. })) {
                let what = format!("after a kill a forged ledger is met with {found:?}");
                return Violation::of("no_forgery_is_believed", what);
            }
        }
        state.lies.forged = None;
        let disk = Box::new(state.disk.clone());
        state.story.tell(|| "the person: harness init --restore".into());
        let mut store =
            FileStore::on(self.root.path(), disk, Locking::Elsewhere).sealed_with(key());
        let restored = store.bring_back(now).map_err(cannot_set_up)?;
        state.story.tell(|| format!("   {restored:?}"));
        state.tally.restored += u64::from(restored.from.is_some());
        if restored.from == Some(Source::Backup) || state.lies.copies_forged {
            state.rewind();
        }
        state.observe();
        match state.violation.take() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }
}

/// Opens the store of a process, sealed if there are liars.
pub(in crate::run) fn store(root: &Path, disk: SimDisk, liars: bool) -> FileStore {
    let locking = if liars { Locking::HeldElsewhere } else { Locking::Elsewhere };
    let store = FileStore::on(root, Box::new(disk), locking);
    if liars { store.sealed_with(key()) } else { store }
}
