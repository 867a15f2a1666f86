//! Runs, iterations and messages as the JSON of their rows. A text in JSON may hold any character, and a
//! number with a fraction is a text, so that it is read back to the last digit.

use harness_core::{
    CommitId, Epoch, TaskId, Timestamp,
    agent::Usage,
    notify::{Delivery, Notice, Outgoing},
    run::{Ending, Iteration, Owner, Run, RunId, RunLease, RunLimits, RunStatus, StopReason},
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct RunEntry {
    created_at: Timestamp,
    updated_at: Timestamp,
    status: String,
    objective: Option<String>,
    task: Option<TaskId>,
    epoch: Option<u64>,
    agent: String,
    agent_command: Option<String>,
    verify: Option<String>,
    workspace: String,
    iteration_count: u32,
    completion_promise: String,
    max_iterations: u32,
    max_cost_usd: Option<String>,
    max_tokens: Option<u64>,
    max_duration_seconds: Option<u64>,
    stop_reason: Option<String>,
    provider_session_id: Option<String>,
    parent: Option<RunId>,
    usage: UsageEntry,
    deadline: Option<Timestamp>,
    wake_at: Option<Timestamp>,
    lease_owner: Option<String>,
    lease_expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct UsageEntry {
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct IterationEntry {
    number: u32,
    started_at: Timestamp,
    starts: u32,
    ended_at: Option<Timestamp>,
    ending: Option<String>,
    detail: Option<String>,
    usage: UsageEntry,
    agents: Vec<(String, UsageEntry)>,
    final_text: Option<String>,
    transcript: Option<String>,
    head_before: Option<CommitId>,
    head_after: Option<CommitId>,
    mark_before: Option<String>,
    mark_after: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OutgoingEntry {
    channel: String,
    delivery: Delivery,
    tries: u32,
    due_at: Timestamp,
    error: Option<String>,
    notice: Notice,
}

impl UsageEntry {
    fn of(usage: &Usage) -> Self {
        let Usage { input_tokens, output_tokens, cost_usd } = *usage;
        Self { input_tokens, output_tokens, cost_usd: cost_usd.map(digits) }
    }

    fn usage(&self) -> Option<Usage> {
        let Self { input_tokens, output_tokens, .. } = *self;
        Some(Usage { input_tokens, output_tokens, cost_usd: fraction(&self.cost_usd)? })
    }
}

fn digits(number: f64) -> String {
    format!("{number:?}")
}

/// Returns `None` for a text that is no number.
fn fraction(text: &Option<String>) -> Option<Option<f64>> {
    text.as_ref().map(|text| text.parse().ok()).map_or(Some(None), |number| number.map(Some))
}

/// Returns `None` for a word that is not known.
fn word<T>(text: &Option<String>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    text.as_ref().map(|text| parse(text)).map_or(Some(None), |found| found.map(Some))
}

pub(super) fn of_run(run: &Run) -> String {
    let entry = RunEntry {
        created_at: run.created_at,
        updated_at: run.updated_at,
        status: run.status.as_str().to_owned(),
        objective: run.objective.clone(),
        task: run.task.clone(),
        epoch: run.epoch.map(|epoch| epoch.0),
        agent: run.agent.clone(),
        agent_command: run.agent_command.clone(),
        verify: run.verify.clone(),
        workspace: run.workspace.clone(),
        iteration_count: run.iteration_count,
        completion_promise: run.completion_promise.clone(),
        max_iterations: run.limits.max_iterations,
        max_cost_usd: run.limits.max_cost_usd.map(digits),
        max_tokens: run.limits.max_tokens,
        max_duration_seconds: run.limits.max_duration_seconds,
        stop_reason: run.stop_reason.map(|reason| reason.as_str().to_owned()),
        provider_session_id: run.provider_session_id.clone(),
        parent: run.parent.clone(),
        usage: UsageEntry::of(&run.usage),
        deadline: run.deadline,
        wake_at: run.wake_at,
        lease_owner: run.lease.as_ref().map(|lease| lease.owner.to_string()),
        lease_expires_at: run.lease.as_ref().map(|lease| lease.expires_at),
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

pub(super) fn run(id: &str, entry: &str) -> Option<Run> {
    let entry: RunEntry = serde_json::from_str(entry).ok()?;
    let owner = word(&entry.lease_owner, Owner::parse)?;
    let lease = owner.zip(entry.lease_expires_at);
    Some(Run {
        id: RunId::parse(id).ok()?,
        created_at: entry.created_at,
        updated_at: entry.updated_at,
        status: RunStatus::parse(&entry.status)?,
        objective: entry.objective,
        task: entry.task,
        epoch: entry.epoch.map(Epoch),
        agent: entry.agent,
        agent_command: entry.agent_command,
        verify: entry.verify,
        workspace: entry.workspace,
        iteration_count: entry.iteration_count,
        completion_promise: entry.completion_promise,
        limits: RunLimits {
            max_iterations: entry.max_iterations,
            max_cost_usd: fraction(&entry.max_cost_usd)?,
            max_tokens: entry.max_tokens,
            max_duration_seconds: entry.max_duration_seconds,
        },
        stop_reason: word(&entry.stop_reason, StopReason::parse)?,
        provider_session_id: entry.provider_session_id,
        parent: entry.parent,
        usage: entry.usage.usage()?,
        deadline: entry.deadline,
        wake_at: entry.wake_at,
        lease: lease.map(|(owner, expires_at)| RunLease { owner, expires_at }),
    })
}

pub(super) fn of_iteration(iteration: &Iteration) -> String {
    let agents = iteration.agents.iter();
    let entry = IterationEntry {
        number: iteration.number,
        started_at: iteration.started_at,
        starts: iteration.starts,
        ended_at: iteration.ended_at,
        ending: iteration.ending.map(|ending| ending.as_str().to_owned()),
        detail: iteration.detail.clone(),
        usage: UsageEntry::of(&iteration.usage),
        agents: agents.map(|(name, usage)| (name.clone(), UsageEntry::of(usage))).collect(),
        final_text: iteration.final_text.clone(),
        transcript: iteration.transcript.clone(),
        head_before: iteration.head_before.clone(),
        head_after: iteration.head_after.clone(),
        mark_before: iteration.mark_before.clone(),
        mark_after: iteration.mark_after.clone(),
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

pub(super) fn iteration(entry: &str) -> Option<Iteration> {
    let entry: IterationEntry = serde_json::from_str(entry).ok()?;
    let agents = entry.agents.iter().map(|(name, usage)| Some((name.clone(), usage.usage()?)));
    Some(Iteration {
        number: entry.number,
        started_at: entry.started_at,
        starts: entry.starts,
        ended_at: entry.ended_at,
        ending: word(&entry.ending, Ending::parse)?,
        usage: entry.usage.usage()?,
        agents: agents.collect::<Option<_>>()?,
        detail: entry.detail,
        final_text: entry.final_text,
        transcript: entry.transcript,
        head_before: entry.head_before,
        head_after: entry.head_after,
        mark_before: entry.mark_before,
        mark_after: entry.mark_after,
    })
}

pub(super) fn of_outgoing(row: &Outgoing) -> String {
    let entry = OutgoingEntry {
        channel: row.channel.clone(),
        delivery: row.delivery,
        tries: row.tries,
        due_at: row.due_at,
        error: row.error.clone(),
        notice: row.notice.clone(),
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

pub(super) fn outgoing(entry: &str) -> Option<Outgoing> {
    let OutgoingEntry { channel, delivery, tries, due_at, error, notice } =
        serde_json::from_str(entry).ok()?;
    Some(Outgoing { channel, notice, delivery, tries, due_at, error })
}
