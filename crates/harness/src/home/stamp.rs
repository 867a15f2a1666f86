//! Detects whether a file changed without reading it.

use std::{
    fs,
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::Stat;

/// The identity of a file or a directory, whatever its name. The system reuses the number once
/// nothing keeps the file. So it is compared only while a descriptor, a name or a record keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inode {
    /// The file system.
    pub device: u64,
    /// The number of the file in it.
    pub number: u64,
}

impl Inode {
    /// Returns the inode of `found`.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), number: found.ino() }
    }

    /// Returns the inode at `path` without following links; `None` if there is none, or if it
    /// cannot be read.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::of)
    }

    #[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
    pub(crate) fn of_stat(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, number: stat.st_ino as u64 }
    }
}

/// The coarsest clock of a file system that is expected.
const GRAIN: Duration = Duration::from_millis(20);

/// Distinguishes versions of a file without reading it.
///
/// An edit in place that keeps the size can hide within one tick of the file system's clock (some
/// milliseconds). A caller that must be sure reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// The file system.
    pub device: u64,
    /// The number of the file in it, whatever its name.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The last write of its content, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The last change of its content or attributes, in nanoseconds since 1970.
    pub changed_ns: i128,
}

impl FileStamp {
    /// Returns the stamp of `found`.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: nanoseconds(found.mtime().into(), found.mtime_nsec().into()),
            changed_ns: nanoseconds(found.ctime().into(), found.ctime_nsec().into()),
        }
    }

    /// Returns the stamp of the object at `path` without following links; `None` if there is none,
    /// or if it cannot be read.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::of)
    }

    pub(crate) fn of_stat(stat: &Stat) -> Self {
        let Inode { device, number } = Inode::of_stat(stat);
        Self {
            device,
            inode: number,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: nanoseconds(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed_ns: nanoseconds(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }

    /// Returns whether the file was changed so shortly before `now` that the next change may leave
    /// the stamp unchanged.
    pub(crate) fn is_young(&self, now: SystemTime) -> bool {
        let old = now.checked_sub(GRAIN).unwrap_or(UNIX_EPOCH);
        let old = old.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        self.changed_ns >= i128::try_from(old).unwrap_or(i128::MAX)
    }

    /// Returns the stamp without the time of the attributes, so that a second name or another mode
    /// makes no difference.
    #[must_use]
    pub fn of_content(self) -> Self {
        Self { changed_ns: 0, ..self }
    }
}

fn nanoseconds(seconds: i128, nanoseconds: i128) -> i128 {
    seconds * 1_000_000_000 + nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_of_one_version_of_one_file() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        assert_eq!((FileStamp::at(&one), Inode::at(&one)), (None, None));
        fs::write(&one, "one").unwrap();
        let before = FileStamp::at(&one).unwrap();
        assert_eq!(FileStamp::at(&one), Some(before));
        let stat = rustix::fs::stat(&one).unwrap();
        assert_eq!(FileStamp::of_stat(&stat), before);
        assert_eq!(Some(Inode::of_stat(&stat)), Inode::at(&one));

        fs::write(&two, "longer").unwrap();
        fs::rename(&two, &one).unwrap();
        let after = FileStamp::at(&one).unwrap();
        assert_ne!(after.of_content(), before.of_content());
    }

    #[test]
    fn attributes_are_no_content_and_a_link_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (one, link) = (place.path().join("one"), place.path().join("link"));
        fs::write(&one, "one").unwrap();
        let before = FileStamp::at(&one).unwrap();
        fs::hard_link(&one, place.path().join("second")).unwrap();
        assert_eq!(FileStamp::at(&one).unwrap().of_content(), before.of_content());
        std::os::unix::fs::symlink(&one, &link).unwrap();
        assert_ne!(Inode::at(&link), Inode::at(&one));
    }
}
