//! Facts: things that happened. A fact is rendered as a log line and as a trajectory entry, and the
//! library renders it as a hub event. None of these is derived from another.

use serde_json::{Map, Value, json};

use crate::{
    Category, CommitId, Epoch, Flag, RunId, TaskId, Timestamp, WorkerId,
    log::{Kind, LogLine},
    stats::Stats,
    task::Intent,
};

/// Something that became true. It is durable before it is reported to anybody.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are named after what they are; `event` has their names on disk"
)]
pub enum Fact {
    Initialized { project: String },
    HealthCheck { passed: bool },
    LockAcquired { pid: u32 },
    LockReleased { pid: u32 },
    Stats(Stats),
    Added { task: TaskId, title: String },
    Edited { task: TaskId },
    Removed { task: TaskId },
    PlanImported { goal: String, task_count: usize },
    PlanReplaced { goal: String, task_count: usize, replaced: usize },
    PlanReset { task_count: usize },
    Claimed { task: TaskId, title: String, worker: WorkerId, epoch: Epoch, base: Option<CommitId> },
    Renewed { task: TaskId, expires_at: Timestamp },
    Checkpointed { task: TaskId, step: u32, total: u32, description: String },
    Intended { task: TaskId, intent: Intent },
    IntentVoided { task: TaskId },
    Completed { task: TaskId, worker: WorkerId, commit: Option<CommitId> },
    Failed { task: TaskId, category: Category, message: String, retryable: Option<bool> },
    RolledBack { task: TaskId, commit: CommitId },
    Recovered { task: TaskId, action: String, reason: String },
    GatePassed { phase: String, by: Option<String> },
    LedgerRestored { from: Source, reason: String },
    FilesRestored { what: String, reason: String },
    Problem { task: Option<TaskId>, category: Category, message: String },
    Warned { task: Option<TaskId>, message: String },
    Flagged { task: Option<TaskId>, flag: Flag, message: String },
    Acknowledged { count: usize },
    Objective { run: RunId, step: ObjectiveStep, message: String },
}

/// An event of the objective of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectiveStep {
    /// The run began, or was taken up again.
    Started,
    /// The next fresh context of the agent begins.
    Context,
    /// The run's own check agreed with the agent.
    CheckPassed,
    /// The run's own check disagreed with the agent.
    CheckFailed,
    /// The objective is reached.
    Reached,
    /// The run stopped before that.
    Stopped,
}

impl ObjectiveStep {
    /// The spelling in the trajectory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Context => "context",
            Self::CheckPassed => "check_passed",
            Self::CheckFailed => "check_failed",
            Self::Reached => "reached",
            Self::Stopped => "stopped",
        }
    }

    const fn kind(self) -> (Kind, Option<Category>) {
        match self {
            Self::Started | Self::Context | Self::CheckPassed | Self::Reached => (Kind::Init, None),
            Self::CheckFailed => (Kind::Error, Some(Category::TestFail)),
            Self::Stopped => (Kind::Warn, None),
        }
    }
}

/// The origin of a restored ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `harness-tasks.json.bak`
    Backup,
    /// The journal, a copy outside of the state root.
    Journal,
    /// The memory of this process.
    Memory,
}

impl Source {
    /// Returns the name that the trajectory uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Journal => "journal",
            Self::Memory => "memory",
        }
    }

    /// Returns the phrase that the log uses.
    pub const fn action(self) -> &'static str {
        match self {
            Self::Backup => "restore harness-tasks.json.bak",
            Self::Journal => "restore harness-tasks.json from the journal",
            Self::Memory => "write harness-tasks.json back",
        }
    }
}

