//! The place of the socket of a state root, and the right to bind it.

use std::{
    fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use super::instance::Instance;
use crate::{
    home::{self, Home, Inode, folder::Folder, socket_folder},
    store::disk::{Disk as _, RealDisk},
};

const NAMED: &str = home::file_name(Home::SOCKET_NAME);

/// The limit of a socket address, without its last byte.
pub const PATH_BYTES_MAX: usize = 107;

/// The places from the caller's environment.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The value of `HARNESS_SOCKET`.
    pub socket: Option<PathBuf>,
    /// The value of `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
}

/// The reason why the socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for the kernel.
    #[error("the socket path has {length} bytes, more than {PATH_BYTES_MAX}: {}", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// Another object is at the path. It is not removed, because it may be a file of the user.
    #[error("{} is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A program that is not harness answers there.
    #[error("another program listens on {}", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// There is a host of this root, or on this socket.
    #[error("Another daemon is already running")]
    Running {
        /// Its process id, if it is known.
        pid: Option<u32>,
    },
    /// Other users could remove the socket from its directory.
    #[error("the socket's directory {} {problem}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
    },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// A verb, for the message.
        doing: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

pub(super) fn io_error(doing: &'static str, path: &Path, source: io::Error) -> SocketError {
    SocketError::Io { doing, path: path.to_owned(), source }
}

fn runtime_dir(places: &Places) -> Option<&Path> {
    places.runtime_dir.as_deref().filter(|d| d.is_absolute() && d.is_dir())
}

/// Returns the path on which the host of `root` listens, whether there is one or not. `root` must
/// be canonical.
pub fn path(root: &Path, places: &Places) -> io::Result<PathBuf> {
    if let Some(chosen) = &places.socket {
        return std::path::absolute(chosen);
    }
    if let Some(directory) = runtime_dir(places) {
        return Ok(directory.join(Home::of(root).socket_file()));
    }
    let usual = socket_folder().join(Home::of(root).socket_file());
    let own = Home::of(root).daemon_socket();
    let is_squatted = check_private(&socket_folder()).is_err_and(|why| !is_absent(&why));
    Ok(if is_squatted && own.as_os_str().len() <= PATH_BYTES_MAX { own } else { usual })
}

