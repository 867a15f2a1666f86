//! The shapes on the wire, apart from the domain types.

use std::{borrow::Cow, io, path::Path};

use harness_core::{
    Command, Holder, Ledger, Refusal, Reply, Task, TaskId, Timestamp,
    command::{Claimed, Code, Edit, RefusalKind},
    format,
    machine::judge::{Fault, NotDone},
    task::Status,
};
use serde_json::{Map, Value, json};

pub use crate::hub::lagged;
use crate::{
    error::Error,
    flows::client_tree::ForeignTree,
    process::Redactor,
    store::{StoreError, WriterError},
    workspace::WorkspaceError,
};

/// What `ping` calls this form of the conversation.
pub const PROTOCOL: u64 = 1;

/// A longer line is not read.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a claim through the wire lasts if the task does not say.
const TIMEOUT_SECONDS: u64 = harness_core::lease::CLIENT_LEASE_SECONDS;

/// Fields of requests that are no words: ids, and command lines, which the store refuses if they hold
/// a secret. With a mark in it, a command line would do something else.
const NO_WORDS: [&str; 8] =
    ["command", "root", "task_id", "worker_id", "prompt_id", "run_id", "validate", "cleanup"];

/// Takes secrets out of a request, before it is sent and where it arrives. The plan of an import is
/// left as it is: the store takes them out of its words, and refuses its command lines.
pub fn hide(request: &mut Value, secrets: &Redactor) {
    let is_import = request["command"] == "plan_import";
    let Some(fields) = request.as_object_mut() else { return };
    for (name, value) in fields {
        let is_plan = is_import && name == "content";
        if !is_plan && !NO_WORDS.contains(&name.as_str()) {
            hide_in(value, secrets);
        }
    }
}

fn hide_in(value: &mut Value, secrets: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(hidden) = secrets.text(text) {
                *text = hidden;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide_in(field, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A task as clients know it: ten keys that are always there, in this order, under the names of
/// the wire; further fields of the ledger follow under their own.
pub fn task(task: &Task) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("id", json!(task.id));
    put("description", json!(task.title));
    put("status", json!(status(task.status)));
    put("dependencies", json!(task.depends_on));
    put("started_at", json!(task.claimed_at));
    put("completed_at", json!(task.completed_at));
    put("claimed_by", json!(task.claimed_by));
    put("timeout_seconds", json!(task.timeout_seconds.unwrap_or(TIMEOUT_SECONDS)));
    put("instructions", json!(task.instructions));
    put("role", json!(task.role));
    for (key, value) in format::task_object(task) {
        let renamed = matches!(key.as_str(), "title" | "depends_on" | "claimed_at");
        if !renamed && !object.contains_key(&key) {
            object.insert(key, value);
        }
    }
    Value::Object(object)
}

/// What a claim answers, `None` where nothing is ready.
pub fn claimed(claimed: Option<&Claimed>) -> Value {
    match claimed {
        None => json!({ "task": null }),
        Some(claimed) => json!({
            "task": task(&claimed.task),
            "is_retry": claimed.is_retry,
            "is_reclaim": claimed.is_reclaim,
        }),
    }
}

/// The word for it that clients know.
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::InProgress => "running",
        Status::Completed => "completed",
        Status::Failed => "failed",
    }
}

/// The ledger as `get_state` gives it: the tasks by id, in the ledger's order.
pub fn state(ledger: &Ledger) -> Value {
    let tasks: Map<String, Value> =
        ledger.tasks().map(|of| (of.id.to_string(), task(of))).collect();
    json!({ "goal": ledger.head().goal, "tasks": tasks })
}

/// The answer to a request that was granted.
pub fn ok(data: Value) -> Value {
    json!({ "status": "ok", "data": data })
}

