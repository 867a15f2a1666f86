//! The file in which an agent leaves notes for its next context: `state/handoff.json`, in the state root
//! for the only worker.

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
/// A longer one is not put away.
const KEPT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// More of them than this are a loop somewhere.
const NAMES_MAX: u32 = 10_000;

/// Where the handoff of a worker is, and where those of earlier tasks are kept.
#[derive(Debug, Clone)]
pub struct HandoffPlace {
    /// The folder that agents write `state/handoff.json` in.
    pub folder: PathBuf,
    /// The state root, with the archive.
    pub root: PathBuf,
}

/// What is valid of it, and what is not, in words.
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

/// Changes when it does.
pub(super) fn mark(place: &HandoffPlace) -> String {
    match bytes(&place.folder) {
        Ok(Some(bytes)) => Sha256::digest(&bytes)[..8].iter().map(|b| format!("{b:02x}")).collect(),
        Ok(None) | Err(_) => "none".to_owned(),
    }
}

/// One byte more than may be read, so that too much of it is seen. A link is not followed: what it
/// leads to is not the agent's word.
fn bytes(root: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(folder) = Folder::open(root)?.child(FOLDER)? else { return Ok(None) };
    let Some(file) = folder.open_to_read(NAME)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A new attempt at the task of the last one finds what that left; another task's is put away.
/// What a row of this very attempt tells is that it was done before. What is not a file stays, and a process that
/// reads it is warned.
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
    // Nothing is written over: the first free number.
    for number in 1..=NAMES_MAX {
        if folder.move_to(NAME, &archive, &format!("handoff-{of}-{number}.json"))? {
            break;
        }
    }
    Ok(())
}

/// The agent wrote it; what is kept of it holds no secret. What nobody would read is not kept.
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
