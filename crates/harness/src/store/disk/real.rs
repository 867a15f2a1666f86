//! The real disk.
//!
//! Every name has one component and is opened relative to a directory that is already open, with
//! `O_NOFOLLOW`. No link in the root or in `.harness` is ever followed, even one that is created
//! between two calls.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::{fd::AsFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{Disk, File, Place};
use crate::{
    home::{
        FileStamp, Home, Outside, file_name,
        folder::{Folder, Intruder, failed, intruded, intruder, open_directory, sole, stat_at},
    },
    store::receipts,
};

const HOME: &str = Home::FOLDER;
const ARCHIVE: &str = file_name(Home::ARCHIVE);
/// A larger number of archived files of one name indicates a loop, not a history.
const ARCHIVE_NAMES_MAX: u32 = 10_000;
/// The number of bytes of small pieces that are collected for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// The files of one state root.
#[derive(Debug)]
pub struct RealDisk {
    root: Folder,
    path: PathBuf,
    journal: Option<Outside>,
}

impl RealDisk {
    /// Opens the files. `root` must be canonical and exist.
    pub fn open(root: &Path) -> io::Result<RealDisk> {
        Ok(RealDisk { root: Folder::open(root)?, path: root.to_owned(), journal: None })
    }

    /// Adds a place for the journal.
    pub(crate) fn with_journal(self, journal: Option<Outside>) -> RealDisk {
        RealDisk { journal, ..self }
    }

    /// Returns the state root.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `.harness/lock` for an OS lock. The file and `.harness` are created if needed.
    pub(crate) fn open_lock(&self) -> io::Result<fs::File> {
        self.ensure_home()?;
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.open_file(File::Lock, flags, Mode::from_raw_mode(0o600))
    }

    /// Creates or replaces `.harness/<folder>/<name>` durably, readable by its owner only. A reader
    /// sees all of it or the earlier content.
    pub(crate) fn keep(&self, folder: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.ensure_home()?;
        let folder = self.root.make_private(HOME)?.make(folder)?;
        folder.replace(name, bytes)
    }

    /// Reads what [`keep`](Self::keep) wrote, at most `max_bytes`; `None` if there is nothing.
    pub(crate) fn kept(
        &self,
        folder: &str,
        name: &str,
        max_bytes: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(home) = self.root.child(HOME)? else { return Ok(None) };
        let Some(folder) = home.child(folder)? else { return Ok(None) };
        let Some(opened) = folder.open_to_read(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = opened.take(max_bytes).read_to_end(&mut bytes);
        read.map_err(|e| failed(&folder.shown(name), "read", e))?;
        Ok(Some(bytes))
    }

    /// Creates an empty `.harness/<name>` durably, unless it exists. Only its owner can read it.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "the database needs it"))]
    pub(crate) fn make_private(&self, name: &str) -> io::Result<()> {
        self.ensure_home()?;
        let home = self.root.make_private(HOME)?;
        let opened = home.open_to_lock(name)?;
        // A file that existed already has kept its mode.
        let private = Mode::from_raw_mode(0o600);
        rustix::fs::fchmod(&opened, private)
            .map_err(|e| failed(&home.shown(name), "make", e.into()))?;
        home.sync()
    }

    /// Returns whether there is a regular file `.harness/<name>`. Anything else there is an error.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "the database needs it"))]
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match self.root.child(HOME)? {
            Some(home) => home.has(name),
            None => Ok(false),
        }
    }

    /// Runs `act` with the directory of `file`.
    fn within<T>(&self, file: File, act: impl FnOnce(&Folder) -> io::Result<T>) -> io::Result<T> {
        match file.place() {
            Place::Root => act(&self.root),
            Place::Home => {
                let missing = || failed(HOME, "open", io::ErrorKind::NotFound.into());
                act(&self.root.child(HOME)?.ok_or_else(missing)?)
            }
            Place::Journal => {
                let opened = self.journal.as_ref().map(Outside::open).transpose()?.flatten();
                let missing = || failed(file.path(), "find", io::ErrorKind::NotFound.into());
                act(&opened.ok_or_else(missing)?)
            }
        }
    }

