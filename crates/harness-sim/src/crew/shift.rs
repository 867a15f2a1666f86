//! Some processes that work at the same time, in one runtime. A shift inside of another one is what
//! happens while a process is frozen.

use std::{io, sync::Arc, time::Duration};

use futures_util::future::join_all;
use harness::blocking::in_order;
use harness_core::{Stop, run::StopReason};
use tokio::runtime::Builder;

use super::{
    fate::{Fate, Freeze},
    floor::Floor,
    process::Process,
    repository::Others,
};

/// The plan of one process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) pid: u32,
    pub(super) fate: Fate,
    pub(super) workers: u32,
    /// The time until it starts.
    pub(super) after: Duration,
}

/// How the processes of a shift ended; `None` for one that was killed.
pub(super) type Ends = Vec<Option<harness::Result<Stop>>>;

/// Runs a shift until all its processes have ended.
pub(super) fn run(floor: &Floor, plans: Vec<Plan>) -> io::Result<Ends> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let clock = Arc::clone(&floor.state().clock);
    floor.state().depth += 1;
    let ends = in_order(|| {
        runtime.block_on(async {
            clock.resume();
            let lives = plans.into_iter().map(|plan| {
                let others = others(floor);
                async move {
                    tokio::time::sleep(plan.after).await;
                    let Plan { pid, fate, workers, .. } = plan;
                    Process { floor, pid, fate, workers, others }.live().await
                }
            });
            let ends = join_all(lives).await;
            clock.pause();
            ends
        })
    });
    drop(runtime);
    floor.state().depth -= 1;
    Ok(ends)
}

/// Returns what happens while a process is frozen: time passes, and another process works until its
/// end.
fn others(floor: &Floor) -> Others {
    let floor = floor.clone();
    Arc::new(move |freeze: Freeze| {
        let (clock, plan) = {
            let mut state = floor.state();
            state.pids += 1;
            let workers = 1 + state.random.below(2) as u32;
            // Another process may be killed meanwhile, but is not frozen itself.
            let fate = Fate::beside_a_freeze(&mut state.random);
            let plan = Plan { pid: state.pids, fate, workers, after: Duration::ZERO };
            (Arc::clone(&state.clock), plan)
        };
        clock.pause();
        clock.step(i64::from(freeze.seconds));
        let inner = floor.clone();
        // A thread of its own, because the runtime of the frozen process is entered in this one.
        let ran = std::thread::scope(|scope| scope.spawn(|| run(&inner, vec![plan])).join());
        clock.resume();
        match ran {
            Ok(Ok(ends)) => judge(&floor, &ends),
            Ok(Err(error)) => return Err(error),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(())
    })
}

/// Records an error that no kill explains.
pub(super) fn judge(floor: &Floor, ends: &Ends) {
    for end in ends {
        if let Some(Err(error)) = end {
            floor.state().broken("no_error_but_a_kill", error.to_string());
        }
    }
}

/// Returns whether a process reported that nothing is left.
pub(super) fn is_complete(end: &Option<harness::Result<Stop>>) -> bool {
    matches!(end, Some(Ok(stop)) if stop.reason == StopReason::Complete)
}
