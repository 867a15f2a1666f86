//! Looks up names in an open directory. No link is followed.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{failed, intruded, intruder};

pub(crate) fn open_directory(parent: impl AsFd, name: &str, shown: &str) -> io::Result<OwnedFd> {
    let parent = parent.as_fd();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(|e| {
        let found = stat_at(parent, name, shown).ok().flatten();
        match found.and_then(|stat| intruder(stat.st_mode, FileType::Directory)) {
            Some(what) => intruded(shown, what),
            None => failed(shown, "open", e.into()),
        }
    })
}

pub(crate) fn stat_at(dir: impl AsFd, name: &str, shown: &str) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(failed(shown, "look at", e.into())),
    }
}
