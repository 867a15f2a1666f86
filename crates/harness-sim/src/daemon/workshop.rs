//! The work tree of a simulated daemon: git in memory, and a shell whose checks pass, fail or hang.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use harness::{
    Error,
    flows::{Site, client_tree::ForeignTree},
    host::Workshop,
    shell::{Cancel, Exit, Ran, Script, Shell},
    workspace::{Base, Bring, Filters, Workspace, WorkspaceError},
};
use harness_core::{CommitId, Epoch, Receipt, Task, TaskId, TreeId, variables};

use super::{
    fault::DaemonFault,
    floor::{Floor, State},
};
use crate::{
    git::{Crash, SimGit},
    shell::ended,
};

pub(super) struct SimWorkshop {
    floor: Floor,
    git: Arc<SimGit>,
    directory: PathBuf,
}

impl SimWorkshop {
    /// Opens the work tree for a daemon that starts.
    pub(super) fn open(floor: &Floor) -> Self {
        let here = floor.clone();
        let git = floor.state().git.with_hook(Arc::new(move |step| {
            if here.state().is_dead() { Err(Crash::before(step)) } else { Ok(()) }
        }));
        let directory = git.top_level().to_owned();
        Self { floor: floor.clone(), git: Arc::new(git), directory }
    }
}

fn gone() -> io::Error {
    io::Error::other("this process is dead")
}

impl Workshop for SimWorkshop {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn shell(&self) -> Arc<dyn Shell> {
        Arc::new(DaemonShell(self.floor.clone()))
    }

    fn head_at_once(&self) -> Option<Option<CommitId>> {
        Some(self.head())
    }

    fn head(&self) -> Option<CommitId> {
        self.git.head().ok()
    }

    fn site(
        &self,
        _: &Path,
        _: Option<&Path>,
        _: Filters,
        _: Bring,
    ) -> Result<Arc<dyn Site>, ForeignTree> {
        Ok(Arc::new(DaemonSite { floor: self.floor.clone(), git: Arc::clone(&self.git) }))
    }

    fn record_settings(&self, _: &Path, task: &Task) -> Result<(), String> {
        self.floor.in_turn();
        let epoch = task.epoch.unwrap_or_default();
        self.git.record_settings(&task.id, epoch).map_err(|why| why.to_string())
    }

    fn keep_receipt(&self, _: &Path, receipt: &Receipt) -> harness::Result<()> {
        self.floor.in_turn();
        let mut state = self.floor.state();
        if state.is_dead() {
            return Err(Error::from(gone()));
        }
        if state.fault != DaemonFault::SkipsReceipt {
            state.receipts.insert((receipt.task.clone(), receipt.epoch));
        }
        Ok(())
    }
}

struct DaemonSite {
    floor: Floor,
    git: Arc<SimGit>,
}

impl Site for DaemonSite {
    fn directory(&self) -> &Path {
        self.git.top_level()
    }

    fn head(&self) -> Option<CommitId> {
        self.floor.in_turn();
        self.git.head().ok()
    }

    fn workspace(&self) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        self.floor.in_turn();
        Ok(Arc::<SimGit>::clone(&self.git))
    }

    fn base(&self, task: &Task) -> Result<Option<Base>, WorkspaceError> {
        let base = Base::of_claim(task, self.git.top_level());
        // Clients are not asked to stay on a branch.
        Ok(base.map(|base| Base { branch: None, ..base }))
    }

    fn commit(
        &self,
        task: &Task,
        tree: Option<&TreeId>,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        self.floor.in_turn();
        let base = self.base(task)?.ok_or(WorkspaceError::NoCommits)?;
        let base = Base { commit: self.git.head()?, branch: self.git.current_branch(), ..base };
        match tree {
            Some(tree) => self.git.commit_tree(&base, tree, message),
            None => self.git.commit(&base, message),
        }
    }

    fn tree_of(&self, commit: &CommitId) -> Result<Option<TreeId>, WorkspaceError> {
        self.floor.in_turn();
        self.git.tree_of(commit).map(Some)
    }
}

struct DaemonShell(Floor);

impl DaemonShell {
    fn exit(&self, script: &Script, cancel: &Cancel) -> io::Result<Exit> {
        let mut state = self.0.state();
        if state.is_dead() {
            return Err(gone());
        }
        match claim_of(script) {
            None => Ok(gate(&mut state, &script.command)),
            Some(claim) => match state.luck.weighted(&[60, 25, 5, 10]) {
                0 => {
                    state.passed.insert(claim);
                    Ok(Exit::Code(0))
                }
                3 if state.hangs => {
                    drop(state);
                    self.0.desert(claim.0);
                    while !cancel.is_cancelled() && !self.0.state().is_dead() {
                        std::thread::yield_now();
                    }
                    Ok(Exit::Cancelled)
                }
                _ if state.fault == DaemonFault::IgnoresChecks => Ok(Exit::Code(0)),
                1 => Ok(Exit::Code(1)),
                _ => Ok(Exit::TimedOut),
            },
        }
    }
}

/// Returns the claim that a check is for; `None` for a gate.
fn claim_of(script: &Script) -> Option<(TaskId, Epoch)> {
    let value = |name: &str| script.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v);
    let task = TaskId::parse(value(variables::TASK)?).ok()?;
    Some((task, Epoch(value(variables::EPOCH)?.parse().ok()?)))
}

fn gate(state: &mut State, command: &str) -> Exit {
    if state.luck.percent(60) {
        state.gates.insert(command.to_owned());
        return Exit::Code(0);
    }
    Exit::Code(i32::from(state.fault != DaemonFault::IgnoresGates))
}

impl Shell for DaemonShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        self.run_until(script, &Cancel::new()?)
    }

    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        self.0.in_turn();
        Ok(ended(self.exit(script, cancel)?, "as simulated\n"))
    }

    fn lacks(&self, _: &str, _: &Path) -> bool {
        false
    }
}
