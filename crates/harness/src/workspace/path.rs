//! File names as git has them: bytes, relative to the top level, with `/` between components.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A path inside the work tree. File names are bytes: newlines and invalid UTF-8 occur, and an
/// agent may create them on purpose.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RepoPath(Vec<u8>);

impl RepoPath {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path of the file.
    pub(super) fn under(&self, top: &Path) -> PathBuf {
        top.join(OsStr::from_bytes(&self.0))
    }

    /// Returns the path as a literal pathspec.
    pub(super) fn to_os_string(&self) -> std::ffi::OsString {
        OsStr::from_bytes(&self.0).to_owned()
    }

    pub(super) fn join(&self, name: &OsStr) -> Self {
        let mut bytes = self.0.clone();
        bytes.push(b'/');
        bytes.extend_from_slice(name.as_bytes());
        Self(bytes)
    }

    /// Returns the directories above it, outermost first.
    pub(super) fn parents(&self) -> impl Iterator<Item = RepoPath> + '_ {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| Self(self.0[..at].to_vec()))
    }

    /// Returns the path for people, with invalid UTF-8 replaced.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Quotes the path in git's form for lists of lines (`"a\012b"`).
    pub(super) fn quoted(&self) -> Vec<u8> {
        let mut quoted = vec![b'"'];
        for &byte in &self.0 {
            if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
                quoted.push(byte);
            } else {
                quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
        }
        quoted.push(b'"');
        quoted
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// Joins the paths with a NUL after each, for `-z --stdin`.
pub(super) fn nul_separated<'a>(paths: impl IntoIterator<Item = &'a RepoPath>) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path.bytes());
        input.push(0);
    }
    input
}

/// Returns the records of an output that was requested with `-z`.
pub(super) fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_leaves_no_line_end_and_no_quote_inside() {
        assert_eq!(RepoPath::new(b"a\n\"b\\\xff").quoted(), br#""a\012\042b\134\377""#);
    }

    #[test]
    fn parents_come_outermost_first() {
        let parents: Vec<_> = RepoPath::new(b"a/b/c").parents().map(|p| p.shown()).collect();
        assert_eq!(parents, ["a", "a/b"]);
    }
}
