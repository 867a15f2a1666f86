//! The files in `info` and `hooks`.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{SettingChange, Treatment, config::quoted};
use crate::workspace::{WorkspaceError, git::Git, object::absent};

/// Larger files are identified by their size alone and are not set back.
const MOST_BYTES: u64 = 1024 * 1024;
const MOST_FILES: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Files(BTreeMap<PathBuf, Kept>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    Text { text: String, mode: u32 },
    Bytes { bytes: Vec<u8>, mode: u32 },
    Large { size: u64 },
    Link { target: PathBuf },
}

impl Files {
    pub(super) fn read(git: &Git) -> Result<Self, WorkspaceError> {
        let common = git.common_dir();
        let mut files = BTreeMap::new();
        for folder in [common.join("info"), common.join("hooks"), git.git_dir.join("info")] {
            collect(&folder, &mut files)?;
        }
        // These are git's own list for servers, and the examples that it creates with the
        // repository.
        files.retain(|path, _| {
            path.extension().is_none_or(|end| end != "sample") && !path.ends_with("info/refs")
        });
        Ok(Self(files))
    }

    /// Compares the files. A changed or new file is moved to `kept` before it is set back.
    pub(super) fn compare(
        &self,
        git: &Git,
        kept: &Path,
        treatment: Treatment,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let now = Self::read(git)?;
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(now.0.keys()).collect();
        let mut changes = Vec::new();
        for path in paths {
            let (old, new) = (self.0.get(path), now.0.get(path));
            if old == new {
                continue;
            }
            if treatment == Treatment::SetBack {
                if let Some(new) = new {
                    keep(new, path, kept)?;
                }
                put(path, old)?;
            }
            let copy = new.and_then(|new| copy(new, path, kept));
            let place = quoted(&path.display().to_string());
            changes.push(SettingChange {
                what: name(git, path),
                old: shown(old),
                new: shown(new),
                command: match copy {
                    Some(copy) => format!("cp {} {place}", quoted(&copy.display().to_string())),
                    None => format!("rm {place}"),
                },
                sight: path.parent().is_some_and(|folder| folder.ends_with("info")),
                set_back: !matches!(old, Some(Kept::Large { .. })),
            });
        }
        Ok(changes)
    }
}

fn name(git: &Git, path: &Path) -> String {
    let below = path.strip_prefix(git.common_dir()).or_else(|_| path.strip_prefix(&git.git_dir));
    format!(".git/{}", below.unwrap_or(path).display())
}

fn shown(kept: Option<&Kept>) -> String {
    const MOST: usize = 80;
    match kept {
        None => String::new(),
        Some(Kept::Text { text, .. }) => {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let line = lines.collect::<Vec<_>>().join("; ");
            line.chars().take(MOST).collect()
        }
        Some(Kept::Bytes { bytes, .. }) => format!("{} bytes", bytes.len()),
        Some(Kept::Large { size }) => format!("{size} bytes"),
        Some(Kept::Link { target }) => format!("a link to {}", target.display()),
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Kept>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if files.len() >= MOST_FILES {
            break;
        }
        if found.is_dir() {
            collect(&path, files)?;
            continue;
        }
        let mode = found.permissions().mode() & 0o777;
        let kept = if found.is_symlink() {
            Kept::Link { target: fs::read_link(&path)? }
        } else if !found.is_file() || found.len() > MOST_BYTES {
            Kept::Large { size: found.len() }
        } else {
            match String::from_utf8(fs::read(&path)?) {
                Ok(text) => Kept::Text { text, mode },
                Err(other) => Kept::Bytes { bytes: other.into_bytes(), mode },
            }
        };
        files.insert(path, kept);
    }
    Ok(())
}

/// Returns the path of a copy of the current file, for the user to restore.
fn copy(new: &Kept, path: &Path, kept: &Path) -> Option<PathBuf> {
    match new {
        Kept::Text { .. } | Kept::Bytes { .. } => {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(kept.join(name.unwrap_or_default()))
        }
        Kept::Large { .. } | Kept::Link { .. } => None,
    }
}

fn keep(new: &Kept, path: &Path, kept: &Path) -> io::Result<()> {
    let (bytes, mode): (&[u8], u32) = match new {
        Kept::Text { text, mode } => (text.as_bytes(), *mode),
        Kept::Bytes { bytes, mode } => (bytes, *mode),
        Kept::Large { .. } | Kept::Link { .. } => return Ok(()),
    };
    let Some(copy) = copy(new, path, kept) else { return Ok(()) };
    fs::create_dir_all(kept)?;
    fs::write(&copy, bytes)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(mode & 0o700 | 0o600))
}

/// Restores the file, if its contents are known.
fn put(path: &Path, old: Option<&Kept>) -> io::Result<()> {
    let (bytes, mode): (&[u8], u32) = match old {
        Some(Kept::Text { text, mode }) => (text.as_bytes(), *mode),
        Some(Kept::Bytes { bytes, mode }) => (bytes, *mode),
        Some(Kept::Large { .. }) => return Ok(()),
        Some(Kept::Link { target }) => {
            remove(path)?;
            return std::os::unix::fs::symlink(target, path);
        }
        None => return remove(path),
    };
    remove(path)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !absent(&error) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
