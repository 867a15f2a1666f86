//! The disk beneath the file store: our files, by name, with one method per step.
//!
//! Every method that changes something is a point at which a process can die, so that a simulator
//! can stop between any two. The file store owns the order of the steps; this module knows nothing
//! of ledgers. It is not a port: only the file store and its simulator use it.

mod real;

use std::io;

use crate::home::{FileStamp, Home, Outside, file_name};
pub use real::RealDisk;

/// A file of ours. All are regular files, and none is ever reached through a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum File {
    Ledger,
    Backup,
    Tmp,
    Log,
    Marker,
    Trajectory,
    Lock,
    /// The journal, which is outside of the state root. Neither git nor a person who tidies up
    /// reaches it there.
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
    /// Returns the path relative to the state root, as messages show it.
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

    /// Returns the last component of [`File::path`].
    fn name(self) -> &'static str {
        file_name(self.path())
    }
}

/// The steps of the file store. All run under the lock of the state root, except `identity`,
/// `read`, `size`, `read_from` and `tail`.
pub trait Disk: Send {
    /// Returns the stamp of the current file; `None` if there is none.
    fn identity(&self, file: File) -> io::Result<Option<FileStamp>>;

    /// Reads the whole file, with the stamp that it had before the first byte was read. A change
    /// during the read therefore shows at the next look. Returns `None` if there is no file.
    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>>;

    /// Returns the size in bytes. A missing file is empty.
    fn size(&self, file: File) -> io::Result<u64>;

    /// Reads from `offset` to the end. The result is empty beyond the end, or without a file.
    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>>;

    /// Reads at most the last `max_bytes`.
    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>>;

    /// Creates [`File::Tmp`] with these bytes, in this order, durably. After an error, no such file
    /// is left.
    fn write_tmp(&self, pieces: &[&[u8]]) -> io::Result<()>;

    /// Makes [`File::Backup`] the current ledger. Does nothing if there is no ledger yet.
    fn keep_backup(&self) -> io::Result<()>;

    /// Renames [`File::Tmp`] to the ledger.
    fn publish(&self) -> io::Result<()>;

    /// Makes the names in the state root durable.
    fn sync_root(&self) -> io::Result<()>;

    /// Appends to the file, and creates it if needed. After an error none of the bytes are left,
    /// unless another program wrote after them.
    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable.
    fn sync(&self, file: File) -> io::Result<()>;

    /// Keeps bytes under `.harness/archive`, durably. An older file of that name stays, and the new
    /// one gets a number. Returns the name of the new file.
    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String>;

    fn make_marker(&self) -> io::Result<()>;

    /// Creates `.harness` (0700), which git ignores by its own `.gitignore`.
    fn ensure_home(&self) -> io::Result<()>;

    /// Returns whether the folder of receipts exists.
    fn has_receipts(&self) -> io::Result<bool>;

    /// Creates the folder of receipts.
    fn make_receipts(&self) -> io::Result<()>;

    /// Returns whether there is a place for [`File::Journal`].
    fn journals(&self) -> bool;

    /// Replaces [`File::Journal`] with these bytes. A reader sees all of it or the earlier content.
    /// It is not made durable, because the ledger is what must survive.
    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()>;

    /// Returns a receipt by the name of its file.
    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Creates or replaces a receipt, durably.
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
        disk.write_tmp(&[b"o", b"ne"]).unwrap();
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
