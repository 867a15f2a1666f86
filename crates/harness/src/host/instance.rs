//! One host per root, and one per socket: two OS locks that last as long as the host. The kernel
//! frees them when it dies, however it dies.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::socket::{SocketError, io_error};
use crate::store::lock::lock_until;

/// How often a file may be taken away between its opening and its locking.
const TRIES: usize = 100;

/// The right to be the host, until it is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    beside: PathBuf,
    _socket: File,
    _root: File,
}

/// In the root: its content is the pid of whoever holds it.
fn of_root(root: &Path) -> PathBuf {
    root.join(".harness/daemon.lock")
}

fn beside(socket: &Path) -> PathBuf {
    let mut name = OsString::from(socket);
    name.push(".lock");
    name.into()
}

impl Instance {
    /// At once or not at all.
    pub(super) fn take(root: &Path, socket: &Path) -> Result<Self, SocketError> {
        let root = take(&of_root(root))?;
        let beside = beside(socket);
        Ok(Self { _socket: take(&beside)?, beside, _root: root })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Still locked: whoever waits for this file sees that it is gone and makes a new one.
        _ = fs::remove_file(&self.beside);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() || !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

fn take(path: &Path) -> Result<File, SocketError> {
    for _ in 0..TRIES {
        let mut file = open(path).map_err(|e| io_error("open", path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SocketError::Running { pid: pid(&file) }),
            Err(TryLockError::Error(e)) => return Err(io_error("lock", path, e)),
        }
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let ours = file.metadata().map_err(|e| io_error("look at", path, e))?;
        if fs::symlink_metadata(path).is_ok_and(|there| same(&there, &ours)) {
            sign(&mut file).map_err(|e| io_error("write", path, e))?;
            return Ok(file);
        }
    }
    Err(SocketError::Running { pid: None })
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Waits until `root` has no host; `false` when it still has one then.
pub(super) fn wait_until_gone(root: &Path, within: Duration) -> io::Result<bool> {
    let file = match open(&of_root(root)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(why) => return Err(why),
    };
    Ok(lock_until(file, Instant::now() + within)?.is_some())
}
