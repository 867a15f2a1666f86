//! What an engine does with agents: the tasks of the ledger, or one objective.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use harness_core::{
    Stop,
    agent::End,
    command::{OfRun, RunStep},
    machine::session::SessionTerms,
};

use super::{Engine, Keeper};
use crate::{
    agent::{Agent, Prompt},
    cx::Cx,
    define::Harness,
    drive::Ports,
    error::Result,
    flows::{
        Bench, Judging, LoopSettings, Team, Tools,
        iterate::{Errand, iterate},
        session::session,
    },
    recorder::recorder,
    shell::Shell,
    workspace::Workspace,
};

/// What a run has beside the parts of its engine.
pub struct Equipment {
    /// Git.
    pub workspace: Arc<dyn Workspace>,
    /// Checks, the init script, cleanups.
    pub shell: Arc<dyn Shell>,
    /// The environment of the process, of which agents get what they may see.
    pub environment: Vec<(OsString, OsString)>,
    /// How long a claim lasts without a sign of life.
    pub lease_seconds: u64,
    /// How long each of the agents may be silent, by preference as in [`Team`].
    pub stalls: Vec<Option<Duration>>,
    /// The user's name for the committer of what an attempt commits, to which its mark is added;
    /// `None`: commits of attempts are not marked.
    pub committer: Option<String>,
    /// What agents ask their host on, if there is one.
    pub socket: Option<PathBuf>,
    /// Where the events are recorded; `None`: nowhere.
    pub record: Option<PathBuf>,
    /// How work is judged, and where that is recorded.
    pub judging: Judging,
    /// The row of the run, and how its loops over contexts go.
    pub loops: LoopSettings,
}

/// How an objective is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pursuit {
    /// It begins, or goes on after a crash.
    Onward,
    /// A person takes it up again after it had stopped.
    Afresh,
}

/// What the flow is for.
#[derive(Clone)]
enum Assignment {
    Ledger(Box<SessionTerms>),
    Objective(Pursuit),
}

impl<K: Keeper> Engine<K> {
    /// Works on the ledger until nothing is left or something asks for a stop. The deadline and the
    /// heartbeat of `terms` are those of the run.
    pub async fn work<A>(
        &self,
        team: Team<A>,
        equipment: Equipment,
        terms: SessionTerms,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        let loops = &equipment.loops;
        let until = loops.runs.run(&loops.run)?.and_then(|run| run.deadline);
        let step = RunStep::Beat { lease_seconds: loops.rules.lease_seconds };
        let heartbeat = Some(OfRun { run: loops.run.clone(), by: loops.by.clone(), step });
        let terms = SessionTerms { until, heartbeat, ..terms };
        self.carry_out(team, equipment, Assignment::Ledger(Box::new(terms))).await
    }

    /// Pursues the objective of the run, one context after the other, until the promise is kept or
    /// something asks for a stop.
    pub async fn pursue<A>(
        &self,
        team: Team<A>,
        equipment: Equipment,
        pursuit: Pursuit,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        self.carry_out(team, equipment, Assignment::Objective(pursuit)).await
    }

    async fn carry_out<A>(
        &self,
        team: Team<A>,
        mut equipment: Equipment,
        assignment: Assignment,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        let record = equipment.record.take();
        let bench = self.bench(equipment);
        let flow = Harness::define("run").agents(team).state(|(): &()| ()).run(
            async move |cx: &mut Cx<'_, (), Team<A>>| match assignment.clone() {
                Assignment::Ledger(terms) => session(cx, &bench, *terms).await,
                Assignment::Objective(pursuit) => {
                    let afresh = pursuit == Pursuit::Afresh;
                    iterate(cx, &bench, Errand::Objective { afresh }).await
                }
            },
        );
        let run = flow.create_in(self.hub.clone(), ());
        let run = match record {
            Some(record) => run.attach(recorder(&record, self.secrets.clone())),
            None => run,
        };
        Ok(run.run().await?.result)
    }

    fn bench(&self, equipment: Equipment) -> Bench {
        let Equipment { loops, lease_seconds, .. } = equipment;
        let runs = Arc::clone(&loops.runs);
        let clock = Arc::clone(&self.clock);
        let keeper = Arc::clone(&self.keeper);
        let tools = Tools {
            ports: Ports {
                commit: Arc::clone(&self.keeper).commit(runs, Arc::clone(&clock)),
                clock,
                // A lease survives two heartbeats that do not get through, be it a task's or a run's.
                tick: Duration::from_secs(
                    (lease_seconds.min(loops.rules.lease_seconds) / 3).max(1),
                ),
            },
            shell: equipment.shell,
            // Not the file: the keeper judges what an agent made of that.
            ledger: Arc::new(move || keeper.snapshot()),
            root: self.root.clone(),
            environment: equipment.environment,
            redactor: self.secrets.clone(),
            run_id: loops.run.to_string(),
            lease_seconds,
            stalls: equipment.stalls,
            desk: self.desk.clone(),
            committer: equipment.committer,
            socket: equipment.socket,
            judging: equipment.judging,
            loops,
        };
        Bench::in_main_tree(tools, equipment.workspace)
    }
}
