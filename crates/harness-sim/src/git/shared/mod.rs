//! The simulated implementation of the port
//! [`SharedRepository`](harness::workspace::shared::SharedRepository).

mod landing;
mod port;
mod rebase;
mod takeover;
mod tree;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use harness::workspace::{WorkspaceError, shared::LANDED_BRANCH};
use harness_core::{CommitId, WorkerId};

use super::{Crash, Head, Hook, SimGit, trees::MAIN_TREE};

/// The repository as one process opened it. Clones belong to the same process; its locks are free
/// when the last of them is dropped.
#[derive(Clone)]
pub struct SimRepository {
    /// The handle on the tree of the user.
    main: SimGit,
    process: Arc<Opening>,
    /// The folder of the workers' trees.
    folder: PathBuf,
}

/// One process with the repository open.
struct Opening {
    git: SimGit,
    number: u64,
    ended: AtomicBool,
}

impl Opening {
    fn release(&self) {
        self.free_trees();
        self.git.model().others.ended.insert(self.number);
    }

    fn free_trees(&self) {
        let number = self.number;
        self.ended.store(true, Ordering::Relaxed);
        self.git.model().others.locks.retain(|_, owner| *owner != number);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.release();
    }
}

impl SimRepository {
    /// Opens the repository for a process, whose steps call `hook` before each change.
    pub fn open(git: &SimGit, hook: Hook) -> Self {
        let main = git.at(MAIN_TREE.as_ref()).with_hook(hook);
        let number = {
            let others = &mut main.model().others;
            others.processes += 1;
            others.processes
        };
        let quiet = main.with_hook(Arc::new(|_| Ok(())));
        let folder = PathBuf::from(MAIN_TREE).join(".harness/worktrees");
        Self {
            main,
            process: Arc::new(Opening { git: quiet, number, ended: AtomicBool::new(false) }),
            folder,
        }
    }

    /// Puts the workers' trees into another folder.
    #[must_use]
    pub fn in_folder(self, folder: PathBuf) -> Self {
        Self { folder, ..self }
    }

    /// Frees the locks, because the process was killed. It can take none any more.
    pub fn release(&self) {
        self.process.release();
    }

    /// Frees the locks of trees, because the process was killed while its git command writes the main
    /// tree. The move counts as one of a living process as long as that command goes on.
    pub fn release_trees(&self) {
        self.process.free_trees();
    }

    /// Returns the path of a worker's tree.
    pub fn place(&self, worker: &WorkerId) -> PathBuf {
        self.folder.join(worker.as_str())
    }

    /// Returns the handle on the tree of a worker after taking its lock.
    fn locked(&self, worker: &WorkerId) -> Result<SimGit, WorkspaceError> {
        let place = self.place(worker);
        if self.process.ended.load(Ordering::Relaxed) {
            return Err(Crash::before("lock").into());
        }
        let locks = &mut self.main.model().others.locks;
        let owner = *locks.entry(place.clone()).or_insert(self.process.number);
        if owner != self.process.number {
            return Err(WorkspaceError::Unsafe {
                what: format!("another process has the work tree of {worker}"),
                hint: "wait for it to end, or choose another worker id".to_owned(),
            });
        }
        Ok(self.main.at(&place))
    }

    /// Returns the handle on a tree that is there.
    fn own_tree(&self, worker: &WorkerId) -> Result<SimGit, WorkspaceError> {
        let git = self.locked(worker)?;
        if git.model().is_there() {
            return Ok(git);
        }
        Err(WorkspaceError::NotARepository { path: self.place(worker) })
    }

    fn branch_tip(&self, branch: &str) -> Result<CommitId, WorkspaceError> {
        let tip = self.main.model().branches.get(branch).cloned();
        tip.ok_or_else(|| WorkspaceError::Unsafe {
            what: format!("there is no branch {branch}"),
            hint: "choose another target".to_owned(),
        })
    }

    fn chosen_target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        let (head, current, branches) = {
            let model = self.main.model();
            (model.head_commit()?, model.head.clone(), model.branches.clone())
        };
        let name = match (wanted, current) {
            (Some(wanted), _) => wanted.to_owned(),
            (None, Head::Branch(branch)) => branch,
            (None, Head::Detached(_)) => LANDED_BRANCH.to_owned(),
        };
        if !branches.contains_key(&name) {
            let branch = name.clone();
            self.main.op("target branch", |model| {
                model.branches.entry(branch).or_insert(head);
            })?;
        }
        Ok(name)
    }

    fn diverted(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        if let Some(tip) = self.main.tip(LANDED_BRANCH) {
            return Ok(tip);
        }
        let tip = self.branch_tip(target)?;
        self.main.op("landed branch", |model| {
            model.branches.entry(LANDED_BRANCH.to_owned()).or_insert(tip).clone()
        })
    }
}
