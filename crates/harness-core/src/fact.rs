//! Facts: things that happened. A fact is rendered as a log line and as a trajectory entry, and the
//! library renders it as a hub event. None of these is derived from another.

use serde::{Deserialize, Serialize};

use serde_json::{Map, Value, json};

use crate::{
    Category, CommitId, Epoch, Flag, RunId, TaskId, Timestamp, WorkerId,
    log::{Kind, LogLine},
    stats::Stats,
    task::Intent,
};

/// Something that became true. It is durable before it is reported to anybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    Line { task: TaskId, step: LineStep },
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
    Paused { by: Option<String> },
    Resumed { by: Option<String> },
    Objective { run: RunId, step: ObjectiveStep, message: String },
}

/// A step of a result on its way to the target branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineStep {
    /// It joined the line.
    Joined,
    /// It was put on top of another commit, or conflicts with it.
    Announced,
    /// Its check passed there.
    Green,
    /// Its check failed there.
    Red,
    /// Its worker is still at work.
    Renewed,
    /// It left the line.
    Left,
}

impl LineStep {
    /// The spelling in the trajectory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Announced => "announced",
            Self::Green => "green",
            Self::Red => "red",
            Self::Renewed => "renewed",
            Self::Left => "left",
        }
    }
}

/// An event of the objective of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        let (kind, category) = self.kind()?;
        let (task, message) = (self.logged_task().cloned(), self.message());
        Some(LogLine { time, session, kind, task, category, message })
    }

    /// Returns the kind of the log line; `None` if there is no line.
    fn kind(&self) -> Option<(Kind, Option<Category>)> {
        Some(match self {
            Self::Initialized { .. } | Self::HealthCheck { .. } | Self::GatePassed { .. } => {
                (Kind::Init, None)
            }
            Self::LockAcquired { .. } | Self::LockReleased { .. } => (Kind::Lock, None),
            Self::Stats(_) => (Kind::Stats, None),
            Self::Claimed { .. } => (Kind::Starting, None),
            Self::Checkpointed { .. } => (Kind::Checkpoint, None),
            Self::Completed { .. } => (Kind::Completed, None),
            Self::Failed { category, .. } | Self::Problem { category, .. } => {
                (Kind::Error, Some(*category))
            }
            Self::RolledBack { .. } => (Kind::Rollback, None),
            Self::Recovered { .. } | Self::LedgerRestored { .. } | Self::FilesRestored { .. } => {
                (Kind::Recovery, None)
            }
            Self::Warned { .. }
            | Self::Flagged { .. }
            | Self::Acknowledged { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. } => (Kind::Warn, None),
            Self::Objective { step, .. } => step.kind(),
            Self::Added { .. }
            | Self::Edited { .. }
            | Self::Removed { .. }
            | Self::PlanImported { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanReset { .. }
            | Self::Renewed { .. }
            | Self::Intended { .. }
            | Self::IntentVoided { .. }
            | Self::Line { .. } => return None,
        })
    }

    /// Returns the task that the log line names.
    fn logged_task(&self) -> Option<&TaskId> {
        match self {
            Self::Claimed { task, .. }
            | Self::Checkpointed { task, .. }
            | Self::Completed { task, .. }
            | Self::Failed { task, .. }
            | Self::RolledBack { task, .. }
            | Self::Recovered { task, .. }
            | Self::Added { task, .. }
            | Self::Edited { task }
            | Self::Removed { task }
            | Self::Renewed { task, .. }
            | Self::Intended { task, .. }
            | Self::IntentVoided { task }
            | Self::Line { task, .. } => Some(task),
            Self::Problem { task, .. } | Self::Warned { task, .. } | Self::Flagged { task, .. } => {
                task.as_ref()
            }
            Self::Initialized { .. }
            | Self::HealthCheck { .. }
            | Self::LockAcquired { .. }
            | Self::LockReleased { .. }
            | Self::Stats(_)
            | Self::GatePassed { .. }
            | Self::LedgerRestored { .. }
            | Self::FilesRestored { .. }
            | Self::Acknowledged { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::PlanImported { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanReset { .. }
            | Self::Objective { .. } => None,
        }
    }

    /// Returns the text of the log line, which is empty for facts without one.
    fn message(&self) -> String {
        let short = |c: &Option<CommitId>| c.as_ref().map_or("none", |c| c.short()).to_owned();
        match self {
            Self::Initialized { project } => format!("Harness initialized for project {project}"),
            Self::HealthCheck { passed: true } => "Environment health check: PASS".to_owned(),
            Self::HealthCheck { passed: false } => "Environment health check: FAIL".to_owned(),
            Self::LockAcquired { pid } => format!("acquired (pid={pid})"),
            Self::LockReleased { .. } => "released".to_owned(),
            Self::Stats(stats) => stats.to_string(),
            Self::Claimed { title, base, .. } => format!("{title} (base={})", short(base)),
            Self::Checkpointed { step, total, description, .. } => {
                format!("step={step}/{total} \"{description}\"")
            }
            Self::Completed { commit, .. } => format!("(commit {})", short(commit)),
            Self::RolledBack { commit, .. } => format!("git reset --hard {}", commit.short()),
            Self::Recovered { action, reason, .. } => recovery(action, reason),
            Self::LedgerRestored { from, reason } => recovery(from.action(), reason),
            Self::FilesRestored { what, reason } => recovery(&format!("restore {what}"), reason),
            Self::GatePassed { phase, by: None } => format!("Gate passed: {phase}"),
            Self::GatePassed { phase, by: Some(by) } => {
                format!("Gate passed: {phase}, approved by {by}")
            }
            Self::Failed { message, .. }
            | Self::Problem { message, .. }
            | Self::Warned { message, .. }
            | Self::Flagged { message, .. } => message.clone(),
            Self::Acknowledged { count } => format!("the operator acknowledged {count} alert(s)"),
            Self::Paused { by } => format!("claiming is paused{}", asked_by(by)),
            Self::Resumed { by } => format!("claiming goes on{}", asked_by(by)),
            Self::Objective { message, .. } => format!("Objective {message}"),
            Self::Added { .. }
            | Self::Edited { .. }
            | Self::Removed { .. }
            | Self::PlanImported { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanReset { .. }
            | Self::Renewed { .. }
            | Self::Intended { .. }
            | Self::IntentVoided { .. }
            | Self::Line { .. } => String::new(),
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
        (self.event_type(), self.fields())
    }

    fn event_type(&self) -> &'static str {
        match self {
            Self::Initialized { .. } => "init",
            Self::HealthCheck { .. } => "health_check",
            Self::LockAcquired { .. } => "session_start",
            Self::LockReleased { .. } => "session_end",
            Self::Stats(_) => "stats",
            Self::Added { .. } => "task_add",
            Self::Edited { .. } => "task_edit",
            Self::Removed { .. } => "task_remove",
            Self::PlanImported { .. } | Self::PlanReplaced { .. } => "plan_import",
            Self::PlanReset { .. } => "plan_reset",
            Self::Claimed { .. } => "task_claim",
            Self::Renewed { .. } => "task_renew",
            Self::Checkpointed { .. } => "task_checkpoint",
            Self::Intended { .. } | Self::IntentVoided { .. } => "task_intend",
            Self::Line { .. } => "task_landing",
            Self::Completed { .. } => "task_complete",
            Self::Failed { .. } => "task_fail",
            Self::RolledBack { .. } => "task_rollback",
            Self::Recovered { .. } => "task_recover",
            Self::GatePassed { .. } => "gate_pass",
            Self::LedgerRestored { .. } => "ledger_restore",
            Self::FilesRestored { .. } => "files_restore",
            Self::Problem { .. } => "problem",
            Self::Warned { .. } => "warn",
            Self::Flagged { .. } => "flag",
            Self::Acknowledged { .. } => "acknowledge",
            Self::Paused { .. } => "pause",
            Self::Resumed { .. } => "resume",
            Self::Objective { .. } => "objective",
        }
    }

    fn fields(&self) -> Value {
        match self {
            Self::Initialized { project } => json!({ "project": project }),
            Self::HealthCheck { passed } => json!({ "passed": passed }),
            Self::LockAcquired { pid } | Self::LockReleased { pid } => json!({ "pid": pid }),
            Self::Stats(stats) => json!({ "message": stats.to_string() }),
            Self::Added { task, title } => json!({ "task_id": task, "title": title }),
            Self::Edited { task } | Self::Removed { task } | Self::IntentVoided { task } => {
                json!({ "task_id": task })
            }
            Self::PlanImported { goal, task_count }
            | Self::PlanReplaced { goal, task_count, .. } => {
                json!({ "goal": goal, "task_count": task_count })
            }
            Self::PlanReset { task_count } => json!({ "task_count": task_count }),
            Self::Claimed { task, worker, epoch, base, .. } => {
                json!({ "task_id": task, "worker_id": worker, "epoch": epoch, "base": base })
            }
            Self::Renewed { task, expires_at } => {
                json!({ "task_id": task, "lease_expires_at": expires_at })
            }
            Self::Checkpointed { task, step, total, description } => {
                json!({ "task_id": task, "step": step, "total": total, "description": description })
            }
            Self::Intended { task, intent } => {
                json!({ "task_id": task, "intent": name_of(intent) })
            }
            Self::Line { task, step } => json!({ "task_id": task, "step": step.name() }),
            Self::Completed { task, worker, commit } => {
                json!({ "task_id": task, "worker_id": worker, "commit": commit })
            }
            Self::Failed { task, category, message, retryable } => json!({
                "task_id": task, "category": category, "message": message, "retryable": retryable
            }),
            Self::RolledBack { task, commit } => json!({ "task_id": task, "commit": commit }),
            Self::Recovered { task, action, reason } => {
                json!({ "task_id": task, "action": action, "reason": reason })
            }
            Self::GatePassed { phase, by } => json!({ "phase": phase, "approved_by": by }),
            Self::LedgerRestored { from, reason } => {
                json!({ "from": from.name(), "reason": reason })
            }
            Self::FilesRestored { what, reason } => json!({ "what": what, "reason": reason }),
            Self::Problem { task, category, message } => {
                json!({ "task_id": task, "category": category, "message": message })
            }
            Self::Warned { task, message } => json!({ "task_id": task, "message": message }),
            Self::Flagged { task, flag, message } => {
                json!({ "task_id": task, "flag": flag, "message": message })
            }
            Self::Acknowledged { count } => json!({ "count": count }),
            Self::Paused { by } | Self::Resumed { by } => json!({ "by": by }),
            Self::Objective { run, step, message } => {
                json!({ "run_id": run, "step": step.name(), "message": message })
            }
        }
    }
}

/// The name of an intent in the trajectory.
const fn name_of(intent: &Intent) -> &'static str {
    match intent {
        Intent::Rollback { .. } => "rollback",
        Intent::Land { .. } => "land",
    }
}

fn asked_by(by: &Option<String>) -> String {
    by.as_ref().map(|by| format!(", asked for by {by}")).unwrap_or_default()
}

fn recovery(action: &str, reason: &str) -> String {
    format!("action=\"{action}\" reason=\"{reason}\"")
}
