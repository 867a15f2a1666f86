//! The files that serve as an agent's memory.

use std::{cmp::Reverse, fs, path::Path, time::SystemTime};

use harness_core::{TaskId, research};

use crate::home::Home;

/// The limit of task folders that are searched for one line of a prompt.
const FOLDERS_MAX: usize = 10_000;

/// Returns the files below `directory` that a prompt names: the handoff, the log and the newest
/// overview of research, if they exist. Links are not included.
pub fn artifacts(directory: &Path) -> Vec<String> {
    let there = |path: &str| is_file(&directory.join(path));
    let named = [Home::HANDOFF, Home::LOG].into_iter().filter(|path| there(path));
    named.map(str::to_owned).chain(newest_overview(directory)).collect()
}

fn newest_overview(directory: &Path) -> Option<String> {
    let folders = fs::read_dir(directory.join(research::FOLDER)).ok()?.take(FOLDERS_MAX);
    let found = folders.filter_map(|entry| {
        let entry = entry.ok().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()))?;
        // Only valid ids are used, because the name becomes part of a prompt.
        let task = TaskId::parse(entry.file_name().to_str()?).ok()?;
        let overview = entry.path().join(research::OVERVIEW);
        let found = fs::symlink_metadata(&overview).ok().filter(fs::Metadata::is_file)?;
        Some((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), Reverse(task)))
    });
    let (_, Reverse(task)) = found.max()?;
    Some(format!("{}/{task}/{}", research::FOLDER, research::OVERVIEW))
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
