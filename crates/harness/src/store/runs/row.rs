//! Conversion between rows and values.

use harness_core::{
    CommitId, Epoch, TaskId, Timestamp,
    agent::Usage,
    run::{Ending, Iteration, Owner, Run, RunId, RunLease, RunLimits, RunStatus, StopReason},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter, types::Value};
use serde_json::{Map, Value as Json, json};

use super::saturated;

const RUN: [&str; 27] = [
    "run_id",
    "created_at",
    "updated_at",
    "status",
    "objective",
    "task_id",
    "agent",
    "agent_command",
    "verify",
    "workspace",
    "iteration_count",
    "max_iterations",
    "completion_promise",
    "stop_reason",
    "provider_session_id",
    "parent_run_id",
    "epoch",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "max_cost_usd",
    "max_tokens",
    "max_duration_seconds",
    "deadline",
    "wake_at",
    "lease_owner",
    "lease_expires_at",
];

const ITERATION: [&str; 17] = [
    "run_id",
    "number",
    "started_at",
    "ended_at",
    "outcome",
    "detail",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "final_text",
    "transcript",
    "head_before",
    "head_after",
    "mark_before",
    "mark_after",
    "starts",
    AGENTS,
];

/// The column that was added to `iterations` without a new version; see `schema`.
pub(super) const AGENTS: &str = "agents";

/// The reason why a row is invalid.
#[derive(Debug)]
pub(super) enum RowError {
    Sql(rusqlite::Error),
    Bad { row: String, column: &'static str, value: String },
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) fn find_run(connection: &Connection, id: &RunId) -> Result<Option<Run>, RowError> {
    let sql = format!("SELECT {} FROM runs WHERE run_id = ?1", RUN.join(", "));
    first(connection, &sql, &[id.as_str().to_owned().into()])
}

pub(super) fn find_attempt(
    connection: &Connection,
    task: &TaskId,
    epoch: Epoch,
) -> Result<Option<Run>, RowError> {
    let sql = format!("SELECT {} FROM runs WHERE task_id = ?1 AND epoch = ?2", RUN.join(", "));
    first(connection, &sql, &[task.as_str().to_owned().into(), number(epoch.0)])
}

pub(super) fn all_runs(connection: &Connection) -> Result<Vec<Run>, RowError> {
    runs_where(connection, "true")
}

/// Returns the runs that are not over.
pub(super) fn live_runs(connection: &Connection) -> Result<Vec<Run>, RowError> {
    runs_where(connection, "status IN ('queued', 'running', 'waiting_for_human')")
}

/// Those that are not over, and the newest one that is no attempt of another.
pub(super) fn recent_runs(connection: &Connection) -> Result<Vec<Run>, RowError> {
    runs_where(
        connection,
        "status IN ('queued', 'running', 'waiting_for_human') OR run_id = (SELECT run_id FROM runs \
         WHERE parent_run_id IS NULL ORDER BY created_at DESC, run_id DESC LIMIT 1)",
    )
}

pub(super) fn runs_of_task(connection: &Connection, task: &TaskId) -> Result<Vec<Run>, RowError> {
    runs_by(connection, "task_id = ?1", &[task.as_str()])
}

fn runs_where(connection: &Connection, condition: &str) -> Result<Vec<Run>, RowError> {
    runs_by(connection, condition, &[])
}

fn runs_by(connection: &Connection, condition: &str, by: &[&str]) -> Result<Vec<Run>, RowError> {
    let columns = RUN.join(", ");
    let order = "ORDER BY created_at DESC, run_id DESC";
    let sql = format!("SELECT {columns} FROM runs WHERE {condition} {order}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(by))?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(read_run(row)?);
    }
    Ok(runs)
}

fn first(connection: &Connection, sql: &str, by: &[Value]) -> Result<Option<Run>, RowError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params_from_iter(by), |row| Ok(read_run(row)));
    found.optional()?.transpose()
}

pub(super) fn all_iterations(
    connection: &Connection,
    run: &RunId,
) -> Result<Vec<Iteration>, RowError> {
    // A database that an older program made may lack a column.
    let sql = "SELECT * FROM iterations WHERE run_id = ?1 ORDER BY number";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([run.as_str()])?;
    let mut iterations = Vec::new();
    while let Some(row) = rows.next()? {
        iterations.push(read_iteration(row)?);
    }
    Ok(iterations)
}

pub(super) fn last_iteration(
    connection: &Connection,
    run: &RunId,
) -> Result<Option<Iteration>, RowError> {
    let sql = "SELECT * FROM iterations WHERE run_id = ?1 ORDER BY number DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([run.as_str()], |row| Ok(read_iteration(row)));
    found.optional()?.transpose()
}

