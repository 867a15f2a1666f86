//! Checks of harness's files in the state root.

use std::{
    fs::{self, FileType},
    os::unix::fs::FileTypeExt,
};

use harness::{
    home::Home,
    store::{StoreError, look_backup},
};
use harness_core::{
    Stats,
    format::{self, FormatError},
};

use super::finding::{Finding, Level};
use crate::{render::tasks, root::StateRoot};

/// All names that must be regular files, and `.harness`, which must be a directory.
const NAMES: &[&str] = &[
    Home::LEDGER,
    Home::BACKUP,
    Home::TMP,
    Home::LOG,
    Home::INIT_SCRIPT,
    Home::CONFIG,
    Home::MARKER,
    Home::FOLDER,
];

pub(super) fn check(root: &StateRoot) -> Vec<Finding> {
    let mut findings = vec![ledger(root), backup(root)];
    let strangers = strangers(root);
    if strangers.is_empty() {
        findings.push(Finding::ok("files", "regular files, no links"));
    }
    findings.extend(strangers);
    findings
}

fn ledger(root: &StateRoot) -> Finding {
    const CHECK: &str = "ledger";
    let text = match root.snapshot_text() {
        Ok(text) => text,
        Err(why) => return Finding::broken(CHECK, &why.into()),
    };
    let ledger = match text.ledger() {
        Ok(ledger) => ledger,
        Err(StoreError::Format(why @ FormatError::Corrupt(_))) => {
            let fix = match look_backup(root.path()) {
                Ok(Some(backup)) if format::read_ledger(&backup).is_ok() => {
                    "any command that changes something restores the backup"
                }
                _ => "put back a version from your own backups or from .harness/archive",
            };
            let finding = Finding::fail(CHECK, why.to_string(), fix);
            return Finding { level: Level::Broken, ..finding };
        }
        Err(why) => return Finding::broken(CHECK, &why.into()),
    };
    if let Some(task) = ledger.selection().dangling().first().and_then(|id| ledger.task(id)) {
        let missing = task.depends_on.iter().find(|d| !ledger.contains(d));
        let missing = missing.map(ToString::to_string).unwrap_or_default();
        let what = format!("task {} depends on {missing}, which does not exist", task.id);
        let fix = format!("fix it: `harness task edit {} --depends-on …`", task.id);
        return Finding { level: Level::Broken, ..Finding::fail(CHECK, what, fix) };
    }
    if let Some(id) = ledger.selection().cyclic().first() {
        return Finding::warn(
            CHECK,
            format!("task {id} depends on itself, directly or indirectly"),
            format!("fix it: `harness task edit {id} --depends-on …`"),
        );
    }
    let stats = Stats::of(&ledger);
    Finding::ok(CHECK, format!("{}, {} completed", tasks(stats.total), stats.completed))
}

fn backup(root: &StateRoot) -> Finding {
    const CHECK: &str = "backup";
    let fix = "the next change writes a new one";
    match look_backup(root.path()) {
        Ok(None) => Finding::ok(CHECK, "none yet"),
        Ok(Some(bytes)) => match format::read_ledger(&bytes) {
            Ok(ledger) => Finding::ok(CHECK, format!("readable, {}", tasks(ledger.len()))),
            Err(why) => {
                let error = why.to_string().replacen(Home::LEDGER, Home::BACKUP, 1);
                Finding::warn(CHECK, error, fix)
            }
        },
        Err(why) => Finding::warn(CHECK, why.to_string(), fix),
    }
}

/// Returns a finding for each of our names that is no file, or no directory. A link at `.tmp` or
/// `.bak` is replaced by the next write; at any other name it stops everything.
fn strangers(root: &StateRoot) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in NAMES {
        let Ok(found) = fs::symlink_metadata(root.path().join(name)) else { continue };
        let kind = found.file_type();
        let good = if *name == Home::FOLDER { kind.is_dir() } else { kind.is_file() };
        if good {
            continue;
        }
        let what = format!("{name} is {}", word(kind));
        let replaced = name.ends_with(".bak") || name.ends_with(".tmp");
        findings.push(match replaced && !kind.is_dir() {
            true => Finding::warn("files", what, "the next change replaces it"),
            false => {
                let fix = "remove it; harness follows no links and opens no special files";
                Finding { level: Level::Broken, ..Finding::fail("files", what, fix) }
            }
        });
    }
    findings
}

fn word(kind: FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_file() {
        "a file"
    } else {
        "a device"
    }
}
