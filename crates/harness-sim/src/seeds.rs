//! Runs seeds, and reports what happened when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    checkers::Violation,
    crew::{CrewFlaw, CrewWorld},
    daemon::{DaemonFault, DaemonWorld},
    disk::Quirk,
    fleet::{FleetFlaw, FleetWorld},
    run::{Flaw, LiarWorld, ObjectiveWorld, RunWorld},
    story::{Story, Tally},
    world::{MakeStore, World, sound},
};

pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub story: Story,
}

/// Runs one seed of the unmodified product in all worlds.
pub fn run(seed: u64) -> Result<Tally, Box<Failure>> {
    let mut tally = run_with(seed, Quirk::None, sound)?;
    tally.add(&run_session(seed, Flaw::None)?);
    tally.add(&run_objective(seed, Flaw::None)?);
    tally.add(&run_liars(seed, Flaw::None)?);
    tally.add(&run_daemon(seed, DaemonFault::None)?);
    tally.add(&run_crew(seed, CrewFlaw::None)?);
    tally.add(&run_fleet(seed, FleetFlaw::None)?);
    Ok(tally)
}

/// The result of a seed, its tally, and its story.
pub type Lived = (Result<(), Violation>, Tally, Story);

/// Runs one seed of `harness run` over a ledger.
pub fn run_session(seed: u64, flaw: Flaw) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_session(seed, flaw, story))
}

/// Runs one seed of `harness run` with an objective.
pub fn run_objective(seed: u64, flaw: Flaw) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_objective(seed, flaw, story))
}

/// Runs one seed of `harness run` with agents that lie.
pub fn run_liars(seed: u64, flaw: Flaw) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_liars(seed, flaw, story))
}

/// Runs one seed of a daemon with clients.
pub fn run_daemon(seed: u64, fault: DaemonFault) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_daemon(seed, fault, story))
}

/// Runs one seed of a daemon with clients, whose first daemon is killed at this step of the disk.
pub fn run_daemon_killed_at(seed: u64, step: u32) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| {
        let world = DaemonWorld::new(seed, DaemonFault::None, story);
        live_in(world.map(|world| world.killed_at(step)))
    })
}

/// Runs one seed of several workers.
pub fn run_crew(seed: u64, flaw: CrewFlaw) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_crew(seed, flaw, story))
}

/// Runs one seed of several workers, with its whole story.
pub fn tell_crew(seed: u64) -> Lived {
    live_crew(seed, CrewFlaw::None, Story::recorded())
}

fn live_crew(seed: u64, flaw: CrewFlaw, story: Story) -> Lived {
    let mut world = match CrewWorld::new(seed, flaw, story) {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

/// Runs one seed of several hosts over one database.
pub fn run_fleet(seed: u64, flaw: FleetFlaw) -> Result<Tally, Box<Failure>> {
    twice(seed, |story| live_fleet(seed, flaw, story))
}

/// Runs one seed of several hosts, with its whole story.
pub fn tell_fleet(seed: u64) -> Lived {
    live_fleet(seed, FleetFlaw::None, Story::recorded())
}

fn live_fleet(seed: u64, flaw: FleetFlaw, story: Story) -> Lived {
    let mut world = match FleetWorld::new(seed, flaw, story) {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

fn twice(seed: u64, live: impl Fn(Story) -> Lived) -> Result<Tally, Box<Failure>> {
    let (result, tally, _) = live(Story::silent());
    let Err(violation) = result else { return Ok(tally) };
    // Run the seed again and record its story.
    let (again, _, story) = live(Story::recorded());
    let violation = again.err().unwrap_or_else(|| Violation {
        checker: "a_seed_replays",
        what: format!("only once: {}: {}", violation.checker, violation.what),
    });
    Err(Box::new(Failure { seed, violation, story }))
}

pub fn run_with(seed: u64, quirk: Quirk, make_store: MakeStore) -> Result<Tally, Box<Failure>> {
    let (result, tally, _) = live(seed, quirk, make_store, Story::silent());
    match result {
        Ok(()) => Ok(tally),
        Err(_) => {
            // Run the seed again and record its story.
            let (result, tally, story) = live(seed, quirk, make_store, Story::recorded());
            match result {
                Err(violation) => Err(Box::new(Failure { seed, violation, story })),
                Ok(()) => Ok(tally),
            }
        }
    }
}

/// Runs one seed with its whole story.
pub fn tell(seed: u64) -> Lived {
    let (mut result, mut tally, mut story) = live(seed, Quirk::None, sound, Story::recorded());
    for world in [tell_session, tell_objective, tell_liars, tell_daemon, tell_crew, tell_fleet] {
        if result.is_err() {
            break;
        }
        let (lived, more, mut told) = world(seed);
        told.follow(story);
        tally.add(&more);
        (result, story) = (lived, told);
    }
    (result, tally, story)
}

/// Runs one seed of `harness run` over a ledger with its whole story.
pub fn tell_session(seed: u64) -> Lived {
    live_session(seed, Flaw::None, Story::recorded())
}

/// Runs one seed of `harness run` with an objective, with its whole story.
pub fn tell_objective(seed: u64) -> Lived {
    live_objective(seed, Flaw::None, Story::recorded())
}

/// Runs one seed of `harness run` with agents that lie, with its whole story.
pub fn tell_liars(seed: u64) -> Lived {
    live_liars(seed, Flaw::None, Story::recorded())
}

/// Runs one seed of a daemon with clients, with its whole story.
pub fn tell_daemon(seed: u64) -> Lived {
    live_daemon(seed, DaemonFault::None, Story::recorded())
}

fn live_session(seed: u64, flaw: Flaw, story: Story) -> Lived {
    let mut world = match RunWorld::new(seed, flaw, story) {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

fn live_objective(seed: u64, flaw: Flaw, story: Story) -> Lived {
    let mut world = match ObjectiveWorld::new(seed, flaw, story) {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

fn live_liars(seed: u64, flaw: Flaw, story: Story) -> Lived {
    let mut world = match LiarWorld::new(seed, flaw, story) {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

fn live_daemon(seed: u64, fault: DaemonFault, story: Story) -> Lived {
    live_in(DaemonWorld::new(seed, fault, story))
}

fn live_in(world: Result<DaemonWorld, Violation>) -> Lived {
    let mut world = match world {
        Ok(world) => world,
        Err(violation) => return (Err(violation), Tally::default(), Story::silent()),
    };
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    let (tally, story) = world.end();
    (result, tally, story)
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Result<(), Violation> {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Err(Violation { checker: "no_panic", what: text.unwrap_or_else(|| "a panic".into()) })
}

fn live(seed: u64, quirk: Quirk, make_store: MakeStore, story: Story) -> Lived {
    let mut world = World::new(seed, quirk, make_store, story);
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(panicked);
    (result, world.tally, world.story)
}
