//! Money, tokens and time: of a run against its budget, and of all work by task, agent and day.

use std::collections::BTreeMap;

use harness_core::{
    Ledger, Run, RunId, TaskId, Timestamp,
    agent::Usage,
    run::{Iteration, RunStatus},
};
use serde::Serialize;

use super::{RunHistory, Spending, spending::lasted};

/// What a run has used of its budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BudgetCard {
    /// The run.
    pub run_id: RunId,
    /// The cost so far; `None` if no agent reported a price.
    pub cost_usd: Option<f64>,
    /// The limit in US dollars.
    pub max_cost_usd: Option<f64>,
    /// The tokens so far.
    pub tokens: u64,
    /// The limit of tokens.
    pub max_tokens: Option<u64>,
    /// The time since its start, or until its end.
    pub seconds: u64,
    /// The time limit, counted from its start or its last resume.
    pub max_seconds: Option<u64>,
    /// The end of its time.
    pub deadline: Option<Timestamp>,
}

impl BudgetCard {
    /// Returns the budget of `run` at `now`.
    pub fn of(run: &Run, now: Timestamp) -> Self {
        let end = if run.status.is_over() { run.updated_at } else { now };
        Self {
            run_id: run.id.clone(),
            cost_usd: run.usage.cost_usd,
            max_cost_usd: run.limits.max_cost_usd,
            tokens: run.usage.tokens(),
            max_tokens: run.limits.max_tokens,
            seconds: end.since(run.created_at),
            max_seconds: run.limits.max_duration_seconds,
            deadline: run.deadline.filter(|_| !run.status.is_over()),
        }
    }

    /// Returns the largest part of a limit that is used, from 0 to 1; `None` without a limit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a part of a whole for a gauge")]
    pub fn part_used(&self, now: Timestamp) -> Option<f64> {
        let cost = self.max_cost_usd.map(|most| self.cost_usd.unwrap_or(0.0) / most);
        let tokens = self.max_tokens.map(|most| self.tokens as f64 / most as f64);
        let time = self
            .max_seconds
            .zip(self.deadline)
            .map(|(most, end)| 1.0 - end.since(now).min(most) as f64 / most.max(1) as f64);
        let parts = [cost, tokens, time].into_iter().flatten();
        parts.reduce(f64::max).map(|part| part.clamp(0.0, 1.0))
    }
}

/// What all work has cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MoneyView {
    /// The cost of all runs.
    #[serde(flatten)]
    pub total: Spending,
    /// The runs with their budgets, newest first.
    pub budgets: Vec<BudgetCard>,
    /// The sum after each context, oldest first.
    pub over_time: Vec<SpendingPoint>,
    /// The cost of each task with attempts, the dearest first.
    pub by_task: Vec<TaskSpending>,
    /// The cost of each agent, sorted by name.
    pub by_agent: Vec<AgentSpending>,
    /// The cost of each day (UTC), oldest first.
    pub by_day: Vec<DaySpending>,
    /// The attempts, oldest first.
    pub attempts: Vec<AttemptSpan>,
}

/// The sum of all spending at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpendingPoint {
    /// The moment.
    pub time: Timestamp,
    /// The cost until then.
    pub cost_usd: f64,
    /// The tokens until then.
    pub tokens: u64,
}

/// The cost of one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskSpending {
    /// The task.
    pub task_id: TaskId,
    /// Its title; `None` if it is not in the ledger any more.
    pub title: Option<String>,
    /// The number of attempts.
    pub attempts: usize,
    /// Their cost.
    #[serde(flatten)]
    pub spending: Spending,
}

/// The cost of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentSpending {
    /// The agent.
    pub agent: String,
    /// Tokens that it read.
    pub input_tokens: u64,
    /// Tokens that it wrote.
    pub output_tokens: u64,
    /// Its cost; `None` if it reported no price.
    pub cost_usd: Option<f64>,
}

/// The cost of one day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DaySpending {
    /// The day in UTC: `2025-07-01`.
    pub day: String,
    /// The tokens of that day.
    pub tokens: u64,
    /// The cost of that day; `None` if no agent reported a price.
    pub cost_usd: Option<f64>,
}

/// One attempt on a line of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptSpan {
    /// The row of the attempt.
    pub run_id: RunId,
    /// The task.
    pub task_id: TaskId,
    /// The agent.
    pub agent: String,
    /// The work tree, which belongs to one worker.
    pub workspace: String,
    /// Its start.
    pub started_at: Timestamp,
    /// Its end, or its last change.
    pub ended_at: Timestamp,
    /// The status of the row.
    pub status: RunStatus,
}

