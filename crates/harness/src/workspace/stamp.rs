//! What the file system tells of a file without reading it.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Two equal stamps of one path mean that nothing was written in between, unless the file was
/// [young](Stamp::is_young) at the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// How coarse the clock of a file system may be.
const GRAIN: Duration = Duration::from_millis(20);

impl Stamp {
    pub(super) fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Of what lies there; a link is not followed. `None` if nothing does.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|found| Self::of(&found))
    }

    /// A regular one: its contents cannot change without the stamp.
    pub(super) fn is_file(&self) -> bool {
        const KIND: u32 = 0o170_000;
        const REGULAR: u32 = 0o100_000;
        self.mode & KIND == REGULAR
    }

    /// The file was changed so shortly before `now` that the next change may leave the stamp as it
    /// is.
    pub(super) fn is_young(&self, now: SystemTime) -> bool {
        let old = now.checked_sub(GRAIN).unwrap_or(UNIX_EPOCH);
        let old = old.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(old.as_secs()).unwrap_or(i64::MAX);
        self.changed >= (seconds, i64::from(old.subsec_nanos()))
    }
}
