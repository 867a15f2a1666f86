//! The record of runs in PostgreSQL, so that a budget is shared by all machines.
//!
//! Changes of a ledger's runs follow one another by locking its row in `book`.

use std::{collections::BTreeMap, sync::Arc};

use harness_core::{
    Epoch, Refusal, Reply, TaskId, Timestamp,
    agent::Usage,
    command::{OfRun, RunView},
    notify::{OutboxStep, Outgoing},
    run::{Iteration, Run, RunId},
};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use uuid::Uuid;

use super::{
    DatabaseError, entries,
    error::Trouble,
    handle::Shared,
    known::damaged,
    outbox,
    rows::{column, get, text},
    run_change::{Made, Name, Statement},
    wire::{By, Link, Step},
};
use crate::store::{
    RunStoreError, Runs,
    runs::{storable, storable_usage},
};

const RUN_BY_ID: &str = "SELECT id, entry FROM harness.run WHERE ledger = $1 AND id = $2";
const PARENT: &str = "SELECT p.id, p.entry FROM harness.run r JOIN harness.run p \
     ON p.ledger = r.ledger AND p.id = r.parent WHERE r.ledger = $1 AND r.id = $2";
const LAST: &str = "SELECT entry FROM harness.iteration WHERE ledger = $1 AND run = $2 \
     ORDER BY number DESC LIMIT 1";
const ATTEMPT: &str =
    "SELECT id, entry FROM harness.run WHERE ledger = $1 AND task = $2 AND epoch = $3";

/// The record of runs in PostgreSQL. Get one from [`Database::runs`](super::Database::runs).
#[derive(Clone)]
pub struct PostgresRuns {
    pub(super) shared: Arc<Shared>,
}

