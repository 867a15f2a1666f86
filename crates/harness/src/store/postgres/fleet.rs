//! The workers of all machines. A host reports all of its workers with one statement.

use harness_core::{RunId, TaskId, Timestamp, WorkerId};
use tokio_postgres::{Row, types::Type};

use super::{
    Database, DatabaseError,
    error::Trouble,
    known::damaged,
    rows::{get, text},
};
use crate::store::{Presence, RegisteredWorker};

/// Separates labels in one text. No label contains it.
const SEPARATOR: &str = "\u{1f}";

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkerState {
    /// It waits for a task.
    #[default]
    Idle,
    /// It works on a task.
    Working,
    /// It finishes its task and leaves.
    Leaving,
}

impl WorkerState {
    const ALL: [Self; 3] = [Self::Idle, Self::Working, Self::Leaving];

    /// Returns the name that the table uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Leaving => "leaving",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A worker of any machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetWorker {
    /// Its id, unique in the ledger.
    pub id: WorkerId,
    /// The machine.
    pub host: String,
    /// The boot of the machine, if it is known.
    pub boot: Option<String>,
    /// The process, which is valid on `host` during `boot`.
    pub pid: u32,
    /// The version of harness.
    pub version: String,
    /// Its labels, for tasks that require some.
    pub labels: Vec<String>,
    /// The task that it works on.
    pub task: Option<TaskId>,
    /// What it does.
    pub state: WorkerState,
    /// The run that pays for its attempts.
    pub run: Option<RunId>,
    /// The start of the worker.
    pub started_at: Timestamp,
    /// Its last report, by the clock of the database. A report sets it.
    pub seen_at: Timestamp,
    /// `true` if it was asked to leave.
    pub draining: bool,
}

impl From<&RegisteredWorker> for FleetWorker {
    /// Takes over a worker that is registered in a file of this machine.
    fn from(worker: &RegisteredWorker) -> Self {
        let record = &worker.record;
        Self {
            id: record.id.clone(),
            host: record.host.clone(),
            boot: record.boot.clone(),
            pid: record.pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: record.labels.clone(),
            task: None,
            state: match worker.presence {
                Presence::Alive | Presence::Unknown => WorkerState::Idle,
                Presence::Dead => WorkerState::Leaving,
            },
            run: record.run.clone(),
            started_at: record.started_at,
            seen_at: record.started_at,
            draining: false,
        }
    }
}

const ALL: &str = "SELECT id, host, boot, pid, version, labels, task, state, run, \
     floor(extract(epoch FROM started_at))::bigint, floor(extract(epoch FROM seen_at))::bigint, draining \
     FROM harness.worker WHERE ledger = $1 ORDER BY host, id";

const BEAT: &str = "INSERT INTO harness.worker (ledger, id, host, boot, pid, version, labels, task, state, \
     run, started_at, seen_at) \
     SELECT $1, id, host, boot, pid, version, string_to_array(labels, E'\\x1f'), task, state, run, \
     to_timestamp(started), clock_timestamp() \
     FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], \
     $9::text[], $10::text[], $11::bigint[]) \
     AS u (id, host, boot, pid, version, labels, task, state, run, started) \
     ON CONFLICT (ledger, id) DO UPDATE SET host = excluded.host, boot = excluded.boot, \
     pid = excluded.pid, version = excluded.version, labels = excluded.labels, task = excluded.task, \
     state = excluded.state, run = excluded.run, started_at = excluded.started_at, \
     seen_at = excluded.seen_at, draining = harness.worker.draining \
     AND harness.worker.started_at = excluded.started_at \
     RETURNING id, draining";

