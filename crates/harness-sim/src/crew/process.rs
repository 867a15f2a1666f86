//! One process with several workers: the engine that the binary uses too, over simulated ports.

use std::sync::Arc;

use harness::{
    Engine, Hub, Observers,
    flows::{ReadReceipt, Record, SharedWork, Team},
    named,
    project::{
        ActiveRun, AgentTerms, Keeper as _, Parts, RunDriver, RunOptions, RunRecord, RunStart,
        Tenure,
    },
    store::Changes,
};
use harness_core::{
    Receipt, Run, RunId, Stop, Timestamp, WorkerId,
    machine::{
        scope::TaskScope,
        session::{Crew, CrewMember, SessionTerms, WhenFull},
        worker::WhenIdle,
    },
    run::{Owner, RunLimits},
};

use super::{
    CrewFlaw,
    agent::CrewAgent,
    commit::CrewCommit,
    fate::{Fate, Moment},
    floor::{Floor, gone},
    landings::TARGET,
    repository::{CrewRepository, Others, hook},
    runs::CrewRuns,
    shell::CrewShell,
};
use crate::clock::SimClock;

const LEASE_SECONDS: u64 = 120;

/// What a process is made of.
pub(super) struct Process<'a> {
    pub(super) floor: &'a Floor,
    pub(super) pid: u32,
    pub(super) fate: Fate,
    pub(super) workers: u32,
    /// Lets others act while it is frozen.
    pub(super) others: Others,
}

