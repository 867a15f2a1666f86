//! A folder that is open: names in it have one component each, and no link is ever followed.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use crate::store::disk::{
    Identity, Intruder, failed, identity_of_stat, intruded, intruder, open_directory, stat_at,
};

const POLL: Duration = Duration::from_millis(20);
/// More files of one name than this are a loop somewhere.
const NAMES_MAX: u32 = 10_000;
/// What file systems allow for one name.
const NAME_BYTES_MAX: usize = 255;

pub(crate) struct Folder {
    fd: OwnedFd,
    /// From the root, for messages; empty for the root itself.
    path: String,
}

/// What goes by a name.
pub(crate) enum Found {
    Nothing,
    /// Its bytes, and what it was before the first of them was read.
    File(Vec<u8>, Identity),
    TooLarge,
    /// No file.
    Other(Intruder),
}

/// Held until it is dropped, or the process ends.
pub(crate) struct Alone {
    _locked: fs::File,
}

impl Folder {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let name = root.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty());
        Ok(Self { fd: fd.map_err(|e| failed(&name, "open", e.into()))?, path: String::new() })
    }

    /// Keeps others out who do the same; `None` if one of them does not end. The lock is on the
    /// folder itself, so that it leaves no file behind.
    pub(crate) fn lock(&self, wait: Duration) -> io::Result<Option<Alone>> {
        let locked = fs::File::from(self.fd.try_clone()?);
        let start = Instant::now();
        loop {
            match locked.try_lock() {
                Ok(()) => return Ok(Some(Alone { _locked: locked })),
                Err(fs::TryLockError::WouldBlock) if start.elapsed() >= wait => return Ok(None),
                Err(fs::TryLockError::WouldBlock) => std::thread::sleep(POLL),
                Err(fs::TryLockError::Error(e)) => return Err(failed(&self.shown("."), "lock", e)),
            }
        }
    }

    /// A name as messages have it.
    pub(crate) fn shown(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// A folder in it; `None` if nothing is there.
    pub(crate) fn child(&self, name: &str) -> io::Result<Option<Self>> {
        let path = self.shown(name);
        if stat_at(&self.fd, name, &path)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { fd: open_directory(&self.fd, name, &path)?, path }))
    }

    /// The same, made if need be.
    pub(crate) fn make(&self, name: &str) -> io::Result<Self> {
        let path = self.shown(name);
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(e) => return Err(failed(&path, "make", e.into())),
        }
        Ok(Self { fd: open_directory(&self.fd, name, &path)?, path })
    }

    /// What is in it. A name that is no UTF-8 is none that we look for.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let read = |e: Errno| failed(&self.path, "read", e.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(read)? {
            let entry = entry.map_err(read)?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// The file of that name as it stands.
    pub(crate) fn identity(&self, name: &str) -> io::Result<Option<Identity>> {
        Ok(stat_at(&self.fd, name, &self.shown(name))?.map(|stat| identity_of_stat(&stat)))
    }

    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Found> {
        let shown = self.shown(name);
        let Some(stat) = stat_at(&self.fd, name, &shown)? else { return Ok(Found::Nothing) };
        if let Some(what) = intruder(stat.st_mode, FileType::RegularFile) {
            return Ok(Found::Other(what));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(opened) => fs::File::from(opened),
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            // It has become one since.
            Err(Errno::LOOP) => return Ok(Found::Other(Intruder::Symlink)),
            Err(e) => return Err(failed(&shown, "open", e.into())),
        };
        let reading = |e| failed(&shown, "read", e);
        let stat = rustix::fs::fstat(&opened).map_err(|e| reading(e.into()))?;
        if let Some(what) = intruder(stat.st_mode, FileType::RegularFile) {
            return Ok(Found::Other(what));
        }
        let mut bytes = Vec::new();
        opened.take(bytes_max + 1).read_to_end(&mut bytes).map_err(reading)?;
        if bytes.len() as u64 > bytes_max {
            return Ok(Found::TooLarge);
        }
        Ok(Found::File(bytes, identity_of_stat(&stat)))
    }

    /// Makes or replaces a file, durable: whoever looks sees all of it or what was there before.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let shown = self.shown(name);
        let there = stat_at(&self.fd, name, &shown)?;
        if let Some(what) = there.and_then(|stat| intruder(stat.st_mode, FileType::RegularFile)) {
            return Err(intruded(&shown, what));
        }
        // One name for all: what a crash left of it is replaced, and does not heap up.
        let tmp = format!(".{name}.tmp");
        let written = || -> io::Result<()> {
            match rustix::fs::unlinkat(&self.fd, &tmp, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let created = rustix::fs::openat(&self.fd, &tmp, flags, Mode::from_raw_mode(0o666))?;
            let mut created = fs::File::from(created);
            created.write_all(bytes)?;
            created.sync_all()?;
            rustix::fs::renameat(&self.fd, &tmp, &self.fd, name)?;
            Ok(rustix::fs::fsync(&self.fd)?)
        }();
        written.map_err(|e| {
            _ = rustix::fs::unlinkat(&self.fd, &tmp, AtFlags::empty());
            failed(&shown, "write", e)
        })
    }

    /// Moves a file to another folder and says under which name; `None` if it is gone. What has
    /// that name there stays, and the file gets a number.
    pub(crate) fn hand_over(&self, name: &str, to: &Self) -> io::Result<Option<String>> {
        for number in 1..=NAMES_MAX {
            let other = numbered(name, number);
            match rename_noreplace(self.fd.as_fd(), name, to.fd.as_fd(), &other) {
                Ok(()) => return Ok(Some(other)),
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(None),
                Err(e) => return Err(failed(&self.shown(name), "move", e.into())),
            }
        }
        Err(failed(&self.shown(name), "move", io::ErrorKind::AlreadyExists.into()))
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|e| failed(&self.shown("."), "sync", e.into()))
    }
}