    /// Reads the metadata of the name without following links. An intruder is an error.
    fn stat(&self, file: File) -> io::Result<Option<Stat>> {
        let found = self.within(file, |dir| stat_at(dir, file.name(), file.path()));
        let stat = match found {
            Ok(Some(stat)) => stat,
            Ok(None) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        match intruder(stat.st_mode, FileType::RegularFile) {
            Some(what) => Err(intruded(file.path(), what)),
            None => Ok(Some(stat)),
        }
    }

    fn open_file(&self, file: File, flags: OFlags, mode: Mode) -> io::Result<fs::File> {
        self.within(file, |dir| dir.open_file(file.name(), flags, mode))
    }

    pub(crate) fn open_to_read(&self, file: File) -> io::Result<Option<fs::File>> {
        match self.open_file(file, OFlags::RDONLY, Mode::empty()) {
            Ok(opened) => Ok(Some(opened)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes room for a new file. A link or a pipe there is removed; its target stays.
    fn clear(&self, file: File) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.root, file.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => {
                let stat = stat_at(&self.root, file.name(), file.path())?;
                match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                    Some(FileType::Directory) => Err(intruded(file.path(), Intruder::Directory)),
                    _ => Err(failed(file.path(), "replace", e.into())),
                }
            }
        }
    }

    /// Copies the ledger to the backup, for file systems without hard links or without permission
    /// for them.
    pub(super) fn copy_backup(&self) -> io::Result<()> {
        let Some((bytes, _)) = self.read(File::Ledger)? else {
            return Ok(());
        };
        self.create_durably(File::Backup, &[&bytes])
    }

    /// Creates a file in the state root with the ledger's mode. It is complete or does not exist.
    fn create_durably(&self, file: File, pieces: &[&[u8]]) -> io::Result<()> {
        let old = self.stat(File::Ledger)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let created = self.open_file(file, flags, Mode::from_raw_mode(0o644))?;
        let written = || -> io::Result<()> {
            if let Some(old) = old {
                let mode = Mode::from_raw_mode(old.st_mode & 0o777);
                rustix::fs::fchmod(&created, mode)?;
            }
            let mut buffer = io::BufWriter::with_capacity(WRITE_BYTES, &created);
            pieces.iter().try_for_each(|piece| buffer.write_all(piece))?;
            buffer.flush()?;
            created.sync_all()
        }();
        written.map_err(|e| {
            // The error of the write is the one to report. The next write replaces a leftover.
            let _ = rustix::fs::unlinkat(&self.root, file.name(), AtFlags::empty());
            failed(file.path(), "write", e)
        })
    }
}

impl Disk for RealDisk {
    fn identity(&self, file: File) -> io::Result<Option<FileStamp>> {
        Ok(self.stat(file)?.as_ref().map(FileStamp::of_stat))
    }

    fn read(&self, file: File) -> io::Result<Option<(Vec<u8>, FileStamp)>> {
        let Some(mut opened) = self.open_to_read(file)? else {
            return Ok(None);
        };
        let identity = FileStamp::of_stat(&rustix::fs::fstat(&opened)?);
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(|e| failed(file.path(), "read", e))?;
        Ok(Some((bytes, identity)))
    }

    fn size(&self, file: File) -> io::Result<u64> {
        Ok(self.identity(file)?.map_or(0, |identity| identity.size))
    }

    fn read_from(&self, file: File, offset: u64) -> io::Result<Vec<u8>> {
        let Some(mut opened) = self.open_to_read(file)? else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        opened
            .seek(SeekFrom::Start(offset))
            .and_then(|_| opened.read_to_end(&mut bytes))
            .map_err(|e| failed(file.path(), "read", e))?;
        Ok(bytes)
    }

    fn tail(&self, file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
        let Some(mut opened) = self.open_to_read(file)? else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        let mut read = || -> io::Result<()> {
            let size = opened.metadata()?.size();
            opened.seek(SeekFrom::Start(size.saturating_sub(max_bytes)))?;
            // With `take`, bytes that are appended meanwhile do not make the result longer.
            io::Read::by_ref(&mut opened).take(max_bytes).read_to_end(&mut bytes)?;
            Ok(())
        };
        read().map_err(|e| failed(file.path(), "read", e))?;
        Ok(bytes)
    }

    fn write_tmp(&self, pieces: &[&[u8]]) -> io::Result<()> {
        self.clear(File::Tmp)?;
        self.create_durably(File::Tmp, pieces)
    }

    fn keep_backup(&self) -> io::Result<()> {
        if self.stat(File::Ledger)?.is_none() {
            return Ok(());
        }
        self.clear(File::Backup)?;
        let (from, to) = (File::Ledger.name(), File::Backup.name());
        match rustix::fs::linkat(&self.root, from, &self.root, to, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(
                Errno::PERM
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::MLINK
                | Errno::XDEV
                | Errno::INVAL,
            ) => self.copy_backup(),
            Err(e) => Err(failed(File::Backup.path(), "write", e.into())),
        }
    }

