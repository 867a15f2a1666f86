//! An open folder that contains our files.
//!
//! Names in it have one component each and are opened relative to the handle, without following a
//! link and without waiting for the other end of a pipe. Anything that is not a regular file is an
//! error that names it, even if it was created between two calls.

mod error;
mod handle;
mod place;
mod rename;
mod sole;

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::FileStamp;
pub use error::{DiskError, Intruder};
pub(crate) use error::{failed, intruded, intruder};
pub(crate) use handle::{open_directory, stat_at};
use rename::rename_noreplace;
pub(crate) use sole::sole;

const POLL: Duration = Duration::from_millis(20);
/// A larger number of files of one name indicates a loop.
const NAMES_MAX: u32 = 10_000;
/// The limit of file systems for one name.
const NAME_BYTES_MAX: usize = 255;

/// A folder of ours, or the one that contains ours.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// The path relative to the root, for messages; empty for the root itself.
    path: String,
    /// `true` if only its owner can read the files that are created in it.
    private: bool,
}

/// The object with a name.
#[derive(Debug)]
pub enum Found {
    /// There is none.
    Nothing,
    /// The bytes of a file, and its stamp before the first of them was read.
    File(Vec<u8>, FileStamp),
    /// The file is larger than the limit.
    TooLarge,
    /// The object is not a file.
    Other(Intruder),
}

/// A lock that is held until it is dropped, or the process ends.
#[derive(Debug)]
pub struct Alone {
    _locked: fs::File,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    /// Takes a lock that excludes other callers; `None` if another holds it for too long. The lock
    /// is on the folder itself, so that it leaves no file behind.
    pub fn lock(&self, wait: Duration) -> io::Result<Option<Alone>> {
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

    /// Returns the name for messages.
    #[must_use]
    pub fn shown(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Returns the names in it. A name that is not UTF-8 is not one of ours.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let read = |e: Errno| failed(&self.path, "read", e.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(read)? {
            let entry = entry.map_err(read)?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// Returns the stamp of the current file of that name.
    pub fn identity(&self, name: &str) -> io::Result<Option<FileStamp>> {
        Ok(self.stat(name)?.map(|stat| FileStamp::of_stat(&stat)))
    }

    /// Returns whether there is a regular file of that name. Anything else there is an error.
    pub fn has(&self, name: &str) -> io::Result<bool> {
        let Some(stat) = self.stat(name)? else { return Ok(false) };
        match intruder(stat.st_mode, FileType::RegularFile) {
            Some(what) => Err(intruded(&self.shown(name), what)),
            None => Ok(true),
        }
    }

    fn stat(&self, name: &str) -> io::Result<Option<rustix::fs::Stat>> {
        one_component(name)?;
        stat_at(&self.fd, name, &self.shown(name))
    }

    /// Opens a regular file. It is checked before (opening a device can act on it) and after (it
    /// may have been swapped). `O_NONBLOCK` keeps a pipe that was swapped in from blocking us.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<fs::File> {
        let shown = self.shown(name);
        self.has(name)?;
        let all = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.fd, name, all, mode) {
            Ok(opened) => opened,
            // It has become a link since, or a pipe without a reader.
            Err(e @ (Errno::LOOP | Errno::NXIO)) => {
                self.has(name)?;
                return Err(failed(&shown, "open", e.into()));
            }
            Err(e) => return Err(failed(&shown, "open", e.into())),
        };
        let stat = rustix::fs::fstat(&opened).map_err(|e| failed(&shown, "look at", e.into()))?;
        if let Some(what) = intruder(stat.st_mode, FileType::RegularFile) {
            return Err(intruded(&shown, what));
        }
        // Callers expect a file whose operations block.
        let flags = rustix::fs::fcntl_getfl(&opened).map(|flags| flags - OFlags::NONBLOCK);
        flags
            .and_then(|flags| rustix::fs::fcntl_setfl(&opened, flags))
            .map_err(|e| failed(&shown, "open", e.into()))?;
        Ok(fs::File::from(opened))
    }

    fn file_mode(&self) -> Mode {
        Mode::from_raw_mode(if self.private { 0o600 } else { 0o666 })
    }

    /// Opens a file for reading; `None` if there is none.
    pub fn open_to_read(&self, name: &str) -> io::Result<Option<fs::File>> {
        match self.open_file(name, OFlags::RDONLY, Mode::empty()) {
            Ok(opened) => Ok(Some(opened)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens a file for reading and appending. It is created if needed. A file with a second name
    /// is replaced by a copy first, so that writes do not show under the other name.
    pub fn open_to_append(&self, name: &str) -> io::Result<fs::File> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let opened = self.open_file(name, flags | OFlags::CREATE, self.file_mode())?;
        sole(&self.fd, name, &self.shown(name), opened, flags)
    }

    /// Opens a file for an OS lock on it. It is created if needed. Nothing may be written to it
    /// while it has a [second name](Self::has_second_name).
    pub fn open_to_lock(&self, name: &str) -> io::Result<fs::File> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE, self.file_mode())
    }

    /// Returns whether writes to the file show under another name too.
    pub fn has_second_name(file: &fs::File) -> io::Result<bool> {
        Ok(rustix::fs::fstat(file)?.st_nlink > 1)
    }

    /// Creates an empty file for writing. A regular file of that name is removed.
    pub fn create(&self, name: &str) -> io::Result<fs::File> {
        if self.has(name)? {
            self.remove(name)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open_file(name, flags, self.file_mode())
    }

    /// Removes a file. It is not an error if there is none. A link itself is removed, and its
    /// target stays.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        one_component(name)?;
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(failed(&self.shown(name), "remove", e.into())),
        }
    }

    /// Reads the whole file, if it has at most `bytes_max`.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Found> {
        let shown = self.shown(name);
        let opened = match self.open_to_read(name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(Found::Nothing),
            Err(e) => match DiskError::of(&e) {
                Some(DiskError::Intruder { what, .. }) => return Ok(Found::Other(*what)),
                _ => return Err(e),
            },
        };
        let reading = |e| failed(&shown, "read", e);
        let stat = rustix::fs::fstat(&opened).map_err(|e| reading(e.into()))?;
        let mut bytes = Vec::new();
        opened.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(reading)?;
        if bytes.len() as u64 > bytes_max {
            return Ok(Found::TooLarge);
        }
        Ok(Found::File(bytes, FileStamp::of_stat(&stat)))
    }

