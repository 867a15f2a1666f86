//! The plan that an import adds to a ledger.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::{ImportProgress, Imported, ImportedTask, names::task_id};
use crate::{
    TaskId,
    plan::{Plan, PlanTask, PlanValidation},
    task::problem_of_title,
};

/// A longer title is cut; the instructions have all of it.
const TITLE_CHARS: usize = 200;

impl Imported {
    /// Returns the plan, with `check` for every open task that has none of its own. Its warnings are
    /// the notes about what was left out.
    pub fn into_plan(self, check: Option<&str>) -> Plan {
        let mut warnings = self.notes;
        let mut ids: BTreeMap<String, TaskId> = BTreeMap::new();
        let mut taken: IndexMap<TaskId, PlanTask> = IndexMap::with_capacity(self.tasks.len());
        for task in &self.tasks {
            let mut id = task_id(&task.name);
            let mut n = 2_usize;
            while taken.contains_key(&id) {
                id = task_id(&format!("{}-{n}", task.name));
                n += 1;
            }
            ids.insert(task.name.clone(), id.clone());
            taken.insert(id, PlanTask::default());
        }
        let mut tasks = IndexMap::with_capacity(taken.len());
        for (task, id) in self.tasks.into_iter().zip(taken.into_keys()) {
            let mut dependencies: IndexSet<TaskId> = IndexSet::with_capacity(task.depends_on.len());
            for name in &task.depends_on {
                match ids.get(name) {
                    Some(other) if *other == id => {}
                    Some(other) => {
                        dependencies.insert(other.clone());
                    }
                    None => {
                        warnings.push(format!("{id}: it depends on {name}, which is not there"))
                    }
                }
            }
            let dependencies = dependencies.into_iter().collect();
            tasks.insert(id, task.into_task(dependencies, check));
        }
        Plan { goal: self.goal, tasks, phases: None, warnings }
    }
}

impl ImportedTask {
    fn into_task(self, dependencies: Vec<TaskId>, check: Option<&str>) -> PlanTask {
        let is_done = self.progress == ImportProgress::Done;
        // A completed task with a check would claim that this check has passed here.
        let check = self.check.or_else(|| check.map(str::to_owned)).filter(|_| !is_done);
        PlanTask {
            description: title(&self.title),
            dependencies,
            instructions: Some(self.instructions).filter(|text| !text.trim().is_empty()),
            priority: self.priority.map(|priority| priority.name().to_owned()),
            validation: check
                .map(|command| PlanValidation { command, ..PlanValidation::default() }),
            source: Some(self.source),
            completed: is_done,
            ..PlanTask::default()
        }
    }
}

fn title(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("untitled");
    let line = line.replace('\r', " ");
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    debug_assert!(problem_of_title(&title).is_none());
    title
}