    fn publish(&self) -> io::Result<()> {
        self.stat(File::Tmp)?;
        self.stat(File::Ledger)?;
        let (from, to) = (File::Tmp.name(), File::Ledger.name());
        rustix::fs::renameat(&self.root, from, &self.root, to)
            .map_err(|e| failed(File::Ledger.path(), "replace", e.into()))
    }

    fn sync_root(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.root)
            .map_err(|e| failed(&self.path.display().to_string(), "sync", e.into()))
    }

    fn append(&self, file: File, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let mode = match file.place() {
            Place::Journal => Mode::from_raw_mode(0o600),
            Place::Root | Place::Home => Mode::from_raw_mode(0o644),
        };
        let mut opened = self.within(file, |dir| {
            let opened = dir.open_file(file.name(), flags | OFlags::CREATE, mode)?;
            sole(dir, file.name(), file.path(), opened, flags)
        })?;
        let start = opened.metadata()?.size();
        let mut written = 0;
        while written < bytes.len() {
            match opened.write(&bytes[written..]) {
                Ok(count) if count > 0 => written += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                ended => {
                    let e = ended.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    take_back(&opened, start, written as u64);
                    return Err(failed(file.path(), "append to", e));
                }
            }
        }
        Ok(())
    }

    fn sync(&self, file: File) -> io::Result<()> {
        let opened = self.open_file(file, OFlags::RDONLY, Mode::empty())?;
        opened.sync_all().map_err(|e| failed(file.path(), "sync", e))
    }

    fn archive(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let e = io::Error::new(io::ErrorKind::InvalidInput, "not a file name");
            return Err(failed(name, "archive", e));
        }
        self.ensure_home()?;
        let home = open_directory(&self.root, HOME, HOME)?;
        let folder = Home::ARCHIVE;
        make_directory(&home, ARCHIVE, folder)?;
        let archive = open_directory(&home, ARCHIVE, folder)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for number in 1..=ARCHIVE_NAMES_MAX {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            let shown = format!("{folder}/{name}");
            let mut created =
                match rustix::fs::openat(&archive, &name, flags, Mode::from_raw_mode(0o600)) {
                    Ok(created) => fs::File::from(created),
                    Err(Errno::EXIST) => continue,
                    Err(e) => return Err(failed(&shown, "write", e.into())),
                };
            let written = created
                .write_all(bytes)
                .and_then(|()| created.sync_all())
                .and_then(|()| Ok(rustix::fs::fsync(&archive)?));
            return match written {
                Ok(()) => Ok(name),
                Err(e) => {
                    let _ = rustix::fs::unlinkat(&archive, &name, AtFlags::empty());
                    Err(failed(&shown, "write", e))
                }
            };
        }
        Err(failed(name, "archive", io::ErrorKind::AlreadyExists.into()))
    }

    fn make_marker(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        self.open_file(File::Marker, flags, Mode::from_raw_mode(0o644))?;
        Ok(())
    }

    fn ensure_home(&self) -> io::Result<()> {
        make_directory(&self.root, HOME, HOME)?;
        let home = open_directory(&self.root, HOME, HOME)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(
            &home,
            file_name(Home::GITIGNORE),
            flags,
            Mode::from_raw_mode(0o644),
        ) {
            Ok(created) => fs::File::from(created)
                .write_all(b"*\n")
                .map_err(|e| failed(Home::GITIGNORE, "write", e)),
            Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(failed(Home::GITIGNORE, "write", e.into())),
        }
    }

    fn has_receipts(&self) -> io::Result<bool> {
        let Some(home) = self.root.child(HOME)? else { return Ok(false) };
        Ok(home.child(receipts::FOLDER)?.is_some())
    }

    fn make_receipts(&self) -> io::Result<()> {
        self.ensure_home()?;
        self.root.make_private(HOME)?.make(receipts::FOLDER).map(drop)
    }

    fn journals(&self) -> bool {
        self.journal.is_some()
    }

    fn replace_journal(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.journal {
            Some(place) => place.make()?.put(File::Journal.name(), bytes),
            None => Ok(()),
        }
    }

    fn receipt(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.kept(receipts::FOLDER, name, receipts::MAX_BYTES)
    }

    fn keep_receipt(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.keep(receipts::FOLDER, name, bytes)
    }
}

/// Removes a partial append, because a half-written line would run into the next one. It removes
/// only our own bytes, and only at the very end.
fn take_back(opened: &fs::File, start: u64, written: u64) {
    if written > 0 && opened.metadata().is_ok_and(|now| now.size() == start + written) {
        // The error of the append is the one to report.
        let _ = opened.set_len(start);
    }
}

fn make_directory(parent: impl AsFd, name: &str, shown: &str) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(failed(shown, "make", e.into())),
    }
}
