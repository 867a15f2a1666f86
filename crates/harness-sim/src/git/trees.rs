//! Several work trees over one simulated repository.
//!
//! Each handle looks at the model from its own tree. What belongs to a tree is exchanged when a
//! handle of another tree looks, so that the code for one tree needs no change.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use harness::workspace::shared::Swap;

use super::{Files, Head, Model};

/// The work tree of the user.
pub(super) const MAIN_TREE: &str = "/sim";

/// A work tree that nobody looks at.
#[derive(Debug, Clone)]
pub(super) struct SimTree {
    pub(super) work: Files,
    pub(super) index: Files,
    pub(super) head: Head,
    assumed: BTreeSet<String>,
}

impl SimTree {
    /// A folder without a repository: its HEAD names no commit.
    fn nothing() -> Self {
        let head = Head::Branch(String::new());
        Self { work: Files::new(), index: Files::new(), head, assumed: BTreeSet::new() }
    }
}

/// The work trees beside the one that a handle looks at.
#[derive(Debug, Clone)]
pub(super) struct Trees {
    /// The tree that a handle looks at.
    front: PathBuf,
    behind: BTreeMap<PathBuf, SimTree>,
    /// The linked trees that exist.
    linked: BTreeSet<PathBuf>,
    /// The init script that ran last, by tree.
    pub(super) scripts: BTreeMap<PathBuf, Vec<u8>>,
    /// The OS locks on trees of workers, each with the number of the process that holds it.
    pub(super) locks: BTreeMap<PathBuf, u64>,
    pub(super) processes: u64,
    /// The processes that have ended.
    pub(super) ended: BTreeSet<u64>,
    /// The move of the main tree that is under way, with the process that makes it. It is part of the
    /// lock of the index.
    pub(super) pending: Option<(u64, Swap)>,
}

impl Trees {
    pub(super) fn at(front: PathBuf) -> Self {
        Self {
            front,
            behind: BTreeMap::new(),
            linked: BTreeSet::new(),
            scripts: BTreeMap::new(),
            locks: BTreeMap::new(),
            processes: 0,
            ended: BTreeSet::new(),
            pending: None,
        }
    }
}

impl Model {
    /// Makes `work`, `index` and `head` those of another tree.
    pub(super) fn turn_to(&mut self, place: &Path) {
        if self.others.front == place {
            return;
        }
        let next = self.others.behind.remove(place).unwrap_or_else(SimTree::nothing);
        let last = std::mem::replace(&mut self.others.front, place.to_owned());
        let tree = SimTree {
            work: std::mem::replace(&mut self.work, next.work),
            index: std::mem::replace(&mut self.index, next.index),
            head: std::mem::replace(&mut self.head, next.head),
            assumed: std::mem::replace(&mut self.settings.assumed, next.assumed),
        };
        if self.others.linked.contains(&last) || last == Path::new(MAIN_TREE) {
            self.others.behind.insert(last, tree);
        }
    }

    /// Returns the linked trees.
    pub fn linked_trees(&self) -> &BTreeSet<PathBuf> {
        &self.others.linked
    }

    /// `git worktree add --detach` of the tree that the handle looks at.
    pub(super) fn link(&mut self, commit: harness_core::CommitId) {
        let front = self.others.front.clone();
        self.others.linked.insert(front);
        let files = self.files_of(&commit);
        (self.work, self.index) = (files.clone(), files);
        self.head = Head::Detached(commit);
    }

    /// `git worktree remove --force` of the tree that the handle looks at.
    pub(super) fn unlink(&mut self) {
        let front = self.others.front.clone();
        self.others.linked.remove(&front);
        self.others.scripts.remove(&front);
        let nothing = SimTree::nothing();
        (self.work, self.index, self.head) = (nothing.work, nothing.index, nothing.head);
        self.settings.assumed.clear();
    }

    /// Returns whether the tree that the handle looks at is there.
    pub(super) fn is_there(&self) -> bool {
        let front = &self.others.front;
        front == Path::new(MAIN_TREE) || self.others.linked.contains(front)
    }

    /// Returns the tree, other than the one that the handle looks at, whose HEAD is on `branch`.
    pub(super) fn holder_of(&self, branch: &str) -> Option<&Path> {
        let on = |tree: &SimTree| matches!(&tree.head, Head::Branch(name) if name == branch);
        self.others.behind.iter().find(|(_, tree)| on(tree)).map(|(path, _)| path.as_path())
    }
}
