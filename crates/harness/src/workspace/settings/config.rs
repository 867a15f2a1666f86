//! The configuration, key by key and file by file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{SettingChange, Treatment};
use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
};

/// The content of the files, and their digests. If no file changed, no key did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Config {
    keys: BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>,
    files: BTreeMap<PathBuf, Option<String>>,
}

/// The treatment of a changed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    LeftAlone,
    Reported,
    SetBack,
}

impl Config {
    /// Reads the configuration. `last` is an earlier reading, which is still valid if no file has
    /// changed.
    pub(super) fn read(git: &Git, last: Option<&Self>) -> Result<Self, WorkspaceError> {
        if let Some(last) = last.filter(|last| last.still_holds()) {
            return Ok(last.clone());
        }
        let call = git.read("config").args(["--list", "-z", "--show-scope", "--show-origin"]);
        let output = call.output()?;
        let mut keys: BTreeMap<PathBuf, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        let fields: Vec<_> = output.split(|byte| *byte == 0).collect();
        for entry in fields.chunks_exact(3) {
            let [scope, origin, setting] = entry else { continue };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let Some(file) = text(origin).strip_prefix("file:").map(PathBuf::from) else {
                continue;
            };
            if *scope == b"command" {
                continue;
            }
            let setting = text(setting);
            let (key, value) = setting.split_once('\n').unwrap_or((&setting, "true"));
            let file = git.top_level.join(file);
            let values = keys.entry(file).or_default().entry(key.to_owned()).or_default();
            values.push(value.to_owned());
        }
        let mut files: BTreeSet<_> = keys.keys().cloned().collect();
        files.extend(usual_files(git));
        files.extend(included(&keys));
        let files = files.into_iter().map(|file| (file.clone(), digest(&file))).collect();
        Ok(Self { keys, files })
    }

    fn still_holds(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|(file, known)| digest(file) == *known)
    }

    /// Compares with the current content of the files.
    pub(super) fn compare(
        &self,
        git: &Git,
        treatment: Treatment,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        if self.still_holds() {
            return Ok(Vec::new());
        }
        let now = Self::read(git, None)?;
        let files: BTreeSet<_> = self.keys.keys().chain(now.keys.keys()).collect();
        let mut changes = Vec::new();
        for file in files {
            let (old, new) = (self.keys.get(file), now.keys.get(file));
            let names = old.into_iter().chain(new).flat_map(BTreeMap::keys);
            for key in names.collect::<BTreeSet<_>>() {
                let values = |of: Option<&BTreeMap<String, Vec<String>>>| {
                    of.and_then(|keys| keys.get(key)).cloned().unwrap_or_default()
                };
                let (old, new) = (values(old), values(new));
                if old == new {
                    continue;
                }
                let Some(change) = change(git, file, key, &old, &new) else { continue };
                if change.set_back && treatment == Treatment::SetBack {
                    set_back(git, file, key, &old, &new)?;
                }
                changes.push(change);
            }
        }
        Ok(changes)
    }
}

