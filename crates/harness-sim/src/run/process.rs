//! One life of `harness run`: the engine that the binary uses too, over simulated ports and
//! simulated time.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Commit, Engine, Hub, Observers,
    agent::Desk,
    flows::{Record, Team},
    named,
    project::{ActiveRun, AgentTerms, Keeper as _, Parts, RunOptions, RunStart, Tenure},
    store::Runs,
};
use harness_core::{
    Receipt, Run, RunId, Stop, Timestamp,
    command::Anew,
    machine::{
        scope::TaskScope,
        session::{SessionTerms, WhenFull},
    },
    run::{Owner, RunLimits},
};
use tokio::time::Instant;

use super::{
    Flaw,
    agent::RunAgent,
    character::Character,
    commit::SimCommit,
    flaw::{FlawedGit, FlawedRuns},
    record::{SimRuns, record},
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
    Objective,
}

/// One process in a sequence of them.
pub(super) struct Process<'a> {
    pub(super) stage: &'a Stage,
    pub(super) root: &'a Path,
    pub(super) number: usize,
    /// The row that the first process opens, and each takes up that follows.
    pub(super) row: &'a Run,
    /// Nobody disturbs it, and its agent is of this character.
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
        let keeper = Arc::new(SimCommit::new(stage.clone(), self.root));
        let begun = self.begin(&keeper, anew);
        {
            let mut state = stage.state();
            let row = state.runs.run(&self.row.id).ok().flatten();
            state.lies.taken_up(row);
        }
        let result = begun.and_then(|run| live(stage, self.root, hub, keeper, &run, life));
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

impl Process<'_> {
    /// Takes the row up, as `harness run` and `--resume` do before anything else.
    fn begin(&self, keeper: &SimCommit, anew: Anew) -> harness::Result<ActiveRun> {
        let stored = self.stage.state().runs.run(&self.row.id)?;
        let start = match stored {
            Some(run) => RunStart::Resume { run: Box::new(run), anew },
            None if anew == Anew::default() => RunStart::New(Box::new(self.row.clone())),
            // Somebody queued it.
            None => {
                let run = Box::new(self.stage.state().runs.open_run(self.row)?);
                RunStart::Resume { run, anew }
            }
        };
        let run = record(self.stage, &self.owner()).begin(&keeper.snapshot()?, start)?;
        let flaw = self.stage.state().flaw;
        Ok(run.through(|steady| {
            let raw: Arc<dyn Runs> = Arc::new(SimRuns(self.stage.clone()));
            let runs = if flaw.believes_rows() { raw } else { steady };
            Arc::new(FlawedRuns { stage: self.stage.clone(), runs, flaw })
        }))
    }
}

/// Runs until the end, or until the process is dead.
fn live(
    stage: &Stage,
    root: &Path,
    hub: Hub,
    keeper: Arc<SimCommit>,
    run: &ActiveRun,
    life: Life,
) -> harness::Result<Stop> {
    let runtime = runtime(stage)?;
    let team = team(stage, &keeper);
    let options = options(stage);
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
                Life::Ledger(session) => engine.work(run, team, options, *session).await,
                Life::Objective => engine.pursue(run, team, options).await,
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

/// Returns the identity of a process.
pub(super) fn owner(number: usize) -> Owner {
    let pid = u32::try_from(number).unwrap_or(0) + 100;
    Owner { host: "simulated".to_owned(), pid, started: "0".to_owned() }
}

pub(super) fn session(max_tasks: i64, pid: u32) -> harness::Result<SessionTerms> {
    let worker = harness_core::WorkerId::parse("runner").map_err(harness::Error::other)?;
    Ok(SessionTerms {
        worker,
        scope: TaskScope::Ledger,
        labels: Vec::new(),
        pid,
        lease_seconds: LEASE_SECONDS,
        max_tasks,
        max_sessions: None,
        crew: None,
        when_full: WhenFull::Continue,
        until: None,
        heartbeat: None,
    })
}

fn options(stage: &Stage) -> RunOptions {
    let state = stage.state();
    let (flaw, waits) = (state.flaw, !state.fate.no_wait);
    let terms = |price: &Option<_>| AgentTerms { price: *price, ..AgentTerms::default() };
    let agents = state.books.prices.iter().map(terms).collect();
    drop(state);
    let git = FlawedGit { stage: stage.clone(), git: stage.git(), flaw };
    let mut options = RunOptions::new(Arc::new(git));
    options.shell = Arc::new(RunShell(stage.clone()));
    options.environment = Vec::new();
    options.lease_seconds = LEASE_SECONDS;
    options.agents = agents;
    options.committer = Some("User".to_owned());
    options.receipts = Some(recorder(stage));
    options.waits = waits;
    options
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
