//! A short print of a file's content, and a text that changes when the work does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
    },
    time::SystemTime,
};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::{
    git::Git,
    glance,
    object::{absent, behind_link},
    path::RepoPath,
    status::Look,
};
use crate::home::FileStamp;

/// Equal prints mean equal files: kind, mode as git knows it, and contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Print([u8; 32]);

const CHUNK: usize = 64 * 1024;

/// Reads the file. A folder is a repository of its own, and its HEAD counts.
pub(super) fn print(git: &Git, path: &RepoPath) -> io::Result<Print> {
    let file = path.under(&git.top_level);
    let mut hash = Sha256::new();
    let found = match fs::symlink_metadata(&file) {
        Ok(found) if !behind_link(git, path) => found,
        Ok(_) => return Ok(Print(hash.finalize().into())),
        Err(error) if absent(&error) => return Ok(Print(hash.finalize().into())),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        hash.update(b"link ");
        hash.update(fs::read_link(&file)?.as_os_str().as_bytes());
    } else if found.is_dir() {
        hash.update(b"repository ");
        hash.update(glance::head(&file).map(|head| head.to_string()).unwrap_or_default());
    } else if found.is_file() {
        let executable = found.permissions().mode() & 0o100 != 0;
        hash.update(if executable { b"program ".as_slice() } else { b"file " });
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let mut opened =
            OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&file)?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match opened.read(&mut chunk)? {
                0 => break,
                read => hash.update(&chunk[..read]),
            }
        }
    } else {
        hash.update(b"other");
    }
    Ok(Print(hash.finalize().into()))
}

/// Returns a text that distinguishes two states of the files that a commit could contain. Files
/// that have not changed since the last call are not read again.
pub(super) fn of_work(git: &Git, look: &Look) -> io::Result<String> {
    let changed = look.changed.iter().map(|changed| &changed.path);
    let paths: BTreeSet<_> = changed.chain(&look.untracked).collect();
    let (mut hash, mut prints) = (Sha256::new(), BTreeMap::new());
    for path in paths {
        let file = path.under(&git.top_level);
        let stamp = FileStamp::at(&file);
        let now = SystemTime::now();
        let known = git.memory.prints().get(path).copied();
        let print = match known.filter(|(at, _)| Some(*at) == stamp) {
            Some((_, print)) => print,
            None => print(git, path)?,
        };
        // The checked-out commit of a nested repository does not show in its folder.
        let keeps = file.is_file() && !file.is_symlink();
        if let Some(stamp) = stamp.filter(|stamp| keeps && !stamp.is_young(now)) {
            prints.insert(path.clone(), (stamp, print));
        }
        hash.update(path.bytes());
        hash.update([0]);
        hash.update(print.0);
    }
    *git.memory.prints() = prints;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
