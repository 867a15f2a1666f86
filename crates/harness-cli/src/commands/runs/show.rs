//! `harness runs show`

use harness::{
    clock::{Clock as _, SystemClock},
    store::this_process,
};
use harness_core::{
    CommitId,
    run::{Iteration, Run, RunLimits, RunStatus},
};
use serde_json::json;

use super::{
    Record, ShownIteration, dash, document, dollars, is_interrupted, is_loop, list::standing,
    state, what,
};
use crate::{
    failure::Result,
    paint::{one_line, visible},
    render::{Cell, Out, Table},
    task_line::Span,
};

pub(super) fn print(out: &mut Out, record: &Record, name: Option<&str>, json: bool) -> Result<()> {
    let run = match name {
        Some(name) => Some(record.find(name)?),
        None => record.newest(),
    };
    let Some(run) = run else {
        let nothing = json!({ "run": null, "iterations": [], "attempts": [] });
        return if json { out.document(&nothing) } else { Ok(()) };
    };
    let iterations = record.shown_iterations(run)?;
    if json {
        let attempts: Vec<_> = record.attempts(run).map(|run| document::run(record, run)).collect();
        let iterations: Vec<_> =
            iterations.iter().map(|one| document::iteration(record, one)).collect();
        let run = document::run(record, run);
        return out
            .document(&json!({ "run": run, "iterations": iterations, "attempts": attempts }));
    }
    head(out, record, run)?;
    if !iterations.is_empty() {
        heading(out, "Iterations")?;
        out.table(&table_of(record, run, &iterations))?;
    }
    let mut attempts = Table::default();
    for attempt in record.attempts(run) {
        attempts.row([
            Cell::from(format!("  {}", attempt.id)),
            what(attempt).into(),
            standing(record, attempt),
            format!("{} tokens", attempt.usage.tokens()).into(),
            dash(dollars(&attempt.usage).map(|cost| format!("{cost} USD"))).into(),
            record
                .hosts
                .get(&attempt.id)
                .map(|host| format!("on {host}"))
                .unwrap_or_default()
                .into(),
        ]);
    }
    if attempts.lines(out.paint()).next().is_some() {
        heading(out, "Attempts")?;
        out.table(&attempts)?;
    }
    Ok(())
}

fn heading(out: &mut Out, text: &str) -> Result<()> {
    let heading = out.paint().heading(text);
    out.line(format_args!("\n{heading}"))
}

/// Prints the fields of the row that are set.
fn head(out: &mut Out, record: &Record, run: &Run) -> Result<()> {
    let name = out.paint().heading(&run.id);
    out.line(format_args!("run {name}: {}", state(record, run)))?;
    if let Some(objective) = &run.objective {
        out.line(format_args!("  {}", visible(objective).replace('\n', "\n  ")))?;
    }
    let restarts = format!("{} of {}", run.iteration_count, run.limits.max_iterations);
    let (input, output) = (run.usage.input_tokens, run.usage.output_tokens);
    let cost = dollars(&run.usage).map(|cost| format!(", {cost} USD")).unwrap_or_default();
    let spent = format!("{input} tokens in, {output} out{cost}");
    let promise = run.completion_promise.clone();
    let facts = [
        ("task", run.task.as_ref().map(|_| what(run))),
        ("part of run", run.parent.as_ref().map(ToString::to_string)),
        ("agent", Some(run.agent.clone())),
        ("command", run.agent_command.clone()),
        ("promise", is_loop(run).then_some(promise)),
        ("verify", run.verify.clone()),
        ("workspace", Some(run.workspace.clone())),
        ("started", Some(run.created_at.to_string())),
        ("changed", Some(run.updated_at.to_string())),
        ("restarts", is_loop(run).then_some(restarts)),
        ("spent", Some(spent)),
        ("budget", budget(&run.limits)),
        ("deadline", run.deadline.map(|time| time.to_string())),
        ("waits until", run.wake_at.map(|time| time.to_string())),
        (
            "driven by",
            run.lease.as_ref().map(|l| format!("pid {} on {}", l.owner.pid, l.owner.host)),
        ),
        ("transcripts", record.hosts.get(&run.id).map(|host| format!("on {host}"))),
        ("session", run.provider_session_id.clone()),
        ("go on with", onward(run)),
    ];
    let mut table = Table::default();
    for (name, fact) in facts {
        if let Some(fact) = fact {
            table.row([format!("  {name}"), fact]);
        }
    }
    out.table(&table)
}

fn budget(limits: &RunLimits) -> Option<String> {
    let parts = [
        limits.max_cost_usd.map(|cost| format!("{cost:.2} USD")),
        limits.max_tokens.map(|tokens| format!("{tokens} tokens")),
        limits.max_duration_seconds.map(|seconds| Span(seconds).to_string()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the command that resumes the run. An attempt is resumed by its run.
fn onward(run: &Run) -> Option<String> {
    let open = run.parent.is_none() && (run.status.is_over() || is_interrupted(run));
    (open && run.status != RunStatus::Succeeded)
        .then(|| format!("harness run --resume --run-id {}", run.id))
}

fn table_of(record: &Record, run: &Run, iterations: &[ShownIteration]) -> Table {
    let goes_on = !run.status.is_over() && !is_interrupted(run);
    let now = SystemClock.now();
    let mut table = Table::default();
    let names = ["  n", "started", "took", "outcome", "tokens", "USD", "commits", "transcript"];
    table.row(names);
    for ShownIteration { row: one, host } in iterations {
        let took = match one.ended_at {
            Some(ended_at) => Span(ended_at.since(one.started_at)).to_string(),
            None if goes_on => format!("{} so far", Span(now.since(one.started_at))),
            None => "-".to_owned(),
        };
        let outcome = one.ending.map_or("open", |ending| ending.as_str());
        let detail = one.detail.as_deref().map(|d| format!(": {}", cut(&one_line(d))));
        table.row([
            format!("  {}", one.number),
            one.started_at.to_string(),
            took,
            format!("{outcome}{}", detail.unwrap_or_default()),
            one.usage.tokens().to_string(),
            dash(dollars(&one.usage)),
            heads(one.head_before.as_ref(), one.head_after.as_ref()),
            transcripts(record, one, host.as_deref()),
        ]);
    }
    table
}

/// Returns the transcripts of an iteration, with the machine on which they are if that is another one.
fn transcripts(record: &Record, one: &Iteration, host: Option<&str>) -> String {
    let names = record.transcripts(one).join(", ");
    match host.filter(|host| !names.is_empty() && *host != this_process().host) {
        Some(host) => format!("{names} (on {host})"),
        None => names,
    }
}

fn heads(before: Option<&CommitId>, after: Option<&CommitId>) -> String {
    let short = |id: Option<&CommitId>| id.map_or("-", |id| id.short()).to_owned();
    match (before, after) {
        (Some(before), Some(after)) if before == after => format!("{} stays", before.short()),
        _ => format!("{} → {}", short(before), short(after)),
    }
}

fn cut(text: &str) -> String {
    const WIDTH: usize = 40;
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}
