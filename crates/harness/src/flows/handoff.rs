//! The file in which an agent leaves notes for its next context: `state/handoff.json`. The only
//! worker of a run has it in the state root.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use harness::{
    Result,
    core::{
        TaskId,
        handoff::{self, BYTES_MAX, Handoff},
    },
    home::{Home, file_name, folder::Folder},
    process::Redactor,
    store::Runs,
};
use sha2::{Digest, Sha256};

const FOLDER: &str = Home::STATE;
const NAME: &str = file_name(Home::HANDOFF);
/// The limit of a file that is archived.
const KEPT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The limit of archived files. More of them indicate an endless loop.
const NAMES_MAX: u32 = 10_000;

/// The place of a worker's handoff, and of the archive of earlier tasks.
#[derive(Debug, Clone)]
pub struct HandoffPlace {
    /// The folder in which agents write `state/handoff.json`.
    pub folder: PathBuf,
    /// The state root, which contains the archive.
    pub root: PathBuf,
}

/// Returns the valid part of the handoff, and a description of each invalid part.
pub(super) fn read(place: &HandoffPlace) -> (Option<Handoff>, Vec<String>) {
    match bytes(&place.folder) {
        Ok(None) => (None, Vec::new()),
        Ok(Some(bytes)) => {
            let read = handoff::read(&bytes);
            (read.handoff, read.warnings)
        }
        Err(why) => (None, vec![why.to_string()]),
    }
}

/// Returns a mark that changes when the handoff changes.
pub(super) fn mark(place: &HandoffPlace) -> String {
    match bytes(&place.folder) {
        Ok(Some(bytes)) => Sha256::digest(&bytes)[..8].iter().map(|b| format!("{b:02x}")).collect(),
        Ok(None) | Err(_) => "none".to_owned(),
    }
}

/// Reads the file, up to one byte more than allowed, so that a longer file is noticed. A link is
/// not followed, because the agent did not write its target.
fn bytes(root: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(folder) = Folder::open(root)?.child(FOLDER)? else { return Ok(None) };
    let Some(file) = folder.open_to_read(NAME)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Prepares the handoff for an attempt. A new attempt at the same task keeps the file; the file of
/// another task is archived. If this attempt has a row already, this was done before. Anything that
/// is not a file stays, and the process that reads it gets a warning.
pub(super) fn hand_over(
    place: &HandoffPlace,
    runs: &dyn Runs,
    task: &TaskId,
    secrets: &Redactor,
) -> Result<()> {
    let Ok(Some(folder)) = Folder::open(&place.folder)?.child(FOLDER) else { return Ok(()) };
    if !folder.has(NAME).unwrap_or(false) {
        return Ok(());
    }
    let attempts = runs.runs()?.into_iter().filter(|run| run.task.is_some());
    let last = attempts.max_by_key(|run| run.epoch).and_then(|run| run.task);
    if last.as_ref() == Some(task) {
        return Ok(());
    }
    let of = last.map_or_else(|| "before".to_owned(), |task| task.to_string());
    hide(&folder, secrets)?;
    let archive = Folder::ours(&Home::of(&place.root).archive())?;
    // The first free number is used, so that nothing is overwritten.
    for number in 1..=NAMES_MAX {
        if folder.move_to(NAME, &archive, &format!("handoff-{of}-{number}.json"))? {
            break;
        }
    }
    Ok(())
}

/// Removes secrets from the file before it is archived. A file that is too long to be read is not
/// kept.
fn hide(folder: &Folder, secrets: &Redactor) -> Result<()> {
    let Some(file) = folder.open_to_read(NAME)? else { return Ok(()) };
    let mut written = Vec::new();
    file.take(KEPT_BYTES_MAX + 1).read_to_end(&mut written)?;
    if written.len() as u64 > KEPT_BYTES_MAX {
        return Ok(folder.remove(NAME)?);
    }
    let hidden = secrets.bytes(&written);
    if hidden != written {
        folder.replace(NAME, &hidden)?;
    }
    Ok(())
}
