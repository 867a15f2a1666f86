//! A cache of what was read of the repository, so that git is not asked for it again.
//!
//! Objects never change. Files of git are identified by their stamp, which every replacement
//! changes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::SystemTime,
};

use harness_core::{CommitId, TreeId};

use super::{
    WorkspaceError,
    fingerprint::Print,
    git::Git,
    index_file::IndexFile,
    object::{Listing, list_tree, tree_id},
    own::OwnFiles,
    path::RepoPath,
    settings::flags::Flags,
};
use crate::home::FileStamp;

/// The number of commits that are remembered with their trees.
const COMMITS: usize = 8;

/// Data of the user's index beside the names of files.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) flags: Flags,
    /// `true` if a file of ours has an entry.
    pub(super) ours: bool,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    own: OnceLock<OwnFiles>,
    tracked: Mutex<Option<(FileStamp, Arc<Tracked>)>>,
    trees: Mutex<VecDeque<(CommitId, TreeId)>>,
    listing: Mutex<Option<(TreeId, Arc<Listing>)>>,
    prints: Mutex<BTreeMap<RepoPath, (FileStamp, Print)>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Creates a cache that knows which files are ours. Without that, any file could be.
    pub(super) fn with(own: &OwnFiles) -> Self {
        Self { own: OnceLock::from(own.clone()), ..Self::default() }
    }

    pub(super) fn remember_tree(&self, commit: &CommitId, tree: &TreeId) {
        let mut trees = lock(&self.trees);
        trees.truncate(COMMITS - 1);
        trees.push_front((commit.clone(), tree.clone()));
    }

    pub(super) fn remember_listing(&self, tree: &TreeId, listing: Arc<Listing>) {
        *lock(&self.listing) = Some((tree.clone(), listing));
    }

    pub(super) fn prints(&self) -> MutexGuard<'_, BTreeMap<RepoPath, (FileStamp, Print)>> {
        lock(&self.prints)
    }
}

impl Git {
    /// Returns the tree of a commit.
    pub(super) fn tree_of(&self, commit: &CommitId) -> Result<TreeId, WorkspaceError> {
        let known = lock(&self.memory.trees).iter().find(|(of, _)| of == commit).cloned();
        if let Some((_, tree)) = known {
            return Ok(tree);
        }
        let call = self.read("rev-parse").args(["--verify", &format!("{commit}^{{tree}}")]);
        let tree = tree_id(&call.line()?)?;
        self.memory.remember_tree(commit, &tree);
        Ok(tree)
    }

    /// Returns the tree of a commit; `None` if the id is not that of a commit here. One process
    /// answers both questions.
    pub(super) fn tree_of_commit(
        &self,
        commit: &CommitId,
    ) -> Result<Option<TreeId>, WorkspaceError> {
        let (itself, tree) = (format!("{commit}^{{commit}}"), format!("{commit}^{{tree}}"));
        let ran = self.read("rev-parse").args([itself, tree]).run()?;
        let answer = String::from_utf8_lossy(&ran.stdout).into_owned();
        // The id of a tag names a commit too, but it is not the id of that commit.
        let mut lines = answer.lines();
        let is_commit = ran.code == Some(0) && lines.next() == Some(commit.as_str());
        let Some(tree) = lines.next().filter(|_| is_commit) else { return Ok(None) };
        let tree = tree_id(tree)?;
        self.memory.remember_tree(commit, &tree);
        Ok(Some(tree))
    }

    /// Returns every file of a tree.
    pub(super) fn listing(&self, tree: &TreeId) -> Result<Arc<Listing>, WorkspaceError> {
        let known = lock(&self.memory.listing).clone();
        if let Some((_, listing)) = known.filter(|(of, _)| of == tree) {
            return Ok(listing);
        }
        let listing = Arc::new(list_tree(self, tree.as_str(), &[])?);
        self.memory.remember_listing(tree, Arc::clone(&listing));
        Ok(listing)
    }

    /// Returns `None` if the index has a format that only git understands.
    pub(super) fn tracked(&self) -> Result<Option<Arc<Tracked>>, WorkspaceError> {
        let (now, stamp) = (SystemTime::now(), FileStamp::at(&self.git_dir.join("index")));
        let known = lock(&self.memory.tracked).clone();
        if let Some((_, tracked)) = known.filter(|(at, _)| Some(*at) == stamp) {
            return Ok(Some(tracked));
        }
        let (mut flags, mut ours) = (Flags::default(), false);
        let file = IndexFile::read(self)?;
        let read = file.entries(|entry| {
            flags.note(&entry);
            ours |= self.memory.own.get().is_none_or(|own| own.own(entry.path));
        });
        let Some(()) = read.filter(|()| flags.are_text()) else { return Ok(None) };
        let tracked = Arc::new(Tracked { flags, ours });
        if let Some(stamp) = stamp.filter(|stamp| !stamp.is_young(now)) {
            *lock(&self.memory.tracked) = Some((stamp, Arc::clone(&tracked)));
        }
        Ok(Some(tracked))
    }
}