/// `a.json`, `a-2.json`, `a-3.json`, …
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let end = format!("-{number}.{end}");
    let room = NAME_BYTES_MAX.saturating_sub(end.len());
    format!("{}{end}", &stem[..stem.floor_char_boundary(room)])
}

type Fd<'a> = std::os::fd::BorrowedFd<'a>;

fn rename_noreplace(from: Fd<'_>, name: &str, to: Fd<'_>, other: &str) -> rustix::io::Result<()> {
    match renameat_noreplace(from, name, to, other) {
        // Not on this system, or not on this file system.
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => link_over(from, name, to, other),
        done => done,
    }
}

#[cfg(any(target_vendor = "apple", target_os = "linux", target_os = "android"))]
fn renameat_noreplace(from: Fd<'_>, name: &str, to: Fd<'_>, other: &str) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from, name, to, other, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_vendor = "apple", target_os = "linux", target_os = "android")))]
fn renameat_noreplace(_: Fd<'_>, _: &str, _: Fd<'_>, _: &str) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// A link replaces nothing either. Killed between the two steps it leaves both names, and the next
/// time moves the one that is still here.
fn link_over(from: Fd<'_>, name: &str, to: Fd<'_>, other: &str) -> rustix::io::Result<()> {
    rustix::fs::linkat(from, name, to, other, AtFlags::empty())?;
    rustix::fs::unlinkat(from, name, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clash_gets_a_number_that_fits() {
        assert_eq!(numbered("a.json", 1), "a.json");
        assert_eq!(numbered("a.json", 2), "a-2.json");
        let long = format!("{}.json", "é".repeat(125));
        assert_eq!(long.len(), 255);
        assert!(numbered(&long, 10).len() <= 255);
    }

    #[test]
    fn a_link_takes_the_place_of_a_rename_and_replaces_nothing() {
        let place = tempfile::tempdir().unwrap();
        let root = Folder::open(place.path()).unwrap();
        let (one, two) = (root.make("one").unwrap(), root.make("two").unwrap());
        one.replace("a", b"new").unwrap();
        two.replace("a", b"old").unwrap();
        let link = |other| link_over(one.fd.as_fd(), "a", two.fd.as_fd(), other);
        assert_eq!(link("a"), Err(Errno::EXIST));
        link("b").unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!((read("two/a").as_str(), read("two/b").as_str()), ("old", "new"));
        assert!(!place.path().join("one/a").exists());
    }

    #[test]
    fn two_are_not_at_work_at_once() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (Folder::open(place.path()).unwrap(), Folder::open(place.path()).unwrap());
        let alone = one.lock(Duration::ZERO).unwrap();
        assert!(alone.is_some());
        assert!(two.lock(Duration::ZERO).unwrap().is_none());
        drop((alone, one));
        assert!(two.lock(Duration::ZERO).unwrap().is_some());
    }
}