impl Database {
    /// Reports workers of this machine, all with one statement. Returns those that were asked to leave. A
    /// worker that starts anew under its id is not asked any more.
    pub fn beat(&self, workers: &[FleetWorker]) -> Result<Vec<WorkerId>, DatabaseError> {
        if workers.is_empty() {
            return Ok(Vec::new());
        }
        let ledger = self.0.ledger();
        let all = |of: fn(&FleetWorker) -> String| -> Vec<String> {
            workers.iter().map(|worker| text(&of(worker))).collect()
        };
        let some = |of: fn(&FleetWorker) -> Option<String>| -> Vec<Option<String>> {
            workers.iter().map(of).collect()
        };
        let (ids, hosts) = (all(|w| w.id.as_str().to_owned()), all(|w| w.host.clone()));
        let boots = some(|w| w.boot.clone());
        let pids: Vec<i64> = workers.iter().map(|worker| i64::from(worker.pid)).collect();
        let (versions, labels) = (all(|w| w.version.clone()), all(|w| w.labels.join(SEPARATOR)));
        let tasks = some(|w| w.task.as_ref().map(|task| task.as_str().to_owned()));
        let states = all(|w| w.state.name().to_owned());
        let runs = some(|w| w.run.as_ref().map(|run| run.as_str().to_owned()));
        let started: Vec<i64> = workers.iter().map(|worker| worker.started_at.seconds()).collect();
        self.0.side().again(|link| {
            let rows = link.query(
                BEAT,
                vec![
                    (&ledger, Type::INT8),
                    (&ids, Type::TEXT_ARRAY),
                    (&hosts, Type::TEXT_ARRAY),
                    (&boots, Type::TEXT_ARRAY),
                    (&pids, Type::INT8_ARRAY),
                    (&versions, Type::TEXT_ARRAY),
                    (&labels, Type::TEXT_ARRAY),
                    (&tasks, Type::TEXT_ARRAY),
                    (&states, Type::TEXT_ARRAY),
                    (&runs, Type::TEXT_ARRAY),
                    (&started, Type::INT8_ARRAY),
                ],
            )?;
            let mut leaving = Vec::new();
            for row in &rows {
                if get::<bool>(row, 1)? {
                    leaving.push(WorkerId::recorded(&get::<String>(row, 0)?));
                }
            }
            Ok(leaving)
        })
    }

    /// Returns the registered workers of all machines, by machine and id.
    pub fn workers(&self) -> Result<Vec<FleetWorker>, DatabaseError> {
        let ledger = self.0.ledger();
        self.0
            .side()
            .again(|link| link.query(ALL, vec![(&ledger, Type::INT8)])?.iter().map(read).collect())
    }

    /// Asks workers to finish their task and leave: all of a machine, or one by its id. Returns how many
    /// were asked.
    pub fn drain(&self, host_or_worker: &str) -> Result<usize, DatabaseError> {
        let ledger = self.0.ledger();
        let sql = "UPDATE harness.worker SET draining = true \
                   WHERE ledger = $1 AND (host = $2 OR id = $2) RETURNING id";
        self.0.side().again(|link| {
            let by = vec![(&ledger as _, Type::INT8), (&host_or_worker as _, Type::TEXT)];
            Ok(link.query(sql, by)?.len())
        })
    }

    /// Removes a worker that has left, or that is known to be dead.
    pub fn leave(&self, worker: &WorkerId) -> Result<(), DatabaseError> {
        let (ledger, id) = (self.0.ledger(), worker.as_str());
        let sql = "DELETE FROM harness.worker WHERE ledger = $1 AND id = $2";
        self.0.side().again(|link| {
            link.query(sql, vec![(&ledger, Type::INT8), (&id, Type::TEXT)]).map(|_| ())
        })
    }
}

fn read(row: &Row) -> Result<FleetWorker, Trouble> {
    let bad = |what: &str| damaged(&format!("a worker has an invalid {what}"));
    let (task, run): (Option<String>, Option<String>) = (get(row, 6)?, get(row, 8)?);
    let state: String = get(row, 7)?;
    Ok(FleetWorker {
        id: WorkerId::recorded(&get::<String>(row, 0)?),
        host: get(row, 1)?,
        boot: get(row, 2)?,
        pid: u32::try_from(get::<i64>(row, 3)?).map_err(|_| bad("pid"))?,
        version: get(row, 4)?,
        labels: get(row, 5)?,
        task: task.and_then(|task| TaskId::parse(&task).ok()),
        // A newer version may know more of them.
        state: WorkerState::named(&state).unwrap_or(WorkerState::Working),
        run: run.and_then(|run| RunId::parse(&run).ok()),
        started_at: Timestamp::from_seconds(get(row, 9)?),
        seen_at: Timestamp::from_seconds(get(row, 10)?),
        draining: get(row, 11)?,
    })
}