/// Why a request was not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// What went wrong.
    pub message: String,
    /// The same in a word that programs can rely on.
    pub code: Code,
    /// Who can mend it.
    pub fault: Fault,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Refused {
    /// The request is at fault.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { message: message.into(), code, ..Self::default() }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The answer.
    pub fn line(&self) -> Value {
        let mut line =
            json!({ "status": "error", "message": self.message, "code": self.code.name() });
        if let Some(word) = word(self.fault) {
            line["fault"] = word.into();
        }
        if !self.hints.is_empty() {
            line["hints"] = json!(self.hints);
        }
        line
    }

    /// What such an answer says; `None` for any other.
    pub fn read(line: &Value) -> Option<Self> {
        if line["status"] != "error" {
            return None;
        }
        let message = line["message"].as_str()?.to_owned();
        // An older host sends none, and a newer one may know more.
        let code = line["code"].as_str().and_then(Code::parse).unwrap_or_default();
        let said = line["fault"].as_str();
        let mut known = [Fault::Config, Fault::Stopped].into_iter();
        let fault = known.find(|fault| said == word(*fault)).unwrap_or_default();
        let hints = line["hints"].as_array().into_iter().flatten();
        let hints = hints.filter_map(|hint| hint.as_str().map(str::to_owned)).collect();
        Some(Self { message, code, fault, hints })
    }
}

fn word(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Request => None,
        Fault::Config => Some("config"),
        Fault::Stopped => Some("stopped"),
    }
}

/// What is wrong with the request, in words.
impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self::new(Code::BadRequest, message)
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<NotDone> for Refused {
    fn from(NotDone { fault, message, hints }: NotDone) -> Self {
        let code = match fault {
            Fault::Request => Code::CheckFailed,
            Fault::Config => Code::Config,
            Fault::Stopped => Code::Stopped,
        };
        Self { message, code, fault, hints }
    }
}

impl From<ForeignTree> for Refused {
    fn from(why: ForeignTree) -> Self {
        NotDone::from(why).into()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Commit(why) => WriterError::Store(why).into(),
            Error::Workspace(why) => why.into(),
            other => other.to_string().into(),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let is_config = refusal.kind() == RefusalKind::Config;
        let fault = if is_config { Fault::Config } else { Fault::Request };
        let refused = Self { fault, ..Self::new(refusal.code(), refusal.to_string()) };
        match refusal {
            Refusal::OnlyOperator { .. } => refused.hint(ONLY_OPERATOR),
            _ => refused,
        }
    }
}

/// What to do where only the operator may.
pub const ONLY_OPERATOR: &str = "run it in your own terminal";

impl From<WriterError> for Refused {
    fn from(error: WriterError) -> Self {
        let message = error.to_string();
        let (code, fault) = match error {
            WriterError::Refused(refusal) => return refusal.into(),
            WriterError::Store(why) => match *why {
                StoreError::Format(_) | StoreError::Unrecoverable { .. } => {
                    (Code::Config, Fault::Config)
                }
                StoreError::NoLedger { .. } => (Code::NoLedger, Fault::Request),
                _ => (Code::Failed, Fault::Request),
            },
            WriterError::Ended => (Code::Stopped, Fault::Request),
        };
        Self { message, code, fault, hints: Vec::new() }
    }
}

impl From<WorkspaceError> for Refused {
    fn from(error: WorkspaceError) -> Self {
        let fault = match &error {
            WorkspaceError::NotARepository { .. }
            | WorkspaceError::NoCommits
            | WorkspaceError::NoGit
            | WorkspaceError::Locked { .. }
            | WorkspaceError::Unsafe { .. } => Fault::Config,
            _ => Fault::Request,
        };
        let code = if fault == Fault::Config { Code::Config } else { Code::Failed };
        Self { message: error.to_string(), code, fault, hints: Vec::new() }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::new(Code::Failed, error.to_string())
    }
}

const ANOTHER_ROOT: &str = "This socket serves another root: ";

pub(super) fn another_root(root: &Path) -> Refused {
    Refused::new(Code::AnotherRoot, format!("{ANOTHER_ROOT}{}", root.display()))
}

/// Whether an error says that the host is that of another root than the request named.
pub fn is_of_another_root(message: &str) -> bool {
    message.starts_with(ANOTHER_ROOT)
}

pub(super) fn unknown_command(verb: &str) -> Refused {
    Refused::new(Code::UnknownCommand, format!("Unknown command: {verb}"))
}

const BUSY: &str = "Another harness session is active (pid=";

/// What a run says that has the ledger for itself.
pub(super) fn busy() -> Refused {
    Refused::new(Code::Busy, format!("{BUSY}{})", std::process::id()))
}

/// Whether an error says that the host is a run.
pub fn is_of_a_run(message: &str) -> bool {
    message.starts_with(BUSY)
}