fn is_absent(why: &SocketError) -> bool {
    matches!(why, SocketError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Returns whether listening is impossible because a sandbox shows the directory as read-only. Any
/// other reason is an error that listening reports.
pub fn is_read_only(root: &Path, places: &Places) -> bool {
    let path = path(root, places).ok();
    // A missing directory would have to be created.
    let above = path.iter().flat_map(|path| path.ancestors().skip(1));
    let directory = above.into_iter().find(|directory| directory.exists());
    directory.is_some_and(|directory| access(directory, Access::WRITE_OK) == Err(Errno::ROFS))
}

/// Returns the paths that a client tries, in order.
pub fn candidates(root: &Path, places: &Places) -> Vec<PathBuf> {
    if places.socket.is_some() {
        return path(root, places).into_iter().collect();
    }
    let mut all: Vec<PathBuf> = named(root).into_iter().collect();
    all.extend(path(root, places));
    all.push(socket_folder().join(Home::of(root).socket_file()));
    all.dedup();
    all
}

/// Returns the path in `.harness/socket`. That file may have come with a repository, so no link is
/// followed, and the connecting client checks the listener.
fn named(root: &Path) -> Option<PathBuf> {
    let folder = Folder::find(&Home::of(root).folder()).ok()??;
    let text = String::from_utf8(folder.read_small(NAMED, 4096).ok()??).ok()?;
    let path = Path::new(text.trim_end_matches('\n'));
    path.is_absolute().then(|| path.to_owned())
}

/// A socket that is ours. It is unlinked when this is dropped.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
    root: PathBuf,
    inode: Inode,
    // This is dropped last, so that the next host finds no socket of ours.
    instance: Instance,
}

/// Binds the socket of `root`, which must be canonical, as its only host. A socket without a
/// listener is replaced.
pub fn bind(root: &Path, places: &Places) -> Result<Bound, SocketError> {
    let path = path(root, places).map_err(|e| io_error("find", root, e))?;
    let bound = listen(root, path, Instance::take)?;
    bound.name().map_err(|e| io_error("write", &Home::of(root).socket_name(), e))?;
    Ok(bound)
}

/// Binds a socket for the agents of this process, beside that of the host of `root`. Others find it
/// only by its path.
pub fn bind_beside(root: &Path, places: &Places) -> Result<Bound, SocketError> {
    bind_beside_as(root, places, &std::process::id().to_string())
}

/// Returns the path of a further socket of `root`, beside that of its host. `word` is a part of its
/// name.
pub fn path_beside(root: &Path, places: &Places, word: &str) -> io::Result<PathBuf> {
    let host = path(root, places)?;
    let name = host.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(host.with_file_name(format!("{name}-{word}.sock")))
}

/// Binds that socket. Others find it by [`path_beside`].
pub fn bind_beside_as(root: &Path, places: &Places, word: &str) -> Result<Bound, SocketError> {
    let path = path_beside(root, places, word).map_err(|e| io_error("find", root, e))?;
    listen(root, path, Instance::take_beside)
}

fn listen(
    root: &Path,
    path: PathBuf,
    take: impl FnOnce(&Path, &Path) -> Result<Instance, SocketError>,
) -> Result<Bound, SocketError> {
    let length = path.as_os_str().len();
    if length > PATH_BYTES_MAX {
        return Err(SocketError::TooLong { path, length });
    }
    RealDisk::open(root)
        .and_then(|disk| disk.ensure_home())
        .map_err(|e| io_error("make", &Home::of(root).folder(), e))?;
    make_folder(path.parent().unwrap_or(Path::new("/")))?;
    refuse_others(&path)?;
    let instance = take(root, &path)?;
    make_room(&path)?;
    let listener = UnixListener::bind(&path).map_err(|e| io_error("listen on", &path, e))?;
    // A client that connects before this is checked by its uid as well.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
        .map_err(|e| io_error("protect", &path, e))?;
    let made = fs::symlink_metadata(&path).map_err(|e| io_error("look at", &path, e))?;
    let inode = Inode::of(&made);
    Ok(Bound { listener, path, root: root.to_owned(), inode, instance })
}

/// Refuses any other object, which we must not remove.
fn refuse_others(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(io_error("look at", path, why)),
        Ok(found) if !found.file_type().is_socket() => {
            Err(SocketError::NotASocket { path: path.to_owned() })
        }
        Ok(_) => Ok(()),
    }
}

/// Removes a socket without a listener. Everything else stays and is an error.
fn make_room(path: &Path) -> Result<(), SocketError> {
    refuse_others(path)?;
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::Taken { path: path.to_owned() }),
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|e| io_error("remove", path, e))
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(io_error("try", path, why)),
    }
}

/// Creates the folder of a socket, including one that the user named. In `/tmp` any user may have
/// put something in its place. Elsewhere it is the user's choice, as long as no other user can
/// remove the socket.
fn make_folder(directory: &Path) -> Result<(), SocketError> {
    let is_fallback = directory == socket_folder();
    match fs::DirBuilder::new().recursive(!is_fallback).mode(0o700).create(directory) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error("make", directory, why));
        }
        _ => {}
    }
    if is_fallback { check_private(directory) } else { check_chosen(directory) }
}

