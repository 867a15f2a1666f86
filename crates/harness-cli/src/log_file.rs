//! The log for readers: line by line, from the start or from near its end, never all of it at once,
//! and further when it grows.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::PathBuf,
};

use harness::{
    home::{Home, Inode},
    store::postgres::Database,
};

use crate::root::StateRoot;

/// The limit of a line. A longer one is returned in pieces. Ours are far shorter.
const LINE_BYTES_MAX: u64 = 1024 * 1024;
const BLOCK_BYTES: u64 = 64 * 1024;

pub(crate) const LOG: &str = Home::LOG;

/// A position in the log of a root, which is a file or is in a database. A missing log is treated as
/// empty.
pub(crate) struct LogFile {
    root: PathBuf,
    database: Option<DatabaseLog>,
    reader: Option<BufReader<File>>,
    /// A line without its end. More of it may come.
    begun: Vec<u8>,
}

/// The log of a ledger in a database.
struct DatabaseLog {
    database: Database,
    /// The version whose lines were read last.
    version: u64,
    lines: VecDeque<String>,
    /// Whether the lines up to now were asked for.
    begun: bool,
}

impl DatabaseLog {
    fn take(&mut self, found: Vec<(u64, String)>) {
        self.begun = true;
        self.version = found.last().map_or(self.version, |(version, _)| *version);
        self.lines.extend(found.into_iter().map(|(_, line)| line));
    }

    fn seek_last(&mut self, lines: usize) -> io::Result<()> {
        self.lines.clear();
        let found = self.database.log_tail(lines.max(1) as u64).map_err(io::Error::other)?;
        self.take(found);
        if lines == 0 {
            self.lines.clear();
        }
        Ok(())
    }

    fn follow(&mut self) -> io::Result<()> {
        let found = self.database.log_after(self.version).map_err(io::Error::other)?;
        self.take(found);
        Ok(())
    }
}

impl LogFile {
    pub(crate) fn open(root: &StateRoot) -> io::Result<Self> {
        let database = root.backing().open().map_err(io::Error::other)?;
        let database = database.map(|database| DatabaseLog {
            database,
            version: 0,
            lines: VecDeque::new(),
            begun: false,
        });
        let root = root.path().to_owned();
        let mut log = Self { root, database, reader: None, begun: Vec::new() };
        log.reader = log.reopen()?;
        Ok(log)
    }

    fn reopen(&self) -> io::Result<Option<BufReader<File>>> {
        let file = match self.database {
            Some(_) => None,
            None => harness::store::open_log(&self.root)?,
        };
        Ok(file.map(|file| BufReader::with_capacity(BLOCK_BYTES as usize, file)))
    }

    /// Moves to the start of the last `lines` lines, looking at `max_bytes` of the end at most.
    pub(crate) fn seek_last(&mut self, lines: usize, max_bytes: u64) -> io::Result<()> {
        if let Some(log) = &mut self.database {
            return log.seek_last(lines);
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let start = start_of_last(reader.get_mut(), lines, max_bytes)?;
        reader.seek(SeekFrom::Start(start))?;
        Ok(())
    }

    /// Returns the next line without its end; `None` if there is none yet.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        if let Some(log) = &mut self.database {
            if !log.begun {
                log.follow()?;
            }
            return Ok(log.lines.pop_front());
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let room = LINE_BYTES_MAX.saturating_sub(self.begun.len() as u64);
        reader.by_ref().take(room).read_until(b'\n', &mut self.begun)?;
        let whole = self.begun.ends_with(b"\n") || self.begun.len() as u64 >= LINE_BYTES_MAX;
        Ok(if whole { Some(self.take()) } else { None })
    }

    /// Returns the text at the end without a newline.
    pub(crate) fn rest(&mut self) -> Option<String> {
        if self.begun.is_empty() { None } else { Some(self.take()) }
    }

    fn take(&mut self) -> String {
        let mut line = std::mem::take(&mut self.begun);
        if line.ends_with(b"\n") {
            line.pop();
        }
        if line.ends_with(b"\r") {
            line.pop();
        }
        String::from_utf8(line).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into())
    }

    /// Continues with the current file if it is another one or was cut. It is called when there was
    /// no next line. Returns the last text of the file that is gone.
    pub(crate) fn follow(&mut self) -> io::Result<Option<String>> {
        if let Some(log) = &mut self.database {
            return log.follow().map(|()| None);
        }
        let now = self.reopen()?;
        let same = match (&mut self.reader, &now) {
            (Some(old), Some(new)) => {
                let (was, is) = (old.get_ref().metadata()?, new.get_ref().metadata()?);
                Inode::of(&was) == Inode::of(&is) && is.len() >= old.stream_position()?
            }
            (None, None) => true,
            // Between two logs, the old one may still be written to.
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        if same {
            return Ok(None);
        }
        self.reader = now;
        Ok(self.rest())
    }
}

