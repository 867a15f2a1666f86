//! Parses the fields of a request. The error messages are published.

use harness_core::{
    Category, RunId, TaskId,
    category::UnknownCategory,
    command::{Add, Authority, ConfigureSession, Edit, EditPhase, ImportMode, SessionKey},
    machine::judge::ClientWork,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    BudgetRequest, Inquiry, PlanText, QuestionReply, Request, SentMessage, Subscribe,
    TaskCheckpoint, TaskClaim, TaskComplete, TaskFail, TaskReason, TaskRenew, Verb,
    WorkerTransaction, fields::Fields,
};

impl Request {
    pub(super) fn read(verb: Verb, fields: &Fields) -> Result<Self, String> {
        Ok(match verb {
            Verb::Ping => Self::Ping,
            Verb::GetState => Self::GetState,
            Verb::Status => Self::Status { event_count: fields.number("event_count")? },
            Verb::PlanImport => Self::PlanImport(plan(fields)?),
            Verb::PlanReset => Self::PlanReset,
            Verb::TaskClaim => Self::TaskClaim(TaskClaim {
                worker_id: fields.worker()?,
                role: fields.text("role")?,
                labels: fields.texts("labels")?.unwrap_or_default(),
                wait_ms: fields.number("wait_ms")?,
                lease_seconds: fields.number("lease_seconds")?,
            }),
            Verb::PhaseEdit => Self::PhaseEdit(phase(fields)?),
            Verb::PhaseRemove => Self::PhaseRemove { name: fields.required("name")? },
            Verb::SessionConfigure => Self::SessionConfigure(configure(fields)?),
            Verb::TaskAdd => Self::TaskAdd(read_add(fields)?),
            Verb::TaskEdit => {
                let edit = read_edit(fields, fields.task()?)?;
                Self::TaskEdit(Edit { title: fields.text("title")?, ..edit })
            }
            Verb::TaskRemove => Self::TaskRemove { task_id: fields.task()? },
            Verb::TaskRetry => Self::TaskRetry(reason(fields)?),
            Verb::TaskRelease => Self::TaskRelease(reason(fields)?),
            Verb::TaskCheckpoint => Self::TaskCheckpoint(TaskCheckpoint {
                holder: fields.holder()?,
                step: fields.required_small("step")?,
                total: fields.required_small("total")?,
                description: fields.required("description")?,
            }),
            Verb::TaskRenew => Self::TaskRenew(TaskRenew {
                holder: fields.holder()?,
                lease_seconds: fields.number("lease_seconds")?,
            }),
            Verb::TaskComplete => Self::TaskComplete(complete(fields)?),
            Verb::TaskFail => Self::TaskFail(read_fail(fields)?),
            Verb::Ask => Self::Ask(inquiry(fields)?),
            Verb::Questions => Self::Questions,
            Verb::Reply => Self::Reply(read_reply(fields)?),
            Verb::Send => Self::Send(SentMessage {
                content: fields.content()?,
                agent: fields.text("agent")?,
                run_id: fields.text("run_id")?,
            }),
            Verb::Ack => Self::Ack,
            Verb::Kick => Self::Kick,
            Verb::Pause => Self::Pause,
            Verb::Resume => Self::Resume,
            Verb::Budget => Self::Budget(budget(fields)?),
            Verb::Abort => Self::Abort { reason: fields.text("reason")? },
            Verb::Subscribe => Self::Subscribe(subscribe(fields)?),
            Verb::May => Self::May { operation: fields.text("operation")? },
            Verb::WorkerTransaction => Self::WorkerTransaction(transaction(fields)?),
            Verb::Shutdown => Self::Shutdown,
            Verb::Yield => Self::Yield,
        })
    }
}

fn transaction(fields: &Fields) -> Result<WorkerTransaction, String> {
    let number = fields.number("number")?;
    Ok(WorkerTransaction {
        form: fields.required("form")?,
        by: fields.required("by")?,
        number: number.ok_or("number is required")?,
        commands: fields.get("commands").cloned().unwrap_or_default(),
        since: fields.text("since")?,
    })
}

fn plan(fields: &Fields) -> Result<PlanText, String> {
    let content = fields.content()?;
    let flags = (fields.flag("replace")?, fields.flag("merge")?, fields.flag("update")?);
    let mode = match flags {
        (true, true, _) => return Err("replace and merge exclude each other".to_owned()),
        (true, false, true) => return Err("replace and update exclude each other".to_owned()),
        (true, false, false) => ImportMode::Replace,
        (false, _, true) => ImportMode::Update,
        (false, true, false) => ImportMode::Merge,
        (false, false, false) => ImportMode::IfFinished,
    };
    Ok(PlanText { content, mode })
}

fn phase(fields: &Fields) -> Result<EditPhase, String> {
    Ok(EditPhase {
        name: fields.required("name")?,
        gate: fields.text("gate")?,
        gate_timeout_seconds: fields.number("gate_timeout")?,
        approve: fields.optional_flag("approve")?,
        before: fields.text("before")?,
        by: None,
    })
}

