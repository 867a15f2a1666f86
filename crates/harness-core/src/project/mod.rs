//! Detects how a project tests itself from the names and contents of its files: the command for its
//! check, the files of its tests, and the settings that follow from a trial of that check.
//!
//! Nothing is run or read here; the caller passes in what it found.

mod manifest;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use crate::protect::{OnTouch, Protected};

pub use trial::{Advice, Trial, TrialRun};

/// The names of files at the top of the work tree whose contents are needed.
pub const MANIFESTS: [&str; 15] = [
    "justfile",
    "Justfile",
    ".justfile",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
    "dev-requirements.txt",
    "requirements-test.txt",
];

/// Globs of tests in the form of `protected`. A glob is offered if it adds files to those before
/// it.
const TESTS: [&str; 10] = [
    "tests/",
    "test/",
    "__tests__/",
    "*.{test,spec}.{js,jsx,ts,tsx,mjs,cjs,mts,cts}",
    "*_test.go",
    "test_*.py",
    "*_test.py",
    "conftest.py",
    "*_{spec,test}.rb",
    "*_test.exs",
];

/// Returns those of `files` that look like tests by their names.
pub fn tests_among(files: &[String]) -> Vec<String> {
    let tests = Protected::new(&TESTS.map(str::to_owned), OnTouch::Flag);
    tests.map(|tests| tests.among(files)).unwrap_or_default()
}

/// The files at the top of a work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectFiles {
    /// The names of files and folders at the top.
    pub names: BTreeSet<String>,
    /// The contents of the [`MANIFESTS`] among them.
    pub texts: BTreeMap<String, String>,
    /// The files of the whole work tree that git does not ignore, as paths from its top.
    pub files: Vec<String>,
}

/// A command by which the project tests itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCheck {
    /// A line for `sh -c`.
    pub command: String,
    /// The file that indicates it.
    pub shown_by: &'static str,
    /// The files that a clean checkout needs and git does not hold, in the form of `[validation]
    /// link`.
    pub link: Vec<String>,
}

impl ProjectCheck {
    fn of(command: &str, shown_by: &'static str) -> Self {
        Self { command: command.to_owned(), shown_by, link: Vec::new() }
    }
}

impl ProjectFiles {
    /// Returns the detected checks, the best one first. A target that the project itself calls
    /// `test` comes before the default of the language. In a project with several languages, only
    /// that target covers all of them.
    pub fn checks(&self) -> Vec<ProjectCheck> {
        let found = [
            manifest::just(self),
            manifest::make(self),
            manifest::cargo(self),
            manifest::node(self),
            manifest::go(self),
            manifest::python(self),
            manifest::gradle(self),
            manifest::maven(self),
            manifest::mix(self),
        ];
        found.into_iter().flatten().collect()
    }

