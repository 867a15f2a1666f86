//! One life of `harness run`: the engine that the binary uses too, over simulated ports and
//! simulated time.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Commit, Committing, Engine, Hub, Observers,
    flows::{Judging, LoopSettings, Record, Team},
    host::Desk,
    named,
    project::{Equipment, Parts, Pursuit, Tenure},
    prompts::Prompts,
    store::{Runs as _, StoreError},
};
use harness_core::{
    Receipt, Run, RunId, Stop, Timestamp,
    command::{Anew, OfRun, RunStep, Take},
    machine::{
        attempt::Rules,
        iterate,
        session::{SessionTerms, WhenFull},
    },
    promise,
    run::{Owner, RunLimits},
};
use tokio::time::Instant;

use super::{
    Flaw,
    agent::RunAgent,
    character::Character,
    commit::{SimCommit, run_step},
    flaw::{FlawedGit, FlawedRuns},
    shell::RunShell,
    stage::{Doom, Fate, Moment, Stage, gone},
};
use crate::{checkers::Violation, clock::SimClock, random::Random};

const LEASE_SECONDS: u64 = 1800;

/// The purpose of a process.
#[derive(Debug, Clone)]
pub(super) enum Life {
    /// The tasks of the ledger.
    Ledger(Box<SessionTerms>),
    /// The objective of its run.
    Objective(Pursuit),
}

/// One process in a sequence of them.
pub(super) struct Process<'a> {
    pub(super) stage: &'a Stage,
    pub(super) root: &'a Path,
    pub(super) number: usize,
    /// The character of its agent, if nothing else disturbs it.
    pub(super) quiet: Option<Character>,
}

impl Process<'_> {
    pub(super) fn owner(&self) -> Owner {
        owner(self.number)
    }

    /// Takes up the row with the settings from `choose`, and runs. Returns `None` if it was killed.
    pub(super) fn run(
        &self,
        life: Life,
        choose: impl FnOnce(&mut Random) -> Anew,
    ) -> Result<Option<Stop>, Violation> {
        let (stage, number) = (self.stage, self.number);
        let hub = Hub::new(format!("process-{number}"));
        let anew = {
            let mut state = stage.state();
            let fate = Fate::any(&mut state.random, self.quiet.is_some());
            let character = self.quiet.unwrap_or_else(|| Character::any(&mut state.random));
            state.character = character;
            state.story.tell(|| format!("process {number} starts: {fate:?}, {character:?}"));
            state.begin(fate, hub.clone());
            choose(&mut state.random)
        };
        let owner = self.owner();
        let taken = take(stage, &owner, anew);
        {
            let mut state = stage.state();
            let row = state.runs.run(&RunId::of_bits(0)).ok().flatten();
            state.lies.taken_up(row);
        }
        let result = match taken {
            Ok(Ok(_)) => live(stage, self.root, hub, &owner, life),
            Ok(Err(refusal)) => Err(harness::Error::message(refusal.to_string())),
            Err(error) => Err(harness::Error::Commit(error)),
        };
        let mut state = stage.state();
        state.end();
        state.story.tell(|| format!("process {number} ends: {result:?}"));
        if let Some(violation) = state.violation.take() {
            return Err(violation);
        }
        match result {
            _ if state.dead => Ok(None),
            Ok(lived) => Ok(Some(lived)),
            Err(e) => Violation::of("no_error_but_a_kill", e.to_string()),
        }
    }
}

/// Runs until the end, or until the process is dead.
fn live(stage: &Stage, root: &Path, hub: Hub, owner: &Owner, life: Life) -> harness::Result<Stop> {
    let runtime = runtime(stage)?;
    let keeper = Arc::new(SimCommit::new(stage.clone(), root));
    let team = team(stage, &keeper);
    let equipment = equipment(stage, owner);
    let clock = Arc::clone(&stage.state().clock);
    let engine = Engine::of(Parts {
        root: root.to_owned(),
        keeper,
        hub,
        observers: Observers::default(),
        clock: Arc::<SimClock>::clone(&clock),
        secrets: harness::process::Redactor::default(),
        tenure: Tenure::Sole,
    });
    let lived = runtime.block_on(async {
        let _following = clock.follow();
        let work = async {
            match life {
                Life::Ledger(session) => engine.work(team, equipment, *session).await,
                Life::Objective(pursuit) => engine.pursue(team, equipment, pursuit).await,
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            error = beside(stage, engine.desk()) => Err(error),
        }
    });
    drop(runtime);
    lived.and_then(|stop| engine.end().map(|()| stop))
}

/// Returns a runtime with simulated time.
pub(super) fn runtime(stage: &Stage) -> std::io::Result<tokio::runtime::Runtime> {
    let (parks, wakes) = (stage.clone(), stage.clone());
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || parks.set_parked(true))
        .on_thread_unpark(move || wakes.set_parked(false))
        .build()
}

/// Returns the recorder of receipts. They are files of their own beside the simulated disk, so they
/// exist at once.
pub(super) fn recorder(stage: &Stage) -> Arc<Record> {
    let stage = stage.clone();
    Arc::new(move |receipt| {
        stage.in_turn();
        let mut state = stage.state();
        state.moment(Moment::Effect)?;
        if state.flaw != Flaw::SkipsReceipt {
            state.receipts.insert((receipt.task.clone(), receipt.epoch));
            let flags =
                if state.flaw == Flaw::ForgetsFlags { Vec::new() } else { receipt.flags.clone() };
            state.keep_receipt(&Receipt { flags, ..receipt.clone() });
        }
        Ok(())
    })
}

