//! One life of `harness run`: the library's parts put together as the binary does it, over
//! simulated ports and with a time that is not ours.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Cx, Harness, Hub, Ports, Result,
    flows::{Judging, Looping, Team, Tools, work::work},
    host::Desk,
    named,
    prompts::Prompts,
    store::disk::File,
};
use harness_core::{
    Run, RunId, Timestamp,
    agent::Usage,
    format,
    machine::{
        attempt::Rules,
        iterate,
        work::{Runs, Session, Stopped},
    },
    promise,
    run::{RunLimits, RunStatus},
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
        .agents(Team::of(named("worker", RunAgent(stage.clone()))))
        .state(|(): &()| ())
        .run(async move |cx: &mut Cx<'_, (), Team<RunAgent>>| {
            work(cx, &tools, session.clone()).await
        });
    let done = runtime.block_on(async { flow.create_in(hub, ()).run().await });
    done.map(|done| done.result)
}

pub(super) fn session(max_tasks: i64, pid: u32) -> harness::Result<Session> {
    let worker = harness_core::WorkerId::parse("runner").map_err(harness::Error::other)?;
    Ok(Session {
        worker,
        pid,
        lease_seconds: LEASE_SECONDS,
        max_tasks,
        max_sessions: None,
        runs: Runs::On,
    })
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
        looping: looping(stage),
    }
}

/// The row that pays for everything.
pub(super) fn parent(max_iterations: u32) -> Run {
    let now = Timestamp::from_seconds(1_751_363_000);
    Run {
        id: RunId::of_bits(0),
        created_at: now,
        updated_at: now,
        status: RunStatus::Running,
        objective: None,
        task: None,
        epoch: None,
        agent: "simulated".to_owned(),
        agent_command: None,
        verify: None,
        workspace: "/".to_owned(),
        iteration_count: 0,
        completion_promise: "TASK_COMPLETE".to_owned(),
        limits: RunLimits { max_iterations, ..RunLimits::default() },
        stop_reason: None,
        provider_session_id: None,
        parent: None,
        usage: Usage::default(),
        deadline: None,
        wake_at: None,
        lease: None,
    }
}

/// The one row of all processes: each takes up what the last one left.
fn looping(stage: &Stage) -> Looping {
    let stages = stage.clone();
    Looping {
        runs: stage.state().runs.clone(),
        run: RunId::of_bits(0),
        by: None,
        new_id: Arc::new(move || {
            let mut state = stages.state();
            state.runs_opened += 1;
            RunId::of_bits(state.runs_opened)
        }),
        rules: iterate::Rules {
            promise_match: promise::Match::Token,
            stall_limit: 3,
            waits: true,
            restarts: true,
            prices: vec![None],
            lease_seconds: LEASE_SECONDS,
            until: None,
            transcripts: String::new(),
        },
        prompts: Arc::new(Prompts::built_in()),
    }
}
