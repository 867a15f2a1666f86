//! Parses the payload of a plan strictly from JSON into a [`Plan`].
//!
//! An unknown key is left out and named in the warnings. Any other deviation refuses the whole plan
//! with the path of the field.

use indexmap::IndexMap;
use serde_json::Number;

use super::{Plan, PlanError, PlanPhase, PlanTask, PlanValidation, json::Json};
use crate::{
    TaskId,
    protect::problem_of_glob,
    task::{TaskSource, checked_labels},
};

/// A person reads the warnings. A plan with more of them is a different format.
const WARNINGS_MAX: usize = 50;
/// Above this value, a float cannot represent every second, so rounding it would invent some.
const FLOAT_SECONDS_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn plan(document: Json) -> Result<Plan, PlanError> {
    let mut warnings = Warnings::default();
    let mut fields = Fields::open("", document, &["goal", "tasks", "phases"], &mut warnings)?;
    let goal = fields.text("goal")?;
    let phases = fields.optional("phases");
    let entries = match fields.required("tasks")? {
        Json::Object(entries) => entries,
        other => return Err(wanted("tasks", "an object", &other)),
    };
    let mut tasks = IndexMap::with_capacity(entries.len());
    for (id, body) in entries {
        let id = TaskId::parse(&id).map_err(|bad| field("tasks", bad))?;
        let path = format!("tasks.{id}");
        let task = task(&path, body, &mut warnings)?;
        if tasks.insert(id, task).is_some() {
            return Err(field(&path, "duplicate id"));
        }
    }
    let phases = phases.map(|list| self::phases(list, &mut warnings)).transpose()?;
    if let Some(phases) = &phases {
        for (id, task) in &tasks {
            let Some(name) = task.phase.as_deref() else { continue };
            if !phases.iter().any(|phase| phase.name == name) {
                let problem = format!("there is no phase {name:?} in this plan");
                return Err(field(&format!("tasks.{id}.phase"), problem));
            }
        }
    }
    Ok(Plan { goal, tasks, phases, warnings: warnings.into_lines() })
}

fn phases(list: Json, warnings: &mut Warnings) -> Result<Vec<PlanPhase>, PlanError> {
    let items = match list {
        Json::List(items) => items,
        other => return Err(wanted("phases", "a list", &other)),
    };
    let mut phases: Vec<PlanPhase> = Vec::with_capacity(items.len());
    for (n, body) in items.into_iter().enumerate() {
        let path = format!("phases.{n}");
        let mut fields = Fields::open(&path, body, &["name", "gate", "approve"], warnings)?;
        let (name, approve) = (fields.text("name")?, fields.flag("approve")?.unwrap_or_default());
        if name.trim().is_empty() || phases.iter().any(|phase| phase.name == name) {
            return Err(field(&format!("{path}.name"), "must be a name of its own"));
        }
        let mut phase = PlanPhase { name, approve, ..PlanPhase::default() };
        if let Some(gate) = fields.optional("gate") {
            let path = format!("{path}.gate");
            let mut fields = Fields::open(&path, gate, &["command", "timeout_seconds"], warnings)?;
            phase.gate = Some(fields.text("command")?);
            phase.gate_timeout_seconds = fields.seconds("timeout_seconds")?;
        }
        phases.push(phase);
    }
    Ok(phases)
}

