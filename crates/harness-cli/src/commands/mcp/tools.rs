//! The tools. Their doc comments are the descriptions that an agent reads.

use std::time::Duration;

use harness::{
    handoff,
    protocol::{Inquiry, Verb},
};
use harness_core::{
    TaskId,
    command::{Authority, Edit, ImportMode},
    machine::judge::ClientWork,
    plan::Plan,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    super::{
        Invocation, add, ask,
        plan::import,
        research, status,
        task::{
            checkpoint::{self, Done},
            claim, complete, fail,
            holder::Claimed,
        },
    },
    tool::{Answer, Call, Effect, Tool},
};
use crate::{
    client::ASK_TOOL,
    failure::{Failure, Result},
    store::task_id,
    worker,
};

/// The number of lines of a ledger that an agent receives.
const STATUS_ROWS: usize = 60;

pub(super) fn all() -> Vec<Tool> {
    vec![
        Tool::of::<Status>(),
        Tool::of::<TaskClaim>(),
        Tool::of::<TaskCheckpoint>(),
        Tool::of::<TaskComplete>(),
        Tool::of::<TaskFail>(),
        Tool::of::<TaskAdd>(),
        Tool::of::<PlanImport>(),
        Tool::of::<HandoffWrite>(),
        Tool::of::<FinalizeResearch>(),
        Tool::of::<AskUser>(),
    ]
}

fn parsed(id: &str) -> Result<TaskId> {
    task_id(id).map_err(Failure::usage)
}

/// Returns the named task, or the task of the environment.
fn claimed(task_id: Option<&str>) -> Result<Claimed> {
    Ok(Claimed::of(task_id.map(parsed).transpose()?))
}

/// Show the progress of the work: counts, the tasks with their states and holders, runs, and the
/// last lines of the log. Use it to find out what is done, what is next and what failed. It changes
/// nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Status {}

impl Call for Status {
    const NAME: &'static str = "harness_status";
    const EFFECT: Effect = Effect::Reads;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        Ok(Answer::Text(status::text(invocation, STATUS_ROWS)?))
    }
}

/// Claim the next task that is ready, as a worker. Returns the task and its instructions, or null if
/// nothing is ready. If you already hold a task, it returns that one. Not for an agent that
/// `harness run` started: that one has its task.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskClaim {
    /// Only tasks of this role, or without a role
    #[serde(default)]
    role: Option<String>,
    /// Labels of the worker; tasks that require them are eligible too
    #[serde(default)]
    labels: Vec<String>,
    /// Wait up to this many seconds until one is ready
    #[serde(default)]
    wait_seconds: Option<u64>,
}

impl Call for TaskClaim {
    const NAME: &'static str = Verb::TaskClaim.name();
    const EFFECT: Effect = Effect::Settles;
    const WAITS_FOR: Option<&'static str> = Some("waiting for a task");

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let wait = self.wait_seconds.map(Duration::from_secs);
        let worker = worker::Choice::default();
        Answer::data(&claim::claim(invocation, &worker, self.role, self.labels, wait)?)
    }
}

/// Record progress on your task, and renew its lease. Call it after each step: if your context ends,
/// only these steps are known of your work.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskCheckpoint {
    /// The number of the finished step, from 1
    step: u32,
    /// The total number of steps
    total: u32,
    /// What was done, in a line
    description: String,
    /// The id that task_claim gave you. An agent that `harness run` started leaves it out: it has one
    /// task
    #[serde(default)]
    task_id: Option<String>,
}

impl Call for TaskCheckpoint {
    const NAME: &'static str = Verb::TaskCheckpoint.name();
    const EFFECT: Effect = Effect::Adds;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let claimed = claimed(self.task_id.as_deref())?;
        let Self { step, total, description, .. } = self;
        let done = Done { description, step, total };
        Answer::data(&checkpoint::checkpoint(invocation, &claimed, done)?)
    }
}

/// Report that your task is done. Its check is run, and the task counts as completed only if the check
/// passes. If not, you get the end of its output, and the task stays yours: fix it and call again.
/// `"requested": true` means that the check is run as soon as you end your turn.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskComplete {
    /// The id that task_claim gave you. An agent that `harness run` started leaves it out: it has one
    /// task
    #[serde(default)]
    task_id: Option<String>,
}

