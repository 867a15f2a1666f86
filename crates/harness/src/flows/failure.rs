//! The output of failed checks: of the last one of a task, for its next attempt, and of each attempt, for
//! people.

use std::{io, path::Path};

use harness::{
    core::{Epoch, TaskId},
    home::{Home, folder::Folder},
};

/// The limit of the file. The files that harness writes are far smaller.
const BYTES_MAX: u64 = 1024 * 1024;

fn name(task: &TaskId) -> String {
    format!("{task}.log")
}

/// Returns the name of the file of one attempt. The id of a task contains no `@`.
fn name_of_attempt(task: &TaskId, epoch: Epoch) -> String {
    format!("{task}@{epoch}.log")
}

/// Returns the stored output of the task, if there is any.
pub fn failed_output(root: &Path, task: &TaskId) -> io::Result<Option<String>> {
    read(root, &name(task))
}

/// Returns the stored output of one attempt at the task, if there is any.
pub fn failed_output_of(root: &Path, task: &TaskId, epoch: Epoch) -> io::Result<Option<String>> {
    read(root, &name_of_attempt(task, epoch))
}

fn read(root: &Path, name: &str) -> io::Result<Option<String>> {
    let Some(folder) = Folder::find(&Home::of(root).failures())? else { return Ok(None) };
    let bytes = folder.read_small(name, BYTES_MAX)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Stores the output. Each file is replaced as a whole, so that no attempt reads half of it.
pub(super) fn keep(
    root: &Path,
    task: &TaskId,
    epoch: Option<Epoch>,
    output: &str,
) -> io::Result<()> {
    let folder = Folder::ours(&Home::of(root).failures())?;
    folder.put(&name(task), output.as_bytes())?;
    match epoch {
        Some(epoch) => folder.put(&name_of_attempt(task, epoch), output.as_bytes()),
        None => Ok(()),
    }
}
