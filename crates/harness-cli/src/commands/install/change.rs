//! Changes of files. All changes are known before the first is made.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use similar::TextDiff;

use crate::failure::{Failure, Result};

/// The contents of a file before and after; `None` if there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    mode: fs::Permissions,
    /// The target of its path without links, resolved once.
    target: PathBuf,
}

/// Makes all changes or none. If one fails, the earlier ones are undone.
pub(super) fn apply_all(changes: &[Change], base: &Path) -> Result<()> {
    let mut done: Vec<&Change> = Vec::new();
    for change in changes {
        if let Err(failure) = change.apply(base) {
            let back = done.iter().rev().map(|change| change.inverse().apply(base));
            return Err(with_stuck(failure, back.filter_map(Result::err).collect()));
        }
        done.push(change);
    }
    Ok(())
}

/// Adds the changes that could not be undone to the failure.
fn with_stuck(failure: Failure, stuck: Vec<Failure>) -> Failure {
    if stuck.is_empty() {
        return failure.hint("nothing was changed");
    }
    stuck.into_iter().fold(failure, |failure, stuck| {
        failure.hint(format!("an earlier change could not be undone: {}", stuck.error))
    })
}

impl Change {
    /// Determines the change of a file from its text. A link may lead to another of the `allowed`
    /// folders and nowhere else.
    pub(super) fn of(
        path: &Path,
        allowed: &[PathBuf],
        edit: impl FnOnce(Option<&str>) -> Result<Option<String>>,
    ) -> Result<Self> {
        let target = resolved(path);
        refuse_elsewhere(path, &target, allowed)?;
        let before = read(path)?;
        let after = edit(before.as_deref())?;
        let mode = fs::metadata(path).map(|file| file.permissions());
        let mode = mode.unwrap_or_else(|_| fs::Permissions::from_mode(0o644));
        Ok(Self { path: path.to_owned(), before, after, mode, target })
    }

    fn inverse(&self) -> Self {
        let Self { path, before, after, mode, target } = self.clone();
        Self { path, before: after, after: before, mode, target }
    }

    /// Returns the action on the file; `None` if there is none.
    pub(super) fn action(&self) -> Option<&'static str> {
        match (&self.before, &self.after) {
            (before, after) if before == after => None,
            (None, _) => Some("made"),
            (_, None) => Some("removed"),
            _ => Some("changed"),
        }
    }

    /// Returns a diff for `git apply` and people. `name` is the name of the file in it.
    pub(super) fn diff(&self, name: &Path) -> String {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
        let side = |letter, text: Option<&str>| match text {
            Some(_) => format!("{letter}/{}", name.display()),
            None => "/dev/null".to_owned(),
        };
        diff.unified_diff().header(&side('a', before), &side('b', after)).to_string()
    }

    /// Replaces the content at once or not at all. Missing directories are created, and empty ones
    /// below `base` are removed.
    pub(super) fn apply(&self, base: &Path) -> Result<()> {
        if self.action().is_none() {
            return Ok(());
        }
        if resolved(&self.path) != self.target || read(&self.path)? != self.before {
            return Err(Failure::error(format!("{} changed in the meantime", self.path.display()))
                .hint("run it again"));
        }
        match &self.after {
            Some(text) => self.put(text).map_err(|why| {
                self.remove_empty_above(base);
                Failure::file("write", &self.path, &why)
            }),
            None => {
                fs::remove_file(&self.path)
                    .map_err(|why| Failure::file("remove", &self.path, &why))?;
                self.remove_empty_above(base);
                Ok(())
            }
        }
    }

    /// Removes empty directories upward, up to the first that is not empty.
    fn remove_empty_above(&self, base: &Path) {
        let above = self.path.ancestors().skip(1);
        let within = above.take_while(|path| *path != base && path.starts_with(base));
        let is_gone = |removed: &io::Result<()>| match removed {
            Ok(()) => true,
            Err(why) => why.kind() == io::ErrorKind::NotFound,
        };
        within.map(fs::remove_dir).take_while(is_gone).for_each(drop);
    }

    /// Writes the text. A file that is a link is written at its target when it was read, and keeps
    /// its mode.
    fn put(&self, text: &str) -> io::Result<()> {
        let target = &self.target;
        let directory = target.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        let mut made = tempfile::Builder::new().prefix(".harness-").tempfile_in(directory)?;
        made.write_all(text.as_bytes())?;
        made.as_file().set_permissions(self.mode.clone())?;
        made.as_file().sync_all()?;
        made.persist(target).map_err(|failed| failed.error)?;
        Ok(())
    }
}

/// Returns the path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match there {
        Some((part, real)) => match path.strip_prefix(part) {
            Ok(rest) if rest == Path::new("") => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

fn refuse_elsewhere(path: &Path, target: &Path, allowed: &[PathBuf]) -> Result<()> {
    let mut allowed = allowed.iter().filter_map(|folder| folder.canonicalize().ok());
    if allowed.any(|folder| target.starts_with(folder)) {
        return Ok(());
    }
    let (path, target) = (path.display(), target.display());
    Err(Failure::config(format!("{path} is a link to {target}"))
        .hint("nothing was changed: harness writes only to the project and your home"))
}

/// Returns the text of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    // A pipe would never end.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::config(format!("{} is not a regular file", path.display()))
            .hint("nothing was changed; move it away first"));
    }
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Failure::config(format!("{} is not UTF-8", path.display()))
                .hint("nothing was changed; fix the file first")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
            Err(_) => Ok(None),
            Ok(_) => Err(Failure::config(format!("{} is a broken link", path.display()))
                .hint("nothing was changed; remove the link, or create its target")),
        },
        Err(why) => Err(Failure::file("read", path, &why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: PathBuf, before: Option<&str>, after: Option<&str>) -> Change {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let mode = fs::Permissions::from_mode(0o640);
        let target = path.clone();
        Change { path, before: text(before), after: text(after), mode, target }
    }

    #[test]
    fn what_was_done_before_a_failure_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let (base, at) = (folder.path(), |name: &str| folder.path().join(name));
        fs::write(at("removed"), "r").unwrap();
        fs::write(at("changed"), "c").unwrap();
        let changes = [
            change(at("a/b/made"), None, Some("m")),
            change(at("removed"), Some("r"), None),
            change(at("changed"), Some("c"), Some("d")),
            change(at("gone"), Some("g"), Some("h")),
        ];
        let failure = apply_all(&changes, base).unwrap_err();
        assert!(failure.error.contains("gone changed in the meantime"), "{failure:?}");
        assert!(failure.hints.iter().any(|hint| hint == "nothing was changed"), "{failure:?}");
        assert_eq!(read(&at("removed")).unwrap().as_deref(), Some("r"));
        assert_eq!(fs::metadata(at("removed")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(read(&at("changed")).unwrap().as_deref(), Some("c"));
        assert!(!at("a").exists());
    }

    #[test]
    fn what_can_not_be_taken_back_is_named() {
        let stuck = Failure::error("a/file changed meanwhile");
        let failure = with_stuck(Failure::error("no place"), vec![stuck]);
        assert_eq!(failure.error, "no place");
        assert_eq!(
            failure.hints,
            ["an earlier change could not be undone: a/file changed meanwhile"]
        );
    }
}
