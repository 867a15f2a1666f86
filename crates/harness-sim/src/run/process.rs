//! One life of `harness run`: the library's parts put together as the binary does it, over
//! simulated ports and with a time that is not ours.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Cx, Harness, Hub, Ports, Result,
    flows::{Judging, Team, Tools, work::work},
    host::Desk,
    named,
    store::disk::File,
};
use harness_core::{
    format,
    machine::{
        attempt::Rules,
        work::{Runs, Session, Stopped},
    },
};

use super::{agent::RunAgent, commit::SimCommit, flaw::FlawedGit, shell::RunShell, stage::Stage};

const LEASE_SECONDS: u64 = 1800;

/// Runs until the session is over, or until a port says that the process is dead.
pub(super) fn live(stage: &Stage, root: &Path, hub: Hub, session: Session) -> Result<Stopped> {
    let (parks, wakes) = (stage.clone(), stage.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || parks.set_parked(true))
        .on_thread_unpark(move || wakes.set_parked(false))
        .build()?;
    let tools = tools(stage, root);
    let flow = Harness::define("run")
        .agents(Team { worker: named("worker", RunAgent(stage.clone())) })
        .state(|(): &()| ())
        .run(async move |cx: &mut Cx<'_, (), Team<RunAgent>>| {
            work(cx, &tools, session.clone()).await
        });
    let done = runtime.block_on(async { flow.create_in(hub, ()).run().await });
    done.map(|done| done.result)
}

pub(super) fn session(max_tasks: i64, pid: u32) -> harness::Result<Session> {
    let worker = harness_core::WorkerId::parse("runner").map_err(harness::Error::other)?;
    Ok(Session { worker, pid, lease_seconds: LEASE_SECONDS, max_tasks, runs: Runs::On })
}

fn tools(stage: &Stage, root: &Path) -> Tools {
    let (disk, clock, flaw) = {
        let state = stage.state();
        (state.disk.clone(), Arc::clone(&state.clock), state.flaw)
    };
    let ledger = move || {
        format::read_ledger(&disk.bytes(File::Ledger))
            .map_err(|e| harness::store::StoreError::Format(e).into())
    };
    Tools {
        ports: Ports {
            commit: Arc::new(SimCommit::new(stage.clone(), root)),
            clock,
            tick: Duration::from_secs(LEASE_SECONDS / 3),
        },
        workspace: Arc::new(FlawedGit { stage: stage.clone(), git: stage.git(), flaw }),
        shell: Arc::new(RunShell(stage.clone())),
        ledger: Arc::new(ledger),
        root: root.to_owned(),
        environment: Vec::new(),
        run_id: "simulated".to_owned(),
        lease_seconds: LEASE_SECONDS,
        stall: None,
        desk: Desk::default(),
        socket: None,
        // Receipts are files of their own, beside the disk that is simulated.
        judging: Judging {
            rules: Rules::default(),
            agent: Some("simulated".to_owned()),
            record: Arc::new(|_| Ok(())),
        },
    }
}
