//! The trajectory, `.harness/trajectory.jsonl`: every fact as a JSON object, one per line.
//!
//! The store appends to it after a change is durable and its lock is released
//! ([`FileStore`](crate::store::FileStore)). This module reads it from the end.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use serde_json::Value;

use crate::store::disk::{Disk as _, File, RealDisk};

/// The limit of a line. The rest of a longer one is another line, which is no entry.
const LINE_BYTES_MAX: u64 = 1024 * 1024;
/// The number of bytes at the end that are read.
const TAIL_BYTES: u64 = 1024 * 1024;

/// Passes each line to `take`, oldest first. The last one may be torn.
pub fn for_each_line(root: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let Some(file) = RealDisk::open(root)?.open_to_read(File::Trajectory)? else { return Ok(()) };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        take(&line);
        line.clear();
    }
    Ok(())
}

/// Returns the last entries, oldest first. Broken lines, which a crash may leave, are skipped.
pub fn last(root: &Path, count: usize) -> io::Result<Vec<Value>> {
    let bytes = RealDisk::open(root)?.tail(File::Trajectory, TAIL_BYTES)?;
    let lines = bytes.rsplit(|byte| *byte == b'\n');
    let entries = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut last: Vec<_> = entries.filter(Value::is_object).take(count).collect();
    last.reverse();
    Ok(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn the_last_entries_are_read_and_broken_lines_left_out() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        assert!(last(&root, 5).unwrap().is_empty(), "there is none yet");
        fs::create_dir(root.join(".harness")).unwrap();
        let text = "{\"n\":1}\n{\"n\":2}\n{\"n\":\n7\n\n{\"n\":3}\n{\"torn";
        fs::write(root.join(".harness/trajectory.jsonl"), text).unwrap();
        let mut all = Vec::new();
        for_each_line(&root, |line| all.extend_from_slice(line)).unwrap();
        assert_eq!(all, text.as_bytes());
        let numbers: Vec<_> =
            last(&root, 2).unwrap().iter().map(|e| e["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [2, 3]);
    }
}
