//! Rows as JSON, with the names of the columns in PROTOCOL.md.

use harness_core::{
    agent::Usage,
    run::{Iteration, Run},
};
use serde_json::{Map, Value, json};

use super::{Record, ShownIteration, state};

pub(super) fn run(record: &Record, run: &Run) -> Value {
    let lease = run.lease.as_ref();
    let document = json!({
        "run_id": run.id,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "status": run.status,
        "objective": run.objective,
        "task_id": run.task,
        "agent": run.agent,
        "agent_command": run.agent_command,
        "verify": run.verify,
        "workspace": run.workspace,
        "iteration_count": run.iteration_count,
        "max_iterations": run.limits.max_iterations,
        "completion_promise": run.completion_promise,
        "stop_reason": run.stop_reason,
        "state": state(record, run),
        "provider_session_id": run.provider_session_id,
        "parent_run_id": run.parent,
        "epoch": run.epoch,
        "input_tokens": run.usage.input_tokens,
        "output_tokens": run.usage.output_tokens,
        "cost_usd": run.usage.cost_usd,
        "max_cost_usd": run.limits.max_cost_usd,
        "max_tokens": run.limits.max_tokens,
        "max_duration_seconds": run.limits.max_duration_seconds,
        "deadline": run.deadline,
        "wake_at": run.wake_at,
        "lease_owner": lease.map(|lease| lease.owner.to_string()),
        "lease_expires_at": lease.map(|lease| lease.expires_at),
    });
    with_host(document, record.hosts.get(&run.id))
}

/// Adds the machine, which is known for a ledger in a database.
fn with_host(mut document: Value, host: Option<&String>) -> Value {
    if let Some(host) = host {
        document["host"] = host.as_str().into();
    }
    document
}

pub(super) fn iteration(record: &Record, shown: &ShownIteration) -> Value {
    let ShownIteration { row: iteration, host } = shown;
    let document = json!({
        "number": iteration.number,
        "started_at": iteration.started_at,
        "ended_at": iteration.ended_at,
        "outcome": iteration.ending,
        "detail": iteration.detail,
        "input_tokens": iteration.usage.input_tokens,
        "output_tokens": iteration.usage.output_tokens,
        "cost_usd": iteration.usage.cost_usd,
        "agents": agents(iteration),
        "final_text": iteration.final_text,
        "transcript": iteration.transcript,
        "transcripts": record.transcripts(iteration),
        "head_before": iteration.head_before,
        "head_after": iteration.head_after,
        "mark_before": iteration.mark_before,
        "mark_after": iteration.mark_after,
        "starts": iteration.starts,
    });
    with_host(document, host.as_ref())
}

/// Returns the usage of each agent, or null where it was not recorded.
fn agents(iteration: &Iteration) -> Option<Map<String, Value>> {
    let entry = |(agent, usage): &(String, Usage)| (agent.clone(), sum(usage));
    (!iteration.agents.is_empty()).then(|| iteration.agents.iter().map(entry).collect())
}

/// Returns a sum, with the name of its subject.
pub(super) fn spent(name: &str, of: impl Into<Value>, usage: &Usage) -> Value {
    let mut row = serde_json::Map::from_iter([(name.to_owned(), of.into())]);
    if let Value::Object(sum) = sum(usage) {
        row.extend(sum);
    }
    Value::Object(row)
}

pub(super) fn sum(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    })
}