fn task(path: &str, body: Json, warnings: &mut Warnings) -> Result<PlanTask, PlanError> {
    const KEYS: &[&str] = &[
        "description",
        "dependencies",
        "timeout_seconds",
        "instructions",
        "role",
        "requires",
        "priority",
        "validation",
        "on_failure",
        "protected",
        "phase",
        "max_attempts",
        "source",
        "completed",
    ];
    let mut fields = Fields::open(path, body, KEYS, warnings)?;
    let task = PlanTask {
        description: fields.text("description")?,
        dependencies: fields.ids("dependencies")?,
        timeout_seconds: fields.seconds("timeout_seconds")?,
        instructions: fields.optional_text("instructions")?,
        role: fields.optional_text("role")?,
        requires: fields.labels("requires")?,
        priority: fields.priority("priority")?,
        protected: fields.globs("protected")?,
        phase: fields.optional_text("phase")?,
        max_attempts: fields.count("max_attempts")?,
        completed: fields.flag("completed")?.unwrap_or_default(),
        validation: None,
        cleanup: None,
        source: None,
    };
    let (checks, failure) = (fields.optional("validation"), fields.optional("on_failure"));
    if task.completed && checks.is_some() {
        let problem = "a task with a check is completed only by its check; leave one of them out";
        return Err(field(&format!("{path}.completed"), problem));
    }
    let source = fields.optional("source");
    Ok(PlanTask {
        source: source
            .map(|body| self::source(&format!("{path}.source"), body, warnings))
            .transpose()?,
        validation: checks
            .map(|body| validation(&format!("{path}.validation"), body, warnings))
            .transpose()?,
        cleanup: match failure {
            Some(body) => cleanup(&format!("{path}.on_failure"), body, warnings)?,
            None => None,
        },
        ..task
    })
}

fn validation(
    path: &str,
    body: Json,
    warnings: &mut Warnings,
) -> Result<PlanValidation, PlanError> {
    const KEYS: &[&str] = &["command", "timeout_seconds", "clean", "baseline"];
    let mut fields = Fields::open(path, body, KEYS, warnings)?;
    Ok(PlanValidation {
        command: fields.text("command")?,
        timeout_seconds: fields.seconds("timeout_seconds")?,
        clean: fields.flag("clean")?,
        baseline: fields.flag("baseline")?,
    })
}

fn source(path: &str, body: Json, warnings: &mut Warnings) -> Result<TaskSource, PlanError> {
    let mut fields = Fields::open(path, body, &["kind", "path", "key"], warnings)?;
    let (kind, key) = (fields.text("kind")?, fields.text("key")?);
    Ok(TaskSource { kind, path: fields.optional_text("path")?, key })
}

fn cleanup(path: &str, body: Json, warnings: &mut Warnings) -> Result<Option<String>, PlanError> {
    Fields::open(path, body, &["cleanup"], warnings)?.optional_text("cleanup")
}

/// The known fields of one object, taken out one by one.
struct Fields {
    path: String,
    entries: Vec<(String, Json)>,
}

