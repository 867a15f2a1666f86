//! The disk beneath the file store: our files, by name, one method per step.
//!
//! Every method that changes something is a point at which a process can die, so that a simulator
//! may stop between any two. The order of the steps belongs to the file store; this module knows
//! nothing of ledgers. It is no port: only the file store and its simulator use it.

mod real;

use std::io;

use crate::home::{FileStamp, Home, Outside, file_name};
pub use real::RealDisk;

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
            File::Ledger => Home::LEDGER,
            File::Backup => Home::BACKUP,
            File::Tmp => Home::TMP,
            File::Log => Home::LOG,
            File::Marker => Home::MARKER,
            File::Trajectory => Home::TRAJECTORY,
            File::Lock => Home::LOCK,
            File::Journal => Outside::JOURNAL,
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
        file_name(self.path())
    }
}

/// The steps the file store is made of. All act under the lock of the state root, `identity`,
/// `read`, `size`, `read_from` and `tail` aside.
pub trait Disk: Send {
    /// The file as it stands; `None` if there is none.
    fn identity(&self, file: File) -> io::Result<Option<FileStamp>>;

    /// All of it, with the identity it had before the first byte was read, so that a change
    /// during the read shows at the next look. `None` if there is none.
    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>>;

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
