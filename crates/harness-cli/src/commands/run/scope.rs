//! The tasks that `--task` names.

use harness::{
    agent::CodingAgent,
    core::{Ledger, Task, TaskId, machine::scope::TaskScope},
};

use crate::{
    commands::add::unchecked,
    failure::{Failure, Result},
    paint::warn,
    store::not_found,
};

/// The scope of a run. Each named task must be in the ledger.
pub(super) fn of_tasks(ledger: &Ledger, tasks: &[TaskId]) -> Result<TaskScope> {
    if let Some(unknown) = tasks.iter().find(|id| !ledger.contains(id)) {
        return Err(not_found(ledger, unknown.clone()));
    }
    Ok(match tasks.is_empty() {
        true => TaskScope::Ledger,
        false => TaskScope::Tasks(tasks.iter().cloned().collect()),
    })
}

/// The flags that choose the same tasks again, after a space.
pub(super) fn flags(scope: &TaskScope) -> String {
    match scope {
        TaskScope::Ledger => String::new(),
        TaskScope::Tasks(chosen) => chosen.iter().map(|id| format!(" --task {id}")).collect(),
    }
}

/// An objective that names tasks and nothing else was meant as a choice of tasks.
pub(super) fn refuse_tasks_as_objective(ledger: &Ledger, objective: Option<&str>) -> Result<()> {
    let words = objective.unwrap_or_default().split([' ', ',', '\t', '\n']);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let known = |word: &&str| TaskId::parse(word).is_ok_and(|id| ledger.contains(&id));
    if words.is_empty() || !words.iter().all(known) {
        return Ok(());
    }
    let flags: String = words.iter().map(|word| format!(" --task {word}")).collect();
    let what = match words.len() {
        1 => "a task, not an objective",
        _ => "tasks, not an objective",
    };
    let what = format!("{} names {what}", objective.unwrap_or_default().trim());
    Err(Failure::usage(what).hint(format!("to work on it: `harness run{flags}`")))
}

/// Names tasks that this run cannot finish, before anything is done.
pub(super) fn name_unfinishable(ledger: &Ledger, scope: &TaskScope, agent: &CodingAgent) {
    let name = |lacks: &dyn Fn(&Task) -> bool| {
        let lacking = ledger.tasks().filter(|t| scope.contains(&t.id));
        let lacking = lacking.filter(|t| t.unfinished() && lacks(t));
        lacking.map(|t| t.id.as_str()).collect::<Vec<_>>()
    };
    if let Some(sentence) = unchecked(&name(&|t| t.check().is_none())) {
        warn(&sentence);
    }
    let scripted = matches!(agent, CodingAgent::Shell(_));
    let empty = |t: &Task| t.instructions.as_ref().is_none_or(|text| text.trim().is_empty());
    let untold = name(&|t| scripted && empty(t));
    if !untold.is_empty() {
        warn(&format!("no instructions for the shell agent to run: {}", untold.join(", ")));
    }
}