/// Checks that the directory is ours, not a link, and closed to others.
fn check_private(directory: &Path) -> Result<(), SocketError> {
    let wrong = |problem| SocketError::Directory { path: directory.to_owned(), problem };
    let found = fs::symlink_metadata(directory).map_err(|e| io_error("look at", directory, e))?;
    if !found.is_dir() {
        return Err(wrong("is not a directory"));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(wrong("belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(wrong("is open to other users"));
    }
    Ok(())
}

/// Checks that the directory is ours or the system's, and that others cannot rename or remove our
/// files in it.
fn check_chosen(directory: &Path) -> Result<(), SocketError> {
    const STICKY: u32 = 0o1000;
    let wrong = |problem| SocketError::Directory { path: directory.to_owned(), problem };
    let found = fs::metadata(directory).map_err(|e| io_error("look at", directory, e))?;
    if !found.is_dir() {
        return Err(wrong("is not a directory"));
    }
    if found.uid() != rustix::process::getuid().as_raw() && found.uid() != 0 {
        return Err(wrong("belongs to another user"));
    }
    if found.mode() & 0o002 != 0 && found.mode() & STICKY == 0 {
        return Err(wrong("can be written to by all users"));
    }
    Ok(())
}

impl Bound {
    /// Returns the path, for `HARNESS_SOCKET` of started processes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is the socket of the host of its root, and not one beside it.
    #[cfg(feature = "postgres")]
    pub(super) fn is_of_host(&self) -> bool {
        self.instance.is_of_host()
    }

    /// Returns whether clients still find it under its path, and the root still exists.
    pub(super) fn can_be_found(&self) -> bool {
        self.is_there() && self.instance.holds()
    }

    fn is_there(&self) -> bool {
        Inode::at(&self.path) == Some(self.inode)
    }

    /// Makes room for the next host before this one has ended.
    pub(super) fn leave(&self) {
        self.unlink();
        self.instance.leave();
    }

    /// Removes the socket, so that it cannot be found any more. It is still the only host.
    pub(super) fn unlink(&self) {
        if self.is_there() {
            _ = fs::remove_file(&self.path);
        }
        if named(&self.root).as_ref() == Some(&self.path) {
            _ = Folder::find(&Home::of(&self.root).folder())
                .map(|home| home.map(|home| home.remove(NAMED)));
        }
    }

    /// Returns the listener for the tokio runtime that this is called in.
    pub fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    }

    /// Writes `.harness/socket`, by which clients with another environment find it.
    fn name(&self) -> io::Result<()> {
        let mut line = self.path.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        Folder::ours(&Home::of(&self.root).folder())?.put(NAMED, &line)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.unlink();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, Places) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join(".harness")).unwrap();
        let places = Places { socket: Some(root.join("s")), runtime_dir: None };
        (dir, root, places)
    }

    #[test]
    fn a_socket_is_private_named_and_gone_with_its_owner() {
        let (_dir, root, places) = place();
        let bound = bind(&root, &places).unwrap();
        assert!(bound.can_be_found());
        assert_eq!(fs::metadata(bound.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(named(&root).as_deref(), Some(bound.path()));
        let pid = Some(std::process::id());
        assert!(matches!(bind(&root, &places), Err(SocketError::Running { pid: p }) if p == pid));
        let elsewhere = Places { socket: Some(root.join("t")), runtime_dir: None };
        assert!(matches!(bind(&root, &elsewhere), Err(SocketError::Running { .. })));
        drop(bound);
        assert!(!root.join("s").exists() && named(&root).is_none());
        assert!(!root.join("s.lock").exists());
        let bound = bind(&root, &elsewhere).unwrap();
        fs::remove_dir_all(root.join(".harness")).unwrap();
        assert!(!bound.can_be_found(), "the next process makes a new one");
    }

    #[test]
    fn a_dead_socket_is_replaced_and_anything_else_is_not() {
        let (_dir, root, places) = place();
        drop(UnixListener::bind(root.join("s")).unwrap());
        drop(bind(&root, &places).unwrap());
        let stranger = UnixListener::bind(root.join("s")).unwrap();
        assert!(matches!(bind(&root, &places), Err(SocketError::Taken { .. })));
        drop(stranger);
        fs::remove_file(root.join("s")).unwrap();
        fs::write(root.join("s"), "mine").unwrap();
        assert!(matches!(bind(&root, &places), Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(root.join("s")).unwrap(), "mine");
        let places = Places { socket: Some(root.join("x".repeat(120))), runtime_dir: None };
        let told = bind(&root, &places).unwrap_err().to_string();
        assert!(told.contains("more than 107"), "{told}");
    }

    #[test]
    fn the_place_is_the_chosen_one_else_the_runtime_directory_else_in_tmp() {
        let (_dir, root, chosen) = place();
        assert_eq!(path(&root, &chosen).unwrap(), root.join("s"));
        let name = Home::of(&root).socket_file();
        let places = Places { socket: None, runtime_dir: Some(root.clone()) };
        assert_eq!(path(&root, &places).unwrap(), root.join(&name));
        let gone = Places { socket: None, runtime_dir: Some(root.join("gone")) };
        assert_eq!(path(&root, &gone).unwrap(), socket_folder().join(&name));
        assert_eq!(path(&root, &Places::default()).unwrap(), socket_folder().join(&name));
    }
}
