//! A repository in memory, with the parts of git that harness uses.
//!
//! Files are text or bytes at a path. There are no folders, modes, links or filters. An ignore rule
//! is a line of the top `.gitignore`: a name, `*.suffix` or `folder/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use harness::workspace::{OwnFiles, WorkspaceError};
use harness_core::{CommitId, Timestamp, TreeId};

use super::trees::{MAIN_TREE, Trees};

pub type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    Branch(String),
    Detached(CommitId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimCommit {
    pub parents: Vec<CommitId>,
    pub files: Files,
    pub message: String,
    pub committer: String,
    pub when: Timestamp,
    /// The commit that a rescue is compared with.
    pub base: Option<CommitId>,
}

/// Everything that outlives a process. `work`, `index`, `head` and the flags of the index belong to
/// the work tree of the handle that looks at it; those of the others are in `others`.
#[derive(Debug, Clone)]
pub struct Model {
    pub work: Files,
    pub index: Files,
    pub head: Head,
    pub branches: BTreeMap<String, CommitId>,
    pub commits: BTreeMap<CommitId, SimCommit>,
    /// Trees by id. `refs/harness/base/*` keeps some of them; the others are never collected.
    pub trees: BTreeMap<TreeId, Files>,
    pub rescues: BTreeMap<String, CommitId>,
    pub bases: BTreeMap<String, TreeId>,
    pub landed: BTreeMap<String, CommitId>,
    pub stashes: Vec<(Timestamp, String)>,
    /// The settings, including those that hide files from git.
    pub settings: Settings,
    /// The settings at a claim. They are kept outside of the repository.
    pub recorded: BTreeMap<String, Settings>,
    /// The tokens of landings, by the name of their ref.
    pub tokens: BTreeMap<String, CommitId>,
    /// The original work of results on their way to land, by the name of its ref.
    pub works: BTreeMap<String, CommitId>,
    pub(super) others: Trees,
    ticks: i64,
}

/// The settings of a repository beside its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub config: BTreeMap<String, String>,
    /// `info/exclude`: rules as in `.gitignore`.
    pub exclude: String,
    /// Paths with the flag `assume-unchanged`.
    pub assumed: BTreeSet<String>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            work: Files::new(),
            index: Files::new(),
            head: Head::Branch("main".to_owned()),
            branches: BTreeMap::new(),
            commits: BTreeMap::new(),
            trees: BTreeMap::new(),
            rescues: BTreeMap::new(),
            bases: BTreeMap::new(),
            landed: BTreeMap::new(),
            stashes: Vec::new(),
            settings: Settings::default(),
            recorded: BTreeMap::new(),
            tokens: BTreeMap::new(),
            works: BTreeMap::new(),
            others: Trees::at(PathBuf::from(MAIN_TREE)),
            ticks: 1_700_000_000,
        }
    }
}

impl Model {
    /// Returns the part of the model that one look reports.
    pub(super) fn seen(&self) -> Self {
        Self {
            work: self.work.clone(),
            index: self.index.clone(),
            head: self.head.clone(),
            branches: self.branches.clone(),
            commits: self.commits.clone(),
            settings: self.settings.clone(),
            ..Self::default()
        }
    }

    pub fn tick(&mut self) -> Timestamp {
        self.ticks += 1;
        Timestamp::from_seconds(self.ticks)
    }

    pub fn head_commit(&self) -> Result<CommitId, WorkspaceError> {
        match &self.head {
            Head::Branch(name) => self.branches.get(name).cloned(),
            Head::Detached(commit) => Some(commit.clone()),
        }
        .ok_or(WorkspaceError::NoCommits)
    }

    pub fn branch(&self) -> Option<String> {
        match &self.head {
            Head::Branch(name) => Some(name.clone()),
            Head::Detached(_) => None,
        }
    }

    pub fn files_of(&self, commit: &CommitId) -> Files {
        self.commits.get(commit).map(|commit| commit.files.clone()).unwrap_or_default()
    }

    pub fn head_files(&self) -> Files {
        self.head_commit().map(|head| self.files_of(&head)).unwrap_or_default()
    }

    pub fn set_head(&mut self, commit: CommitId) {
        match &mut self.head {
            Head::Branch(name) => {
                self.branches.insert(name.clone(), commit);
            }
            Head::Detached(at) => *at = commit,
        }
    }

