//! One host per root, and one per socket: two OS locks that last as long as the host. The kernel
//! frees them when it dies, however it dies.

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

/// How often a file may be taken away between its opening and its locking.
const TRIES: usize = 100;

/// The right to be the host, until it is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    home: PathBuf,
    beside: PathBuf,
    socket: File,
    root: File,
}

/// In the root: its content is the pid of its holder.
fn of_root(root: &Path) -> PathBuf {
    Home::of(root).daemon_lock()
}

fn beside(socket: &Path) -> PathBuf {
    let mut name = OsString::from(socket);
    name.push(".lock");
    name.into()
}

impl Instance {
    /// At once or not at all.
    pub(super) fn take(root: &Path, socket: &Path) -> Result<Self, SocketError> {
        let home = of_root(root);
        let root = take(&home)?;
        let beside = beside(socket);
        Ok(Self { socket: take(&beside)?, beside, home, root })
    }

    /// Whether the root is still there and still ours: somebody may have removed it, or `.harness`.
    pub(super) fn holds(&self) -> bool {
        is_at(&self.root, &self.home)
    }
}

impl Instance {
    /// Lets the next host have the socket. That of the root is held until the end.
    pub(super) fn leave(&self) {
        // Still locked: a process that waits for this file sees that it is gone and makes a new one. The one
        // there may be that of the next host already.
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
    // That of the socket is the user's, and was looked at.
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
            // A process that waits for this one sees that it is gone, as we do.
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

/// Waits until `root` has no host; `false` when it still has one then.
pub fn wait_until_gone(root: &Path, within: Duration) -> io::Result<bool> {
    let file = match open(&of_root(root)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(why) => return Err(why),
    };
    Ok(lock_until(file, Instant::now() + within)?.is_some())
}
