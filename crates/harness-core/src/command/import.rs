//! Imports a plan as tasks.

mod update;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, Row};
use crate::{
    TaskId,
    fact::Fact,
    graph,
    ledger::{Gate, Head, Ledger, Phase},
    plan::{Plan, PlanError, PlanPhase, PlanTask},
    role::Author,
    task::{CHECK_TIMEOUT_SECONDS, Priority, Task, TaskCompletion, TaskState},
};

/// Creates the tasks of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The parsed plan.
    pub plan: Plan,
    /// The treatment of the existing tasks.
    pub mode: ImportMode,
    /// The process that asked for it, if it is known. Tasks from an agent or a worker are marked.
    pub by: Option<Author>,
}

/// The treatment of the existing tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// Replaces them, but only if no unfinished task would be lost.
    IfFinished,
    /// Replaces them. The store archives them first.
    Replace,
    /// Keeps them unchanged. Tasks of the plan whose ids exist already are left out.
    Merge,
    /// Adds the tasks whose sources are new, and changes those that nobody has started.
    Update,
}

/// What an update did, task by task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedTasks {
    /// Tasks that are new.
    pub added: Vec<TaskId>,
    /// Tasks whose title, instructions or dependencies changed.
    pub updated: Vec<TaskId>,
    /// Tasks that are as their source has them.
    pub unchanged: Vec<TaskId>,
    /// Tasks that were started or completed here, and stay as they are.
    pub kept: Vec<TaskId>,
    /// Tasks that the source calls done, although they are not completed here. They stay open.
    pub done_at_source: Vec<TaskId>,
    /// Tasks that their source does not have any more. They stay.
    pub gone: Vec<TaskId>,
}

impl Import {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        match self.mode {
            ImportMode::Merge => self.merge(ledger),
            ImportMode::Update => self.update(ledger),
            ImportMode::Replace => self.replace(ledger),
            ImportMode::IfFinished => {
                let unfinished = ledger.tasks().filter(|t| t.unfinished()).count();
                if unfinished > 0 {
                    return Err(Refusal::UnfinishedWork { unfinished, total: ledger.len() });
                }
                self.replace(ledger)
            }
        }
    }

    fn replace(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        self.plan.check_graph(|_| false).map_err(|e| Refusal::BadPlan(e.to_string()))?;
        self.plan.check_titles().map_err(|e| Refusal::BadPlan(e.to_string()))?;
        let mut rows: Vec<Row> = ledger.tasks().map(|t| Row::Drop(t.id.clone())).collect();
        rows.extend((0..).zip(&self.plan.tasks).map(|(n, (id, t))| Row::put(self.task(t, id, n))));
        let mut head = Head { goal: Some(self.plan.goal.clone()), ..emptied(ledger) };
        if let Some(phases) = &self.plan.phases {
            head.phases = phases.iter().map(PlanPhase::to_phase).collect();
        }
        let goal = self.plan.goal.clone();
        let task_count = self.plan.tasks.len();
        let fact = if ledger.is_empty() {
            Fact::PlanImported { goal, task_count }
        } else {
            Fact::PlanReplaced { goal, task_count, replaced: ledger.len() }
        };
        let reply = self.reply(task_count, None);
        Ok(Change { head: Some(head), rows, facts: vec![fact], reply })
    }

    fn merge(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let mut new = self.plan.clone();
        new.tasks.retain(|id, _| !ledger.contains(id));
        new.check_graph(|id| ledger.contains(id)).map_err(|e| Refusal::BadPlan(e.to_string()))?;
        new.check_titles().map_err(|e| Refusal::BadPlan(e.to_string()))?;
        let after = ledger.tasks().filter_map(|t| t.order).max().map_or(0, |n| n.saturating_add(1));
        let task = |(n, (id, t)): (u64, (&TaskId, &PlanTask))| {
            (id.clone(), self.task(t, id, after.saturating_add(n)))
        };
        let added: IndexMap<TaskId, Task> = (0..).zip(&new.tasks).map(task).collect();
        // An existing task whose dependency was missing until now may close a cycle with the new
        // task.
        let find = |id: &TaskId| added.get(id).or_else(|| ledger.task(id));
        let awaited = |id: &&TaskId| ledger.selection().dependents(id).next().is_some();
        for id in added.keys().filter(awaited) {
            if graph::closes_cycle(find, id, &added[id].depends_on).is_some() {
                return Err(Refusal::BadPlan(PlanError::Cycle(id.clone()).to_string()));
            }
        }
        let rows = added.into_values().map(Row::put).collect();
        let task_count = new.tasks.len();
        let goal = ledger.head().goal.clone().unwrap_or_else(|| new.goal.clone());
        let head = (ledger.head().goal.is_none())
            .then(|| Head { goal: Some(goal.clone()), ..ledger.head().clone() });
        let facts = vec![Fact::PlanImported { goal, task_count }];
        Ok(Change { head, rows, facts, reply: self.reply(task_count, None) })
    }

    fn task(&self, of: &PlanTask, id: &TaskId, order: u64) -> Task {
        let added_by = self.by.as_ref().and_then(Author::mark);
        Task { added_by, ..of.to_task(id, order) }
    }

    /// Returns whether an existing task depends on a task that this would add.
    pub fn is_awaited(&self, ledger: &Ledger) -> bool {
        let new = self.plan.tasks.keys().filter(|id| !ledger.contains(id));
        new.into_iter().any(|id| ledger.selection().dependents(id).next().is_some())
    }

    fn reply(&self, task_count: usize, tasks: Option<ImportedTasks>) -> Reply {
        let mut warnings = self.plan.warnings.clone();
        if self.mode == ImportMode::Merge && self.plan.phases.is_some() {
            warnings.push("phases: a merge leaves those of the ledger as they are".to_owned());
        }
        let tasks = tasks.map(Box::new);
        Reply::Imported { goal: self.plan.goal.clone(), task_count, warnings, tasks }
    }
}

