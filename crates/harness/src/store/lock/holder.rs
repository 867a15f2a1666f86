//! The holder of a lock directory, and whether it is still valid.

use std::{
    fs,
    io::Read as _,
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{LockError, Obstacle, io_error};
use crate::{
    home::Inode,
    process::life::{self, Here, Life},
};

/// A script creates the directory first and writes its pid afterwards.
const UNSIGNED_GRACE: Duration = Duration::from_secs(2);

/// A script's lock shows only when it was taken, by a clock that may have been set since. A wrong
/// "held" is a message to a person, but a wrong "stale" means two writers. So a process counts as
/// another one than the holder only if it started well after the lock.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// A limit far above the size of either file.
const FILE_BYTES_MAX: u64 = 4096;

/// The file `owner`, with the data that a pid alone does not provide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pid: u32,
    start_ticks: Option<u64>,
    boot_id: Option<String>,
    host: String,
    #[serde(default)]
    pid_namespace: Option<String>,
}

impl Owner {
    pub(super) fn this_process() -> Owner {
        let here = life::here().clone();
        Owner {
            pid: std::process::id(),
            start_ticks: here.start_ticks,
            boot_id: here.boot_id,
            host: here.host,
            pid_namespace: here.pid_namespace,
        }
    }
}

/// The state of a lock directory.
#[derive(Debug)]
pub(in crate::store) enum Verdict {
    Absent,
    Held { pid: Option<u32>, host: Option<String> },
    Stale { pid: Option<u32>, seen: Seen },
}

/// The directory that was judged. It is open, so that its inode number is not reused.
#[derive(Debug)]
pub(in crate::store) struct Seen {
    fd: OwnedFd,
}

impl Seen {
    pub(super) fn is_at(&self, path: &Path) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| Inode::at(path) == Some(Inode::of_stat(&stat)))
    }
}

