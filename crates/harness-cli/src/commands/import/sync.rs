//! Writes completions back to the sources of imported tasks.
//!
//! Only a task whose check passed here is called done there, which its receipt shows. Each call looks
//! at all of them and changes those that are still open at the source, so a later call catches up
//! with an earlier one that failed. A file is changed in the place of the task and nowhere else.

mod file;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{
    Receipt, Task, TaskId,
    import::ImportKind,
    task::{Status, TaskSource},
};
use serde_json::{Value, json};

use super::report::named;
use crate::{failure::Result, invocation::Invocation, paint::warn, render::tasks, root::StateRoot};

/// What a synchronization did.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    /// The tasks that their source calls done now and did not before.
    pub(crate) marked: Vec<TaskId>,
    /// The files that changed, from the root.
    pub(crate) files: Vec<String>,
    /// What could not be written, with its place.
    pub(crate) problems: Vec<String>,
}

impl Synced {
    pub(super) fn document(&self) -> Value {
        json!({ "marked": self.marked, "files": self.files, "problems": self.problems })
    }

    pub(super) fn print(&self, invocation: &mut Invocation) -> Result<()> {
        self.problems.iter().for_each(|problem| warn(problem));
        let line = match self.marked.as_slice() {
            [] => "Nothing to mark as done at the source".to_owned(),
            ids => format!("Marked {} as done at the source: {}", tasks(ids.len()), named(ids)),
        };
        invocation.out.line(line)
    }
}

/// A completed task with the proof.
struct Proven {
    task: TaskId,
    key: String,
    receipt: Receipt,
}

impl Proven {
    /// Returns the remark for people at the source.
    fn remark(&self) -> String {
        let commit = match &self.receipt.commit {
            Some(commit) => format!(" in commit {}", commit.short()),
            None => String::new(),
        };
        format!("Completed by harness as {}: its check passed{commit}.", self.task)
    }
}

/// The kind and path of a source.
type Place = (ImportKind, String);

/// Calls the completed tasks of these sources done there.
pub(crate) fn sync(
    invocation: &Invocation,
    root: &StateRoot,
    wanted: impl Fn(&TaskSource) -> bool,
) -> Result<Synced> {
    let ledger = invocation.look(root)?;
    let mut synced = Synced::default();
    let mut places: BTreeMap<Place, Vec<Proven>> = BTreeMap::new();
    for task in ledger.tasks().filter(|task| task.status() == Status::Completed) {
        let Some(source) = task.source.as_deref().filter(|source| wanted(source)) else { continue };
        let Some(kind) = ImportKind::parse(&source.kind) else { continue };
        let (Some(path), Some(receipt)) = (&source.path, proof(root, task)?) else { continue };
        let proven = Proven { task: task.id.clone(), key: source.key.clone(), receipt };
        places.entry((kind, path.clone())).or_default().push(proven);
    }
    for ((kind, path), proven) in places {
        let marked = match kind {
            ImportKind::Beads => service::beads(invocation, root, &path, &proven, &mut synced),
            ImportKind::Gh => service::github(invocation, root, &path, &proven, &mut synced),
            ImportKind::Openspec
            | ImportKind::Speckit
            | ImportKind::Taskmaster
            | ImportKind::Prd
            | ImportKind::Features
            | ImportKind::Plan
            | ImportKind::Checklist => file::mark(root, kind, &path, &proven, &mut synced),
        };
        match marked {
            Ok(keys) => {
                let keys: BTreeSet<String> = keys.into_iter().collect();
                let of = proven.iter().filter(|proven| keys.contains(&proven.key));
                synced.marked.extend(of.map(|proven| proven.task.clone()));
            }
            Err(failure) => synced.problems.push(format!("{path}: {}", failure.error)),
        }
    }
    Ok(synced)
}

/// Returns the receipt that shows that the check of a completed task passed.
fn proof(root: &StateRoot, task: &Task) -> Result<Option<Receipt>> {
    let Some(epoch) = task.epoch else { return Ok(None) };
    let found = root.receipt(&task.id, epoch)?;
    Ok(found.filter(|receipt| receipt.check.as_ref().is_some_and(|check| check.exit_code == 0)))
}
