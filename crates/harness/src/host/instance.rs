//! Ensures one host per root and one per socket, by two OS locks that last as long as the host. The
//! kernel frees them when it dies, for whatever reason.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::socket::{SocketError, io_error};
use crate::{
    home::{Home, Inode, folder::Folder},
    store::lock::lock_until,
};

/// The limit of tries if a file is removed between its opening and its locking.
const TRIES: usize = 100;

/// The right to be the host, until it is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    home: PathBuf,
    beside: PathBuf,
    socket: File,
    /// The lock of the root; `None` for a socket beside that of the host.
    root: Option<File>,
}

/// Returns the lock file in the root. Its content is the pid of its holder.
fn of_root(root: &Path) -> PathBuf {
    Home::of(root).daemon_lock()
}

fn beside(socket: &Path) -> PathBuf {
    let mut name = OsString::from(socket);
    name.push(".lock");
    name.into()
}

impl Instance {
    /// Takes both locks at once or not at all.
    pub(super) fn take(root: &Path, socket: &Path) -> Result<Self, SocketError> {
        let home = of_root(root);
        let root = Some(take(&home)?);
        let beside = beside(socket);
        Ok(Self { socket: take(&beside)?, beside, home, root })
    }

    /// Takes the lock of a socket beside that of the host.
    pub(super) fn take_beside(root: &Path, socket: &Path) -> Result<Self, SocketError> {
        let (home, beside) = (of_root(root), beside(socket));
        Ok(Self { socket: take(&beside)?, beside, home, root: None })
    }

    /// Returns whether this is the right to be the host, and not that to a socket beside it.
    #[cfg(feature = "postgres")]
    pub(super) fn is_of_host(&self) -> bool {
        self.root.is_some()
    }

    /// Returns whether the root is still there and still ours. It, or `.harness`, may have been
    /// removed.
    pub(super) fn holds(&self) -> bool {
        self.root.as_ref().is_none_or(|root| is_at(root, &self.home))
    }
}

impl Instance {
    /// Releases the socket for the next host. The lock of the root is held until the end.
    pub(super) fn leave(&self) {
        // The file is still locked. A process that waits for it notices the removal and creates a
        // new one. The existing one may already belong to the next host.
        if is_at(&self.socket, &self.beside) {
            _ = fs::remove_file(&self.beside);
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.leave();
    }
}

fn place(path: &Path) -> io::Result<(Folder, &str)> {
    let parts = path.parent().zip(path.file_name().and_then(OsStr::to_str));
    let (folder, name) = parts.ok_or_else(|| io::Error::other("it is not the path of a file"))?;
    // The folder of the socket belongs to the user, and was checked.
    let is_ours = folder.file_name().is_some_and(|folder| folder == Home::FOLDER);
    let folder = if is_ours { Folder::ours(folder)? } else { Folder::open_private(folder)? };
    Ok((folder, name))
}

fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = place(path)?;
    folder.open_to_lock(name)
}

fn take(path: &Path) -> Result<File, SocketError> {
    for _ in 0..TRIES {
        let mut file = open(path).map_err(|e| io_error("open", path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SocketError::Running { pid: pid(&file) }),
            Err(TryLockError::Error(e)) => return Err(io_error("lock", path, e)),
        }
        let written = |e| io_error("write", path, e);
        if Folder::has_second_name(&file).map_err(written)? {
            // A process that waits for this file notices that it is gone, as we do.
            let (folder, name) = place(path).map_err(written)?;
            folder.put(name, b"").map_err(written)?;
        } else if is_at(&file, path) {
            sign(&mut file).map_err(written)?;
            return Ok(file);
        }
    }
    Err(SocketError::Running { pid: None })
}

fn is_at(file: &File, path: &Path) -> bool {
    file.metadata().is_ok_and(|ours| Inode::at(path) == Some(Inode::of(&ours)))
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

/// Waits until `root` has no host. Returns `false` if it still has one then.
pub fn wait_until_gone(root: &Path, within: Duration) -> io::Result<bool> {
    let file = match open(&of_root(root)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(why) => return Err(why),
    };
    Ok(lock_until(file, Instant::now() + within)?.is_some())
}