impl Fact {
    /// Returns the log line, for facts that have one. Edits of the plan and heartbeats have none,
    /// because they would hide the lines that people look for.
    pub fn log_line(&self, time: Timestamp, session: u64) -> Option<LogLine> {
        let line = |kind, task: Option<&TaskId>, category, message: String| {
            Some(LogLine { time, session, kind, task: task.cloned(), category, message })
        };
        let short = |c: &Option<CommitId>| c.as_ref().map_or("none", |c| c.short()).to_owned();
        match self {
            Self::Initialized { project } => {
                line(Kind::Init, None, None, format!("Harness initialized for project {project}"))
            }
            Self::HealthCheck { passed } => {
                let verdict = if *passed { "PASS" } else { "FAIL" };
                line(Kind::Init, None, None, format!("Environment health check: {verdict}"))
            }
            Self::LockAcquired { pid } => {
                line(Kind::Lock, None, None, format!("acquired (pid={pid})"))
            }
            Self::LockReleased { .. } => line(Kind::Lock, None, None, "released".into()),
            Self::Stats(stats) => line(Kind::Stats, None, None, stats.to_string()),
            Self::Claimed { task, title, base, .. } => {
                line(Kind::Starting, Some(task), None, format!("{title} (base={})", short(base)))
            }
            Self::Checkpointed { task, step, total, description } => {
                let message = format!("step={step}/{total} \"{description}\"");
                line(Kind::Checkpoint, Some(task), None, message)
            }
            Self::Completed { task, commit, .. } => {
                line(Kind::Completed, Some(task), None, format!("(commit {})", short(commit)))
            }
            Self::Failed { task, category, message, .. } => {
                line(Kind::Error, Some(task), Some(*category), message.clone())
            }
            Self::RolledBack { task, commit } => {
                let message = format!("git reset --hard {}", commit.short());
                line(Kind::Rollback, Some(task), None, message)
            }
            Self::Recovered { task, action, reason } => {
                let message = format!("action=\"{action}\" reason=\"{reason}\"");
                line(Kind::Recovery, Some(task), None, message)
            }
            Self::GatePassed { phase, by } => {
                let by = by.as_ref().map(|by| format!(", approved by {by}")).unwrap_or_default();
                line(Kind::Init, None, None, format!("Gate passed: {phase}{by}"))
            }
            Self::LedgerRestored { from, reason } => {
                let message = format!("action=\"{}\" reason=\"{reason}\"", from.action());
                line(Kind::Recovery, None, None, message)
            }
            Self::FilesRestored { what, reason } => {
                let message = format!("action=\"restore {what}\" reason=\"{reason}\"");
                line(Kind::Recovery, None, None, message)
            }
            Self::Problem { task, category, message } => {
                line(Kind::Error, task.as_ref(), Some(*category), message.clone())
            }
            Self::Warned { task, message } | Self::Flagged { task, message, .. } => {
                line(Kind::Warn, task.as_ref(), None, message.clone())
            }
            Self::Acknowledged { count } => {
                let message = format!("the operator acknowledged {count} alert(s)");
                line(Kind::Warn, None, None, message)
            }
            Self::Objective { step, message, .. } => {
                let (kind, category) = step.kind();
                line(kind, None, category, format!("Objective {message}"))
            }
            Self::Added { .. }
            | Self::Edited { .. }
            | Self::Removed { .. }
            | Self::PlanImported { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanReset { .. }
            | Self::Renewed { .. }
            | Self::Intended { .. }
            | Self::IntentVoided { .. } => None,
        }
    }

    /// Returns the trajectory entry: `event_type`, `ts` and the fields of the fact.
    pub fn trajectory(&self, time: Timestamp) -> Value {
        let (event_type, fields) = self.event();
        let mut entry = Map::new();
        entry.insert("event_type".into(), event_type.into());
        entry.insert("ts".into(), time.to_string().into());
        if let Value::Object(fields) = fields {
            entry.extend(fields.into_iter().filter(|(_, v)| !v.is_null()));
        }
        Value::Object(entry)
    }

    /// Returns the name and the fields of this fact, as the trajectory stores them.
    pub fn event(&self) -> (&'static str, Value) {
        match self {
            Self::Initialized { project } => ("init", json!({ "project": project })),
            Self::HealthCheck { passed } => ("health_check", json!({ "passed": passed })),
            Self::LockAcquired { pid } => ("session_start", json!({ "pid": pid })),
            Self::LockReleased { pid } => ("session_end", json!({ "pid": pid })),
            Self::Stats(stats) => ("stats", json!({ "message": stats.to_string() })),
            Self::Added { task, title } => ("task_add", json!({ "task_id": task, "title": title })),
            Self::Edited { task } => ("task_edit", json!({ "task_id": task })),
            Self::Removed { task } => ("task_remove", json!({ "task_id": task })),
            Self::PlanImported { goal, task_count }
            | Self::PlanReplaced { goal, task_count, .. } => {
                ("plan_import", json!({ "goal": goal, "task_count": task_count }))
            }
            Self::PlanReset { task_count } => ("plan_reset", json!({ "task_count": task_count })),
            Self::Claimed { task, worker, epoch, base, .. } => (
                "task_claim",
                json!({ "task_id": task, "worker_id": worker, "epoch": epoch, "base": base }),
            ),
            Self::Renewed { task, expires_at } => {
                ("task_renew", json!({ "task_id": task, "lease_expires_at": expires_at }))
            }
            Self::Checkpointed { task, step, total, description } => (
                "task_checkpoint",
                json!({ "task_id": task, "step": step, "total": total, "description": description }),
            ),
            Self::Intended { task, intent } => {
                let intent = match intent {
                    Intent::Rollback { .. } => "rollback",
                    Intent::Land { .. } => "land",
                };
                ("task_intend", json!({ "task_id": task, "intent": intent }))
            }
            Self::IntentVoided { task } => ("task_intend", json!({ "task_id": task })),
            Self::Completed { task, worker, commit } => {
                ("task_complete", json!({ "task_id": task, "worker_id": worker, "commit": commit }))
            }
            Self::Failed { task, category, message, retryable } => (
                "task_fail",
                json!({ "task_id": task, "category": category, "message": message,
                        "retryable": retryable }),
            ),
            Self::RolledBack { task, commit } => {
                ("task_rollback", json!({ "task_id": task, "commit": commit }))
            }
            Self::Recovered { task, action, reason } => {
                ("task_recover", json!({ "task_id": task, "action": action, "reason": reason }))
            }
            Self::GatePassed { phase, by } => {
                ("gate_pass", json!({ "phase": phase, "approved_by": by }))
            }
            Self::LedgerRestored { from, reason } => {
                ("ledger_restore", json!({ "from": from.name(), "reason": reason }))
            }
            Self::FilesRestored { what, reason } => {
                ("files_restore", json!({ "what": what, "reason": reason }))
            }
            Self::Problem { task, category, message } => {
                ("problem", json!({ "task_id": task, "category": category, "message": message }))
            }
            Self::Warned { task, message } => {
                ("warn", json!({ "task_id": task, "message": message }))
            }
            Self::Flagged { task, flag, message } => {
                ("flag", json!({ "task_id": task, "flag": flag, "message": message }))
            }
            Self::Acknowledged { count } => ("acknowledge", json!({ "count": count })),
            Self::Objective { run, step, message } => {
                ("objective", json!({ "run_id": run, "step": step.name(), "message": message }))
            }
        }
    }
}
