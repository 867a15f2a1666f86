//! Files that an attempt should not change, such as its tests, its gate and the CI. An attempt that
//! changes them may have made its own check pass.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Task;

/// The number of files that a message names.
const NAMED: usize = 10;

/// The consequence for an attempt that touched a protected file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTouch {
    /// The log and the receipt mention it.
    #[default]
    Flag,
    /// The attempt fails and is rolled back.
    Refuse,
}

/// The error for an invalid glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("protected: {glob:?}: {why}")]
pub struct BadGlob {
    /// The text of the glob.
    pub glob: String,
    /// A description of the problem.
    pub why: String,
}

/// The protected files and the consequence of touching them. The default protects no file.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    patterns: Vec<String>,
    globs: GlobSet,
    /// Files and folders that are protected by their paths.
    always: Vec<String>,
    /// The digests of harness's own settings at the claim.
    held: Option<BTreeMap<String, String>>,
    on_touch: OnTouch,
}

impl Protected {
    /// Builds the rules from globs, which work as in an ignore file. A glob without a slash matches
    /// names in any folder, and one with a slash matches paths from the top. A glob that matches a
    /// folder covers everything in it. `*` stays within a name, `**` does not.
    pub fn new(globs: &[String], on_touch: OnTouch) -> Result<Self, BadGlob> {
        let patterns = globs.to_vec();
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            let bad =
                |e: &globset::Error| BadGlob { glob: glob.clone(), why: e.kind().to_string() };
            for pattern in patterns_of(glob) {
                let built = GlobBuilder::new(&pattern).literal_separator(true).build();
                set.add(built.map_err(|e| bad(&e))?);
            }
        }
        let globs =
            set.build().map_err(|e| BadGlob { glob: globs.join(" "), why: e.to_string() })?;
        Ok(Self { patterns, globs, always: Vec::new(), held: None, on_touch })
    }

    /// Protects the files of the task's own globs too. The consequence of touching them is the same.
    #[must_use]
    pub fn of_task(self, task: &Task) -> Self {
        if task.protected.is_empty() {
            return self;
        }
        let Self { patterns, globs: _, mut always, held, on_touch } = self;
        let mut globs = patterns;
        for glob in &task.protected {
            // A ledger with an invalid glob is refused when it is read. If one gets here anyway,
            // it protects at least the file of that name.
            match problem_of_glob(glob) {
                _ if globs.contains(glob) => {}
                None => globs.push(glob.clone()),
                Some(_) => always.push(glob.clone()),
            }
        }
        let built = Self::new(&globs, on_touch).unwrap_or_default();
        Self { always, held, ..built }
    }

    /// Protects these files and folders too, given as paths from the top of the work tree.
    #[must_use]
    pub fn always(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.always.extend(paths);
        self
    }

    /// Records the content of harness's own settings at the claim, as digests by paths from the
    /// state root.
    #[must_use]
    pub fn holding(self, contents: BTreeMap<String, String>) -> Self {
        Self { held: Some(contents), ..self }
    }

    /// Drops that record, for rules that belong to no claim.
    #[must_use]
    pub fn of_no_claim(self) -> Self {
        Self { held: None, ..self }
    }

    /// Returns the content of the settings at the claim; `None` if it was not recorded.
    pub fn held(&self) -> Option<&BTreeMap<String, String>> {
        self.held.as_ref()
    }

    /// Returns those of harness's own settings that changed since the claim.
    pub fn changed(&self, now: &BTreeMap<String, String>) -> Vec<String> {
        let Some(held) = &self.held else { return Vec::new() };
        let paths: std::collections::BTreeSet<_> = held.keys().chain(now.keys()).collect();
        let changed = paths.into_iter().filter(|path| held.get(*path) != now.get(*path));
        changed.cloned().collect()
    }

    /// Returns whether nothing is protected.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.always.is_empty()
    }

    /// Returns the globs as they were passed to `new`.
    pub fn globs(&self) -> &[String] {
        &self.patterns
    }

    /// Returns the files and folders that are protected by their paths.
    pub fn paths(&self) -> &[String] {
        &self.always
    }

    /// Returns the consequence of touching a protected file.
    pub fn on_touch(&self) -> OnTouch {
        self.on_touch
    }

    /// Returns the globs and the consequence in one line.
    pub fn words(&self) -> String {
        let globs = self.patterns.join(", ");
        match self.on_touch {
            _ if self.patterns.is_empty() => globs,
            OnTouch::Flag => globs,
            OnTouch::Refuse => format!("{globs} (refuse)"),
        }
    }

    /// Returns whether `file` is protected by its path.
    pub fn is_always(&self, file: &str) -> bool {
        let below = |path: &String| file.strip_prefix(path.as_str());
        let mut rest = self.always.iter().filter_map(below);
        rest.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns those of `files` (from the top of the work tree) that are protected.
    pub fn among(&self, files: &[String]) -> Vec<String> {
        let is_protected = |file: &&String| self.globs.is_match(file) || self.is_always(file);
        files.iter().filter(is_protected).cloned().collect()
    }
}

