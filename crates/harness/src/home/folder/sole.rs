//! A file with only one name, so that writes to it show nowhere else.

use std::{fs, io, os::fd::AsFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::failed;

/// Returns the file itself. If it has a second name (a hard link), it returns a copy that replaces
/// it under `name`. `opened` must be readable and unread. A copy is opened with `flags`.
pub(crate) fn sole(
    dir: impl AsFd,
    name: &str,
    shown: &str,
    mut opened: fs::File,
    flags: OFlags,
) -> io::Result<fs::File> {
    let dir = dir.as_fd();
    let stat = rustix::fs::fstat(&opened).map_err(|e| failed(shown, "look at", e.into()))?;
    if stat.st_nlink <= 1 {
        return Ok(opened);
    }
    let tmp = format!(".{name}.{}.copy", std::process::id());
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
    let copied = || -> io::Result<fs::File> {
        // It belongs to a dead process that had our pid.
        _ = rustix::fs::unlinkat(dir, &tmp, AtFlags::empty());
        let mut copy = fs::File::from(rustix::fs::openat(dir, &tmp, flags, mode)?);
        rustix::fs::fchmod(&copy, mode)?;
        io::copy(&mut opened, &mut copy)?;
        copy.sync_all()?;
        rustix::fs::renameat(dir, &tmp, dir, name)?;
        rustix::fs::fsync(dir)?;
        Ok(copy)
    }();
    copied.map_err(|e| {
        _ = rustix::fs::unlinkat(dir, &tmp, AtFlags::empty());
        failed(shown, "make a copy of", e)
    })
}