/// A command as a request to a host; `None` for those that a client does not send.
pub fn request(command: &Command) -> Option<Value> {
    let (verb, fields) = match command {
        Command::Add(add) => {
            let mut fields = edit(&add.fields);
            put(&mut fields, "title", Some(&add.title));
            put(&mut fields, "id", add.id.as_ref());
            ("task_add", fields)
        }
        Command::Edit(of) => {
            let mut fields = edit(of);
            put(&mut fields, "task_id", Some(&of.task));
            put(&mut fields, "title", of.title.as_ref());
            ("task_edit", fields)
        }
        Command::Remove(of) => ("task_remove", of_task(&of.task, None)),
        Command::Retry(of) => ("task_retry", of_task(&of.task, Some(&of.reason))),
        Command::Release(of) => ("task_release", of_task(&of.task, Some(&of.reason))),
        Command::Checkpoint(of) => {
            let mut fields = of_holder(&of.holder);
            put(&mut fields, "step", Some(of.step));
            put(&mut fields, "total", Some(of.total));
            put(&mut fields, "description", Some(&of.description));
            ("task_checkpoint", fields)
        }
        Command::Renew(of) => ("task_renew", of_holder(&of.holder)),
        Command::Fail(of) => {
            let mut fields = of_holder(&of.holder);
            put(&mut fields, "category", Some(of.category));
            put(&mut fields, "message", Some(&of.message));
            ("task_fail", fields)
        }
        Command::Complete(of) => {
            let mut fields = of_holder(&of.holder);
            let force = of.authority == harness_core::command::Authority::Force;
            put(&mut fields, "force", force.then_some(true));
            ("task_complete", fields)
        }
        Command::Claim(of) => {
            let mut fields = Map::new();
            put(&mut fields, "worker_id", Some(&of.worker));
            put(&mut fields, "role", of.role.as_ref());
            ("task_claim", fields)
        }
        Command::Reset => ("plan_reset", Map::new()),
        Command::Acknowledge => ("ack", Map::new()),
        // A plan goes as the text that it was read from.
        Command::Import(_)
        | Command::Upkeep
        | Command::Adopt(_)
        | Command::Intend(_)
        | Command::VoidIntent(_)
        | Command::BeginSession(_)
        | Command::EndSession(_)
        | Command::Note(_)
        | Command::Raise(_)
        | Command::PassGate(_)
        | Command::Run(_) => return None,
    };
    let mut request = Map::new();
    put(&mut request, "command", Some(verb));
    request.extend(fields);
    Some(Value::Object(request))
}

/// The reply that the `data` of an answer to such a request stands for.
pub fn reply(data: &Value) -> Option<Reply> {
    let task = TaskId::parse(data["task_id"].as_str()?).ok()?;
    if let Some(time) = data["lease_expires_at"].as_str() {
        return Some(Reply::Lease { task, expires_at: Timestamp::parse(time).ok()? });
    }
    match data["retryable"].as_bool() {
        Some(retryable) => Some(Reply::Failed { task, retryable }),
        None => Some(Reply::Task(task)),
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), json!(value));
    }
}

fn of_task(task: &TaskId, reason: Option<&String>) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "task_id", Some(task));
    put(&mut fields, "reason", reason);
    fields
}

fn of_holder(holder: &Holder) -> Map<String, Value> {
    let mut fields = of_task(&holder.task, None);
    put(&mut fields, "worker_id", Some(&holder.worker));
    put(&mut fields, "epoch", holder.epoch);
    fields
}

/// All but the task and its title.
fn edit(of: &Edit) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "priority", of.priority.as_ref());
    put(&mut fields, "depends_on", of.depends_on.as_ref());
    put(&mut fields, "validate", of.validation_command.as_ref());
    put(&mut fields, "timeout", of.validation_timeout_seconds);
    put(&mut fields, "attempt_timeout", of.attempt_timeout_seconds);
    put(&mut fields, "max_attempts", of.max_attempts);
    put(&mut fields, "cleanup", of.cleanup.as_ref());
    put(&mut fields, "instructions", of.instructions.as_ref());
    put(&mut fields, "role", of.role.as_ref());
    put(&mut fields, "phase", of.phase.as_ref());
    fields
}
