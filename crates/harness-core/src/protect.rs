//! Files that an attempt should leave alone: its tests, its gate, the CI. An attempt that touches
//! them may have made its own check green.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// How many files a message names.
const NAMED: usize = 10;

/// What follows for an attempt that touched a protected file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTouch {
    /// It is said, in the log and in the receipt.
    #[default]
    Flag,
    /// The attempt fails and is rolled back.
    Refuse,
}

/// A glob that can not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("protected: {glob:?}: {why}")]
pub struct BadGlob {
    /// As it was given.
    pub glob: String,
    /// What is wrong with it.
    pub why: String,
}

/// Which files are protected, and how. By default none.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    patterns: Vec<String>,
    globs: GlobSet,
    /// Files and folders by their paths.
    always: Vec<String>,
    on_touch: OnTouch,
}

impl Protected {
    /// As in an ignore file: a glob without a slash is about names in any folder, one with a slash
    /// about paths from the top, and what names a folder is about everything in it. `*` stays within
    /// a name, `**` does not.
    pub fn new(globs: &[String], on_touch: OnTouch) -> Result<Self, BadGlob> {
        let patterns = globs.to_vec();
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            let bad =
                |e: &globset::Error| BadGlob { glob: glob.clone(), why: e.kind().to_string() };
            let path = glob.trim_end_matches('/');
            let path = match path.strip_prefix('/') {
                Some(from_top) => from_top.to_owned(),
                None if path.contains('/') => path.to_owned(),
                None => format!("**/{path}"),
            };
            for pattern in [path.clone(), format!("{path}/**")] {
                let built = GlobBuilder::new(&pattern).literal_separator(true).build();
                set.add(built.map_err(|e| bad(&e))?);
            }
        }
        let globs =
            set.build().map_err(|e| BadGlob { glob: globs.join(" "), why: e.to_string() })?;
        Ok(Self { patterns, globs, always: Vec::new(), on_touch })
    }

    /// Protects these files and folders too, given as paths from the top of the work tree.
    #[must_use]
    pub fn always(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.always.extend(paths);
        self
    }

    /// Nothing is protected.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.always.is_empty()
    }

    /// The globs as they were given.
    pub fn globs(&self) -> &[String] {
        &self.patterns
    }

    /// What is protected by its path.
    pub fn paths(&self) -> &[String] {
        &self.always
    }

    /// What follows for who touches one.
    pub fn on_touch(&self) -> OnTouch {
        self.on_touch
    }

    /// Those of `files` (from the top of the work tree) that are protected.
    pub fn among(&self, files: &[String]) -> Vec<String> {
        let is_always = |file: &str| {
            let below = |path: &String| file.strip_prefix(path.as_str());
            let rest = self.always.iter().filter_map(below);
            rest.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_protected = |file: &&String| self.globs.is_match(file) || is_always(file);
        files.iter().filter(is_protected).cloned().collect()
    }
}

/// What an attempt did, for the log.
pub fn touched(files: &[String]) -> String {
    format!("touched protected files: {}", named(files))
}

/// A bounded list of files, for the log.
pub fn named(files: &[String]) -> String {
    let named = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} … ({more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_read_as_in_an_ignore_file() {
        for (glob, yes, no) in [
            ("*.yml", "a/b.yml", "a/b.yaml"),
            ("Makefile", "sub/Makefile", "Makefile.in"),
            ("tests/", "tests/a/b.rs", "tests.rs"),
            (".github", ".github/workflows/ci.yml", "github/x"),
            ("/ci.sh", "ci.sh", "sub/ci.sh"),
            ("src/*_test.go", "src/a_test.go", "src/a/b_test.go"),
            ("src/**/*_test.go", "src/a/b_test.go", "a_test.go"),
            ("a/{b,c}.txt", "a/c.txt", "a/d.txt"),
        ] {
            let protected = Protected::new(&[glob.to_owned()], OnTouch::Flag).unwrap();
            let files = [yes.to_owned(), no.to_owned()];
            assert_eq!(protected.among(&files), [yes], "{glob}");
        }
        assert!(Protected::default().among(&["a".to_owned()]).is_empty());
        let bad = Protected::new(&["a[".to_owned()], OnTouch::Flag).unwrap_err();
        assert!(bad.to_string().starts_with("protected: \"a[\": "), "{bad}");
    }

    #[test]
    fn paths_are_protected_as_they_are() {
        let always = ["a[b]/harness.toml", "a[b]/.harness/prompts"].map(str::to_owned);
        let protected = Protected::default().always(always);
        assert!(!protected.is_empty());
        let files = [
            "a[b]/harness.toml",
            "a[b]/harness.toml.orig",
            "ab/harness.toml",
            "a[b]/.harness/prompts/task.md",
            "harness.toml",
        ];
        let found = protected.among(&files.map(str::to_owned));
        assert_eq!(found, ["a[b]/harness.toml", "a[b]/.harness/prompts/task.md"]);
    }

    #[test]
    fn a_long_list_is_cut() {
        let files: Vec<_> = (0..12).map(|n| format!("f{n}")).collect();
        assert!(touched(&files).ends_with("f9 … (2 more)"));
        assert_eq!(touched(&files[..1]), "touched protected files: f0");
    }
}
