//! The log, and the last lines that the ledger stores.
//!
//! A change and its log lines cannot be written in one step. So the ledger stores the lines of its
//! last change and the size of the log at that time. They are appended after the ledger is durable,
//! and the next writer appends lines that a crash kept from the log. Each line is there exactly
//! once, and no answer waits for the log.

use std::io;

use harness_core::ledger::Head;

use super::{
    FileStore,
    disk::{Disk, File},
};
use crate::home::FileStamp;

impl FileStore {
    /// Appends the lines of the last change that the log lacks, and makes them durable. The next
    /// change overwrites the only other copy.
    pub(super) fn finish_log(&mut self, head: &Head) -> io::Result<()> {
        if head.log_tail.is_empty() {
            return Ok(());
        }
        let stamp = self.disk.identity(File::Log)?;
        let done = |done: &FinishedLog| Some(done.stamp) == stamp && done.is_of(head);
        if self.finished_log.as_ref().is_some_and(done) {
            return Ok(());
        }
        // A log that is shorter than before has been replaced, so all of it may be new.
        let size = self.disk.size(File::Log)?;
        let from = if size < head.log_at { 0 } else { head.log_at };
        let written = self.disk.read_from(File::Log, from)?;
        let missing = missing(&written, &head.log_tail);
        if !missing.is_empty() {
            // A power loss may also have removed the end of the line before ours.
            if written.is_empty() {
                self.end_log_line()?;
            }
            self.append_to_log(&missing)?;
        }
        self.disk.sync(File::Log)?;
        // The log may have been created for these lines. Its name must then be durable as well.
        if from == 0 {
            self.disk.sync_root()?;
        }
        let (lines, log_at) = (head.log_tail.clone(), head.log_at);
        let stamp = self.disk.identity(File::Log)?;
        self.finished_log = stamp.map(|stamp| FinishedLog { stamp, lines, log_at });
        Ok(())
    }

    /// Does the same as [`end_line`], for the log.
    pub(super) fn end_log_line(&mut self) -> io::Result<()> {
        self.appended.extend_from_slice(end_line(&*self.disk, File::Log)?);
        Ok(())
    }

    /// Appends to the log, and keeps the bytes for observers of the transaction.
    pub(super) fn append_to_log(&mut self, lines: &[u8]) -> io::Result<()> {
        if !lines.is_empty() {
            self.disk.append(File::Log, lines)?;
            self.appended.extend_from_slice(lines);
        }
        Ok(())
    }
}

/// The log as this process made it durable, so that it does not do so again for the same lines.
#[derive(Debug)]
pub(super) struct FinishedLog {
    stamp: FileStamp,
    lines: Vec<String>,
    log_at: u64,
}

impl FinishedLog {
    fn is_of(&self, head: &Head) -> bool {
        self.log_at == head.log_at && self.lines == head.log_tail
    }
}

/// Ends the last line of a file if it is open, so that the next append does not run into it.
/// Returns the appended bytes.
pub(super) fn end_line(disk: &dyn Disk, file: File) -> io::Result<&'static [u8]> {
    match disk.tail(file, 1)?.last() {
        None | Some(b'\n') => Ok(b""),
        Some(_) => disk.append(file, b"\n").map(|()| b"\n".as_slice()),
    }
}

/// Returns the bytes that must be appended so that all `lines` are in the log.
fn missing(written: &[u8], lines: &[String]) -> Vec<u8> {
    let wanted = text(lines);
    if written.starts_with(&wanted) {
        return Vec::new();
    }
    // The usual crash: a part was written, perhaps half a line.
    if let Some(rest) = wanted.strip_prefix(written) {
        return rest.to_vec();
    }
    // Other programs wrote too. Our lines are in order among theirs.
    let mut there = written.split(|b| *b == b'\n');
    let mut out = Vec::new();
    if written.last().is_some_and(|b| *b != b'\n') {
        out.push(b'\n');
    }
    let absent = lines.iter().filter(|line| !there.any(|l| l == line.as_bytes()));
    let absent: Vec<&String> = absent.collect();
    if absent.is_empty() {
        return Vec::new();
    }
    for line in absent {
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out
}

pub(super) fn text(lines: &[String]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_what_a_crash_kept_from_the_log_and_nothing_else() {
        let lines = ["one".to_owned(), "two".to_owned(), "three".to_owned()];
        for (written, expected) in [
            ("", "one\ntwo\nthree\n"),
            ("one\ntw", "o\nthree\n"),
            ("one\ntwo", "\nthree\n"),
            ("one\ntwo\n", "three\n"),
            ("one\ntwo\nthree\n", ""),
            ("one\ntwo\nthree\nof another\n", ""),
            ("of another\none\n", "two\nthree\n"),
            ("of another\none\ntwo\nthree\n", ""),
            ("one\nhalf", "\ntwo\nthree\n"),
        ] {
            let missing = missing(written.as_bytes(), &lines);
            assert_eq!(String::from_utf8(missing).unwrap(), expected, "{written:?}");
        }
    }

    #[test]
    fn the_same_line_twice_is_two_lines() {
        let lines = ["x".to_owned(), "x".to_owned()];
        assert_eq!(missing(b"x\n", &lines), b"x\n");
        assert_eq!(missing(b"other\nx\n", &lines), b"x\n");
    }
}
