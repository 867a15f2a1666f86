//! The disk beneath the file store: our files, by name, one method per step.
//!
//! Every method that changes something is a point at which a process can die, so that a simulator
//! may stop between any two. The order of the steps belongs to the file store; this module knows
//! nothing of ledgers. It is no port: only the file store and its simulator use it.

mod real;

use std::{fmt, fs::Metadata, io, os::unix::fs::MetadataExt as _};

pub use real::RealDisk;
// For other files that must not be reached through a link.
pub(crate) use real::{failed, identity_of_stat, intruded, intruder, open_directory, stat_at};

/// A file of ours. All are regular files; none is ever reached through a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum File {
    Ledger,
    Backup,
    Tmp,
    Log,
    Marker,
    Trajectory,
    Lock,
    /// Outside of the state root, where neither git nor a person who tidies up reaches it.
    Journal,
}

/// The directory that a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Home,
    Journal,
}

impl File {
    /// The path from the state root, as messages show it.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            File::Ledger => "harness-tasks.json",
            File::Backup => "harness-tasks.json.bak",
            File::Tmp => "harness-tasks.json.tmp",
            File::Log => "harness-progress.txt",
            File::Marker => ".harness-active",
            File::Trajectory => ".harness/trajectory.jsonl",
            File::Lock => ".harness/lock",
            File::Journal => "journal",
        }
    }

    fn place(self) -> Place {
        match self {
            File::Ledger | File::Backup | File::Tmp | File::Log | File::Marker => Place::Root,
            File::Trajectory | File::Lock => Place::Home,
            File::Journal => Place::Journal,
        }
    }

    /// The last component of [`File::path`].
    fn name(self) -> &'static str {
        let path = self.path();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }
}

/// Tells one version of a file from another without reading it.
///
/// An edit in place that keeps the size can hide within one tick of the file system's clock (some
/// milliseconds); whoever must be sure reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
}

impl Identity {
    /// The identity of the file that `found` describes.
    pub fn of(found: &Metadata) -> Self {
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }
}

/// What stands where a regular file of ours belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intruder {
    Symlink,
    Directory,
    RegularFile,
    Fifo,
    Socket,
    Device,
}

impl fmt::Display for Intruder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Intruder::Symlink => "a symbolic link; harness never follows one",
            Intruder::Directory => "a directory; harness needs a file there",
            Intruder::RegularFile => "a file; harness needs a directory there",
            Intruder::Fifo => "a named pipe; harness never opens one",
            Intruder::Socket => "a socket; harness never opens one",
            Intruder::Device => "a device; harness never opens one",
        })
    }
}

/// What is inside every [`io::Error`] of this module: it names the file.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{name} is {what} — remove it")]
    Intruder { name: String, what: Intruder },
    #[error("can not {doing} {name}: {source}")]
    Failed { name: String, doing: &'static str, source: io::Error },
}

impl DiskError {
    /// The one inside `error`, if it came from here.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&DiskError> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<DiskError> for io::Error {
    /// Keeps the kind, so that a full disk is still told from a read-only one.
    fn from(error: DiskError) -> io::Error {
        let kind = match &error {
            DiskError::Intruder { .. } => io::ErrorKind::InvalidInput,
            DiskError::Failed { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// The steps the file store is made of. All act under the lock of the state root, `identity`,
/// `read`, `size`, `read_from` and `tail` aside.
pub trait Disk: Send {
    /// The file as it stands; `None` if there is none.
    fn identity(&self, file: File) -> io::Result<Option<Identity>>;

    /// All of it, with the identity it had before the first byte was read, so that a change
    /// during the read shows at the next look. `None` if there is none.
    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, Identity)>>;

    /// Its size in bytes; a file that is not there is empty.
    fn size(&self, file: File) -> io::Result<u64>;

    /// From `offset` to the end; empty beyond it, or without a file.
    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>>;

    /// At most the last `max_bytes`.
    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>>;

    /// Makes [`File::Tmp`] anew with these bytes, durable. After an error none is left.
    fn write_tmp(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes [`File::Backup`] the ledger as it stands; nothing where there is no ledger yet.
    fn keep_backup(&self) -> io::Result<()>;

    /// Puts [`File::Tmp`] in the place of the ledger.
    fn publish(&self) -> io::Result<()>;

    /// Makes the names in the state root durable.
    fn sync_root(&self) -> io::Result<()>;

    /// Adds to the end of the file and makes it if need be. After an error none of the bytes are
    /// left, unless somebody else wrote behind them.
    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable.
    fn sync(&self, file: File) -> io::Result<()>;

    /// Keeps bytes under `.harness/archive`, durable; an older one of that name stays and the new
    /// one gets a number. Says the name it got.
    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String>;

    fn make_marker(&self) -> io::Result<()>;

    /// Makes `.harness` (0700), which git ignores by its own `.gitignore`.
    fn ensure_home(&self) -> io::Result<()>;

    /// Whether there is a folder of receipts.
    fn has_receipts(&self) -> io::Result<bool>;

    /// Makes the folder of receipts.
    fn make_receipts(&self) -> io::Result<()>;

    /// Whether there is a place for [`File::Journal`].
    fn journals(&self) -> bool;

    /// Makes [`File::Journal`] anew with these bytes; a reader sees all of it or what was there
    /// before. It is not made durable: the ledger is what must survive.
    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()>;

    /// A receipt by the name of its file.
    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Makes or replaces a receipt, durable.
    fn keep_receipt(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn where_links_are_not_supported_the_backup_is_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(&fs::canonicalize(folder.path()).unwrap()).unwrap();
        disk.copy_backup().unwrap();
        assert_eq!(disk.identity(File::Backup).unwrap(), None);
        disk.write_tmp(b"one").unwrap();
        disk.publish().unwrap();
        disk.copy_backup().unwrap();
        let (ledger, backup) = (disk.read(File::Ledger).unwrap(), disk.read(File::Backup).unwrap());
        assert_eq!(backup.as_ref().unwrap().0, b"one");
        assert_ne!(backup.unwrap().1.inode, ledger.unwrap().1.inode);
    }

    #[test]
    fn a_name_is_the_end_of_its_path() {
        assert_eq!(File::Trajectory.name(), "trajectory.jsonl");
        assert_eq!(File::Marker.name(), ".harness-active");
    }
}
