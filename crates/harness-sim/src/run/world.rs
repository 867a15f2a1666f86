//! One seed of `harness run`: some tasks, and processes that work on them until nothing is left.

use std::{io, path::Path};

use harness::store::{FileStore, Locking, Runs as _, Store as _, disk::File};
use harness_core::{
    Command, Run, Stop, TaskId, Timestamp,
    command::{Add, Anew, Edit},
    format::{self, Key},
    run::{RunStatus, StopReason},
    task::Status,
};

use super::{
    Flaw,
    character::Character,
    checkers,
    client::Client,
    fate::{limits, prices, raised},
    process::{Life, Process, row, session},
    stage::Stage,
};
use crate::{
    checkers::Violation,
    disk::{Quirk, SimDisk},
    random::Random,
    story::{Story, Tally},
};

/// The number of processes after which nothing disturbs them any more.
const DISTURBED: usize = 12;
/// The number of processes that are enough after that.
const QUIET: usize = 2;

pub struct RunWorld {
    stage: Stage,
    root: tempfile::TempDir,
    row: Run,
    max_tasks: i64,
    disturbed: usize,
    /// The number of processes that ended for another reason than that nothing was left.
    cut_short: u64,
}

impl RunWorld {
    pub fn new(seed: u64, flaw: Flaw, story: Story) -> Result<Self, Violation> {
        // The two worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x52_55_4E);
        let mut random = Random::new(seed ^ 0x0BEE);
        let root = tempfile::tempdir().map_err(cannot_set_up)?;
        if random.percent(30) {
            std::fs::write(root.path().join("harness-init.sh"), "").map_err(cannot_set_up)?;
        }
        let disk = SimDisk::new(seed, Quirk::None);
        found(root.path(), &disk, &mut random, None).map_err(cannot_set_up)?;
        let ledger = format::read_ledger(&disk.bytes(File::Ledger)).map_err(cannot_set_up)?;
        let max_tasks = [1, 2, 20][random.below(3)];
        let disturbed = random.below(DISTURBED);
        let stage = Stage::new(seed, flaw, story, ledger, disk, root.path());
        stage.state().books.prices = prices(&mut random);
        let row = row(limits(&mut random));
        Ok(Self { stage, root, row, max_tasks, disturbed, cut_short: 0 })
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        let mut state = self.stage.state();
        (state.tally, std::mem::take(&mut state.story))
    }

    /// Runs the whole seed.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.make_marker()?;
        for number in 0..self.disturbed + QUIET {
            let quiet = number >= self.disturbed;
            let works = !quiet && self.stage.state().random.percent(35);
            if works && self.nobody_works() {
                Client { stage: &self.stage, root: self.root.path() }.work()?;
            }
            let stop = self.process(number, quiet)?;
            self.check_bounds()?;
            let complete = Stop::because(StopReason::Complete);
            match stop {
                Some(stop) if stop == complete => return self.complete(),
                Some(other) if quiet => {
                    let what = format!("undisturbed, and it stopped by {other}");
                    return Violation::of("ends_with_nothing_to_do", what);
                }
                // It was killed when everything was stored.
                None if self.has_succeeded()? => return self.complete(),
                Some(_) | None => self.cut_short += 1,
            }
        }
        let what = "the processes are used up".into();
        Violation::of("ends_with_nothing_to_do", what)
    }

    /// Returns whether no task is in progress. The next run recovers a task of a killed run.
    fn nobody_works(&self) -> bool {
        self.stage.state().ledger.tasks().all(|task| task.status() != Status::InProgress)
    }

    fn has_succeeded(&self) -> Result<bool, Violation> {
        let row = self.stage.state().runs.run(&self.row.id).map_err(cannot_set_up)?;
        Ok(row.is_some_and(|row| row.status == RunStatus::Succeeded))
    }

    fn process(&mut self, number: usize, quiet: bool) -> Result<Option<Stop>, Violation> {
        let quiet = quiet.then_some(Character::Mixed);
        let (stage, root, row) = (&self.stage, self.root.path(), &self.row);
        let process = Process { stage, root, number, row, quiet };
        let session = session(self.max_tasks, process.owner().pid).map_err(cannot_set_up)?;
        process.run(Life::Ledger(Box::new(session)), |random| {
            let more = quiet.is_some() || random.percent(40);
            if more { raised(None) } else { Anew::default() }
        })
    }

    /// Checks that there is at most one loop for each counted attempt, and one more for each
    /// process that did not come to its end. The checkers of loops judge the length of each.
    fn check_bounds(&self) -> Result<(), Violation> {
        let state = self.stage.state();
        let most: u64 = state.ledger.tasks().map(|task| u64::from(task.max_attempts)).sum();
        let most = most + self.cut_short + 1;
        let runs = state.runs.runs().map_err(cannot_set_up)?;
        let loops = runs.iter().filter(|run| run.task.is_some()).count() as u64;
        if loops > most {
            let what = format!("{loops} loops were opened, not {most}");
            return Violation::of("agents_are_not_started_for_ever", what);
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), Violation> {
        if self.stage.state().flaw == Flaw::MarkerStays {
            self.make_marker()?;
        }
        let marker_is_there = self.root.path().join(".harness-active").exists();
        checkers::at_the_end(&self.stage.state(), marker_is_there)
    }

    fn make_marker(&self) -> Result<(), Violation> {
        std::fs::write(self.root.path().join(".harness-active"), "").map_err(cannot_set_up)
    }
}

/// Performs `harness init` and `harness add`. Some tasks depend on others.
pub(super) fn found(
    root: &Path,
    disk: &SimDisk,
    random: &mut Random,
    key: Option<Key>,
) -> Result<(), harness::Error> {
    let store = FileStore::on(root, Box::new(disk.clone()), Locking::Elsewhere);
    let mut store = match key {
        Some(key) => store.sealed_with(key),
        None => store,
    };
    let now = Timestamp::from_seconds(1_751_363_000);
    store.create(now)?;
    let count = 1 + random.below(4);
    for number in 1..=count as u64 {
        let id = TaskId::numbered(number);
        let earlier = (number > 1 && random.percent(35)).then(|| TaskId::numbered(number - 1));
        let fields = Edit {
            priority: Some(["P0", "P1", "P2"][random.below(3)].to_owned()),
            depends_on: earlier.map(|id| vec![id]),
            validation_command: Some(format!("check {id}")),
            attempt_timeout_seconds: random.percent(50).then_some(3600),
            max_attempts: Some(1 + random.below(3) as u32),
            cleanup: random.percent(30).then(|| "tidy up".to_owned()),
            ..Edit::nothing(id.clone())
        };
        let add = Add { id: Some(id), title: format!("number {number}"), fields };
        let applied = store.apply(now, &[Command::Add(add)])?;
        if let Some(Err(refusal)) = applied.replies.first() {
            return Err(refusal.to_string().into());
        }
    }
    disk.founded();
    Ok(())
}

pub(super) fn cannot_set_up(error: impl std::fmt::Display) -> Violation {
    Violation { checker: "set_up", what: io::Error::other(error.to_string()).to_string() }
}