/// Inserts or replaces it.
pub(super) fn put_run(connection: &Connection, run: &Run) -> rusqlite::Result<()> {
    let lease = run.lease.as_ref();
    let values: [Value; RUN.len()] = [
        run.id.as_str().to_owned().into(),
        run.created_at.to_string().into(),
        run.updated_at.to_string().into(),
        run.status.as_str().to_owned().into(),
        run.objective.clone().into(),
        run.task.as_ref().map(|task| task.as_str().to_owned()).into(),
        run.agent.clone().into(),
        run.agent_command.clone().into(),
        run.verify.clone().into(),
        run.workspace.clone().into(),
        i64::from(run.iteration_count).into(),
        i64::from(run.limits.max_iterations).into(),
        run.completion_promise.clone().into(),
        run.stop_reason.map(|reason| reason.as_str().to_owned()).into(),
        run.provider_session_id.clone().into(),
        run.parent.as_ref().map(|parent| parent.as_str().to_owned()).into(),
        maybe_number(run.epoch.map(|epoch| epoch.0)),
        number(run.usage.input_tokens),
        number(run.usage.output_tokens),
        run.usage.cost_usd.into(),
        run.limits.max_cost_usd.into(),
        maybe_number(run.limits.max_tokens),
        maybe_number(run.limits.max_duration_seconds),
        time(run.deadline),
        time(run.wake_at),
        lease.map(|lease| lease.owner.to_string()).into(),
        time(lease.map(|lease| lease.expires_at)),
    ];
    put(connection, "runs", &RUN, "run_id", &values)
}

/// Inserts or replaces it.
pub(super) fn put_iteration(
    connection: &Connection,
    run: &RunId,
    iteration: &Iteration,
) -> rusqlite::Result<()> {
    let commit = |id: &Option<CommitId>| id.as_ref().map(|id| id.as_str().to_owned()).into();
    let values: [Value; ITERATION.len()] = [
        run.as_str().to_owned().into(),
        i64::from(iteration.number).into(),
        iteration.started_at.to_string().into(),
        time(iteration.ended_at),
        iteration.ending.map(|ending| ending.as_str().to_owned()).into(),
        iteration.detail.clone().into(),
        number(iteration.usage.input_tokens),
        number(iteration.usage.output_tokens),
        iteration.usage.cost_usd.into(),
        iteration.final_text.clone().into(),
        iteration.transcript.clone().into(),
        commit(&iteration.head_before),
        commit(&iteration.head_after),
        iteration.mark_before.clone().into(),
        iteration.mark_after.clone().into(),
        i64::from(iteration.starts).into(),
        agents(&iteration.agents),
    ];
    put(connection, "iterations", &ITERATION, "run_id, number", &values)
}

/// Returns the usage by agent as JSON, or nothing if there is none.
fn agents(agents: &[(String, Usage)]) -> Value {
    let usage = |usage: &Usage| {
        json!({
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        })
    };
    let all: Map<String, Json> =
        agents.iter().map(|(agent, sum)| (agent.clone(), usage(sum))).collect();
    if all.is_empty() { Value::Null } else { Json::Object(all).to_string().into() }
}

/// Reads them back. A value that is not understood counts as missing: it says only who is to be
/// named for a cost.
fn read_agents(row: &Row<'_>) -> Vec<(String, Usage)> {
    let text = row.get::<_, Option<String>>(AGENTS).ok().flatten();
    let all: Option<Map<String, Json>> = text.and_then(|text| serde_json::from_str(&text).ok());
    let usage = |usage: &Json| Usage {
        input_tokens: usage["input_tokens"].as_u64().unwrap_or_default(),
        output_tokens: usage["output_tokens"].as_u64().unwrap_or_default(),
        cost_usd: usage["cost_usd"].as_f64(),
    };
    let all = all.unwrap_or_default();
    all.iter().map(|(agent, sum)| (agent.clone(), usage(sum))).collect()
}

fn put(
    connection: &Connection,
    table: &str,
    columns: &[&str],
    key: &str,
    values: &[Value],
) -> rusqlite::Result<()> {
    let places: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
    let sets: Vec<String> = columns.iter().map(|c| format!("{c} = excluded.{c}")).collect();
    let sql = format!(
        "INSERT INTO {table} ({}) VALUES ({}) ON CONFLICT ({key}) DO UPDATE SET {}",
        columns.join(", "),
        places.join(", "),
        sets.join(", "),
    );
    connection.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    Ok(())
}

