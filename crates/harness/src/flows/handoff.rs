//! The file in which an agent leaves word for its next context: `state/handoff.json`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use harness::{
    Result,
    core::{
        TaskId,
        handoff::{self, BYTES_MAX, Handoff},
    },
    store::Runs,
};
use sha2::{Digest, Sha256};

const FILE: &str = "state/handoff.json";

/// What is valid of it, and what is not, in words.
pub(super) fn read(root: &Path) -> (Option<Handoff>, Vec<String>) {
    match bytes(root) {
        Ok(None) => (None, Vec::new()),
        Ok(Some(bytes)) => {
            let read = handoff::read(&bytes);
            (read.handoff, read.warnings)
        }
        Err(why) => (None, vec![format!("{FILE} can not be read: {why}")]),
    }
}

/// Changes when it does.
pub(super) fn mark(root: &Path) -> String {
    match bytes(root) {
        Ok(Some(bytes)) => Sha256::digest(&bytes)[..8].iter().map(|b| format!("{b:02x}")).collect(),
        Ok(None) | Err(_) => "none".to_owned(),
    }
}

/// One byte more than may be read, so that too much of it is seen. A link is not followed: what it
/// leads to is not the agent's word.
fn bytes(root: &Path) -> io::Result<Option<Vec<u8>>> {
    const O_NOFOLLOW: i32 = 0o400_000;
    const O_NONBLOCK: i32 = 0o4_000;
    let mut options = OpenOptions::new();
    let file: File =
        match options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(root.join(FILE)) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A new attempt at the task of the last one finds what that left; another task's is put away.
/// What a row of this very attempt tells is that it was done before.
pub(super) fn hand_over(root: &Path, runs: &dyn Runs, task: &TaskId) -> Result<()> {
    let file = root.join(FILE);
    if !file.is_file() {
        return Ok(());
    }
    let attempts = runs.runs()?.into_iter().filter(|run| run.task.is_some());
    let last = attempts.max_by_key(|run| run.epoch).and_then(|run| run.task);
    if last.as_ref() == Some(task) {
        return Ok(());
    }
    let of = last.map_or_else(|| "before".to_owned(), |task| task.to_string());
    let archive = root.join(".harness/archive");
    fs::create_dir_all(&archive)?;
    let name = |n: u32| archive.join(format!("handoff-{of}-{n}.json"));
    // Nothing is written over: the first free number.
    let free = (1..).map(name).find(|path| !path.exists());
    if let Some(free) = free {
        fs::rename(&file, free)?;
    }
    Ok(())
}
