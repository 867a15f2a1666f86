//! One seed of several workers: some tasks, and shifts of processes until nothing is left.

use std::{io, path::Path, time::Duration};

use harness::store::{FileStore, Locking, Store as _, disk::File};
use harness_core::{
    Command, TaskId, Timestamp,
    command::{Add, Edit},
    format,
};

use super::{
    CrewFlaw, checkers,
    fate::Fate,
    floor::Floor,
    shift::{self, Plan},
};
use crate::{
    checkers::Violation,
    disk::{Quirk, SimDisk},
    random::Random,
    story::{Story, Tally},
};

/// The number of shifts after which nothing disturbs them any more.
const DISTURBED: usize = 6;
/// The number of shifts that are enough after that.
const QUIET: usize = 2;

pub struct CrewWorld {
    floor: Floor,
    #[allow(dead_code, reason = "the folder is removed with it")]
    root: tempfile::TempDir,
    disturbed: usize,
}

impl CrewWorld {
    pub fn new(seed: u64, flaw: CrewFlaw, story: Story) -> Result<Self, Violation> {
        // The worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x43_52_45);
        let mut random = Random::new(seed ^ 0x0BEE);
        let root = tempfile::tempdir().map_err(cannot_set_up)?;
        let disk = SimDisk::new(seed, Quirk::None);
        found(root.path(), &disk, &mut random).map_err(cannot_set_up)?;
        let ledger = format::read_ledger(&disk.bytes(File::Ledger)).map_err(cannot_set_up)?;
        let disturbed = random.below(DISTURBED);
        let mut story = story;
        story.omitted = Some(root.path().display().to_string());
        let floor = Floor::new(seed, flaw, story, disk, ledger, root.path());
        Ok(Self { floor, root, disturbed })
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        let mut state = self.floor.state();
        (state.tally, std::mem::take(&mut state.story))
    }

    /// Runs the whole seed.
    pub fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.disturbed {
            let plans = self.plans();
            self.shift(plans)?;
            let mut state = self.floor.state();
            let rest = [0, 10, 100, 4000][state.random.below(4)];
            state.clock.step(rest);
        }
        {
            let mut state = self.floor.state();
            state.quiet = true;
            state.user_finishes();
        }
        for _ in 0..QUIET {
            let plan = {
                let mut state = self.floor.state();
                state.pids += 1;
                Plan { pid: state.pids, fate: Fate::default(), workers: 2, after: Duration::ZERO }
            };
            if self.shift(vec![plan])? {
                return checkers::at_the_end(&mut self.floor.state());
            }
        }
        Violation::of("the_line_never_stops", "undisturbed, and not complete".into())
    }

    fn plans(&self) -> Vec<Plan> {
        let mut state = self.floor.state();
        let count = 1 + state.random.below(2);
        let plan = |_| {
            state.pids += 1;
            let (pid, random) = (state.pids, &mut state.random);
            let (fate, workers) = (Fate::any(random), 1 + random.below(3) as u32);
            let after = Duration::from_secs(random.below(60) as u64);
            Plan { pid, fate, workers, after }
        };
        (0..count).map(plan).collect()
    }

    /// Returns whether a process reported that nothing is left.
    fn shift(&self, plans: Vec<Plan>) -> Result<bool, Violation> {
        let ends = shift::run(&self.floor, plans).map_err(cannot_set_up)?;
        shift::judge(&self.floor, &ends);
        let mut state = self.floor.state();
        state.observe();
        match state.violation.take() {
            Some(violation) => Err(violation),
            None => Ok(ends.iter().any(shift::is_complete)),
        }
    }
}

/// Performs `harness init` and `harness add`. Some tasks depend on others.
fn found(root: &Path, disk: &SimDisk, random: &mut Random) -> Result<(), harness::Error> {
    let mut store = FileStore::on(root, Box::new(disk.clone()), Locking::Elsewhere);
    let now = Timestamp::from_seconds(1_751_363_000);
    store.create(now)?;
    let count = 2 + random.below(5);
    for number in 1..=count as u64 {
        let id = TaskId::numbered(number);
        let earlier = (number > 1 && random.percent(25)).then(|| TaskId::numbered(number - 1));
        let fields = Edit {
            depends_on: earlier.map(|id| vec![id]),
            validation_command: Some(format!("check {id}")),
            max_attempts: Some(2 + random.below(3) as u32),
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

fn cannot_set_up(error: impl std::fmt::Display) -> Violation {
    Violation { checker: "set_up", what: io::Error::other(error.to_string()).to_string() }
}