fn number(number: u64) -> Value {
    i64::try_from(saturated(number)).unwrap_or(i64::MAX).into()
}

fn maybe_number(value: Option<u64>) -> Value {
    value.map_or(Value::Null, number)
}

fn time(time: Option<Timestamp>) -> Value {
    time.map(|time| time.to_string()).into()
}

fn read_run(row: &Row<'_>) -> Result<Run, RowError> {
    let of = Reader { row, name: format!("run {}", row.get::<_, String>("run_id")?) };
    let owner = of.maybe("lease_owner", Owner::parse)?;
    let expires_at = of.maybe("lease_expires_at", read_time)?;
    Ok(Run {
        id: of.must("run_id", |text| RunId::parse(text).ok())?,
        created_at: of.must("created_at", read_time)?,
        updated_at: of.must("updated_at", read_time)?,
        status: of.must("status", RunStatus::parse)?,
        objective: row.get("objective")?,
        task: of.maybe("task_id", |text| TaskId::parse(text).ok())?,
        epoch: of.maybe_number("epoch")?.map(Epoch),
        agent: row.get("agent")?,
        agent_command: row.get("agent_command")?,
        verify: row.get("verify")?,
        workspace: row.get("workspace")?,
        iteration_count: of.number("iteration_count")?,
        completion_promise: row.get("completion_promise")?,
        limits: RunLimits {
            max_iterations: of.number("max_iterations")?,
            max_cost_usd: row.get("max_cost_usd")?,
            max_tokens: of.maybe_number("max_tokens")?,
            max_duration_seconds: of.maybe_number("max_duration_seconds")?,
        },
        stop_reason: of.maybe("stop_reason", StopReason::parse)?,
        provider_session_id: row.get("provider_session_id")?,
        parent: of.maybe("parent_run_id", |text| RunId::parse(text).ok())?,
        usage: of.usage()?,
        deadline: of.maybe("deadline", read_time)?,
        wake_at: of.maybe("wake_at", read_time)?,
        // If one of the two is missing, the lease is treated as removed.
        lease: owner.zip(expires_at).map(|(owner, expires_at)| RunLease { owner, expires_at }),
    })
}

fn read_iteration(row: &Row<'_>) -> Result<Iteration, RowError> {
    let (run, number): (String, i64) = (row.get("run_id")?, row.get("number")?);
    let of = Reader { row, name: format!("iteration {number} of run {run}") };
    let commit = |text: &str| CommitId::parse(text).ok();
    Ok(Iteration {
        number: of.number("number")?,
        started_at: of.must("started_at", read_time)?,
        ended_at: of.maybe("ended_at", read_time)?,
        ending: of.maybe("outcome", Ending::parse)?,
        detail: row.get("detail")?,
        usage: of.usage()?,
        final_text: row.get("final_text")?,
        transcript: row.get("transcript")?,
        head_before: of.maybe("head_before", commit)?,
        head_after: of.maybe("head_after", commit)?,
        mark_before: row.get("mark_before")?,
        mark_after: row.get("mark_after")?,
        starts: of.number("starts")?,
        agents: read_agents(row),
    })
}

fn read_time(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).ok()
}

struct Reader<'a> {
    row: &'a Row<'a>,
    name: String,
}

impl Reader<'_> {
    fn must<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, RowError> {
        let text: String = self.row.get(column)?;
        parse(&text).ok_or_else(|| self.bad(column, &text))
    }

    fn maybe<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RowError> {
        let text: Option<String> = self.row.get(column)?;
        text.map(|text| parse(&text).ok_or_else(|| self.bad(column, &text))).transpose()
    }

    fn number<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, RowError> {
        let number: i64 = self.row.get(column)?;
        T::try_from(number).map_err(|_| self.bad(column, &number.to_string()))
    }

    fn maybe_number(&self, column: &'static str) -> Result<Option<u64>, RowError> {
        let number: Option<i64> = self.row.get(column)?;
        let checked = |n: i64| u64::try_from(n).map_err(|_| self.bad(column, &n.to_string()));
        number.map(checked).transpose()
    }

    fn usage(&self) -> Result<Usage, RowError> {
        Ok(Usage {
            input_tokens: self.number("input_tokens")?,
            output_tokens: self.number("output_tokens")?,
            cost_usd: self.row.get("cost_usd")?,
        })
    }

    fn bad(&self, column: &'static str, value: &str) -> RowError {
        RowError::Bad { row: self.name.clone(), column, value: value.chars().take(80).collect() }
    }
}