impl Call for TaskComplete {
    const NAME: &'static str = Verb::TaskComplete.name();
    const EFFECT: Effect = Effect::Settles;
    const WAITS_FOR: Option<&'static str> = Some("waiting for the check");

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let claimed = claimed(self.task_id.as_deref())?;
        Answer::data(&complete::complete(
            invocation,
            &claimed,
            Authority::Holder,
            ClientWork::Left,
        )?)
    }
}

/// Mark your task as failed. Use it only if you cannot finish the task: it counts an attempt, and
/// another one may follow. This does not undo your changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskFail {
    /// The reason, for the next attempt: what you did, and what prevented it
    message: String,
    /// ENV_SETUP, CONFIG, TASK_EXEC, TEST_FAIL or TIMEOUT; TASK_EXEC by default
    #[serde(default)]
    category: Option<String>,
    /// The id that task_claim gave you. An agent that `harness run` started leaves it out: it has one
    /// task
    #[serde(default)]
    task_id: Option<String>,
}

impl Call for TaskFail {
    const NAME: &'static str = Verb::TaskFail.name();
    const EFFECT: Effect = Effect::Adds;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let claimed = claimed(self.task_id.as_deref())?;
        let category = self.category.as_deref().unwrap_or("TASK_EXEC");
        let category = fail::category(category).map_err(Failure::usage)?;
        Answer::data(&fail::fail(invocation, &claimed, category, self.message)?)
    }
}

/// Add a task to the ledger, for work that you found and that is not part of your own task. Give it a
/// check, the command that proves that it is done: `harness run` does not work on a task without one.
/// Returns its id.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskAdd {
    /// What is to be done, in a line
    title: String,
    /// The command that proves that it is done, run by `sh -c` in the work tree
    #[serde(default)]
    validate: Option<String>,
    /// Everything that its agent needs to know
    #[serde(default)]
    instructions: Option<String>,
    /// P0 (first), P1 or P2
    #[serde(default)]
    priority: Option<String>,
    /// Ids of the tasks that must be completed first
    #[serde(default)]
    depends_on: Vec<String>,
    /// Globs of files that its attempts must not change
    #[serde(default)]
    protected: Option<Vec<String>>,
    /// Only hand it to workers of this role, or without a role
    #[serde(default)]
    role: Option<String>,
    /// Labels that a worker must have to claim it
    #[serde(default)]
    requires: Option<Vec<String>>,
    /// The phase that it belongs to
    #[serde(default)]
    phase: Option<String>,
    /// Number of attempts before it has failed for good
    #[serde(default)]
    max_attempts: Option<u32>,
    /// An id of your own instead of task-NNN
    #[serde(default)]
    task_id: Option<String>,
}

impl Call for TaskAdd {
    const NAME: &'static str = Verb::TaskAdd.name();
    const EFFECT: Effect = Effect::Adds;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let id = self.task_id.as_deref().map(parsed).transpose()?;
        let depends_on: Result<Vec<TaskId>> = self.depends_on.iter().map(|id| parsed(id)).collect();
        let fields = Edit {
            task: add::placeholder(id.as_ref()),
            title: None,
            priority: self.priority,
            depends_on: Some(depends_on?),
            validation_command: self.validate,
            validation_timeout_seconds: None,
            validation_clean: None,
            validation_baseline: None,
            protected: self.protected,
            attempt_timeout_seconds: None,
            max_attempts: self.max_attempts,
            cleanup: None,
            instructions: self.instructions,
            role: self.role,
            requires: self.requires,
            phase: self.phase,
            by: None,
        };
        let fields = add::with_usual_check(invocation, &invocation.root()?, fields);
        let id = add::add(invocation, self.title, id, fields)?;
        Ok(Answer::Data(json!({ "task_id": id })))
    }
}

