//! Flags of the index that hide changes from git: `assume-unchanged` and `skip-worktree`.

use std::{collections::BTreeMap, fs};

use serde::{Deserialize, Serialize};

use super::{SettingChange, Treatment};
use crate::workspace::{
    WorkspaceError,
    git::Git,
    index_file::IndexEntry,
    path::{RepoPath, nul_separated, records},
};

/// The paths that have a flag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workspace) struct Flags(BTreeMap<String, Flag>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Flag {
    assume_unchanged: bool,
    skip_worktree: bool,
}

impl Flags {
    /// Reads the index directly, which costs no process. Unknown formats are left to git.
    pub(in crate::workspace) fn read(git: &Git) -> Result<Self, WorkspaceError> {
        match git.tracked()? {
            Some(tracked) => Ok(tracked.flags.clone()),
            None => Self::ask(git),
        }
    }

    pub(in crate::workspace) fn note(&mut self, entry: &IndexEntry<'_>) {
        let flag =
            Flag { assume_unchanged: entry.assume_unchanged, skip_worktree: entry.skip_worktree };
        if flag.assume_unchanged || flag.skip_worktree {
            self.0.insert(String::from_utf8_lossy(entry.path).into_owned(), flag);
        }
    }

    /// Returns whether all names are valid UTF-8, so that none had to be altered.
    pub(in crate::workspace) fn are_text(&self) -> bool {
        self.0.keys().all(|path| !path.contains(char::REPLACEMENT_CHARACTER))
    }

    fn ask(git: &Git) -> Result<Self, WorkspaceError> {
        let output = git.read("ls-files").args(["-v", "-z"]).output()?;
        let mut flags = BTreeMap::new();
        for record in records(&output) {
            let (letter, path) = (record[0], record.get(2..).unwrap_or_default());
            let flag = Flag {
                assume_unchanged: letter.is_ascii_lowercase(),
                skip_worktree: letter.eq_ignore_ascii_case(&b'S'),
            };
            if flag.assume_unchanged || flag.skip_worktree {
                flags.insert(String::from_utf8_lossy(path).into_owned(), flag);
            }
        }
        Ok(Self(flags))
    }

    pub(in crate::workspace) fn paths(&self) -> impl Iterator<Item = RepoPath> {
        self.0.keys().map(|path| RepoPath::new(path.as_bytes()))
    }

    pub(super) fn compare(
        &self,
        git: &Git,
        treatment: Treatment,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let now = Self::read(git)?;
        if now == *self {
            return Ok(Vec::new());
        }
        let mut changes = Vec::new();
        for (name, has) in [
            ("assume-unchanged", (|flag: &Flag| flag.assume_unchanged) as fn(&Flag) -> bool),
            ("skip-worktree", |flag| flag.skip_worktree),
        ] {
            let carries = |flags: &Self, path: &str| flags.0.get(path).is_some_and(has);
            let set: Vec<_> =
                now.0.keys().filter(|path| carries(&now, path) && !carries(self, path)).collect();
            let cleared: Vec<_> =
                self.0.keys().filter(|path| carries(self, path) && !carries(&now, path)).collect();
            let cleared = tracked(git, &cleared)?;
            if !set.is_empty() {
                changes.push(change(name, &set, true));
            }
            if !cleared.is_empty() {
                changes.push(change(name, &cleared, false));
            }
            if treatment == Treatment::Named {
                continue;
            }
            if !set.is_empty() {
                update(git, &format!("--no-{name}"), &set)?;
            }
            if !cleared.is_empty() {
                update(git, &format!("--{name}"), &cleared)?;
            }
            if name == "skip-worktree" {
                bring_back(git, &set)?;
            }
        }
        Ok(changes)
    }
}

fn change(name: &str, paths: &[&String], set: bool) -> SettingChange {
    const NAMED: usize = 5;
    let named = paths.iter().take(NAMED).map(|path| path.as_str()).collect::<Vec<_>>().join(", ");
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" … ({more} more)"),
    };
    let (old, new) = if set { ("", "set") } else { ("set", "") };
    let no = if set { "" } else { "no-" };
    SettingChange {
        what: format!("{name} of {named}{more}"),
        old: old.to_owned(),
        new: new.to_owned(),
        command: format!("git update-index --{no}{name} -- FILE"),
        sight: true,
        set_back: true,
    }
}

fn update(git: &Git, option: &str, paths: &[&String]) -> Result<(), WorkspaceError> {
    let paths: Vec<_> = paths.iter().map(|path| RepoPath::new(path.as_bytes())).collect();
    let call = git.write("update-index").args([option, "-z", "--stdin"]);
    call.input(nul_separated(&paths)).output().map(drop)
}

/// Returns the paths that are in the index. Only those can have a flag.
fn tracked<'a>(git: &Git, paths: &[&'a String]) -> Result<Vec<&'a String>, WorkspaceError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let output = git.read("ls-files").args(["-z", "--cached", "--"]).args(paths).output()?;
    let there: Vec<_> =
        records(&output).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    Ok(paths.iter().copied().filter(|path| there.contains(path)).collect())
}

/// Restores files that a sparse checkout removed from the work tree. They were not deleted by
/// anybody.
fn bring_back(git: &Git, paths: &[&String]) -> Result<(), WorkspaceError> {
    let paths = paths.iter().map(|path| RepoPath::new(path.as_bytes()));
    let gone = |path: &RepoPath| fs::symlink_metadata(path.under(&git.top_level)).is_err();
    let gone: Vec<_> = paths.filter(gone).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let call = git.write("checkout-index").args(["--quiet", "-z", "--stdin"]);
    call.input(nul_separated(&gone)).output().map(drop)
}
