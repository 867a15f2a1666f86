//! The work of an engine with agents: the tasks of the ledger, or one objective.

use std::{sync::Arc, time::Duration};

use harness_core::{
    Stop, TaskId, agent::End, command::RunStep, machine::session::SessionTerms, run::StopReason,
};

use super::{
    ActiveRun, Engine, Keeper, RUN_LEASE_SECONDS, RunOptions, RunPart, engine::LedgerPlace,
};
use crate::{
    agent::{Agent, Prompt},
    cx::Cx,
    define::Harness,
    drive::Ports,
    error::Result,
    flows::{
        Bench, Judging, Team, Tools,
        iterate::{Errand, iterate},
        session::session,
    },
    hold::Hold,
    store,
};

/// The way in which an objective is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pursuit {
    /// It starts, or continues after a crash.
    Onward,
    /// A person resumes it after it had stopped.
    Afresh,
}

/// The purpose of the flow.
#[derive(Clone)]
enum Assignment {
    Ledger(Box<SessionTerms>),
    Objective(Pursuit),
}

impl<K: Keeper> Engine<K> {
    /// Works on the ledger until nothing is left or something asks for a stop, and records in the row of
    /// `run` why it stopped. The deadline and the heartbeat of `terms` are those of the run.
    pub async fn work<A>(
        &self,
        run: &ActiveRun,
        team: Team<A>,
        options: RunOptions,
        terms: SessionTerms,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        let heartbeat = match run.part() {
            RunPart::Driver => Some(run.step(RunStep::Beat { lease_seconds: RUN_LEASE_SECONDS })),
            RunPart::Guest => None,
        };
        let until = run.stored()?.deadline;
        let terms = SessionTerms { until, heartbeat, ..terms };
        self.carry_out(run, team, options, Assignment::Ledger(Box::new(terms))).await
    }

    /// Pursues the objective of `run`, one context after the other, until the promise is kept or
    /// something asks for a stop, and records in its row why it stopped.
    pub async fn pursue<A>(
        &self,
        run: &ActiveRun,
        team: Team<A>,
        options: RunOptions,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        self.carry_out(run, team, options, Assignment::Objective(run.pursuit())).await
    }

    async fn carry_out<A>(
        &self,
        run: &ActiveRun,
        team: Team<A>,
        options: RunOptions,
        assignment: Assignment,
    ) -> Result<Stop>
    where
        A: Agent<Input = Prompt, Output = End>,
    {
        let bench = self.bench(run, options);
        let flow = Harness::define("run").agents(team).state(|(): &()| ()).run(
            async move |cx: &mut Cx<'_, (), Team<A>>| match assignment.clone() {
                Assignment::Ledger(terms) => session(cx, &bench, *terms).await,
                Assignment::Objective(pursuit) => {
                    let afresh = pursuit == Pursuit::Afresh;
                    iterate(cx, &bench, Errand::Objective { afresh }).await
                }
            },
        );
        let done = flow.create_in(self.hub.clone(), ()).run().await.map(|done| done.result);
        let reason = done.as_ref().map_or(StopReason::Crashed, |stop| stop.reason);
        let ended = run.end(reason);
        let stop = done?;
        ended?;
        Ok(stop)
    }

    fn bench(&self, run: &ActiveRun, options: RunOptions) -> Bench {
        let loops = options.loops(run);
        let RunOptions { lease_seconds, agents, rules, receipts, kept_receipts, .. } = options;
        let clock = Arc::clone(&self.clock);
        let keeper = Arc::clone(&self.keeper);
        let root = self.root.clone();
        let in_root = move |receipt: &harness_core::Receipt| Ok(store::record(&root, receipt)?);
        let root = self.root.clone();
        let kept_in_root =
            move |task: &TaskId, commit: &_| Ok(store::receipt_of_commit(&root, task, commit)?);
        let store = Arc::clone(&self.keeper).commit(Arc::clone(&run.runs), Arc::clone(&clock));
        let hold = Hold::over(store, &self.hub);
        let hold = match self.place() {
            LedgerPlace::Database => hold.of_database(),
            LedgerPlace::Here => hold,
        };
        let tools = Tools {
            ports: Ports {
                commit: Arc::new(hold.clone()),
                clock,
                // A lease of a task or of a run survives two failed heartbeats.
                tick: Duration::from_secs((lease_seconds.min(RUN_LEASE_SECONDS) / 3).max(1)),
            },
            hold,
            shell: options.shell,
            // This does not read the file, because the keeper judges edits that an agent made to
            // it.
            ledger: Arc::new(move || keeper.snapshot()),
            session: Arc::default(),
            root: self.root.clone(),
            environment: options.environment,
            redactor: self.secrets.clone(),
            run_id: loops.run.to_string(),
            lease_seconds,
            stalls: agents.into_iter().map(|agent| agent.stall).collect(),
            desk: self.desk.clone(),
            committer: options.committer,
            socket: options.socket,
            judging: Judging {
                rules,
                agent: Some(run.row().agent.clone()),
                record: receipts.unwrap_or_else(|| Arc::new(in_root)),
                kept: kept_receipts.unwrap_or_else(|| Arc::new(kept_in_root)),
            },
            loops,
            shared: options.shared,
        };
        Bench::in_main_tree(tools, options.workspace)
    }
}