pub(super) fn reset(ledger: &Ledger) -> Change {
    Change {
        head: Some(emptied(ledger)),
        rows: ledger.tasks().map(|t| Row::Drop(t.id.clone())).collect(),
        facts: vec![Fact::PlanReset { task_count: ledger.len() }],
        reply: Reply::Reset { task_count: ledger.len() },
    }
}

/// Returns the head without goal and passed gates. Sessions, their limits and the phases belong to
/// the root, and a plan does not define them. A passed gate loses its meaning with the tasks. The
/// epoch counter must never fall, or the holder of a removed task could pass for the holder of a
/// new one.
fn emptied(ledger: &Ledger) -> Head {
    let mut head = Head { epoch: ledger.epoch(), goal: None, ..ledger.head().clone() };
    head.phases.iter_mut().for_each(|phase| phase.passed_at = None);
    head
}

impl PlanPhase {
    fn to_phase(&self) -> Phase {
        let timeout_seconds = self.gate_timeout_seconds;
        let gate = |command: &String| Gate { command: command.clone(), timeout_seconds };
        let (name, approve) = (self.name.clone(), self.approve);
        Phase { name, gate: self.gate.as_ref().map(gate), approve, passed_at: None, held: None }
    }
}

impl PlanTask {
    fn to_task(&self, id: &TaskId, order: u64) -> Task {
        let mut task = Task::new(id.clone(), self.description.clone());
        task.depends_on.clone_from(&self.dependencies);
        task.timeout_seconds = self.timeout_seconds;
        task.instructions.clone_from(&self.instructions);
        task.role.clone_from(&self.role);
        task.requires.clone_from(&self.requires);
        task.phase.clone_from(&self.phase);
        task.cleanup.clone_from(&self.cleanup);
        task.protected.clone_from(&self.protected);
        task.order = Some(order);
        task.source = self.source.clone().map(Box::new);
        if self.completed {
            task.state = TaskState::Completed(TaskCompletion::default());
        }
        if let Some(priority) = self.priority.as_deref().and_then(Priority::known) {
            task.priority = priority;
        }
        if let Some(n) = self.max_attempts {
            task.max_attempts = n;
        }
        if let Some(v) = &self.validation {
            task.validation.command = Some(v.command.clone());
            task.validation.timeout_seconds = v.timeout_seconds.unwrap_or(CHECK_TIMEOUT_SECONDS);
            task.validation.clean = v.clean;
            task.validation.baseline = v.baseline;
        }
        task
    }
}