/// Import a plan as tasks of the ledger; creates the ledger if there is none. A plan is one
/// JSON object in a fenced block of any text: ```json {"goal": "...", "tasks": {"ID": {"description":
/// "...", "dependencies": ["ID"], "instructions": "...", "validation": {"command": "..."}}}} ```.
/// Give each task a check (validation), and instructions that need nothing else of the plan.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanImport {
    /// The text that holds the plan, in a fenced block
    content: String,
    /// What happens to the present tasks. if_finished: refuse if any is unfinished; merge: keep them,
    /// and add those whose ids are new
    #[serde(default)]
    mode: Mode,
}

#[derive(Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    IfFinished,
    Merge,
    // Refused to every tool. It is still read, so that a caller of an earlier version gets the reason.
    #[schemars(skip)]
    Replace,
}

impl Call for PlanImport {
    const NAME: &'static str = Verb::PlanImport.name();
    const EFFECT: Effect = Effect::Replaces;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let mode = match self.mode {
            Mode::IfFinished => ImportMode::IfFinished,
            Mode::Merge => ImportMode::Merge,
            Mode::Replace => ImportMode::Replace,
        };
        let plan = Plan::read(&self.content)?;
        Ok(Answer::Data(import::import(invocation, &self.content, plan, mode)?))
    }
}

/// Write down, in state/handoff.json, what your next context needs to know: it will remember nothing
/// else. This replaces the earlier text, so include everything. Call it whenever something is done,
/// and before your context is full.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HandoffWrite {
    /// Where in the work you are
    #[serde(default)]
    phase: Option<String>,
    /// What is done, oldest first
    #[serde(default)]
    completed: Vec<String>,
    /// What comes next
    #[serde(default)]
    next_step: Option<String>,
    /// Files to look at first, relative to the work tree
    #[serde(default)]
    critical_files: Vec<String>,
    /// Anything else: decisions, what did not work, wishes of the user
    #[serde(default)]
    memory_notes: Option<String>,
}

impl Call for HandoffWrite {
    const NAME: &'static str = "handoff_write";
    const EFFECT: Effect = Effect::Settles;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let root = invocation.root()?;
        let text = serde_json::to_string(&self)?;
        let given = serde_json::from_str(&invocation.secrets(&root).text(&text))?;
        match handoff::write(root.path(), &given)? {
            Ok(written) => {
                let handoff::Written { handoff, warnings } = written;
                Ok(Answer::Data(json!({ "handoff": handoff, "warnings": warnings })))
            }
            Err(why) => Err(Failure::usage(why)),
        }
    }
}

/// Collect the sources in the answers of search tools that you saved as search_results/*.json, each
/// once, into tasks/ID/research_overview.md. Call it when you have searched enough.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FinalizeResearch {
    /// The id of the folder below tasks/, if it is not that of your task; the ledger need not have a
    /// task of this id
    #[serde(default)]
    task_id: Option<String>,
}

impl Call for FinalizeResearch {
    const NAME: &'static str = "finalize_research";
    const EFFECT: Effect = Effect::Settles;

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let task = claimed(self.task_id.as_deref())?.task(&invocation.env)?;
        Answer::data(&research::take(invocation, &task)?)
    }
}

/// Ask the user, and wait for the answer, which may take long. Use it only for what the user alone can
/// decide, and only if nobody reads your messages: in a conversation, ask there.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskUser {
    /// The question, with everything that is needed to answer it
    question: String,
    /// The answers to choose from
    #[serde(default)]
    choices: Vec<String>,
    /// Also accept answers that are not among the choices
    #[serde(default)]
    allow_text: bool,
    /// Give up after this long
    #[serde(default)]
    timeout_seconds: Option<u64>,
}

impl Call for AskUser {
    const NAME: &'static str = ASK_TOOL;
    const EFFECT: Effect = Effect::Adds;
    const WAITS_FOR: Option<&'static str> = Some("waiting for a person to answer");

    fn call(self, invocation: &Invocation) -> Result<Answer> {
        let Self { question, choices, allow_text, timeout_seconds } = self;
        let task_id = ask::asking_task(&invocation.env);
        let inquiry = Inquiry { question, choices, allow_text, timeout_seconds, task_id };
        Answer::data(&ask::ask(invocation, inquiry)?)
    }
}
