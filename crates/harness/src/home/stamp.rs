//! Whether a file is still the one that it was.

use rustix::fs::Stat;

/// Tells one version of a file from another without reading it.
///
/// An edit in place that keeps the size can hide within one tick of the file system's clock (some
/// milliseconds); whoever must be sure reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// The file system.
    pub device: u64,
    /// The file in it, whatever its name is.
    pub inode: u64,
    /// In bytes.
    pub size: u64,
    /// When its content was last written, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When it or its attributes last changed, in nanoseconds since 1970.
    pub changed_ns: i128,
}

#[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
pub(crate) fn identity_of_stat(stat: &Stat) -> FileStamp {
    let ns = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
    FileStamp {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: ns(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed_ns: ns(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    }
}