impl PostgresRuns {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    pub(super) fn read<T>(
        &self,
        sql: &str,
        by: &[(&(dyn ToSql + Sync), Type)],
        read: impl Fn(&Row) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, DatabaseError> {
        let ledger = self.shared.ledger();
        self.shared.side().again(|link| {
            let mut all: By<'_> = vec![(&ledger, Type::INT8)];
            all.extend(by.iter().cloned());
            link.query(sql, all)?.iter().map(&read).collect()
        })
    }

    fn runs_where(&self, condition: &str) -> Result<Vec<Run>, RunStoreError> {
        let sql = format!(
            "SELECT id, entry FROM harness.run WHERE ledger = $1 AND {condition} \
             ORDER BY created_at DESC, id DESC"
        );
        Ok(self.read(&sql, &[], read_run)?)
    }

    /// Returns the attempts at a task, newest first.
    pub fn of_task(&self, task: &TaskId) -> Result<Vec<Run>, RunStoreError> {
        let sql = "SELECT id, entry FROM harness.run WHERE ledger = $1 AND task = $2 \
                   ORDER BY created_at DESC, id DESC";
        Ok(self.read(sql, &[(&task.as_str(), Type::TEXT)], read_run)?)
    }

    /// Returns the runs that are not over, and the newest run that is no attempt of another one; newest
    /// first.
    pub fn recent(&self) -> Result<Vec<Run>, RunStoreError> {
        self.runs_where(
            "(status IN ('queued', 'running', 'waiting_for_human') OR id = (SELECT id FROM harness.run \
             WHERE ledger = $1 AND parent IS NULL ORDER BY created_at DESC, id DESC LIMIT 1))",
        )
    }

    /// Returns the statement that inserts or replaces a run.
    fn put_run(&self, ledger: i64, run: &Run) -> Statement {
        Statement {
            sql: "INSERT INTO harness.run (ledger, id, created_at, status, task, epoch, parent, host, \
                  entry) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (ledger, id) DO UPDATE \
                  SET created_at = excluded.created_at, status = excluded.status, task = excluded.task, \
                  epoch = excluded.epoch, parent = excluded.parent, entry = excluded.entry",
            by: vec![
                (Box::new(ledger), Type::INT8),
                (Box::new(run.id.as_str().to_owned()), Type::TEXT),
                (Box::new(run.created_at.to_string()), Type::TEXT),
                (Box::new(run.status.as_str().to_owned()), Type::TEXT),
                (Box::new(run.task.as_ref().map(|task| task.as_str().to_owned())), Type::TEXT),
                (Box::new(run.epoch.map(|epoch| column(epoch.0))), Type::INT8),
                (Box::new(run.parent.as_ref().map(|id| id.as_str().to_owned())), Type::TEXT),
                (Box::new(text(&self.shared.access.host)), Type::TEXT),
                (Box::new(entries::of_run(run)), Type::TEXT),
            ],
        }
    }

    fn apply_as(
        &self,
        name: Name,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        Ok(self.write_as(name, |link, ledger, made| {
            let id = command.run.as_str();
            let by = || -> By<'_> { vec![(&ledger, Type::INT8), (&id, Type::TEXT)] };
            let found = link.all(&[
                Step::With(RUN_BY_ID, by()),
                Step::With(PARENT, by()),
                Step::With(LAST, by()),
            ])?;
            let Some(row) = found[0].first() else {
                return Ok((Err(Refusal::RunNotFound { run: command.run.clone() }), Vec::new()));
            };
            let view = RunView {
                run: read_run(row)?,
                parent: found[1].first().map(read_run).transpose()?,
                last: found[2].first().map(read_iteration).transpose()?,
            };
            if made == Made::Before {
                return Ok((Ok(command.answer_again(&view)), Vec::new()));
            }
            let change = match command.decide(&view, now) {
                Ok(change) => change,
                Err(refusal) => return Ok((Err(refusal), Vec::new())),
            };
            let run = storable(change.run);
            let mut statements = vec![self.put_run(ledger, &run)];
            statements.extend(change.parent.map(|parent| self.put_run(ledger, &storable(parent))));
            if let Some(mut iteration) = change.iteration {
                iteration.usage = storable_usage(iteration.usage);
                statements.push(put_iteration(
                    ledger,
                    &self.shared.access.host,
                    &run.id,
                    &iteration,
                ));
            }
            Ok((Ok(change.reply), statements))
        })?)
    }
}

fn read_run(row: &Row) -> Result<Run, Trouble> {
    let (id, entry): (String, String) = (get(row, 0)?, get(row, 1)?);
    entries::run(&id, &entry).ok_or_else(|| damaged(&format!("run {id} cannot be read")))
}

fn read_iteration(row: &Row) -> Result<Iteration, Trouble> {
    let entry: String = get(row, 0)?;
    entries::iteration(&entry).ok_or_else(|| damaged("an iteration cannot be read"))
}

fn put_iteration(ledger: i64, host: &str, run: &RunId, iteration: &Iteration) -> Statement {
    Statement {
        sql: "INSERT INTO harness.iteration (ledger, run, number, entry, host) \
              VALUES ($1, $2, $3, $4, $5) \
              ON CONFLICT (ledger, run, number) DO UPDATE SET entry = excluded.entry",
        by: vec![
            (Box::new(ledger), Type::INT8),
            (Box::new(run.as_str().to_owned()), Type::TEXT),
            (Box::new(i64::from(iteration.number)), Type::INT8),
            (Box::new(entries::of_iteration(iteration)), Type::TEXT),
            (Box::new(text(host)), Type::TEXT),
        ],
    }
}

fn find_run(link: &mut Link, ledger: i64, id: &RunId) -> Result<Option<Run>, Trouble> {
    let id = id.as_str();
    let by: By<'_> = vec![(&ledger, Type::INT8), (&id, Type::TEXT)];
    link.query(RUN_BY_ID, by)?.first().map(read_run).transpose()
}

impl Runs for PostgresRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        let run = storable(run.clone());
        let opened = self.write(|link, ledger| {
            if let (Some(task), Some(epoch)) = (&run.task, run.epoch) {
                let (task, epoch) = (task.as_str(), column(epoch.0));
                let by: By<'_> =
                    vec![(&ledger, Type::INT8), (&task, Type::TEXT), (&epoch, Type::INT8)];
                if let Some(row) = link.query(ATTEMPT, by)?.first() {
                    return Ok((Ok(read_run(row)?), Vec::new()));
                }
            }
            if find_run(link, ledger, &run.id)?.is_some() {
                return Ok((Err(RunStoreError::Exists { run: run.id.clone() }), Vec::new()));
            }
            if let Some(parent) = &run.parent
                && find_run(link, ledger, parent)?.is_none()
            {
                let (run, parent) = (run.id.clone(), parent.clone());
                return Ok((Err(RunStoreError::NoParent { run, parent }), Vec::new()));
            }
            Ok((Ok(run.clone()), vec![self.put_run(ledger, &run)]))
        });
        opened?
    }

    fn apply(
        &self,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        self.apply_as(Name::New, now, command)
    }

    fn apply_once(
        &self,
        id: Uuid,
        now: Timestamp,
        command: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        self.apply_as(Name::Given(id), now, command)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        let found = self.read(RUN_BY_ID, &[(&id.as_str(), Type::TEXT)], read_run)?;
        Ok(found.into_iter().next())
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        let sql =
            "SELECT entry FROM harness.iteration WHERE ledger = $1 AND run = $2 ORDER BY number";
        Ok(self.read(sql, &[(&id.as_str(), Type::TEXT)], read_iteration)?)
    }

    fn hosts(&self) -> Result<BTreeMap<RunId, String>, RunStoreError> {
        let sql = "SELECT id, host FROM harness.run WHERE ledger = $1 AND host IS NOT NULL";
        let rows = self.read(sql, &[], |row| Ok((get::<String>(row, 0)?, get(row, 1)?)))?;
        let known = |(id, host): (String, String)| Some((RunId::parse(&id).ok()?, host));
        Ok(rows.into_iter().filter_map(known).collect())
    }

    fn transcript_hosts(&self, id: &RunId) -> Result<BTreeMap<u32, String>, RunStoreError> {
        let sql = "SELECT number, host FROM harness.iteration \
                   WHERE ledger = $1 AND run = $2 AND host IS NOT NULL";
        let by: [(&(dyn ToSql + Sync), Type); 1] = [(&id.as_str(), Type::TEXT)];
        let rows = self.read(sql, &by, |row| Ok((get::<i64>(row, 0)?, get(row, 1)?)))?;
        let known = |(number, host)| Some((u32::try_from(number).ok()?, host));
        Ok(rows.into_iter().filter_map(known).collect())
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        let by: [(&(dyn ToSql + Sync), Type); 2] =
            [(&task.as_str(), Type::TEXT), (&column(epoch.0), Type::INT8)];
        Ok(self.read(ATTEMPT, &by, read_run)?.into_iter().next())
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        self.runs_where("true")
    }

    fn live(&self) -> Result<Vec<Run>, RunStoreError> {
        self.runs_where("status IN ('queued', 'running', 'waiting_for_human')")
    }

    fn recent(&self) -> Result<Vec<Run>, RunStoreError> {
        PostgresRuns::recent(self)
    }

    fn of_task(&self, task: &TaskId) -> Result<Vec<Run>, RunStoreError> {
        PostgresRuns::of_task(self, task)
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        let raised = |run: &Run| storable_usage(run.usage.at_least(usage));
        if self.run(id)?.is_none_or(|run| raised(&run) == run.usage) {
            return Ok(());
        }
        Ok(self.write(|link, ledger| {
            let Some(run) = find_run(link, ledger, id)? else { return Ok(((), Vec::new())) };
            let raised = Run { usage: raised(&run), ..run };
            Ok(((), vec![self.put_run(ledger, &raised)]))
        })?)
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        Ok(self.read(outbox::ALL, &[], outbox::read)?)
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        // Senders ask often whether something is due, and a look costs less than a transaction.
        if step.decide(&self.outbox()?, now).is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.write(|link, ledger| {
            let rows = link.query(outbox::ALL, vec![(&ledger, Type::INT8)])?;
            let rows = rows.iter().map(outbox::read).collect::<Result<Vec<_>, Trouble>>()?;
            let change = step.decide(&rows, now);
            let statements = outbox::statements(ledger, &change);
            Ok((change.taken, statements))
        })?)
    }
}
