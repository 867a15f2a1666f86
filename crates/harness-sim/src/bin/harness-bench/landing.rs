//! The cost of several workers beside one: a task with its work tree reset and its result landed, in
//! time and in git processes, as a ratio to a task of one worker in the main tree.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use crate::{Effort, report::Report, repository::Place};

/// The number of tasks of a short run and of a long one. Their difference leaves the start of a run
/// out.
const FEW: usize = 4;
const MANY: usize = 16;
/// The number of files of the repository.
const FILES: usize = 1_000;
/// The limit for one worker that lands, as a multiple of one in the main tree.
const TIMES: f64 = 4.0;

/// One way to run, with its arguments.
struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The limit of git processes for one task. Two workers prepare again when the other one lands, so
    /// theirs depends on the machine.
    calls_max: Option<usize>,
}

const ALONE: Way = Way { name: "one worker in the main tree", arguments: &[], calls_max: None };
const LANDING: Way =
    Way { name: "one worker that lands", arguments: &["--worktree"], calls_max: Some(24) };
const TWO: Way =
    Way { name: "two workers that land", arguments: &["--workers", "2"], calls_max: None };

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let rounds = effort.rounds(5);
    let (alone, calls) = cost(harness, &ALONE, rounds)?;
    report.count(&format!("task, {}: git processes", ALONE.name), calls, None);
    for way in [LANDING, TWO] {
        let (time, calls) = cost(harness, &way, rounds)?;
        report.ratio(&format!("task, {} / {}", way.name, ALONE.name), time, alone, TIMES);
        report.count(&format!("task, {}: git processes", way.name), calls, way.calls_max);
    }
    Ok(())
}

/// Returns the time and the git processes of one task.
fn cost(harness: &Path, way: &Way, rounds: usize) -> Result<(Duration, usize), Box<dyn Error>> {
    let place = Place::new(harness, FILES)?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let few = timed(&place, way, FEW)?;
        let many = timed(&place, way, MANY)?;
        times.push(many.saturating_sub(few) / u32::try_from(MANY - FEW)?);
    }
    let few = place.count(way.arguments, FEW)?;
    let many = place.count(way.arguments, MANY)?;
    Ok((crate::report::median(times), many.saturating_sub(few) / (MANY - FEW)))
}

fn timed(place: &Place, way: &Way, tasks: usize) -> Result<Duration, Box<dyn Error>> {
    place.add(tasks)?;
    let started = Instant::now();
    place.run(way.arguments)?;
    Ok(started.elapsed())
}