impl MoneyView {
    /// Returns the view of `record`, which has all runs with their iterations.
    pub fn of(ledger: &Ledger, record: &RunHistory, now: Timestamp) -> Self {
        let contexts = || {
            let own = |run: &'_ Run| record.iterations(&run.id).to_vec();
            record.runs().flat_map(move |run| {
                own(run).into_iter().map(|iteration| (run, iteration)).collect::<Vec<_>>()
            })
        };
        let mut times: Vec<(Timestamp, Usage)> =
            contexts().map(|(_, iteration)| (ended(&iteration), iteration.usage)).collect();
        times.sort_by_key(|(time, _)| *time);
        let is_live = |run: &&Run| !run.status.is_over() && record.is_driven(run);
        // The row of a run in progress has the time of its last change.
        let going = record.tops().filter(is_live).map(|run| lasted(run.updated_at, now));
        let mut total = record.spending();
        total.seconds += going.sum::<u64>();
        Self {
            total,
            budgets: record.tops().map(|run| BudgetCard::of(run, now)).collect(),
            over_time: over_time(&times),
            by_task: by_task(ledger, record),
            by_agent: by_agent(contexts()),
            by_day: by_day(&times),
            attempts: spans(record),
        }
    }
}

fn ended(iteration: &Iteration) -> Timestamp {
    iteration.ended_at.unwrap_or(iteration.started_at)
}

fn over_time(times: &[(Timestamp, Usage)]) -> Vec<SpendingPoint> {
    let mut sum = Usage::default();
    let points = times.iter().map(|(time, usage)| {
        sum += *usage;
        let cost_usd = sum.cost_usd.unwrap_or_default();
        SpendingPoint { time: *time, cost_usd, tokens: sum.tokens() }
    });
    points.collect()
}

fn by_day(times: &[(Timestamp, Usage)]) -> Vec<DaySpending> {
    let mut days: BTreeMap<String, Usage> = BTreeMap::new();
    for (time, usage) in times {
        let day: String = time.to_string().chars().take(10).collect();
        *days.entry(day).or_default() += *usage;
    }
    let day = |(day, usage): (String, Usage)| DaySpending {
        day,
        tokens: usage.tokens(),
        cost_usd: usage.cost_usd,
    };
    days.into_iter().map(day).collect()
}

fn by_agent<'a>(contexts: impl Iterator<Item = (&'a Run, Iteration)>) -> Vec<AgentSpending> {
    let mut agents: BTreeMap<String, Usage> = BTreeMap::new();
    for (run, iteration) in contexts {
        if iteration.agents.is_empty() {
            *agents.entry(run.agent.clone()).or_default() += iteration.usage;
        }
        for (agent, usage) in iteration.agents {
            *agents.entry(agent).or_default() += usage;
        }
    }
    let one = |(agent, usage): (String, Usage)| AgentSpending {
        agent,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cost_usd: usage.cost_usd,
    };
    agents.into_iter().map(one).collect()
}

fn by_task(ledger: &Ledger, record: &RunHistory) -> Vec<TaskSpending> {
    let mut tasks: BTreeMap<&TaskId, Vec<&Run>> = BTreeMap::new();
    for run in record.runs() {
        if let Some(task) = &run.task {
            tasks.entry(task).or_default().push(run);
        }
    }
    let one = |(task, runs): (&TaskId, Vec<&Run>)| TaskSpending {
        task_id: task.clone(),
        title: ledger.task(task).map(|task| task.title.clone()),
        attempts: runs.len(),
        spending: Spending::of(runs),
    };
    let mut tasks: Vec<TaskSpending> = tasks.into_iter().map(one).collect();
    let dear = |of: &TaskSpending| (of.spending.cost_usd.unwrap_or(0.0), of.spending.tokens());
    tasks.sort_by(|a, b| dear(b).partial_cmp(&dear(a)).unwrap_or(std::cmp::Ordering::Equal));
    tasks
}

fn spans(record: &RunHistory) -> Vec<AttemptSpan> {
    let one = |run: &Run| {
        Some(AttemptSpan {
            run_id: run.id.clone(),
            task_id: run.task.clone()?,
            agent: run.agent.clone(),
            workspace: run.workspace.clone(),
            started_at: run.created_at,
            ended_at: run.updated_at,
            status: run.status,
        })
    };
    let mut spans: Vec<AttemptSpan> = record.runs().filter_map(one).collect();
    spans.reverse();
    spans
}
