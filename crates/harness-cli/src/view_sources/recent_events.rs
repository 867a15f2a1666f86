//! What agents did last, from the end of the records that runs in progress write.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use harness::{home::folder::Folder, view::ActivityLog};
use serde_json::Value;
use uuid::Uuid;

use crate::root::StateRoot;

/// The part of a record that is read, its end.
const BYTES: u64 = 256 * 1024;

/// Returns the last activities. A record that cannot be read has none, because the events of the host
/// follow.
pub(super) fn activity(root: &StateRoot) -> ActivityLog {
    let mut log = ActivityLog::default();
    let Ok(Some(store)) = root.look_at_runs() else { return log };
    let Ok(Some(folder)) = Folder::find(&root.home().runs()) else { return log };
    let live = store.live().unwrap_or_default();
    for run in live.iter().filter(|run| run.parent.is_none()) {
        let Ok(text) = end_of(&folder, &format!("{}.jsonl", run.id)) else { continue };
        for line in text.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let id = line["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
            log.see(id, &line["event"], &line["context"]);
        }
    }
    log
}

fn end_of(folder: &Folder, name: &str) -> io::Result<String> {
    let Some(mut file) = folder.open_to_read(name)? else { return Ok(String::new()) };
    let from = file.metadata()?.len().saturating_sub(BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