fn digest(file: &Path) -> Option<String> {
    let bytes = fs::read(file).ok()?;
    Some(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns files that take effect as soon as they exist.
fn usual_files(git: &Git) -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = variable("HOME");
    let mut files = vec![git.common_dir().join("config"), git.git_dir.join("config.worktree")];
    match variable("GIT_CONFIG_GLOBAL") {
        Some(file) => files.push(file),
        None => {
            files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
            let xdg = variable("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
            files.extend(xdg.map(|xdg| xdg.join("git/config")));
        }
    }
    files
}

/// Returns files that others include, whether they exist or not.
fn included(keys: &BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (file, keys) in keys {
        let is_include = |key: &str| {
            key == "include.path" || (key.starts_with("includeif.") && key.ends_with(".path"))
        };
        for value in keys.iter().filter(|(key, _)| is_include(key)).flat_map(|(_, values)| values) {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            files.push(match (value.strip_prefix("~/"), home) {
                (Some(below), Some(home)) => home.join(below),
                (_, _) => file.parent().unwrap_or(file).join(value),
            });
        }
    }
    files
}

/// Returns `None` for a key that is left alone.
fn change(
    git: &Git,
    file: &Path,
    key: &str,
    old: &[String],
    new: &[String],
) -> Option<SettingChange> {
    let set_back = match policy(git, key, old, new) {
        Policy::LeftAlone => return None,
        Policy::Reported => false,
        // A file that the repository includes and tracks is part of the work.
        Policy::SetBack => !inside_work_tree(git, file),
    };
    Some(SettingChange {
        what: key.to_owned(),
        old: old.join(", "),
        new: new.join(", "),
        command: again(git, file, key, new),
        sight: changes_sight(key),
        set_back,
    })
}

fn set_back(
    git: &Git,
    file: &Path,
    key: &str,
    old: &[String],
    new: &[String],
) -> Result<(), WorkspaceError> {
    let file = file.as_os_str();
    if !new.is_empty() {
        let call = git.write("config").arg("--file").arg(file).args(["--unset-all", key]);
        let ran = call.run()?;
        // Exit code 5 means that the key no longer exists.
        if !matches!(ran.code, Some(0 | 5)) {
            return Err(failed("config", &ran.stderr));
        }
    }
    for value in old {
        let call = git.write("config").arg("--file").arg(file);
        call.args(["--add", key, value]).output()?;
    }
    Ok(())
}

fn inside_work_tree(git: &Git, file: &Path) -> bool {
    file.starts_with(&git.top_level)
        && !file.starts_with(git.common_dir())
        && !file.starts_with(&git.git_dir)
}

fn policy(git: &Git, key: &str, old: &[String], new: &[String]) -> Policy {
    let section = key.split('.').next().unwrap_or_default();
    let submodule = section == "submodule" && (key.ends_with(".url") || key.ends_with(".active"));
    match section {
        "branch" | "lfs" | "user" | "gc" | "maintenance" | "extensions" => Policy::LeftAlone,
        "remote" if old.is_empty() => Policy::LeftAlone,
        _ if submodule || key == "core.repositoryformatversion" => Policy::LeftAlone,
        _ if key == "core.hookspath" && new.last().is_some_and(|path| in_tree(git, path)) => {
            Policy::Reported
        }
        _ => Policy::SetBack,
    }
}

/// Returns whether a path of the configuration leads into the work tree, and not into the git
/// directory.
fn in_tree(git: &Git, path: &str) -> bool {
    let path = git.top_level.join(path);
    let plain = path.components().all(|part| part != std::path::Component::ParentDir);
    plain && inside_work_tree(git, &path)
}

/// Returns whether the key changes which files git sees, or their contents.
fn changes_sight(key: &str) -> bool {
    const CORE: [&str; 18] = [
        "attributesfile",
        "autocrlf",
        "bare",
        "checkstat",
        "eol",
        "excludesfile",
        "filemode",
        "fsmonitor",
        "ignorecase",
        "ignorestat",
        "precomposeunicode",
        "protecthfs",
        "sparsecheckout",
        "sparsecheckoutcone",
        "symlinks",
        "trustctime",
        "untrackedcache",
        "worktree",
    ];
    match key.split_once('.') {
        Some(("core", name)) => CORE.contains(&name),
        Some((section, _)) => {
            ["filter", "include", "includeif", "status", "index"].contains(&section)
        }
        None => false,
    }
}

fn again(git: &Git, file: &Path, key: &str, new: &[String]) -> String {
    let place = match file == git.common_dir().join("config") {
        true => "git config".to_owned(),
        false => format!("git config --file {}", quoted(&file.display().to_string())),
    };
    match new.last() {
        Some(value) => format!("{place} {} {}", quoted(key), quoted(value)),
        None => format!("{place} --unset-all {}", quoted(key)),
    }
}

/// Quotes a text for a shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
