//! Checks of the machine: the lock, the disk, the place of the socket.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use harness::{
    home::socket_folder,
    store::{LockState, look_lock},
};
use rustix::fs::{Access, access, statvfs};

use super::finding::Finding;
use crate::{environment::Environment, root::StateRoot};

const MIB: u64 = 1024 * 1024;
/// Below this, the next commit or build may not fit.
const LITTLE: u64 = 500 * MIB;
/// Below this, not even the ledger is reliable.
const NOTHING: u64 = 16 * MIB;
/// The limit of a socket address, without its last byte.
const SOCKET_BYTES_MAX: usize = 107;

pub(super) fn lock(root: &StateRoot) -> Finding {
    const CHECK: &str = "lock";
    let pid =
        |pid: Option<u32>| pid.map_or("an unknown process".to_owned(), |p| format!("pid={p}"));
    match look_lock(root.path()) {
        Ok(LockState::Free) => Finding::ok(CHECK, "free"),
        Ok(LockState::Held { pid: holder, host: None }) => {
            Finding::ok(CHECK, format!("held by {}, which runs", pid(holder)))
        }
        Ok(LockState::Held { pid: holder, host: Some(host) }) => Finding::warn(
            CHECK,
            format!("held by {} on {host}, which cannot be seen from here", pid(holder)),
            "stop that process on its host",
        ),
        Ok(LockState::Stale { pid: holder }) => Finding::warn(
            CHECK,
            format!("left behind by {}, which is gone", pid(holder)),
            "nothing to do; the next command removes it",
        ),
        Err(why) => Finding::fail(CHECK, why.to_string(), ""),
    }
}

pub(super) fn disk(place: &Path) -> Finding {
    const CHECK: &str = "disk";
    let name = place.display();
    if let Err(why) = access(place, Access::WRITE_OK | Access::EXEC_OK) {
        let why = std::io::Error::from(why);
        return Finding::fail(
            CHECK,
            format!("{name} cannot be written: {why}"),
            "check its owner and mode",
        );
    }
    let free = match statvfs(place) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(why) => return Finding::warn(CHECK, std::io::Error::from(why).to_string(), ""),
    };
    let what = format!("writable, {} free", Size(free));
    match free {
        free if free < NOTHING => Finding::fail(CHECK, what, "free some space"),
        free if free < LITTLE => Finding::warn(CHECK, what, "free some space"),
        _ => Finding::ok(CHECK, what),
    }
}

struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 / MIB {
            mib if mib < 1024 => write!(f, "{mib} MiB"),
            mib => write!(f, "{} GiB", mib / 1024),
        }
    }
}

/// Checks the place where a daemon would listen.
pub(super) fn socket(env: &Environment, root: Option<&StateRoot>) -> Finding {
    const CHECK: &str = "socket";
    let (directory, made_by_us) = match env.path("XDG_RUNTIME_DIR").filter(|d| d.is_absolute()) {
        Some(directory) => (directory.to_owned(), false),
        None => (socket_folder(), true),
    };
    // Without a root, a name of the same length is used.
    let name = root.map_or_else(|| format!("harness-{:016}.sock", 0), |r| r.home().socket_file());
    let chosen = env.path("HARNESS_SOCKET");
    let path = match chosen {
        Some(path) => path.to_owned(),
        None => directory.join(name),
    };
    let length = path.as_os_str().len();
    if length > SOCKET_BYTES_MAX {
        let what = format!("its path has {length} bytes, more than {SOCKET_BYTES_MAX}");
        return Finding::fail(CHECK, what, "set HARNESS_SOCKET to a shorter one");
    }
    let directory = match chosen {
        Some(path) => path.parent().map_or(PathBuf::from("."), Path::to_owned),
        None => directory,
    };
    let shown = directory.display();
    match fs::symlink_metadata(&directory) {
        Ok(found) if !found.is_dir() => {
            Finding::fail(CHECK, format!("{shown} is not a directory"), "remove it")
        }
        Ok(found) if chosen.is_none() && found.uid() != rustix::process::getuid().as_raw() => {
            let fix = "set XDG_RUNTIME_DIR to a directory of yours, or remove it";
            Finding::fail(CHECK, format!("{shown} belongs to another user"), fix)
        }
        Ok(found) if made_by_us && chosen.is_none() && found.mode() & 0o077 != 0 => {
            let fix = format!("`chmod 700 {shown}`");
            Finding::fail(CHECK, format!("{shown} is open to other users"), fix)
        }
        Ok(_) => Finding::ok(CHECK, format!("in {shown}")),
        Err(_) if made_by_us && chosen.is_none() => {
            Finding::ok(CHECK, format!("in {shown}, created when needed"))
        }
        Err(why) => {
            let fix = "create it, or unset the variable that names it";
            Finding::fail(CHECK, format!("{shown} cannot be used: {why}"), fix)
        }
    }
}
