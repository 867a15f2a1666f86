//! One seed of `harness run "…"`: an objective, with or without phases and a check of its own, and
//! processes that resume it until it is complete.

use std::path::Path;

use harness::{
    Hub,
    project::{RunError, RunStart},
    store::{FileStore, Locking, Runs as _, disk::File},
};
use harness_core::{
    Refusal, Run, RunId, Stop, TaskId, Timestamp,
    command::{Anew, OfRun, RunStep, Take},
    format,
    run::{RunStatus, StopReason},
};

use super::{
    Flaw,
    character::Character,
    fate::{limits, prices, raised},
    process::{Life, Process, owner, row},
    record::record,
    stage::{Fate, Stage},
    world::cannot_set_up,
};
use crate::{
    checkers::Violation,
    disk::{Quirk, SimDisk},
    random::Random,
    story::{Story, Tally},
};

/// The number of processes after which nothing disturbs them and the agent is honest.
const DISTURBED: usize = 8;
/// The number of processes that are enough after that. An earlier standstill may stop the first one
/// once more.
const QUIET: usize = 3;
/// The number of commits, checks and actions of an agent that may still follow an interrupt.
const STOPS_WITHIN: u64 = 12;
/// The file that the check of the run looks for. The gates look for the numbers after it.
const OBJECTIVE: u64 = 900;

pub struct ObjectiveWorld {
    stage: Stage,
    root: tempfile::TempDir,
    row: Run,
    disturbed: usize,
}

