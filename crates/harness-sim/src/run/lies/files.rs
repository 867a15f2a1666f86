//! Lies in the files beside the ledger.

use harness::store::disk::File;
use harness_core::TaskId;
use serde_json::{Value, json};

use crate::{random::Random, run::stage::State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Lie {
    /// Writes a `.bak` in which all tasks are done, with a newer revision than any other.
    ForgesBackup,
    DeletesBackup,
    /// Creates a file in the place of the next temporary file.
    LittersTmp,
    /// Adds a log line that a task is done.
    ForgesLog,
    TruncatesLog,
    DeletesLog,
    DeletesJournal,
    TruncatesJournal,
    DeletesMarker,
    /// Writes a receipt for work that was never judged.
    ForgesReceipt,
    DeletesReceipts,
}

const ALL: [(Lie, u64); 11] = [
    (Lie::ForgesBackup, 10),
    (Lie::DeletesBackup, 8),
    (Lie::LittersTmp, 6),
    (Lie::ForgesLog, 8),
    (Lie::TruncatesLog, 5),
    (Lie::DeletesLog, 5),
    (Lie::DeletesJournal, 8),
    (Lie::TruncatesJournal, 6),
    (Lie::DeletesMarker, 6),
    (Lie::ForgesReceipt, 8),
    (Lie::DeletesReceipts, 6),
];

impl Lie {
    pub(super) fn any(random: &mut Random) -> Self {
        ALL[random.weighted(&ALL.map(|(_, weight)| weight))].0
    }
}

pub(super) fn tell(state: &mut State, lie: Lie, task: &TaskId) {
    let disk = state.disk.clone();
    match lie {
        Lie::ForgesBackup => {
            if let Some(bytes) = all_done(&disk.bytes(File::Ledger)) {
                disk.put(File::Backup, &bytes);
            }
        }
        Lie::DeletesBackup => disk.remove(File::Backup),
        Lie::LittersTmp => disk.put(File::Tmp, b"{\"tasks\": []"),
        Lie::ForgesLog => {
            let line = format!("[2025-07-01T10:00:00Z] [SESSION-1] Completed [{task}] trust me\n");
            disk.add_lines(File::Log, line.as_bytes());
        }
        Lie::TruncatesLog => {
            let bytes = disk.bytes(File::Log);
            disk.edit(File::Log, &bytes[..bytes.len() / 2]);
        }
        Lie::DeletesLog => disk.remove(File::Log),
        Lie::DeletesJournal => {
            disk.remove(File::Journal);
            state.lies.journal_forged();
        }
        Lie::TruncatesJournal => {
            let bytes = disk.bytes(File::Journal);
            if !bytes.is_empty() {
                let at = state.random.below(bytes.len());
                disk.edit(File::Journal, &bytes[..at]);
                state.lies.journal_forged();
            }
        }
        Lie::DeletesMarker => drop(std::fs::remove_file(state.root.join(".harness-active"))),
        Lie::ForgesReceipt => {
            let name = format!("{task}.1.json");
            disk.put_receipt(name, b"{\"version\": 1}".to_vec());
        }
        Lie::DeletesReceipts => disk.remove_receipts(),
    }
}

/// Returns a ledger in which everything is done, a thousand versions later.
fn all_done(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut root: Value = serde_json::from_slice(bytes).ok()?;
    for task in root.get_mut("tasks")?.as_array_mut()? {
        task["status"] = json!("completed");
    }
    let revision = root["revision"].as_u64().unwrap_or(0);
    root["revision"] = json!(revision + 1000);
    serde_json::to_vec_pretty(&root).ok()
}
