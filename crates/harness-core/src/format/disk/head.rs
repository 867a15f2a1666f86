//! The shapes of the head of a ledger.

use serde::Deserialize;

use super::{all, if_it_fits};
use crate::{
    CommitId, Epoch, TaskId, Timestamp, WorkerId,
    ledger::{
        Alert, ConcurrencyMode, Gate, GateHold, Head, LandingEntry, Phase, SessionConfig, Unsettled,
    },
};

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(in crate::format) struct DiskHead {
    created: Option<Timestamp>,
    session_config: Option<DiskSessionConfig>,
    session_count: Option<u64>,
    session_claims: Option<u64>,
    last_session: Option<Timestamp>,
    paused_at: Option<Timestamp>,
    epoch: Option<Epoch>,
    unsettled: Option<Unsettled>,
    goal: Option<String>,
    phases: Option<Vec<DiskPhase>>,
    needs: Option<Vec<String>>,
    #[serde(default, deserialize_with = "if_it_fits")]
    landing: Option<Vec<DiskLanding>>,
    alerts: Option<Vec<DiskAlert>>,
    log_tail: Option<Vec<String>>,
    log_at: Option<u64>,
}

impl From<DiskHead> for Head {
    fn from(d: DiskHead) -> Self {
        let defaults = SessionConfig::default();
        let config = d.session_config.unwrap_or_default();
        let log_tail = d.log_tail.filter(|lines| !lines.is_empty());
        Self {
            created: d.created,
            session_config: SessionConfig {
                concurrency_mode: match config.concurrency_mode {
                    None | Some(DiskMode::Exclusive) => ConcurrencyMode::Exclusive,
                    Some(DiskMode::Concurrent) => ConcurrencyMode::Concurrent,
                },
                max_tasks_per_session: config
                    .max_tasks_per_session
                    .unwrap_or(defaults.max_tasks_per_session),
                max_sessions: config.max_sessions.unwrap_or(defaults.max_sessions),
                target_branch: config.target_branch,
                target_remote: config.target_remote,
                landed_branch: config.landed_branch,
                landed_why: config.landed_why,
            },
            session_count: d.session_count.unwrap_or(0),
            session_claims: d.session_claims.unwrap_or(0),
            last_session: d.last_session,
            paused_at: d.paused_at,
            epoch: d.epoch.unwrap_or_default(),
            unsettled: d.unsettled,
            goal: d.goal,
            phases: d.phases.unwrap_or_default().into_iter().map(Into::into).collect(),
            needs: d.needs.unwrap_or_default(),
            landing: all(d.landing),
            alerts: d.alerts.unwrap_or_default().into_iter().map(Into::into).collect(),
            // Without lines, the position has no meaning and is not written.
            log_at: log_tail.as_ref().and(d.log_at).unwrap_or(0),
            log_tail: log_tail.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(expecting = "an object")]
struct DiskSessionConfig {
    concurrency_mode: Option<DiskMode>,
    max_tasks_per_session: Option<i64>,
    max_sessions: Option<i64>,
    target_branch: Option<String>,
    target_remote: Option<String>,
    landed_branch: Option<String>,
    landed_why: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum DiskMode {
    Exclusive,
    Concurrent,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct DiskPhase {
    name: String,
    gate: Option<DiskGate>,
    approve: Option<bool>,
    passed_at: Option<Timestamp>,
    claimed_by: Option<WorkerId>,
    lease_expires_at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(in crate::format) struct DiskLanding {
    task: TaskId,
    epoch: Epoch,
    onto: Option<CommitId>,
    commit: Option<CommitId>,
    green: Option<bool>,
    renewed_at: Option<Timestamp>,
}

impl From<DiskLanding> for LandingEntry {
    fn from(d: DiskLanding) -> Self {
        let DiskLanding { task, epoch, onto, commit, green, renewed_at } = d;
        Self { task, epoch, onto, commit, green, renewed_at }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct DiskAlert {
    time: Option<Timestamp>,
    task: Option<TaskId>,
    message: String,
}

impl From<DiskAlert> for Alert {
    fn from(d: DiskAlert) -> Self {
        Self { time: d.time.unwrap_or_default(), task: d.task, message: d.message }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct DiskGate {
    command: String,
    timeout_seconds: Option<u64>,
}

impl From<DiskPhase> for Phase {
    fn from(d: DiskPhase) -> Self {
        Self {
            name: d.name,
            gate: d.gate.map(|g| Gate { command: g.command, timeout_seconds: g.timeout_seconds }),
            approve: d.approve.unwrap_or(false),
            passed_at: d.passed_at,
            held: d.claimed_by.zip(d.lease_expires_at).map(|(by, until)| GateHold { by, until }),
        }
    }
}
