//! Imports tasks of another tool, as often as wanted. A task is recognized by its source, whatever
//! its id is here.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use super::{Change, Import, ImportedTasks, Refusal};
use crate::{
    TaskId,
    command::Row,
    fact::Fact,
    graph,
    ledger::{Head, Ledger},
    plan::{PlanError, PlanTask},
    task::{Task, TaskSource, TaskState},
};

/// The kind and the path of a source.
type Origin<'a> = (&'a str, Option<&'a str>);

fn origin(source: &TaskSource) -> Origin<'_> {
    (source.kind.as_str(), source.path.as_deref())
}

/// Returns whether nobody has worked on the task yet.
fn is_untouched(task: &Task) -> bool {
    task.state == TaskState::Pending && task.attempts == 0
}

impl Import {
    pub(super) fn update(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        self.plan.check_graph(|_| false).map_err(|why| Refusal::BadPlan(why.to_string()))?;
        self.plan.check_titles().map_err(|why| Refusal::BadPlan(why.to_string()))?;
        let known: HashMap<&TaskSource, &TaskId> = ledger
            .tasks()
            .filter_map(|task| task.source.as_deref().map(|source| (source, &task.id)))
            .collect();
        let ids = self.ids(ledger, &known);
        let mut said = ImportedTasks::default();
        let mut rows: IndexMap<TaskId, Task> = IndexMap::new();
        let after = ledger.tasks().filter_map(|t| t.order).max().map_or(0, |n| n.saturating_add(1));
        for (n, (name, wanted)) in (0..).zip(&self.plan.tasks) {
            let id = &ids[name];
            let depends_on: Vec<TaskId> =
                wanted.dependencies.iter().map(|name| ids[name].clone()).collect();
            match ledger.task(id) {
                None => {
                    let task = self.task(wanted, id, after.saturating_add(n));
                    rows.insert(id.clone(), Task { depends_on, ..task });
                    said.added.push(id.clone());
                }
                Some(task) => {
                    if let Some(task) = revise(ledger, task, wanted, depends_on, &mut said) {
                        rows.insert(id.clone(), task);
                    }
                }
            }
        }
        refuse_cycles(ledger, &rows)?;
        said.gone = self.gone(ledger);
        Ok(self.change(ledger, rows, said))
    }

    fn change(&self, ledger: &Ledger, rows: IndexMap<TaskId, Task>, said: ImportedTasks) -> Change {
        let task_count = said.added.len();
        let goal = ledger.head().goal.clone().unwrap_or_else(|| self.plan.goal.clone());
        let head = (ledger.head().goal.is_none() && !rows.is_empty())
            .then(|| Head { goal: Some(goal.clone()), ..ledger.head().clone() });
        let mut facts = Vec::new();
        if task_count > 0 {
            facts.push(Fact::PlanImported { goal, task_count });
        }
        facts.extend(said.updated.iter().map(|id| Fact::Edited { task: id.clone() }));
        let rows = rows.into_values().map(Row::put).collect();
        Change { head, rows, facts, reply: self.reply(task_count, Some(said)) }
    }

    /// Returns the id of each task of the plan here: that of the same source, or else its own, or
    /// one like it that is free.
    fn ids<'a>(
        &'a self,
        ledger: &Ledger,
        known: &HashMap<&TaskSource, &TaskId>,
    ) -> HashMap<&'a TaskId, TaskId> {
        let mut taken: HashSet<TaskId> = HashSet::new();
        let mut ids = HashMap::new();
        for (name, task) in &self.plan.tasks {
            let same = task.source.as_ref().and_then(|source| known.get(source).copied());
            let id = match same {
                Some(id) => id.clone(),
                None => {
                    let is_free = |id: &TaskId| !ledger.contains(id) && !taken.contains(id);
                    let others = (2_u32..).map(|n| numbered(name, n));
                    let mut all = std::iter::once(name.clone()).chain(others);
                    all.find(is_free).unwrap_or_else(|| name.clone())
                }
            };
            taken.insert(id.clone());
            ids.insert(name, id);
        }
        ids
    }

    /// Returns the tasks from the same places that the plan does not have.
    fn gone(&self, ledger: &Ledger) -> Vec<TaskId> {
        let sources: HashSet<&TaskSource> =
            self.plan.tasks.values().filter_map(|task| task.source.as_ref()).collect();
        let places: HashSet<Origin<'_>> = sources.iter().map(|source| origin(source)).collect();
        let is_gone = |task: &&Task| {
            let source = task.source.as_deref();
            source.is_some_and(|of| places.contains(&origin(of)) && !sources.contains(of))
        };
        ledger.tasks().filter(is_gone).map(|task| task.id.clone()).collect()
    }
}

/// Returns `name-n`, shortened if it would be too long.
fn numbered(name: &TaskId, n: u32) -> TaskId {
    let ending = format!("-{n}");
    let mut text = name.as_str().to_owned();
    text.truncate(64_usize.saturating_sub(ending.len()).min(text.len()));
    TaskId::parse(&(text + &ending)).unwrap_or_else(|_| name.clone())
}

/// Returns the changed task, if it changes.
fn revise(
    ledger: &Ledger,
    task: &Task,
    wanted: &PlanTask,
    depends_on: Vec<TaskId>,
    said: &mut ImportedTasks,
) -> Option<Task> {
    let is_completed = matches!(task.state, TaskState::Completed(_));
    if wanted.completed && !is_completed {
        said.done_at_source.push(task.id.clone());
    }
    if !is_untouched(task) {
        said.kept.push(task.id.clone());
        return None;
    }
    let mut revised = task.clone();
    revised.title.clone_from(&wanted.description);
    revised.instructions.clone_from(&wanted.instructions);
    revised.depends_on = with_own_dependencies(ledger, task, depends_on);
    // The operator may have chosen another check, so only a missing one is set.
    if let Some(validation) = wanted.validation.as_ref().filter(|_| task.check().is_none()) {
        revised.validation.command = Some(validation.command.clone());
    }
    if revised == *task {
        said.unchanged.push(task.id.clone());
        return None;
    }
    said.updated.push(task.id.clone());
    Some(revised)
}

/// Adds the dependencies that somebody gave the task here: those on tasks of other origins.
fn with_own_dependencies(ledger: &Ledger, task: &Task, mut wanted: Vec<TaskId>) -> Vec<TaskId> {
    let of = |task: &Task| task.source.as_deref().map(|source| source.kind.clone());
    let kind = of(task);
    let own = task.depends_on.iter().filter(|id| ledger.task(id).is_none_or(|t| of(t) != kind));
    for id in own {
        if !wanted.contains(id) {
            wanted.push(id.clone());
        }
    }
    wanted
}

fn refuse_cycles(ledger: &Ledger, rows: &IndexMap<TaskId, Task>) -> Result<(), Refusal> {
    let find = |id: &TaskId| rows.get(id).or_else(|| ledger.task(id));
    // New tasks close no cycle among themselves, unless one that exists leads back to them.
    let can_close = |task: &&Task| {
        ledger.contains(&task.id) || ledger.selection().dependents(&task.id).next().is_some()
    };
    for task in rows.values().filter(can_close) {
        if graph::closes_cycle(find, &task.id, &task.depends_on).is_some() {
            let cycle = PlanError::Cycle(task.id.clone());
            return Err(Refusal::BadPlan(cycle.to_string()));
        }
    }
    Ok(())
}