/// Parses a key and its value, which may be a text or a number.
fn configure(fields: &Fields) -> Result<ConfigureSession, String> {
    let name = fields.required("key")?;
    let known = || SessionKey::ALL.map(SessionKey::name).join(", ");
    let key = SessionKey::parse(&name);
    let key = key.ok_or_else(|| format!("key: {name:?} is not one of {}", known()))?;
    let value = match fields.get("value") {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => fields.text("value")?,
    };
    Ok(ConfigureSession { key, value, by: None })
}

fn reason(fields: &Fields) -> Result<TaskReason, String> {
    Ok(TaskReason { task_id: fields.task()?, reason: fields.text("reason")? })
}

fn complete(fields: &Fields) -> Result<TaskComplete, String> {
    Ok(TaskComplete {
        holder: fields.holder()?,
        authority: match fields.flag("force")? {
            true => Authority::Force,
            false => Authority::Holder,
        },
        work: match fields.flag("commit")? {
            true => ClientWork::Committed,
            false => ClientWork::Left,
        },
    })
}

fn read_fail(fields: &Fields) -> Result<TaskFail, String> {
    let holder = fields.holder()?;
    let message = fields.required("message")?;
    let category = match fields.text("category")? {
        None => Category::TaskExec,
        Some(text) => text.parse().map_err(|why: UnknownCategory| why.to_string())?,
    };
    Ok(TaskFail { holder, category, message })
}

fn inquiry(fields: &Fields) -> Result<Inquiry, String> {
    let question = fields.text("question")?.filter(|question| !question.trim().is_empty());
    Ok(Inquiry {
        question: question.ok_or("question is required")?,
        choices: fields.texts("choices")?.unwrap_or_default(),
        allow_text: fields.flag("allow_text")?,
        timeout_seconds: fields.number("timeout")?,
        task_id: fields.text("task_id")?.and_then(|id| TaskId::parse(&id).ok()),
    })
}

/// Parses a reply. A choice is an answer too.
fn read_reply(fields: &Fields) -> Result<QuestionReply, String> {
    let prompt_id = fields.required("prompt_id")?;
    let choice = fields.text("choice")?;
    let content = match (fields.text("content")?, &choice) {
        (Some(content), _) if !content.is_empty() => content,
        (_, Some(choice)) => choice.clone(),
        (_, None) => return Err("content required".to_owned()),
    };
    Ok(QuestionReply { prompt_id, content, choice })
}

fn budget(fields: &Fields) -> Result<BudgetRequest, String> {
    let run_id = match fields.text("run_id")? {
        Some(name) => Some(RunId::parse(&name).map_err(|why| format!("run_id: {why}"))?),
        None => None,
    };
    Ok(BudgetRequest {
        run_id,
        max_cost: fields.decimal("max_cost")?,
        max_tokens: fields.number("max_tokens")?,
        max_duration: fields.number("max_duration")?,
    })
}

fn subscribe(fields: &Fields) -> Result<Subscribe, String> {
    let filter = match fields.get("filter") {
        Some(Value::String(one)) => Some(vec![one.clone()]),
        _ => fields.texts("filter")?,
    };
    let since = fields.text("since")?.map(|id| Uuid::parse_str(&id)).transpose();
    Ok(Subscribe { filter, since: since.map_err(|_| "since must be the id of an event")? })
}

fn read_add(fields: &Fields) -> Result<Add, String> {
    let title = fields.required("title")?;
    let id = match fields.text("id")? {
        Some(id) => Some(TaskId::parse(&id).map_err(|why| format!("id: {why}"))?),
        None => None,
    };
    let fields = read_edit(fields, id.clone().unwrap_or_else(|| TaskId::numbered(0)))?;
    Ok(Add { id, title, fields })
}

/// Parses all fields except the title.
fn read_edit(fields: &Fields, task: TaskId) -> Result<Edit, String> {
    let depends_on = match fields.texts("depends_on")? {
        None => None,
        Some(ids) => Some(
            ids.iter()
                .map(|id| TaskId::parse(id).map_err(|why| format!("depends_on: {why}")))
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Edit {
        task,
        title: None,
        priority: fields.text("priority")?,
        depends_on,
        validation_command: fields.text("validate")?,
        validation_timeout_seconds: fields.number("timeout")?,
        validation_clean: fields.optional_flag("clean")?,
        validation_baseline: fields.optional_flag("baseline")?,
        protected: fields.texts("protected")?,
        attempt_timeout_seconds: fields.number("attempt_timeout")?,
        max_attempts: fields.small("max_attempts")?,
        cleanup: fields.text("cleanup")?,
        instructions: fields.text("instructions")?,
        role: fields.text("role")?,
        requires: fields.texts("requires")?,
        phase: fields.text("phase")?,
        by: None,
    })
}