impl Fields {
    fn open(
        path: &str,
        body: Json,
        known: &[&str],
        warnings: &mut Warnings,
    ) -> Result<Self, PlanError> {
        let given = match body {
            Json::Object(entries) => entries,
            other => return Err(wanted(path, "an object", &other)),
        };
        let mut fields = Self { path: path.to_owned(), entries: Vec::with_capacity(known.len()) };
        for (key, value) in given {
            if !known.contains(&key.as_str()) {
                let key: String = key.chars().take(40).collect();
                warnings.add(fields.at(&format!("unknown key {key:?} left out")));
            } else if fields.entries.iter().any(|(k, _)| *k == key) {
                return Err(field(&fields.path_of(&key), "given twice"));
            } else {
                fields.entries.push((key, value));
            }
        }
        Ok(fields)
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn at(&self, text: &str) -> String {
        if self.path.is_empty() { text.to_owned() } else { format!("{}: {text}", self.path) }
    }

    fn take(&mut self, key: &str) -> Option<Json> {
        let at = self.entries.iter().position(|(k, _)| k == key)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// Takes an optional field. A `null` counts as missing.
    fn optional(&mut self, key: &str) -> Option<Json> {
        self.take(key).filter(|value| *value != Json::Null)
    }

    fn required(&mut self, key: &str) -> Result<Json, PlanError> {
        self.take(key).ok_or_else(|| field(&self.path_of(key), "required, but missing"))
    }

    fn text(&mut self, key: &str) -> Result<String, PlanError> {
        match self.required(key)? {
            Json::Text(text) => Ok(text),
            other => Err(wanted(&self.path_of(key), "a string", &other)),
        }
    }

    fn optional_text(&mut self, key: &str) -> Result<Option<String>, PlanError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wanted(&self.path_of(key), "a string", &other)),
        }
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>, PlanError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Json::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wanted(&self.path_of(key), "true or false", &other)),
        }
    }

    fn priority(&mut self, key: &str) -> Result<Option<String>, PlanError> {
        let given = self.optional_text(key)?;
        match given.as_deref() {
            None | Some("P0" | "P1" | "P2") => Ok(given),
            Some(other) => {
                let shown: String = other.chars().take(40).collect();
                Err(field(&self.path_of(key), format!("{shown:?} is not one of P0, P1, P2")))
            }
        }
    }

    fn ids(&mut self, key: &str) -> Result<Vec<TaskId>, PlanError> {
        let path = self.path_of(key);
        let items = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Json::List(items)) => items,
            Some(other) => return Err(wanted(&path, "a list of task ids", &other)),
        };
        let id = |item| match item {
            Json::Text(text) => TaskId::parse(&text).map_err(|bad| field(&path, bad)),
            other => Err(wanted(&path, "a list of task ids", &other)),
        };
        items.into_iter().map(id).collect()
    }

    fn globs(&mut self, key: &str) -> Result<Vec<String>, PlanError> {
        let path = self.path_of(key);
        let items = match self.optional(key) {
            None => return Ok(Vec::new()),
            Some(Json::List(items)) => items,
            Some(other) => return Err(wanted(&path, "a list of globs", &other)),
        };
        let glob = |item| match item {
            Json::Text(glob) => match problem_of_glob(&glob) {
                None => Ok(glob),
                Some(bad) => Err(field(&path, format!("{:?}: {}", bad.glob, bad.why))),
            },
            other => Err(wanted(&path, "a list of globs", &other)),
        };
        items.into_iter().map(glob).collect()
    }

    fn labels(&mut self, key: &str) -> Result<Vec<String>, PlanError> {
        let path = self.path_of(key);
        let items = match self.optional(key) {
            None => return Ok(Vec::new()),
            Some(Json::List(items)) => items,
            Some(other) => return Err(wanted(&path, "a list of labels", &other)),
        };
        let label = |item| match item {
            Json::Text(label) => Ok(label),
            other => Err(wanted(&path, "a list of labels", &other)),
        };
        let labels: Vec<String> = items.into_iter().map(label).collect::<Result<_, _>>()?;
        checked_labels(&labels).map_err(|problem| field(&path, problem))
    }

    /// Takes a number of seconds. A fraction is rounded up, as leases require.
    fn seconds(&mut self, key: &str) -> Result<Option<u64>, PlanError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Number(n)) => whole_seconds(&n).map(Some).ok_or_else(|| {
                field(&self.path_of(key), format!("{n} is out of range: at least 1 second"))
            }),
            Some(other) => Err(wanted(&self.path_of(key), "a number of seconds", &other)),
        }
    }

    fn count(&mut self, key: &str) -> Result<Option<u32>, PlanError> {
        let path = self.path_of(key);
        match self.optional(key) {
            None => Ok(None),
            Some(Json::Number(n)) => {
                let count = n.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n >= 1);
                let count = count.ok_or_else(|| {
                    field(&path, format!("{n} is not a whole number from 1 to 4294967295"))
                })?;
                Ok(Some(count))
            }
            Some(other) => Err(wanted(&path, "a whole number", &other)),
        }
    }
}

fn whole_seconds(n: &Number) -> Option<u64> {
    match (n.as_u64(), n.as_f64()) {
        (Some(seconds), _) => (seconds >= 1).then_some(seconds),
        (None, Some(seconds)) if (1.0..=FLOAT_SECONDS_MAX).contains(&seconds) => {
            Some(seconds.ceil() as u64)
        }
        (None, _) => None,
    }
}

fn field(path: &str, problem: impl ToString) -> PlanError {
    let path = if path.is_empty() { "plan" } else { path };
    PlanError::Field { path: path.to_owned(), problem: problem.to_string() }
}

fn wanted(path: &str, what: &str, given: &Json) -> PlanError {
    field(path, format!("expected {what}, found {}", given.what()))
}

#[derive(Default)]
struct Warnings {
    lines: Vec<String>,
    more: usize,
}

impl Warnings {
    fn add(&mut self, line: String) {
        if self.lines.len() < WARNINGS_MAX { self.lines.push(line) } else { self.more += 1 }
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("{} more unknown keys left out", self.more));
        }
        self.lines
    }
}
