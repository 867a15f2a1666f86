//! The files of harness itself: never committed, never cleaned, never reset.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use crate::home::Home;

/// The paths of a work tree that are ours.
///
/// All are relative to the state root, which may be a folder below the top level. In a worker's
/// linked worktree the state root lies elsewhere. Files that are checked out there under our names
/// are copies that nothing reads, and they are kept out of commits in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFiles {
    /// Empty, or the state root below the top level with a `/` at the end.
    prefix: Vec<u8>,
    /// The paths that were brought into the tree of a worker, and that git does not track there.
    brought: Arc<BTreeSet<Vec<u8>>>,
}

/// The files of harness in a state root, besides those in its folder.
pub const OWN_FILES: [&str; 8] = Home::OWN_FILES;
/// The folder of harness in a state root.
pub const OWN_FOLDER: &str = Home::FOLDER;

impl OwnFiles {
    /// Creates the value from two canonical paths.
    pub fn new(top_level: &Path, state_root: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let below = state_root.strip_prefix(top_level).unwrap_or(Path::new(""));
        let mut prefix = below.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        Self { prefix, brought: Arc::default() }
    }

    /// Returns the value for a tree into which these paths were brought from the main tree. They stay
    /// out of commits as our files do, whether or not git ignores them.
    pub(super) fn with_brought(&self, brought: BTreeSet<Vec<u8>>) -> Self {
        Self { brought: Arc::new(brought), ..self.clone() }
    }

    /// Returns whether `path` was brought, or is below a path that was.
    fn was_brought(&self, path: &[u8]) -> bool {
        let ends = || path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        !self.brought.is_empty()
            && ends().chain([path.len()]).any(|end| self.brought.contains(&path[..end]))
    }

    /// Returns whether `path`, relative to the top level, is one of ours.
    pub fn own(&self, path: &[u8]) -> bool {
        if self.was_brought(path) {
            return true;
        }
        let Some(name) = path.strip_prefix(self.prefix.as_slice()) else { return false };
        OWN_FILES.iter().any(|file| file.as_bytes() == name)
            || name
                .strip_prefix(OWN_FOLDER.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns the templates of prompts as a literal pathspec.
    pub(super) fn prompts(&self) -> std::ffi::OsString {
        use std::os::unix::ffi::OsStringExt;
        let path = [self.prefix.as_slice(), Home::PROMPTS.as_bytes()].concat();
        std::ffi::OsString::from_vec(path)
    }

    /// Returns whether `path` is one of those templates.
    pub(super) fn is_prompt(&self, path: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let rest = path.strip_prefix(self.prompts().as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns our files, relative to the top level, as literal pathspecs.
    pub(super) fn pathspecs(&self) -> Vec<std::ffi::OsString> {
        use std::os::unix::ffi::OsStringExt;
        let named = OWN_FILES.iter().chain([&OWN_FOLDER]);
        named
            .map(|name| {
                let path = [self.prefix.as_slice(), name.as_bytes()].concat();
                std::ffi::OsString::from_vec(path)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_found_below_a_state_root() {
        let own = OwnFiles::new(Path::new("/repo"), Path::new("/repo/sub"));
        assert!(own.own(b"sub/harness-tasks.json"));
        assert!(own.own(b"sub/.harness"));
        assert!(own.own(b"sub/.harness/runs/x"));
        assert!(!own.own(b"harness-tasks.json"));
        assert!(!own.own(b"sub/.harness-other"));
        assert!(!own.own(b"sub/harness-init.sh"));
        let elsewhere = OwnFiles::new(Path::new("/repo/.harness/worktrees/w"), Path::new("/repo"));
        assert!(elsewhere.own(b"harness-tasks.json"));
    }

    #[test]
    fn what_was_brought_into_the_tree_of_a_worker_is_no_work_of_its_agent() {
        let own = OwnFiles::new(Path::new("/repo"), Path::new("/repo"));
        let own = own.with_brought([&b".env"[..], b"node_modules"].map(<[u8]>::to_vec).into());
        for ours in [&b".env"[..], b"node_modules", b"node_modules/x/y"] {
            assert!(own.own(ours), "{}", String::from_utf8_lossy(ours));
        }
        for other in [&b".env2"[..], b"a/.env", b"node_modules2", b"a/node_modules/x"] {
            assert!(!own.own(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
