//! The accounts of the loops over contexts: the purpose of each agent and its reports, compared
//! with the stored rows. They are kept from the rows and the agents, and never from a machine.

use std::collections::{BTreeMap, BTreeSet};

use harness::{clock::Clock as _, store::Runs as _};
use harness_core::{
    Iteration, Run, RunId, TaskId, Timestamp,
    agent::{AgentEvent, End, Usage},
    command::{OfRun, RunStep},
    run::{Price, StopReason},
};

use super::{loops, stage::State};

/// The shortest wait if the end of a limit is not reported.
const SHORTEST_WAIT: u64 = 30;

#[derive(Default)]
pub(super) struct Books {
    pub(super) accounts: BTreeMap<RunId, Account>,
    /// The prices of agents that report no cost, by their number.
    pub(super) prices: Vec<Option<Price>>,
    /// The iterations that this process began.
    pub(super) begun: BTreeSet<(RunId, u32)>,
    /// Checks that passed correctly.
    pub(super) passed: BTreeSet<String>,
    /// The check of the objective, if it has one.
    pub(super) verify: Option<String>,
}

/// The account of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    /// The number of restarts that was last seen.
    pub(super) count: u32,
    /// The usage that its agents reported.
    pub(super) told: Usage,
    /// The part of it that is durable.
    pub(super) heard: Usage,
    /// Executions since the iteration began in this process, except those that a limit ended.
    pub(super) turns: u32,
    pub(super) last_end: Option<End>,
    /// `true` if the promise came as an event.
    pub(super) promised: bool,
    /// The end of each agent's limit.
    pub(super) limited: BTreeMap<usize, Timestamp>,
}

/// An execution, identified by its purpose.
#[derive(Debug, Clone)]
pub(super) struct For {
    pub(super) run: RunId,
    pub(super) iteration: u32,
    /// The number of the agent.
    pub(super) agent: usize,
}

/// The rows of a run at one moment.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) run: Run,
    pub(super) iterations: Vec<Iteration>,
    /// The run that pays: the parent, or the run itself.
    pub(super) payer: Run,
}

impl State {
    pub(super) fn rows(&self, id: &RunId) -> Option<Rows> {
        let run = self.runs.run(id).ok().flatten()?;
        let iterations = self.runs.iterations(id).unwrap_or_default();
        let parent = run.parent.as_ref().and_then(|id| self.runs.run(id).ok().flatten());
        let payer = parent.unwrap_or_else(|| run.clone());
        Some(Rows { run, iterations, payer })
    }

    /// Records a durable step of a run.
    pub(super) fn step_is_durable(&mut self, of_run: &OfRun, before: Option<Rows>) {
        let Some(after) = self.rows(&of_run.run) else { return };
        let before = before.unwrap_or_else(|| after.clone());
        let account = self.books.accounts.entry(of_run.run.clone()).or_default();
        match &of_run.step {
            RunStep::Begin { number, .. } => {
                account.turns = 0;
                let fresh = before.iterations.len() < after.iterations.len();
                self.tally.contexts += u64::from(fresh);
                if self.lies.on {
                    self.context_starts(&of_run.run, *number);
                }
                let first = self.books.begun.insert((of_run.run.clone(), *number));
                if !first {
                    let what = format!("iteration {number} began twice in one process");
                    self.broken("iterations_are_counted_once", what);
                }
            }
            RunStep::Spend(usage) => {
                account.heard += *usage;
                self.lies.spent += *usage;
            }
            // The run stopped in an orderly way: nothing was killed.
            RunStep::Stop(_) => self.lies.starts.retain(|(run, _), _| *run != of_run.run),
            RunStep::WaitUntil(Some(_)) => self.tally.waits += 1,
            _ => {}
        }
        if of_run.step == RunStep::Stop(StopReason::Complete) && after.run.objective.is_some() {
            self.tally.objectives += 1;
        }
        if let Err((checker, what)) = loops::after_step(self, &of_run.step, &before, &after) {
            self.broken(checker, format!("{}: {what}", of_run.run));
        }
        if let Some(account) = self.books.accounts.get_mut(&of_run.run) {
            account.count = after.run.iteration_count;
        }
    }

    pub(super) fn agent_starts(&mut self, of: &For, cancelled: bool) {
        self.tally.executions += 1;
        if let Some(verify) = self.books.verify.clone() {
            self.books.passed.remove(&verify);
        }
        let now = self.clock.now();
        let account = self.books.accounts.entry(of.run.clone()).or_default();
        account.turns += 1;
        account.promised = false;
        if self.lies.on {
            self.budget_is_left();
        }
        if let Err((checker, what)) = loops::at_start(self, of, now, cancelled) {
            self.broken(checker, format!("{} {}: {what}", of.run, of.iteration));
        }
    }

    /// Checks that an agent does not find the handoff of another task.
    pub(super) fn finds_its_own_handoff(&mut self, task: &TaskId) {
        let found = std::fs::read_to_string(self.handoff()).unwrap_or_default();
        if !found.is_empty() && !found.contains(task.as_str()) {
            self.broken("a_handoff_is_for_its_task", format!("{task} finds {found}"));
        }
    }

    pub(super) fn agent_tells(&mut self, of: &For, event: &AgentEvent) {
        let price = self.books.prices.get(of.agent).copied().flatten();
        let account = self.books.accounts.entry(of.run.clone()).or_default();
        match event {
            AgentEvent::Usage(usage) => account.told += priced(*usage, price),
            AgentEvent::Promised => account.promised = true,
            _ => {}
        }
    }

    pub(super) fn agent_ends(&mut self, of: &For, end: &End) {
        let now = self.clock.now();
        let account = self.books.accounts.entry(of.run.clone()).or_default();
        if let End::Limited { until } = end {
            account.turns = account.turns.saturating_sub(1);
            let until = until.filter(|until| *until > now);
            account.limited.insert(of.agent, until.unwrap_or_else(|| now.plus(SHORTEST_WAIT)));
        }
        account.last_end = Some(end.clone());
    }

    /// Clears all limits, because a person ended the wait.
    pub(super) fn kicked(&mut self) {
        self.books.accounts.values_mut().for_each(|account| account.limited.clear());
    }

    /// Forgets what this process did, but not what it spent.
    pub(super) fn close_books(&mut self, impatient: bool) {
        let lossless = !self.dead && !impatient;
        if let Err((checker, what)) = loops::at_close(&self.books, lossless) {
            self.broken(checker, what);
        }
        self.books.begun.clear();
        for account in self.books.accounts.values_mut() {
            account.told = account.heard;
            account.limited.clear();
            account.turns = 0;
            account.promised = false;
        }
    }
}

fn priced(usage: Usage, price: Option<Price>) -> Usage {
    #[allow(clippy::cast_precision_loss, reason = "a few thousand tokens")]
    let by_list = price.map(|price| {
        usage.input_tokens as f64 / 1e6 * price.input
            + usage.output_tokens as f64 / 1e6 * price.output
    });
    Usage { cost_usd: usage.cost_usd.or(by_list), ..usage }
}