/// Returns the last lines of the log, for a short look.
pub(crate) fn last_lines(root: &StateRoot, lines: usize) -> io::Result<Vec<String>> {
    let mut log = LogFile::open(root)?;
    log.seek_last(lines, LINE_BYTES_MAX)?;
    let mut found = Vec::new();
    while let Some(line) = log.next()? {
        found.push(line);
    }
    found.extend(log.rest());
    let surplus = found.len().saturating_sub(lines);
    Ok(found.split_off(surplus))
}

/// Returns the end of the log. Its first line may be incomplete.
pub(crate) fn last_text(root: &StateRoot, bytes: u64) -> io::Result<String> {
    if !root.backing().is_files() {
        // Few lines are shorter than this.
        const LINE_BYTES: u64 = 64;
        return Ok(last_lines(root, (bytes / LINE_BYTES) as usize)?.join("\n"));
    }
    let Some(mut log) = harness::store::open_log(root.path())? else { return Ok(String::new()) };
    let start = log.metadata()?.len().saturating_sub(bytes);
    log.seek(SeekFrom::Start(start))?;
    let mut found = Vec::new();
    log.take(bytes).read_to_end(&mut found)?;
    Ok(String::from_utf8_lossy(&found).into_owned())
}

/// Reads blocks from the end until it has passed `lines` line ends.
fn start_of_last(file: &mut File, lines: usize, max_bytes: u64) -> io::Result<u64> {
    let end = file.metadata()?.len();
    if lines == 0 {
        return Ok(end);
    }
    let limit = end.saturating_sub(max_bytes);
    let mut block = vec![0; BLOCK_BYTES as usize];
    let mut at = end;
    let mut found = 0;
    while at > limit {
        let start = at.saturating_sub(BLOCK_BYTES).max(limit);
        let bytes = &mut block[..(at - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)?;
        for (offset, byte) in bytes.iter().enumerate().rev() {
            let position = start + offset as u64;
            // The end of the last line does not begin another one.
            if *byte == b'\n' && position + 1 < end {
                found += 1;
                if found == lines {
                    return Ok(position + 1);
                }
            }
        }
        at = start;
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    fn all(log: &mut LogFile) -> Vec<String> {
        std::iter::from_fn(|| log.next().unwrap()).collect()
    }

    #[test]
    fn the_last_lines_are_found_whatever_their_length() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 5).unwrap(), [""; 0]);
        let long = "é".repeat(50_000);
        let log = dir.path().join(LOG);
        fs::write(&log, format!("a\nb\n{long}\nd\n")).unwrap();
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 2).unwrap(), [&long, "d"]);
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 3).unwrap(), ["b", &long, "d"]);
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 9).unwrap().len(), 4);
        fs::write(&log, "a\nb\nc").unwrap();
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 2).unwrap(), ["b", "c"]);
        fs::write(&log, b"\xff\n\n").unwrap();
        assert_eq!(last_lines(&StateRoot::at(dir.path()), 2).unwrap(), ["\u{fffd}", ""]);
    }

    #[test]
    fn following_survives_a_log_that_is_replaced_or_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOG);
        let mut log = LogFile::open(&StateRoot::at(dir.path())).unwrap();
        assert_eq!(log.follow().unwrap(), None);
        fs::write(&path, "a\nb").unwrap();
        assert_eq!(log.follow().unwrap(), None);
        assert_eq!(all(&mut log), ["a"]);
        let mut more = File::options().append(true).open(&path).unwrap();
        more.write_all(b"c\nlast").unwrap();
        assert_eq!(all(&mut log), ["bc"]);
        fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(log.follow().unwrap(), None);
        fs::write(&path, "new\nand more\n").unwrap();
        assert_eq!(log.follow().unwrap(), Some("last".to_owned()));
        assert_eq!(all(&mut log), ["new", "and more"]);
        fs::write(&path, "cut\n").unwrap();
        assert_eq!(log.follow().unwrap(), None);
        assert_eq!(all(&mut log), ["cut"]);
    }
}
