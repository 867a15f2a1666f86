//! Receipts: one file for each completion, `.harness/receipts/<task>.<epoch>.json`.

use std::{fs, io, path::Path};

use harness_core::{CommitId, Epoch, Receipt, TaskId};

use super::disk::RealDisk;
use crate::home::{Home, file_name};

pub(super) const FOLDER: &str = file_name(Home::RECEIPTS);
/// The limit of a receipt. A larger file is not ours.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// Returns the name of its file.
pub(super) fn name(task: &TaskId, epoch: Epoch) -> String {
    format!("{task}.{epoch}.json")
}

/// Returns the path of the receipt of a claim, relative to the state root.
pub fn receipt_path(task: &TaskId, epoch: Epoch) -> String {
    format!("{}/{}", Home::RECEIPTS, name(task, epoch))
}

/// Makes a receipt durable. A repeated call replaces the file.
pub fn record(root: &Path, receipt: &Receipt) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(receipt)?;
    bytes.push(b'\n');
    RealDisk::open(root)?.keep(FOLDER, &name(&receipt.task, receipt.epoch), &bytes)
}

/// Returns the receipt of one claim; `None` if there is none.
pub fn receipt(root: &Path, task: &TaskId, epoch: Epoch) -> io::Result<Option<Receipt>> {
    let Some(bytes) = RealDisk::open(root)?.kept(FOLDER, &name(task, epoch), MAX_BYTES)? else {
        return Ok(None);
    };
    let read = serde_json::from_slice(&bytes);
    let named = |e| {
        let name = name(task, epoch);
        io::Error::new(io::ErrorKind::InvalidData, format!("{}/{name}: {e}", Home::RECEIPTS))
    };
    Ok(Some(read.map_err(named)?))
}

/// Returns the receipt of the latest claim of a task that has one. Only the names in the folder are
/// read to find it, not the ledger.
pub fn latest_receipt(root: &Path, task: &TaskId) -> io::Result<Option<Receipt>> {
    match epochs(root, task)?.last() {
        Some(latest) => receipt(root, task, *latest),
        None => Ok(None),
    }
}

/// Returns the latest receipt of a task that names this commit.
pub fn receipt_of_commit(
    root: &Path,
    task: &TaskId,
    commit: &CommitId,
) -> io::Result<Option<Receipt>> {
    for epoch in epochs(root, task)?.into_iter().rev() {
        let found = receipt(root, task, epoch)?;
        if found.as_ref().is_some_and(|found| found.commit.as_ref() == Some(commit)) {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns the claims of a task that have receipts, oldest first.
fn epochs(root: &Path, task: &TaskId) -> io::Result<Vec<Epoch>> {
    let names = match fs::read_dir(Home::of(root).receipts()) {
        Ok(names) => names,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let names = names.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut epochs: Vec<Epoch> = names.filter_map(|name| epoch_of(&name, task)).collect();
    epochs.sort_unstable();
    Ok(epochs)
}

/// Returns the claim of a receipt of this name, if it is one of the task.
fn epoch_of(name: &str, task: &TaskId) -> Option<Epoch> {
    let rest = name.strip_prefix(task.as_str())?.strip_prefix('.')?;
    rest.strip_suffix(".json")?.parse().ok().map(Epoch)
}