impl Process<'_> {
    /// Lives until its end. Returns `None` if it was killed.
    pub(super) async fn live(self) -> Option<harness::Result<Stop>> {
        let (floor, pid) = (self.floor, self.pid);
        let hub = Hub::new(format!("process-{pid}"));
        let slot = floor.state().begin(pid, self.fate, hub.clone());
        let killed = floor.state().lives.get(&pid).map(|life| Arc::clone(&life.killed));
        let ended = match self.start(slot, hub) {
            Ok((engine, run, options, terms)) => {
                let team = self.team();
                let lived = tokio::select! {
                    biased;
                    () = async { killed.unwrap_or_default().notified().await } => Err(gone().into()),
                    done = engine.work(&run, team, options, terms) => done,
                };
                lived.and_then(|stop| engine.end().map(|()| stop))
            }
            Err(error) => Err(error),
        };
        let mut state = floor.state();
        let dead = state.is_dead(pid);
        state.story.tell(|| format!("process {pid} ends: {ended:?}"));
        state.end(pid);
        (!dead).then_some(ended)
    }

    #[allow(clippy::type_complexity, reason = "the parts of one call")]
    fn start(
        &self,
        slot: u32,
        hub: Hub,
    ) -> harness::Result<(Engine<CrewCommit>, ActiveRun, RunOptions, SessionTerms)> {
        let (root, clock) = {
            let state = self.floor.state();
            (state.root.clone(), Arc::clone(&state.clock))
        };
        let changes = Changes::default();
        let keeper = Arc::new(CrewCommit::new(self.floor, self.pid, &root, changes.clone()));
        let run = self.begin(&keeper)?;
        let options = self.options(changes);
        let engine = Engine::of(Parts {
            root,
            keeper,
            hub,
            observers: Observers::default(),
            clock: Arc::<SimClock>::clone(&clock),
            secrets: harness::process::Redactor::default(),
            tenure: Tenure::Shared,
        });
        Ok((engine, run, options, self.terms(slot)?))
    }

    fn begin(&self, keeper: &CrewCommit) -> harness::Result<ActiveRun> {
        let (floor, pid) = (self.floor.clone(), self.pid);
        let owner = Owner { host: "simulated".to_owned(), pid, started: "0".to_owned() };
        let ids = floor.clone();
        let new_id = move || {
            let mut state = ids.state();
            state.runs_opened += 1;
            RunId::of_bits(state.runs_opened)
        };
        let row = Run {
            agent: "simulated".to_owned(),
            workspace: "/".to_owned(),
            limits: RunLimits { max_iterations: 3, ..RunLimits::default() },
            ..Run::queued(new_id(), Timestamp::from_seconds(1_751_363_000))
        };
        let record = RunRecord {
            runs: Arc::new(CrewRuns { floor: floor.clone(), pid }),
            terms: None,
            driver: RunDriver { owner, is_gone: Arc::new(|_| true), new_id: Arc::new(new_id) },
            clock: Arc::<SimClock>::clone(&floor.state().clock),
        };
        Ok(record.begin(&keeper.snapshot()?, RunStart::New(Box::new(row)))?)
    }

    fn options(&self, changes: Changes) -> RunOptions {
        let hook = hook(self.floor, self.pid, Arc::clone(&self.others));
        let main = self.floor.state().git.with_hook(Arc::clone(&hook));
        let repository = CrewRepository::new(self.floor, self.pid, hook);
        let mut shared = SharedWork::new(Arc::new(repository), changes);
        let floor = self.floor.clone();
        shared.is_dead = Arc::new(move |worker| floor.state().is_free(worker));
        let floor = self.floor.clone();
        shared.is_alive = Arc::new(move |worker| !floor.state().is_free(worker));
        let mut options = RunOptions::new(Arc::new(main));
        let (floor, pid) = (self.floor.clone(), self.pid);
        options.shell = Arc::new(CrewShell { floor, pid });
        options.environment = Vec::new();
        options.lease_seconds = LEASE_SECONDS;
        options.agents = vec![AgentTerms::default()];
        options.committer = Some("User".to_owned());
        options.receipts = Some(self.recorder());
        options.kept_receipts = Some(self.reader());
        options.shared = Some(shared);
        options
    }

    /// Returns the recorder of receipts. They are files of their own beside the simulated disk, so
    /// they exist at once.
    fn recorder(&self) -> Arc<Record> {
        let (floor, pid) = (self.floor.clone(), self.pid);
        Arc::new(move |receipt| {
            let mut state = floor.state();
            state.moment(pid, Moment::Effect)?;
            let mut receipt = receipt.clone();
            match state.flaw {
                CrewFlaw::SkipsReceipt => return Ok(()),
                CrewFlaw::MisnamesCommit => receipt.commit.clone_from(&receipt.base),
                _ => {}
            }
            state
                .story
                .tell(|| format!("      {pid} receipt of {}: {:?}", receipt.task, receipt.commit));
            state.receipts.push(receipt);
            Ok(())
        })
    }

    /// Returns the reader of receipts, which are there for every process.
    fn reader(&self) -> Arc<ReadReceipt> {
        let floor = self.floor.clone();
        Arc::new(move |task, commit| {
            let state = floor.state();
            let is_it =
                |kept: &&Receipt| kept.task == *task && kept.commit.as_ref() == Some(commit);
            Ok(state.receipts.iter().rev().find(is_it).cloned())
        })
    }

    fn team(&self) -> Team<CrewAgent> {
        let agent = CrewAgent { floor: self.floor.clone(), pid: self.pid };
        Team { worker: named("worker", agent), others: Vec::new(), summarizer: None }
    }

    fn terms(&self, slot: u32) -> harness::Result<SessionTerms> {
        let id = |name: String| WorkerId::parse(&name).map_err(harness::Error::other);
        let mut members = Vec::new();
        for number in 1..=self.workers {
            let worker = id(format!("w{slot}.{number}"))?;
            let worktree = self.floor.state().worktrees().join(worker.as_str());
            let worktree = Some(worktree.display().to_string());
            members.push(CrewMember { worker, worktree });
        }
        let when_idle = WhenIdle::Leave;
        Ok(SessionTerms {
            worker: id(format!("w{slot}"))?,
            labels: Vec::new(),
            scope: TaskScope::Ledger,
            pid: self.pid,
            lease_seconds: LEASE_SECONDS,
            max_tasks: 20,
            max_sessions: None,
            when_full: WhenFull::Continue,
            until: None,
            heartbeat: None,
            crew: Some(Crew { members, target: Some(TARGET.to_owned()), when_idle }),
        })
    }
}