    /// Returns globs for the tests that exist.
    pub fn tests(&self) -> Vec<String> {
        let mut globs: Vec<String> = Vec::new();
        let mut covered: BTreeSet<String> = BTreeSet::new();
        for glob in TESTS {
            let matches = Protected::new(&[glob.to_owned()], OnTouch::Flag)
                .map(|protected| protected.among(&self.files))
                .unwrap_or_default();
            let before = covered.len();
            covered.extend(matches);
            if covered.len() > before {
                globs.push(glob.to_owned());
            }
        }
        globs
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map(String::as_str).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> ProjectFiles {
        let mut project = ProjectFiles::default();
        for (path, text) in files {
            let top = path.split('/').next().unwrap();
            project.names.insert(top.to_owned());
            project.files.push((*path).to_owned());
            if MANIFESTS.contains(path) {
                project.texts.insert((*path).to_owned(), (*text).to_owned());
            }
        }
        project
    }

    #[test]
    fn the_check_is_found_by_the_files() {
        let npm = r#"{"scripts":{"test":"vitest run"}}"#;
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Files<'_>, &[&str]); 24] = [
            (&[], &[]),
            (&[("README.md", ""), ("src/a.c", "")], &[]),
            (&[("Cargo.toml", "[package]")], &["cargo test"]),
            (&[("package.json", npm)], &["npm test"]),
            (&[("package.json", placeholder)], &[]),
            (&[("package.json", "{}")], &[]),
            (&[("package.json", "not JSON")], &[]),
            (&[("package.json", npm), ("pnpm-lock.yaml", "")], &["pnpm test"]),
            (&[("package.json", npm), ("yarn.lock", "")], &["yarn test"]),
            (&[("package.json", npm), ("bun.lockb", "")], &["bun run test"]),
            (&[("go.mod", "module x")], &["go test ./..."]),
            (&[("pytest.ini", "")], &["pytest"]),
            (&[("pyproject.toml", "[tool.pytest.ini_options]")], &["pytest"]),
            (&[("pyproject.toml", "[project]"), ("tests/test_a.py", "")], &["pytest"]),
            (&[("pyproject.toml", "[project]"), ("a.py", "")], &[]),
            (&[("pyproject.toml", "pytest"), ("uv.lock", "")], &["uv run pytest"]),
            (&[("pytest.ini", ""), (".venv/x", "")], &[".venv/bin/python -m pytest"]),
            (&[("Makefile", "all: x\ntest: all\n\t./t\n")], &["make test"]),
            (&[("Makefile", "test := 1\nall:\n\ttest: x\n# test:\ntests:\n")], &[]),
            (&[("Makefile", ".PHONY: test\nbuild test: x\n")], &["make test"]),
            (&[("justfile", "test:\n  x\n")], &["just test"]),
            (&[("justfile", "test name:\n  x\ntest2:\n")], &[]),
            (&[("justfile", "@test *args='':\n  x\n")], &["just test"]),
            (
                &[("Makefile", "test:\n"), ("package.json", npm), ("Cargo.toml", "")],
                &["make test", "cargo test", "npm test"],
            ),
        ];
        for (files, expected) in cases {
            let found = project(files).checks();
            let commands: Vec<_> = found.iter().map(|check| check.command.as_str()).collect();
            assert_eq!(commands, expected, "{files:?}");
        }
    }

    #[test]
    fn what_git_does_not_hold_is_linked_unless_it_leads_back() {
        let with = |text: &str| {
            let found = project(&[("package.json", text), ("node_modules/a", "")]).checks();
            found[0].link.clone()
        };
        assert_eq!(with(r#"{"scripts":{"test":"x"}}"#), ["node_modules"]);
        let workspaces = r#"{"scripts":{"test":"x"},"workspaces":["packages/*"]}"#;
        assert!(with(workspaces).is_empty(), "its links lead into the work tree");
    }

    #[test]
    fn tests_are_found_by_their_names() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["src/lib.rs"], &[]),
            (&["crates/a/tests/it.rs"], &["tests/"]),
            (&["tests/test_a.py", "tests/conftest.py"], &["tests/"]),
            (&["tests/test_a.py", "pkg/test_b.py"], &["tests/", "test_*.py"]),
            (&["a/b_test.go", "a/b.go"], &["*_test.go"]),
            (&["src/a.spec.ts"], &["*.{test,spec}.{js,jsx,ts,tsx,mjs,cjs,mts,cts}"]),
        ];
        for (files, expected) in cases {
            let files = files.iter().map(|file| (*file).to_owned()).collect();
            let project = ProjectFiles { files, ..ProjectFiles::default() };
            assert_eq!(project.tests(), expected, "{:?}", project.files);
        }
    }

    #[test]
    fn changed_tests_are_found_among_changed_files() {
        let files = ["src/a.rs", "src/a_test.go", "x/tests/b.txt", "conftest.py", "contests/c"];
        let files = files.map(str::to_owned);
        assert_eq!(tests_among(&files), ["src/a_test.go", "x/tests/b.txt", "conftest.py"]);
        assert!(tests_among(&[]).is_empty());
    }
}