fn team(stage: &Stage, keeper: &Arc<SimCommit>) -> Team<RunAgent> {
    let agents = stage.state().books.prices.len();
    let host: Arc<dyn Commit> = keeper.clone();
    let agent = |number| RunAgent { stage: stage.clone(), number, host: Arc::clone(&host) };
    let worker = named("worker", agent(0));
    let others = (1..agents).map(|number| named("other", agent(number)));
    Team { worker, others: others.collect(), summarizer: None }
}

#[derive(Debug, Clone, Copy)]
enum Outside {
    Interrupts,
    Kicks,
    Kills,
}

/// Causes events at their times, whatever the process does then. Completes when it is dead.
async fn beside(stage: &Stage, desk: &Desk) -> harness::Error {
    let fate = stage.state().fate;
    let kill_at = match fate.doom {
        Some(Doom::Time(seconds)) => Some(seconds),
        _ => None,
    };
    let plan = [
        (fate.interrupt_at, Outside::Interrupts),
        (fate.kick_at, Outside::Kicks),
        (kill_at, Outside::Kills),
    ];
    let mut plan: Vec<_> = plan.into_iter().filter_map(|(at, what)| Some((at?, what))).collect();
    plan.sort_by_key(|(at, _)| *at);
    let start = Instant::now();
    for (at, what) in plan {
        tokio::time::sleep_until(start + Duration::from_secs(at)).await;
        let mut state = stage.state();
        match what {
            Outside::Interrupts => state.interrupt(),
            Outside::Kicks => {
                state.story.tell(|| "      somebody kicks".into());
                if desk.kick() > 0 {
                    state.kicked();
                }
            }
            Outside::Kills => {
                state.dies();
                return gone().into();
            }
        }
    }
    std::future::pending().await
}

/// Takes up the row, as `harness run` and `--resume` do before anything else.
pub(super) fn take(stage: &Stage, owner: &Owner, anew: Anew) -> Committing {
    let take = Take {
        owner: Some(owner.clone()),
        lease_seconds: LEASE_SECONDS,
        owner_is_gone: true,
        anew,
    };
    let step = RunStep::Take(take);
    let of_run = OfRun { run: RunId::of_bits(0), by: Some(owner.clone()), step };
    let mut state = stage.state();
    state.story.tell(|| format!("   take {of_run:?}"));
    state.moment(Moment::Effect).map_err(|e| Arc::new(StoreError::Io(e)))?;
    run_step(&mut state, &of_run)
}

/// Returns the identity of a process.
pub(super) fn owner(number: usize) -> Owner {
    let pid = u32::try_from(number).unwrap_or(0) + 100;
    Owner { host: "simulated".to_owned(), pid, started: "0".to_owned() }
}

pub(super) fn session(max_tasks: i64, pid: u32) -> harness::Result<SessionTerms> {
    let worker = harness_core::WorkerId::parse("runner").map_err(harness::Error::other)?;
    Ok(SessionTerms {
        worker,
        pid,
        lease_seconds: LEASE_SECONDS,
        max_tasks,
        max_sessions: None,
        when_full: WhenFull::Continue,
        until: None,
        heartbeat: None,
    })
}

fn equipment(stage: &Stage, owner: &Owner) -> Equipment {
    let flaw = stage.state().flaw;
    Equipment {
        workspace: Arc::new(FlawedGit { stage: stage.clone(), git: stage.git(), flaw }),
        shell: Arc::new(RunShell(stage.clone())),
        environment: Vec::new(),
        lease_seconds: LEASE_SECONDS,
        stalls: Vec::new(),
        committer: Some("User".to_owned()),
        socket: None,
        record: None,
        judging: Judging {
            rules: Rules::default(),
            agent: Some("simulated".to_owned()),
            record: recorder(stage),
        },
        loops: loops(stage, owner),
    }
}

/// Returns the row that pays for everything, or that of an objective once it has one.
pub(super) fn row(limits: RunLimits) -> Run {
    Run {
        agent: "simulated".to_owned(),
        workspace: "/".to_owned(),
        limits,
        ..Run::queued(RunId::of_bits(0), Timestamp::from_seconds(1_751_363_000))
    }
}

/// Uses one row for all processes, so that each takes up what the last one left.
fn loops(stage: &Stage, owner: &Owner) -> LoopSettings {
    let stages = stage.clone();
    let state = stage.state();
    let runs = FlawedRuns { stage: stage.clone(), runs: state.rows_of_process(), flaw: state.flaw };
    LoopSettings {
        runs: Arc::new(runs),
        run: RunId::of_bits(0),
        by: Some(owner.clone()),
        new_id: Arc::new(move || {
            let mut state = stages.state();
            state.runs_opened += 1;
            RunId::of_bits(state.runs_opened)
        }),
        rules: iterate::Rules {
            promise_match: promise::Match::Line,
            stall_limit: 3,
            waits: !state.fate.no_wait,
            restarts: true,
            prices: state.books.prices.clone(),
            names: Vec::new(),
            lease_seconds: LEASE_SECONDS,
            until: None,
            transcripts: String::new(),
        },
        summarizer_price: None,
        prompts: Arc::new(Prompts::built_in()),
    }
}
