//! New values for the fields of a task that people set.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, Row, find};
use crate::{
    TaskId,
    fact::Fact,
    graph,
    ledger::Ledger,
    protect::problem_of_glob,
    role::Author,
    task::{Intent, Priority, Task, checked_labels},
};

/// Sets fields of a task. `None` leaves a field unchanged. An empty text clears an optional field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The task to edit.
    pub task: TaskId,
    /// The title, which cannot be cleared.
    pub title: Option<String>,
    /// `P0`, `P1` or `P2`.
    pub priority: Option<String>,
    /// The new dependencies, which replace all existing ones.
    pub depends_on: Option<Vec<TaskId>>,
    /// The check, a line for `sh -c`.
    pub validation_command: Option<String>,
    /// The time limit of the check; at least 1.
    pub validation_timeout_seconds: Option<u64>,
    /// Whether the check runs in a clean checkout of the commit.
    pub validation_clean: Option<bool>,
    /// Whether the check also runs before the first attempt.
    pub validation_baseline: Option<bool>,
    /// The globs of protected files, which replace all existing ones of the task.
    pub protected: Option<Vec<String>>,
    /// The time limit of an attempt; at least 1.
    pub attempt_timeout_seconds: Option<u64>,
    /// See [`Task::max_attempts`].
    pub max_attempts: Option<u32>,
    /// A command to run after a rollback.
    pub cleanup: Option<String>,
    /// The instructions for the agent.
    pub instructions: Option<String>,
    /// The role of the workers that may claim the task.
    pub role: Option<String>,
    /// The labels that a worker must have, which replace all existing ones.
    pub requires: Option<Vec<String>>,
    /// The name of one of the ledger's phases.
    pub phase: Option<String>,
    /// The process that asked for it, if it is known. A change of the check, the limits, the
    /// phase or the protected files is logged with this author, and a task that an agent or a worker adds is marked.
    pub by: Option<Author>,
}

