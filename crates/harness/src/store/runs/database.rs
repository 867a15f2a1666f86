//! One open database file: how SQLite is connected to it, and which files are refused.

use std::{
    fmt::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{
    RunStoreError,
    schema::{self, Found},
    sqlite::{LOOK_BUSY_SECONDS, NAME},
};
use crate::{
    home::{FileStamp, Inode},
    store::disk::RealDisk,
};

/// The setting that determines when SQLite waits for the disk.
pub(super) const SYNCHRONOUS: &str = "synchronous";

#[derive(Debug)]
pub(super) struct Open {
    pub(super) connection: Connection,
    /// The stamp of a database that is read directly.
    pub(super) still: Option<FileStamp>,
    /// For a database that is written: the file that the connection has open.
    pub(super) file: Option<Inode>,
}

impl Open {
    pub(super) fn to_read(path: &Path) -> rusqlite::Result<Open> {
        let still = still(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = match &still {
            Some(_) => {
                let uri = as_it_lies(path);
                connect(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI, LOOK_BUSY_SECONDS)?
            }
            None => connect(path, flags, LOOK_BUSY_SECONDS)?,
        };
        Ok(Open { connection, still, file: None })
    }
}

/// Returns the stamp of a database without a writer, as far as a look can tell; `None` if a writer
/// is at work, or died.
pub(super) fn still(path: &Path) -> Option<FileStamp> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name).symlink_metadata().is_ok()
    };
    if beside("-wal") || beside("-journal") {
        return None;
    }
    FileStamp::at(path)
}

/// Refuses other objects in the place of these files. SQLite opens them by name, and a pipe would
/// block it.
pub(super) fn refuse_others(disk: &RealDisk) -> Result<(), RunStoreError> {
    for ending in ["-wal", "-shm", "-journal"] {
        disk.has(&format!("{NAME}{ending}"))?;
    }
    Ok(())
}

/// Returns a URI with `immutable`, with which SQLite opens this one file and takes no lock.
fn as_it_lies(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            // Writing to a string does not fail.
            other => _ = write!(uri, "%{other:02X}"),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

pub(super) fn connect(
    path: &Path,
    flags: OpenFlags,
    busy_seconds: u64,
) -> rusqlite::Result<Connection> {
    // No component of the path is a link: the root is canonical, and the rest was checked. SQLite
    // refuses a link that is swapped in now.
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(busy_seconds))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A row that a person inserted is data, not code.
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Requests settings that survive a crash, and reads back the actual ones.
pub(super) fn make_safe(
    path: &Path,
    connection: &Connection,
    busy_seconds: u64,
) -> Result<(), RunStoreError> {
    let failed = |error| error_of(path, busy_seconds, "open", error);
    let until = Instant::now() + Duration::from_secs(busy_seconds);
    let journal_mode: String = loop {
        let asked =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match asked {
            Ok(mode) => break mode,
            // SQLite does not wait here for another process that does the same.
            Err(error) if is_busy(&error) && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(failed(error)),
        }
    };
    connection.pragma_update(None, SYNCHRONOUS, "FULL").map_err(failed)?;
    let number = |name: &str| -> Result<i64, RunStoreError> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(failed)
    };
    let granted = [
        ("journal_mode", journal_mode.to_ascii_lowercase(), "wal"),
        ("synchronous", number("synchronous")?.to_string(), "2"),
        ("foreign_keys", number("foreign_keys")?.to_string(), "1"),
    ];
    match granted.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((pragma, found, wanted)) => {
            Err(RunStoreError::Unsafe { path: path.to_owned(), pragma, found, wanted })
        }
        None => Ok(()),
    }
}

pub(super) fn usable(path: &Path, found: Found) -> Result<(), RunStoreError> {
    let path = path.to_owned();
    match found {
        Found::Empty | Found::Known => Ok(()),
        Found::Foreign => {
            let why = "it contains tables of another program".to_owned();
            Err(RunStoreError::NotOurs { path, why })
        }
        Found::Newer(found) => Err(RunStoreError::Newer { path, found, known: schema::VERSION }),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

pub(super) fn error_of(
    path: &Path,
    busy_seconds: u64,
    doing: &'static str,
    error: rusqlite::Error,
) -> RunStoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            RunStoreError::Locked { path, seconds: busy_seconds }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            RunStoreError::NotOurs { path, why: error.to_string() }
        }
        _ => RunStoreError::Failed { path, doing, source: Box::new(error) },
    }
}