/// Judges the directory. Anything that is not a directory of ours is refused.
pub(super) fn judge(path: &Path) -> Result<Verdict, LockError> {
    let stat = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Verdict::Absent),
        Err(e) => return Err(io_error("look at the lock", path, e)),
    };
    refuse(path, &stat, FileType::Directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(Verdict::Absent),
        // It was swapped meanwhile. The next look names it.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Verdict::Held { pid: None, host: None }),
        Err(e) => return Err(io_error("open the lock", path, e)),
    };
    let stat = rustix::fs::fstat(&fd).map_err(|e| io_error("look at the lock", path, e))?;
    refuse(path, &stat, FileType::Directory)?;

    let signed = read(&fd, "pid").and_then(|(text, at)| Some((pid_in(&text)?, at)));
    let Some((pid, signed_at)) = signed else {
        let fresh = modified(&stat).is_none_or(|at| distance(at) < UNSIGNED_GRACE);
        return Ok(match fresh {
            true => Verdict::Held { pid: None, host: None },
            false => Verdict::Stale { pid: None, seen: Seen { fd } },
        });
    };
    let owner: Option<Owner> = read(&fd, "owner")
        .and_then(|(text, _)| serde_json::from_slice(&text).ok())
        // A different pid belongs to a script that stole the directory.
        .filter(|owner: &Owner| owner.pid == pid);
    let standing = match &owner {
        Some(owner) => owner_stands(owner, life::here(), life::life),
        None => script_stands(life::life(pid), signed_at),
    };
    Ok(match standing {
        Standing::Holds => Verdict::Held { pid: Some(pid), host: None },
        Standing::Elsewhere => {
            Verdict::Held { pid: Some(pid), host: owner.map(|owner| owner.host) }
        }
        Standing::Gone => Verdict::Stale { pid: Some(pid), seen: Seen { fd } },
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Holds,
    /// Its state cannot be determined from here, so it counts as held.
    Elsewhere,
    Gone,
}

/// A pid is valid only on the host and boot that wrote it.
fn owner_stands(owner: &Owner, here: &Here, life: impl Fn(u32) -> Life) -> Standing {
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    if owner.host != here.host {
        return Standing::Elsewhere;
    }
    if differ(&owner.boot_id, &here.boot_id) {
        return Standing::Gone;
    }
    if differ(&owner.pid_namespace, &here.pid_namespace) {
        return Standing::Elsewhere;
    }
    match (life(owner.pid), owner.start_ticks) {
        (Life::Dead, _) => Standing::Gone,
        (Life::Alive { start_ticks: Some(now) }, Some(then)) if now != then => Standing::Gone,
        (Life::Alive { .. }, _) => Standing::Holds,
    }
}

fn script_stands(life: Life, signed_at: Option<SystemTime>) -> Standing {
    let start_ticks = match life {
        Life::Dead => return Standing::Gone,
        Life::Alive { start_ticks } => start_ticks,
    };
    match (start_ticks.and_then(life::started_at), signed_at) {
        (Some(started), Some(signed)) if started > signed + CLOCK_SLACK => Standing::Gone,
        _ => Standing::Holds,
    }
}

/// Returns the error for anything that is not a `wanted` of ours.
pub(super) fn refuse(path: &Path, stat: &Stat, wanted: FileType) -> Result<(), LockError> {
    let found = FileType::from_raw_mode(stat.st_mode);
    // The owner is checked first: we must not remove what another user created, whatever it is.
    let obstacle = if stat.st_uid != rustix::process::geteuid().as_raw() {
        Obstacle::Foreign { uid: stat.st_uid }
    } else if found == FileType::Symlink {
        Obstacle::Symlink
    } else if found != wanted && wanted == FileType::Directory {
        Obstacle::NotADirectory
    } else if found != wanted {
        Obstacle::NotAFile
    } else {
        return Ok(());
    };
    Err(LockError::Refused { path: path.to_owned(), obstacle })
}

/// Reads a small regular file of the directory, with its time of writing.
fn read(dir: &OwnedFd, name: &str) -> Option<(Vec<u8>, Option<SystemTime>)> {
    // A pipe must not block us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some((text, metadata.modified().ok()))
}

fn pid_in(text: &[u8]) -> Option<u32> {
    let pid: i32 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

#[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
pub(super) fn modified(stat: &Stat) -> Option<SystemTime> {
    let since = Duration::from_secs(u64::try_from(stat.st_mtime).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since + Duration::from_nanos(stat.st_mtime_nsec as u64))
}

/// Returns the distance from now in either direction. A time in the future comes from a wrong
/// clock.
pub(super) fn distance(at: SystemTime) -> Duration {
    at.elapsed().unwrap_or_else(|early| early.duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Here {
        Here {
            host: "here".into(),
            boot_id: Some("boot".into()),
            pid_namespace: Some("pid:[1]".into()),
            start_ticks: Some(100),
        }
    }

    fn owner() -> Owner {
        Owner {
            pid: 7,
            start_ticks: Some(100),
            boot_id: Some("boot".into()),
            host: "here".into(),
            pid_namespace: Some("pid:[1]".into()),
        }
    }

    #[test]
    fn a_pid_counts_only_where_it_was_written() {
        let alive = |start_ticks| move |_| Life::Alive { start_ticks };
        let same = owner();
        let rebooted = Owner { boot_id: Some("earlier".into()), ..owner() };
        let elsewhere = Owner { host: "there".into(), ..rebooted.clone() };
        let contained = Owner { pid_namespace: Some("pid:[2]".into()), ..owner() };
        let unknown = Owner { start_ticks: None, boot_id: None, pid_namespace: None, ..owner() };

        assert_eq!(owner_stands(&same, &here(), alive(Some(100))), Standing::Holds);
        assert_eq!(owner_stands(&same, &here(), alive(Some(101))), Standing::Gone);
        assert_eq!(owner_stands(&same, &here(), alive(None)), Standing::Holds);
        assert_eq!(owner_stands(&same, &here(), |_| Life::Dead), Standing::Gone);
        assert_eq!(owner_stands(&rebooted, &here(), alive(Some(100))), Standing::Gone);
        assert_eq!(owner_stands(&elsewhere, &here(), |_| Life::Dead), Standing::Elsewhere);
        assert_eq!(owner_stands(&contained, &here(), |_| Life::Dead), Standing::Elsewhere);
        assert_eq!(owner_stands(&unknown, &here(), alive(Some(9))), Standing::Holds);
    }

    #[test]
    fn a_pid_is_a_positive_number() {
        assert_eq!(pid_in(b"123\n"), Some(123));
        for bad in [&b""[..], b"\n", b"0", b"-1", b"abc", b"99999999999", b"\xff"] {
            assert_eq!(pid_in(bad), None, "{bad:?}");
        }
    }
}