impl Edit {
    /// Returns an edit that changes nothing, for `..Edit::nothing(id)`.
    pub fn nothing(task: TaskId) -> Self {
        Self {
            task,
            title: None,
            priority: None,
            depends_on: None,
            validation_command: None,
            validation_timeout_seconds: None,
            validation_clean: None,
            validation_baseline: None,
            protected: None,
            attempt_timeout_seconds: None,
            max_attempts: None,
            cleanup: None,
            instructions: None,
            role: None,
            requires: None,
            phase: None,
            by: None,
        }
    }

    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let before = find(ledger, &self.task)?;
        let mut task = before.clone();
        self.put_into(&mut task, ledger)?;
        let reply = Reply::Task(self.task.clone());
        if task == *before {
            return Ok(Change::reply(reply));
        }
        // Its check has passed, and a crash must not let it be completed under another one.
        let landing = matches!(before.intent(), Some(Intent::Land { .. }));
        if landing && task.validation != before.validation {
            return Err(Refusal::Undecided { task: self.task.clone() });
        }
        let mut facts = vec![Fact::Edited { task: self.task.clone() }];
        facts.extend(self.by.iter().flat_map(|author| terms_changed(author, before, &task)));
        Ok(Change { head: None, rows: vec![Row::put(task)], facts, reply })
    }

    pub(super) fn put_into(&self, task: &mut Task, ledger: &Ledger) -> Result<(), Refusal> {
        if let Some(title) = &self.title {
            if title.trim().is_empty() {
                return Err(Refusal::BadValue("title: must not be empty".into()));
            }
            if let Some(problem) = crate::task::problem_of_title(title) {
                return Err(Refusal::BadValue(format!("title: {problem}")));
            }
            task.title.clone_from(title);
        }
        if let Some(priority) = &self.priority {
            task.priority = Priority::known(priority).ok_or_else(|| {
                Refusal::BadValue(format!("priority: {priority:?} is not one of P0, P1, P2"))
            })?;
        }
        if let Some(depends_on) = &self.depends_on {
            task.depends_on = self.checked_dependencies(depends_on, ledger)?;
        }
        if let Some(globs) = &self.protected {
            task.protected = checked_globs(globs)?;
        }
        if let Some(labels) = &self.requires {
            let bad = |problem| Refusal::BadValue(format!("requires: {problem}"));
            task.requires = checked_labels(labels).map_err(bad)?;
        }
        let at_least_one = |name: &str, n: Option<u64>| match n {
            Some(0) => Err(Refusal::BadValue(format!("{name}: must be at least 1"))),
            other => Ok(other),
        };
        at_least_one("max_attempts", self.max_attempts.map(u64::from))?;
        if let Some(n) = self.max_attempts {
            task.max_attempts = n;
        }
        let seconds = at_least_one("validation.timeout_seconds", self.validation_timeout_seconds)?;
        task.validation.timeout_seconds = seconds.unwrap_or(task.validation.timeout_seconds);
        task.validation.clean = self.validation_clean.or(task.validation.clean);
        task.validation.baseline = self.validation_baseline.or(task.validation.baseline);
        let seconds = at_least_one("timeout_seconds", self.attempt_timeout_seconds)?;
        task.timeout_seconds = seconds.or(task.timeout_seconds);
        put_text(&mut task.validation.command, &self.validation_command);
        put_text(&mut task.cleanup, &self.cleanup);
        put_text(&mut task.instructions, &self.instructions);
        put_text(&mut task.role, &self.role);
        put_text(&mut task.phase, &self.phase);
        Ok(())
    }

    fn checked_dependencies(
        &self,
        wanted: &[TaskId],
        ledger: &Ledger,
    ) -> Result<Vec<TaskId>, Refusal> {
        let mut dependencies: Vec<TaskId> = Vec::with_capacity(wanted.len());
        for dependency in wanted {
            if *dependency == self.task {
                let task = self.task.clone();
                return Err(Refusal::Cycle { dependency: task.clone(), task });
            }
            if !ledger.contains(dependency) {
                return Err(Refusal::UnknownDependency { dependency: dependency.clone() });
            }
            if !dependencies.contains(dependency) {
                dependencies.push(dependency.clone());
            }
        }
        match graph::closes_cycle(|id| ledger.task(id), &self.task, &dependencies) {
            Some(dependency) => Err(Refusal::Cycle { task: self.task.clone(), dependency }),
            None => Ok(dependencies),
        }
    }
}

/// Returns a warning for each change of a check, a limit, a phase or the protected files.
fn terms_changed(author: &Author, before: &Task, after: &Task) -> Vec<Fact> {
    let number = |seconds: Option<u64>| seconds.map(|n| n.to_string()).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let flag = |flag: Option<bool>| flag.map(|flag| flag.to_string()).unwrap_or_default();
    let terms = |task: &Task| {
        [
            ("check", text(&task.validation.command)),
            ("timeout of the check", number(Some(task.validation.timeout_seconds))),
            ("clean", flag(task.validation.clean)),
            ("baseline", flag(task.validation.baseline)),
            ("protected", task.protected.join(", ")),
            ("timeout", number(task.timeout_seconds)),
            ("max_attempts", number(Some(task.max_attempts.into()))),
            ("phase", text(&task.phase)),
        ]
    };
    let changed = terms(before).into_iter().zip(terms(after)).filter(|(old, new)| old != new);
    let warning = |((what, old), (_, new)): ((&str, String), (&str, String))| {
        let message = format!("{what} changed by {author}: {old:?} -> {new:?}");
        Fact::Warned { task: Some(after.id.clone()), message }
    };
    changed.map(warning).collect()
}

fn checked_globs(wanted: &[String]) -> Result<Vec<String>, Refusal> {
    let mut globs: Vec<String> = Vec::with_capacity(wanted.len());
    for glob in wanted {
        if let Some(bad) = problem_of_glob(glob) {
            return Err(Refusal::BadValue(bad.to_string()));
        }
        if !globs.contains(glob) {
            globs.push(glob.clone());
        }
    }
    Ok(globs)
}

fn put_text(field: &mut Option<String>, new: &Option<String>) {
    match new {
        None => {}
        Some(text) if text.trim().is_empty() => *field = None,
        Some(text) => *field = Some(text.clone()),
    }
}
