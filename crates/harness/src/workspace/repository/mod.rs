//! The real repository that several workers share: a linked work tree for each worker, and the
//! branch on which their results land.
//!
//! Nothing here decides which result lands. Every method can be repeated after a crash. What a
//! step would destroy is saved under `refs/harness/rescue/` before the step.

mod branch;
mod cleanup;
mod entry;
mod land;
mod main_tree;
mod pattern;
mod place;
mod port;
mod provision;
mod rebase;
mod remote;
mod results;
mod revert;
mod save;
mod submodule;
mod transplant;
mod tree;
mod tree_move;

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use harness_core::{CommitId, WorkerId};

use super::{
    GitWorkspace, WorkspaceError,
    git::{Access, Call},
    object::{Change, diff_trees},
    rescue::resolve,
};
pub use cleanup::{CleanupItem, CleanupKind, CleanupMode, CleanupTerms};
pub(super) use entry::{is_worker_tree, pointed_at};
use place::Place;
pub use remote::{RemoteAddress, RemoteRepository, RemoteSettings, Sharing};
pub use revert::RevertChain;
use tree::Tree;

/// The oldest version of git that can merge without a work tree.
const OLDEST_GIT: (u32, u32) = (2, 38);

/// The settings of the work trees of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSettings {
    /// The folder below which they are created; `None` for the one in the state root.
    pub folder: Option<PathBuf>,
    /// The files that are copied from the main tree, as globs from its top level.
    pub copy: Vec<String>,
    /// The paths of the main tree that are linked.
    pub link: Vec<String>,
    /// Whether ignored files of the task before stay.
    pub leftovers: Leftovers,
}

/// Whether the ignored files of the task before stay in the work tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Leftovers {
    /// They stay, because they are mostly caches.
    #[default]
    Stay,
    /// Each task begins with an empty folder.
    Removed,
}

impl Default for TreeSettings {
    fn default() -> Self {
        let copy = [".env*", ".claude/settings.local.json", ".mcp.json"];
        Self {
            folder: None,
            copy: copy.map(str::to_owned).to_vec(),
            link: Vec::new(),
            leftovers: Leftovers::Stay,
        }
    }
}

/// A git repository with a linked work tree for each worker.
///
/// The OS locks of the work trees that it has used are held until it is dropped or the worker is
/// closed.
#[derive(Debug)]
pub struct GitRepository {
    main: GitWorkspace,
    state_root: PathBuf,
    place: Place,
    settings: TreeSettings,
    trees: Mutex<BTreeMap<WorkerId, Arc<Tree>>>,
    version: OnceLock<(u32, u32)>,
    /// The last differences between commits. What is asked for a result is asked again when it
    /// lands.
    differences: Mutex<VecDeque<Difference>>,
    /// The last landings of this process: the branch, and its commit.
    landed: Mutex<VecDeque<(String, CommitId)>>,
}

/// The differences between two commits.
#[derive(Debug, Clone)]
struct Difference {
    from: CommitId,
    to: CommitId,
    changes: Arc<Vec<Change>>,
}

/// The number of differences that are remembered.
const DIFFERENCES: usize = 16;

impl GitRepository {
    /// Creates the value for the repository of the main tree, with our files in `state_root`. The
    /// work trees of workers get the settings of the main one. Nothing is created on disk.
    pub fn new(
        main: GitWorkspace,
        state_root: &Path,
        settings: TreeSettings,
    ) -> Result<Self, WorkspaceError> {
        let state_root = state_root.canonicalize()?;
        let place = Place::new(&state_root, settings.folder.as_deref());
        Ok(Self {
            main,
            state_root,
            place,
            settings,
            trees: Mutex::default(),
            version: OnceLock::new(),
            differences: Mutex::default(),
            landed: Mutex::default(),
        })
    }

    /// Returns the path of the work tree of a worker, whether it exists or not.
    pub fn tree_path(&self, worker: &WorkerId) -> PathBuf {
        self.place.tree(worker)
    }

    /// Refuses a repository in which no worker can work.
    fn check_repository(&self) -> Result<(), WorkspaceError> {
        self.check_version()?;
        tree_move::remove_stale_lock(&self.main.git()?, &self.main.own)?;
        if resolve(&self.main.git, "HEAD")?.is_none() {
            return Err(WorkspaceError::NoCommits);
        }
        if resolve(&self.main.git, "refs/heads/harness")?.is_some() {
            return Err(WorkspaceError::Unsafe {
                what: "the branch `harness` forbids branches with names like `harness/…`, which \
                       workers need"
                    .to_owned(),
                hint: "git branch -m harness <another name>".to_owned(),
            });
        }
        if self.main.git.aside.is_some() {
            return Err(WorkspaceError::Unsafe {
                what: format!("{} cannot be written", self.main.git.git_dir.display()),
                hint: "give this user the right to write there".to_owned(),
            });
        }
        Ok(())
    }

    fn check_version(&self) -> Result<(), WorkspaceError> {
        let found = match self.version.get() {
            Some(found) => *found,
            None => {
                let call = Call::anywhere(&self.main.git.top_level, Access::Read, "version");
                *self.version.get_or_init(|| parse_version(&call.line().unwrap_or_default()))
            }
        };
        if found >= OLDEST_GIT {
            return Ok(());
        }
        let (major, minor) = OLDEST_GIT;
        Err(WorkspaceError::Unsafe {
            what: format!(
                "git {}.{} is too old for parallel workers, which need {major}.{minor}",
                found.0, found.1
            ),
            hint: "install a newer git".to_owned(),
        })
    }

    /// Returns the paths in which two commits differ.
    fn changes(&self, from: &CommitId, to: &CommitId) -> Result<Arc<Vec<Change>>, WorkspaceError> {
        let known = || self.differences.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().iter().find(|known| known.from == *from && known.to == *to).cloned();
        if let Some(found) = found {
            return Ok(found.changes);
        }
        let changes = Arc::new(diff_trees(&self.main.git, from.as_str(), to.as_str())?);
        let (from, to) = (from.clone(), to.clone());
        known().truncate(DIFFERENCES - 1);
        known().push_front(Difference { from, to, changes: Arc::clone(&changes) });
        Ok(changes)
    }

    fn trees(&self) -> MutexGuard<'_, BTreeMap<WorkerId, Arc<Tree>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses `git version 2.47.3 (vendor)`.
fn parse_version(line: &str) -> (u32, u32) {
    let number = line.strip_prefix("git version ").unwrap_or(line);
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let mut next = || parts.next().flatten().unwrap_or(0);
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_vendors_print() {
        assert_eq!(parse_version("git version 2.47.3"), (2, 47));
        assert_eq!(parse_version("git version 2.39.5 (Apple Git-154)"), (2, 39));
        assert_eq!(parse_version("git version 2.45.windows.1"), (2, 45));
        assert_eq!(parse_version("nonsense"), (0, 0));
    }
}
