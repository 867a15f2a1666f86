//! Says what an import did.

use harness_core::{TaskId, command::ImportedTasks, plan::Plan, task::Status};
use serde_json::{Value, json};

use super::{find::Found, sync::Synced};
use crate::{failure::Result, invocation::Invocation, paint::warn, render::tasks, root::StateRoot};

/// The number of tasks that are named in a line.
const NAMED_MAX: usize = 10;
/// The number of notes that are printed.
const NOTES_MAX: usize = 20;

pub(super) struct Report<'a> {
    pub(super) root: &'a StateRoot,
    pub(super) found: &'a Found,
    pub(super) plan: &'a Plan,
    pub(super) tasks: &'a ImportedTasks,
    /// The open tasks of this import that nothing can prove.
    pub(super) without_check: Vec<TaskId>,
    pub(super) synced: Option<&'a Synced>,
}

impl Report<'_> {
    pub(super) fn document(&self) -> Value {
        let ImportedTasks { added, updated, unchanged, kept, done_at_source, gone } = self.tasks;
        json!({
            "root": self.root.path().to_string_lossy(),
            "kind": self.found.kind.name(),
            "paths": self.found.places(),
            "goal": self.plan.goal,
            "added": added,
            "updated": updated,
            "unchanged": unchanged,
            "kept": kept,
            "done_at_source": done_at_source,
            "gone": gone,
            "without_check": self.without_check,
            "warnings": self.plan.warnings,
            "synced": self.synced.map(Synced::document),
        })
    }

    pub(super) fn print(&self, invocation: &mut Invocation) -> Result<()> {
        let ImportedTasks { added, updated, unchanged, kept, done_at_source, gone } = self.tasks;
        let counts = [
            (added, "added"),
            (updated, "updated"),
            (unchanged, "unchanged"),
            (kept, "kept as they are"),
        ];
        let counts = counts.map(|(ids, word)| format!("{} {word}", ids.len()));
        let all: usize = [added, updated, unchanged, kept].map(Vec::len).iter().sum();
        let kind = self.found.kind;
        let line = format!("Imported {} from {kind}: {}", tasks(all), counts.join(", "));
        invocation.out.line(line)?;
        if !self.without_check.is_empty() {
            let line = format!(
                "{} without a check: {}; `harness import … --validate 'COMMAND'` gives one to all \
                 of them",
                tasks(self.without_check.len()),
                named(&self.without_check)
            );
            invocation.out.line(line)?;
        }
        if !done_at_source.is_empty() {
            warn(&format!(
                "done at the source, but not completed here: {}; they stay open until their check \
                 passes or `harness task remove ID`",
                named(done_at_source)
            ));
        }
        if !gone.is_empty() {
            let ids = named(gone);
            warn(&format!("no longer at the source: {ids}; `harness task remove ID` removes one"));
        }
        if let Some(synced) = self.synced {
            synced.print(invocation)?;
        }
        Ok(())
    }
}

/// Warns about the first things that were left out, and says how many there are.
pub(super) fn warn_of(notes: &[String]) {
    notes.iter().take(NOTES_MAX).for_each(|note| warn(note));
    if let Some(more) = notes.len().checked_sub(NOTES_MAX).filter(|more| *more > 0) {
        warn(&format!("and {more} more; `--json` lists all of them"));
    }
}

/// Returns the first ids, and the number of the others.
pub(super) fn named(ids: &[TaskId]) -> String {
    let shown: Vec<&str> = ids.iter().take(NAMED_MAX).map(TaskId::as_str).collect();
    match ids.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", shown.join(", ")),
        None => shown.join(", "),
    }
}

pub(super) fn without_check(
    invocation: &Invocation,
    root: &StateRoot,
    tasks: &ImportedTasks,
) -> Vec<TaskId> {
    let Ok(ledger) = invocation.look(root) else { return Vec::new() };
    let all = [&tasks.added, &tasks.updated, &tasks.unchanged].into_iter().flatten();
    let lacks = |id: &&TaskId| {
        let task = ledger.task(id);
        task.is_some_and(|t| t.status() != Status::Completed && t.check().is_none())
    };
    all.filter(lacks).cloned().collect()
}
