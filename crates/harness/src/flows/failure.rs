//! The output of the last failed check, stored for the next attempt.

use std::{io, path::Path};

use harness::{
    core::TaskId,
    home::{Home, folder::Folder},
};

/// The limit of the file. The files that harness writes are far smaller.
const BYTES_MAX: u64 = 1024 * 1024;

fn name(task: &TaskId) -> String {
    format!("{task}.log")
}

/// Returns the stored output of the task, if there is any.
pub fn failed_output(root: &Path, task: &TaskId) -> io::Result<Option<String>> {
    let Some(folder) = Folder::find(&Home::of(root).failures())? else { return Ok(None) };
    let bytes = folder.read_small(&name(task), BYTES_MAX)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Stores the output. The file is replaced as a whole, so that no attempt reads half of it.
pub(super) fn keep(root: &Path, task: &TaskId, output: &str) -> io::Result<()> {
    Folder::ours(&Home::of(root).failures())?.put(&name(task), output.as_bytes())
}