    /// Does the same, but returns an error for everything except a small file or none.
    pub fn read_small(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let shown = self.shown(name);
        match self.read(name, bytes_max)? {
            Found::Nothing => Ok(None),
            Found::File(bytes, _) => Ok(Some(bytes)),
            Found::Other(what) => Err(intruded(&shown, what)),
            Found::TooLarge => {
                let why = format!("it has more than {bytes_max} bytes");
                Err(failed(&shown, "read", io::Error::new(io::ErrorKind::FileTooLarge, why)))
            }
        }
    }

    /// Creates or replaces a file durably. A reader sees all of it or the earlier content.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // All writes use one temporary name, so that leftovers of a crash are replaced and do not
        // pile up.
        self.put_by(name, &format!(".{name}.tmp"), bytes, true)
    }

    /// Does the same without waiting for the disk, for files that need not survive a loss of power.
    /// Several callers may do it at once.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_by(name, &aside(name), bytes, false)
    }

    /// Creates a file durably, unless there is one. If several callers do it at once, the first
    /// wins.
    pub fn put_first(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let tmp = aside(name);
        self.put_by(&tmp, &aside(name), bytes, true)?;
        if !self.move_to(&tmp, self, name)? {
            self.remove(&tmp)?;
        }
        self.sync()
    }

    fn put_by(&self, name: &str, tmp: &str, bytes: &[u8], durable: bool) -> io::Result<()> {
        self.has(name)?;
        let written = || -> io::Result<()> {
            match rustix::fs::unlinkat(&self.fd, tmp, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let created = rustix::fs::openat(&self.fd, tmp, flags, self.file_mode())?;
            let mut created = fs::File::from(created);
            created.write_all(bytes)?;
            if durable {
                created.sync_all()?;
            }
            rustix::fs::renameat(&self.fd, tmp, &self.fd, name)?;
            if durable { Ok(rustix::fs::fsync(&self.fd)?) } else { Ok(()) }
        }();
        written.map_err(|e| {
            _ = rustix::fs::unlinkat(&self.fd, tmp, AtFlags::empty());
            failed(&self.shown(name), "write", e)
        })
    }

    /// Moves a file to another folder as `other`, where it replaces a regular file.
    pub fn put_in_place(&self, name: &str, to: &Self, other: &str) -> io::Result<()> {
        one_component(name)?;
        to.has(other)?;
        rustix::fs::renameat(&self.fd, name, &to.fd, other)
            .map_err(|e| failed(&to.shown(other), "write", e.into()))
    }

    /// Moves a file to another folder as `other`. Returns `false` if that name exists there, or if
    /// there is no file here.
    pub fn move_to(&self, name: &str, to: &Self, other: &str) -> io::Result<bool> {
        one_component(name)?;
        one_component(other)?;
        match rename_noreplace(self.fd.as_fd(), name, to.fd.as_fd(), other) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(e) => Err(failed(&self.shown(name), "move", e.into())),
        }
    }

    /// Moves a file to another folder and returns its new name; `None` if it is gone. An existing
    /// file of that name stays, and the moved file gets a number.
    pub fn hand_over(&self, name: &str, to: &Self) -> io::Result<Option<String>> {
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
    pub fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|e| failed(&self.shown("."), "sync", e.into()))
    }
}

/// Returns `a.json`, `a-2.json`, `a-3.json`, …
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let end = format!("-{number}.{end}");
    let room = NAME_BYTES_MAX.saturating_sub(end.len());
    format!("{}{end}", &stem[..stem.floor_char_boundary(room)])
}

/// Returns a name beside another that no other call uses.
fn aside(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".{name}.{}.{number}", std::process::id())
}

/// Refuses any other name, because it would lead out of the folder.
fn one_component(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        let e = io::Error::new(io::ErrorKind::InvalidInput, "not a file name");
        return Err(failed(name, "use", e));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{rename::link_over, *};

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