    /// Creates a commit object without moving a ref.
    pub fn add_commit(
        &mut self,
        parents: Vec<CommitId>,
        files: Files,
        message: &str,
        base: Option<CommitId>,
    ) -> Result<CommitId, WorkspaceError> {
        let when = self.tick();
        let (message, committer) = (message.to_owned(), "User".to_owned());
        self.put_commit(SimCommit { parents, files, message, committer, when, base })
    }

    /// Stores a commit under the name that follows from its contents.
    pub fn put_commit(&mut self, commit: SimCommit) -> Result<CommitId, WorkspaceError> {
        let (parents, message) = (&commit.parents, &commit.message);
        let tree = hash(&commit.files);
        let text = format!("{tree} {parents:?} {message} {}", commit.when.seconds());
        let id = CommitId::parse(&digest(text.as_bytes())).map_err(std::io::Error::other)?;
        self.commits.insert(id.clone(), commit);
        Ok(id)
    }

    pub fn add_tree(&mut self, files: Files) -> Result<TreeId, WorkspaceError> {
        let id = TreeId::parse(&hash(&files)).map_err(std::io::Error::other)?;
        self.trees.insert(id.clone(), files);
        Ok(id)
    }

    /// Returns a commit and all its ancestors.
    pub fn history(&self, tip: &CommitId) -> BTreeSet<CommitId> {
        self.newest_first(tip).into_iter().collect()
    }

    /// Returns the commits of the history, from the tip on.
    pub fn newest_first(&self, tip: &CommitId) -> Vec<CommitId> {
        let (mut seen, mut order, mut open) = (BTreeSet::new(), Vec::new(), vec![tip.clone()]);
        while let Some(commit) = open.pop() {
            if let Some(found) = self.commits.get(&commit)
                && seen.insert(commit.clone())
            {
                order.push(commit);
                open.extend(found.parents.iter().rev().cloned());
            }
        }
        order
    }

    pub fn ignored(&self, path: &str) -> bool {
        let rules = self.work.get(".gitignore").map(|text| String::from_utf8_lossy(text));
        let rules = rules.iter().flat_map(|rules| rules.lines());
        rules.chain(self.settings.exclude.lines()).filter(|rule| !rule.is_empty()).any(
            |rule| match (rule.strip_prefix('*'), rule.strip_suffix('/')) {
                (Some(suffix), _) => path.ends_with(suffix),
                (None, Some(_)) => path.starts_with(rule),
                (None, None) => path.rsplit('/').next() == Some(rule),
            },
        )
    }

    /// Returns the files that are untracked, not ignored and not ours.
    pub fn untracked(&self, own: &OwnFiles) -> Files {
        let untracked = self.work.iter().filter(|(path, _)| {
            !self.index.contains_key(*path) && !self.ignored(path) && !own.own(path.as_bytes())
        });
        untracked.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
    }

    /// Returns the tracked paths that differ between HEAD, index and work tree, except ours.
    pub fn changed(&self, own: &OwnFiles) -> Vec<String> {
        let head = self.head_files();
        let paths: BTreeSet<_> = head.keys().chain(self.index.keys()).collect();
        let changed = paths.into_iter().filter(|path| {
            let (in_head, staged) = (head.get(*path), self.index.get(*path));
            let seen = staged.is_some() && !self.settings.assumed.contains(*path);
            let differs = in_head != staged || (seen && staged != self.work.get(*path));
            differs && !own.own(path.as_bytes())
        });
        changed.cloned().collect()
    }

    /// Returns the current tracked and untracked files, except ours and ignored ones.
    pub fn snapshot(&self, own: &OwnFiles) -> Files {
        let mut files = self.untracked(own);
        let tracked = self.index.keys().filter(|path| !own.own(path.as_bytes()));
        for path in tracked {
            let assumed = self.settings.assumed.contains(path);
            let place = if assumed { &self.index } else { &self.work };
            if let Some(bytes) = place.get(path) {
                files.insert(path.clone(), bytes.clone());
            }
        }
        files
    }
}

fn hash(files: &Files) -> String {
    let mut bytes = Vec::new();
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    digest(&bytes)
}

/// Computes FNV-1a with three offsets: 40 digits that look like git's and are the same on every
/// machine.
fn digest(bytes: &[u8]) -> String {
    let fnv = |offset: u64| {
        bytes.iter().fold(offset, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let text: String = [0xcbf2_9ce4_8422_2325, 0x8422_2325_cbf2_9ce4, 0x1234_5678_9abc_def1]
        .map(|offset| format!("{:016x}", fnv(offset)))
        .concat();
    text[..40].to_owned()
}