impl ObjectiveWorld {
    pub fn new(seed: u64, flaw: Flaw, story: Story) -> Result<Self, Violation> {
        // The worlds of one seed have nothing in common.
        let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x4F_42_4A);
        let mut random = Random::new(seed ^ 0x0BEE);
        let root = tempfile::tempdir().map_err(cannot_set_up)?;
        let disk = SimDisk::new(seed, Quirk::None);
        let phases = random.below(4) as u64;
        found(root.path(), &disk, phases, &mut random).map_err(cannot_set_up)?;
        let ledger = format::read_ledger(&disk.bytes(File::Ledger)).map_err(cannot_set_up)?;
        let stage = Stage::new(seed, flaw, story, ledger, disk, root.path());
        let mut state = stage.state();
        state.stops_within = STOPS_WITHIN;
        state.wants = (OBJECTIVE..=OBJECTIVE + phases).map(TaskId::numbered).collect();
        state.books.prices = prices(&mut random);
        let verify = random.percent(60).then(|| check(OBJECTIVE));
        state.books.verify.clone_from(&verify);
        let objective = Some("make it so".to_owned());
        let row = Run { objective, verify, ..row(limits(&mut random)) };
        drop(state);
        Ok(Self { stage, root, row, disturbed: random.below(DISTURBED) })
    }

    /// Returns the tally and the story.
    pub fn end(self) -> (Tally, Story) {
        let mut state = self.stage.state();
        (state.tally, std::mem::take(&mut state.story))
    }

    /// Runs the whole seed.
    pub fn run(&mut self) -> Result<(), Violation> {
        for number in 0..self.disturbed + QUIET {
            let before = self.row()?;
            if before.status == RunStatus::Succeeded {
                return self.is_finished(number);
            }
            self.a_stranger_waits(&before)?;
            let stop = self.process(number, number >= self.disturbed, &before)?;
            if let Some(stop) = stop {
                self.the_outcome_is_stored(&stop)?;
            }
            let mut state = self.stage.state();
            let later = [1, 100, 5000][state.random.below(3)];
            state.clock.step(later);
        }
        match self.row()?.status {
            RunStatus::Succeeded => self.is_finished(self.disturbed + QUIET),
            other => Violation::of("an_honest_agent_completes", format!("it is {other}")),
        }
    }

    fn row(&self) -> Result<Run, Violation> {
        let found = self.stage.state().runs.run(&RunId::of_bits(0)).map_err(cannot_set_up)?;
        Ok(found.unwrap_or_else(|| self.row.clone()))
    }

    fn process(
        &mut self,
        number: usize,
        quiet: bool,
        before: &Run,
    ) -> Result<Option<Stop>, Violation> {
        let quiet = quiet.then_some(Character::Honest);
        let (stage, root, row) = (&self.stage, self.root.path(), &self.row);
        let process = Process { stage, root, number, row, quiet };
        process.run(Life::Objective, |random| {
            let more = before.iteration_count + 1 + random.below(3) as u32;
            match random.below(4) {
                _ if quiet.is_some() => raised(Some(before.iteration_count + 10)),
                0 => raised(Some(more)),
                1 => Anew { max_iterations: Some(more), ..Anew::default() },
                _ => Anew::default(),
            }
        })
    }

    fn the_outcome_is_stored(&self, stop: &Stop) -> Result<(), Violation> {
        let row = self.row()?;
        let stored = (row.status, row.stop_reason);
        if stored != (stop.reason.status(), Some(stop.reason)) {
            let what = format!("{stop}, and the row has {stored:?}");
            return Violation::of("the_outcome_is_stored", what);
        }
        let interrupted = self.stage.state().interrupted_at.is_some();
        let by_itself = stop.reason != StopReason::Cancelled;
        if !interrupted && !by_itself {
            return Violation::of("who_is_cancelled_was_asked", format!("{stop}"));
        }
        Ok(())
    }

    /// Checks that a process that does not know whether the owner is dead waits until the lease
    /// ends.
    fn a_stranger_waits(&self, before: &Run) -> Result<(), Violation> {
        use harness::clock::Clock as _;
        let state = self.stage.state();
        let now = state.clock.now();
        let Some(lease) = before.lease.as_ref().filter(|lease| lease.expires_at > now) else {
            return Ok(());
        };
        let mut stranger = lease.owner.clone();
        stranger.host = "elsewhere".to_owned();
        let take = Take { owner: Some(stranger.clone()), lease_seconds: 60, ..Take::default() };
        let step = RunStep::Take(take);
        let of_run = OfRun { run: before.id.clone(), by: Some(stranger), step };
        match state.runs.apply(now, &of_run) {
            Ok(Err(Refusal::RunTaken { .. })) => Ok(()),
            other => Violation::of("a_lease_is_respected", format!("a stranger got {other:?}")),
        }
    }

    /// Checks that the run cannot be resumed any more.
    fn is_finished(&self, number: usize) -> Result<(), Violation> {
        let hub = Hub::new("late");
        self.stage.state().begin(Fate { quiet: true, ..Fate::default() }, hub);
        let (run, anew) = (Box::new(self.row()?), Anew::default());
        let ledger = self.stage.state().ledger.clone();
        let start = RunStart::Resume { run, anew };
        match record(&self.stage, &owner(number)).begin(&ledger, start) {
            Err(RunError::Refused(Refusal::RunFinished { .. })) => Ok(()),
            Err(other) => {
                Violation::of("finished_is_finished", format!("it is refused by {other}"))
            }
            Ok(_) => Violation::of("finished_is_finished", "it was taken up again".into()),
        }
    }
}

fn check(number: u64) -> String {
    format!("check {}", TaskId::numbered(number))
}

/// Performs `harness init`, and the edit of a person who adds phases to the ledger.
fn found(
    root: &Path,
    disk: &SimDisk,
    phases: u64,
    random: &mut Random,
) -> Result<(), harness::Error> {
    let mut store = FileStore::on(root, Box::new(disk.clone()), Locking::Elsewhere);
    store.create(Timestamp::from_seconds(1_751_363_000))?;
    let bytes = disk.bytes(File::Ledger);
    let mut ledger: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(harness::Error::other)?;
    let phase = |number: u64, random: &mut Random| {
        let gate = random.percent(75).then(|| check(OBJECTIVE + number));
        let gate = gate.map(|command| serde_json::json!({ "command": command }));
        serde_json::json!({ "name": format!("phase {number}"), "gate": gate })
    };
    let phases: Vec<_> = (1..=phases).map(|number| phase(number, random)).collect();
    if let Some(ledger) = ledger.as_object_mut().filter(|_| !phases.is_empty()) {
        ledger.insert("phases".to_owned(), phases.into());
    }
    disk.edit(File::Ledger, ledger.to_string().as_bytes());
    disk.founded();
    Ok(())
}