/// Returns what is wrong with a glob, if anything is.
pub fn problem_of_glob(glob: &str) -> Option<BadGlob> {
    let bad = |why: String| BadGlob { glob: glob.to_owned(), why };
    if glob.trim().trim_matches('/').is_empty() {
        return Some(bad("it names no file".to_owned()));
    }
    let build = |pattern: String| GlobBuilder::new(&pattern).literal_separator(true).build();
    let error = patterns_of(glob).into_iter().find_map(|pattern| build(pattern).err())?;
    Some(bad(error.kind().to_string()))
}

/// Returns the patterns that a glob stands for: the file or folder itself, and what is below it.
fn patterns_of(glob: &str) -> [String; 2] {
    let path = glob.trim_end_matches('/');
    let path = match path.strip_prefix('/') {
        Some(from_top) => from_top.to_owned(),
        None if path.contains('/') => path.to_owned(),
        None => format!("**/{path}"),
    };
    let below = format!("{path}/**");
    [path, below]
}

/// Returns the log message for an attempt that touched `files`.
pub fn touched(files: &[String]) -> String {
    format!("touched protected files: {}", named(files))
}

/// Returns a bounded list of files, for the log.
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
    fn a_task_adds_globs_to_those_of_the_configuration() {
        let mut task = Task::new(crate::TaskId::numbered(1), "t");
        let files = ["tests/a.rs", "ci.sh", "src/a.rs", "own", "b["].map(str::to_owned);
        let config = Protected::new(&["ci.sh".to_owned()], OnTouch::Refuse).unwrap();
        let config = config.always(["own".to_owned()]).holding(BTreeMap::new());
        assert_eq!(config.clone().of_task(&task).among(&files), ["ci.sh", "own"]);
        task.protected = ["tests/", "ci.sh", "b["].map(str::to_owned).to_vec();
        let both = config.of_task(&task);
        assert_eq!(both.among(&files), ["tests/a.rs", "ci.sh", "own", "b["]);
        assert_eq!(both.globs(), ["ci.sh", "tests/"]);
        assert_eq!((both.on_touch(), both.held().is_some()), (OnTouch::Refuse, true));
        for (glob, why) in [("a[", "unclosed"), (" ", "names no file"), ("//", "names no file")] {
            let problem = problem_of_glob(glob).map(|bad| bad.to_string()).unwrap_or_default();
            assert!(problem.contains(why), "{glob:?}: {problem:?}");
        }
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
    fn contents_are_compared_with_those_of_the_claim() {
        let contents = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(path, digest)| ((*path).to_owned(), (*digest).to_owned())).collect()
        };
        let now = contents(&[("harness.toml", "2"), ("same", "1"), ("new", "1")]);
        assert!(Protected::default().changed(&now).is_empty(), "nobody looked");
        let held = contents(&[("harness.toml", "1"), ("same", "1"), ("gone", "1")]);
        let protected = Protected::default().holding(held);
        assert_eq!(protected.changed(&now), ["gone", "harness.toml", "new"]);
        assert!(protected.of_no_claim().changed(&now).is_empty());
    }

    #[test]
    fn a_long_list_is_cut() {
        let files: Vec<_> = (0..12).map(|n| format!("f{n}")).collect();
        assert!(touched(&files).ends_with("f9 … (2 more)"));
        assert_eq!(touched(&files[..1]), "touched protected files: f0");
    }
}
