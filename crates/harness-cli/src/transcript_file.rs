//! The transcripts below `.harness/transcripts`, and the search for those of a task or a run.
//!
//! A file is named after its loop (`TASK.EPOCH` or the id of a run) and the number of the context.
//! The second and later executions in a context add their own number: `task-001.2.0.log`,
//! `task-001.2.0.2.log`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use harness::home::{Home, folder::Folder};

/// The limit of a line. A longer one is returned in pieces.
const LINE_BYTES_MAX: u64 = 8 * 1024 * 1024;
const ENDING: &str = ".log";
const ERRORS_ENDING: &str = ".err.log";

/// The folder of transcripts of a state root.
pub(crate) struct TranscriptFolder {
    folder: Folder,
}

/// The selection of transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The one that was written to last.
    Newest,
    /// Those of the last attempt at a task.
    Task(String),
    /// Those of a loop: `TASK.EPOCH`, or the id of a run with an objective.
    Loop(String),
}

impl TranscriptFolder {
    /// Returns the folder; `None` if there is none yet.
    pub(crate) fn find(root: &Path) -> io::Result<Option<Self>> {
        Ok(Folder::find(&Home::of(root).transcripts())?.map(|folder| Self { folder }))
    }

    /// Returns the names of the selected transcripts, in the order in which they were written.
    pub(crate) fn names(&self, whose: &Whose) -> io::Result<Vec<String>> {
        let all = self.folder.names()?.into_iter();
        let all = all.filter(|name| name.ends_with(ENDING) && !name.ends_with(ERRORS_ENDING));
        Ok(match whose {
            Whose::Newest => {
                let changed = |name: &String| self.changed(name).unwrap_or(i128::MIN);
                all.max_by_key(changed).into_iter().collect()
            }
            Whose::Task(task) => last_attempt(all, task),
            Whose::Loop(name) => of_loop(all, name),
        })
    }

    fn changed(&self, name: &str) -> Option<i128> {
        Some(self.folder.identity(name).ok()??.modified_ns)
    }

    pub(crate) fn open(&self, name: &str) -> io::Result<Option<TranscriptLines>> {
        let file = self.folder.open_to_read(name)?;
        Ok(file.map(|file| TranscriptLines { reader: BufReader::new(file), begun: Vec::new() }))
    }

    /// Opens the standard error of the agent, which is stored beside the transcript of this name.
    pub(crate) fn open_errors(&self, name: &str) -> io::Result<Option<TranscriptLines>> {
        match name.strip_suffix(ENDING) {
            Some(stem) => self.open(&format!("{stem}{ERRORS_ENDING}")),
            None => Ok(None),
        }
    }
}

/// Returns the numbers between a prefix and the ending.
fn numbers(name: &str, prefix: &str) -> Option<Vec<u64>> {
    let rest = name.strip_prefix(prefix)?.strip_prefix('.')?.strip_suffix(ENDING)?;
    rest.split('.').map(|number| number.parse().ok()).collect()
}

fn of_loop(names: impl Iterator<Item = String>, prefix: &str) -> Vec<String> {
    let mut found: Vec<(Vec<u64>, String)> = names
        .filter_map(|name| Some((numbers(&name, prefix)?, name)))
        .filter(|(numbers, _)| numbers.len() <= 2)
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

fn last_attempt(names: impl Iterator<Item = String>, task: &str) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let epochs = names.iter().filter_map(|name| numbers(name, task));
    let epochs = epochs.filter(|numbers| (2..=3).contains(&numbers.len()));
    match epochs.map(|numbers| numbers[0]).max() {
        Some(epoch) => of_loop(names.into_iter(), &format!("{task}.{epoch}")),
        None => Vec::new(),
    }
}

/// A transcript that is read line by line, and further when it grows.
pub(crate) struct TranscriptLines {
    reader: BufReader<File>,
    begun: Vec<u8>,
}

impl TranscriptLines {
    /// Returns the next line without its end; `None` if there is none yet.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        let room = LINE_BYTES_MAX.saturating_sub(self.begun.len() as u64);
        self.reader.by_ref().take(room).read_until(b'\n', &mut self.begun)?;
        let whole = self.begun.ends_with(b"\n") || self.begun.len() as u64 >= LINE_BYTES_MAX;
        Ok(if whole { self.rest() } else { None })
    }

    /// Returns the text at the end without a newline.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        if line.is_empty() {
            return None;
        }
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_at_a_task_in_order() {
        let names = || {
            ["t.1.0.log", "t.2.10.log", "t.2.2.log", "t.2.2.2.log", "t-x.9.0.log", "t.2.log"]
                .into_iter()
                .map(str::to_owned)
        };
        assert_eq!(last_attempt(names(), "t"), ["t.2.2.log", "t.2.2.2.log", "t.2.10.log"]);
        assert_eq!(of_loop(names(), "t.1"), ["t.1.0.log"]);
        assert_eq!(last_attempt(names(), "none"), [""; 0]);
    }
}
