//! The shared repository of a process, which dies and freezes in its steps, possibly with one fault.

use std::{io, sync::Arc};

use harness::workspace::{
    WorkspaceError,
    shared::{
        Dead, Landed, Rebase, Rebased, SharedRepository, Swap, TakenIn, Token, WorkerTree,
        land_token,
    },
};
use harness_core::{CommitId, Epoch, TaskId, Timestamp, WorkerId, command::LandedResult};

use super::{
    CrewFlaw,
    fate::{Freeze, Frozen},
    floor::Floor,
};
use crate::git::{Hook, SimRepository};

/// Lets others act while a process is frozen.
pub(super) type Others = Arc<dyn Fn(Freeze) -> io::Result<()> + Send + Sync>;

pub(super) struct CrewRepository {
    floor: Floor,
    pid: u32,
    flaw: CrewFlaw,
    git: SimRepository,
}

/// Returns the hook of a process: it dies and freezes in the steps of git.
pub(super) fn hook(floor: &Floor, pid: u32, others: Others) -> Hook {
    let floor = floor.clone();
    Arc::new(move |step| {
        let freeze = floor.state().git_step(pid, step)?;
        if let Some(freeze) = freeze {
            floor.state().story.tell(|| format!("      process {pid} is frozen: {freeze:?}"));
            if freeze.what == Frozen::Command {
                floor.state().orphans(pid, step);
            }
            let moves = {
                let mut state = floor.state();
                state.tally.freezes += 1;
                state.moving == Some(pid)
            };
            others(freeze)?;
            if moves {
                floor.state().moving = Some(pid);
            }
            floor.state().story.tell(|| format!("      process {pid} goes on"));
        }
        Ok(())
    })
}

impl CrewRepository {
    pub(super) fn new(floor: &Floor, pid: u32, hook: Hook) -> Self {
        let (git, flaw) = {
            let state = floor.state();
            let git = SimRepository::open(&state.git, hook);
            (git.in_folder(state.worktrees()), state.flaw)
        };
        if let Some(life) = floor.state().lives.get_mut(&pid) {
            life.repository = Some(git.clone());
        }
        Self { floor: floor.clone(), pid, flaw, git }
    }

    /// Performs a call, at whose end the git command of a dead process ends too.
    fn call<T>(
        &self,
        call: impl FnOnce(&SimRepository) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        self.floor.state().goes_on(self.pid)?;
        let done = call(&self.git);
        let mut state = self.floor.state();
        state.follow_refs();
        state.command_ends(self.pid)?;
        done
    }

    /// Performs a call that moves the main tree. If it does not come to its end, another process has
    /// to finish it, as a call does whose result `finishes` accepts.
    fn moving<T>(
        &self,
        finishes: impl Fn(&T) -> bool,
        call: impl FnOnce(&SimRepository) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        self.call(|git| {
            let last = self.floor.state().moving.replace(self.pid);
            let done = call(git);
            let mut state = self.floor.state();
            if let Ok(done) = &done {
                // Another process died in the middle of a move, which may have been finished now.
                let open = state.git.main_is_locked() && !finishes(done);
                state.moving = last.filter(|pid| *pid != self.pid && open);
                state.judge_users_tree();
            }
            done
        })
    }

    /// Notes that nobody moves the main tree any more, if that is so.
    fn move_is_over(&self) {
        let mut state = self.floor.state();
        if !state.git.main_is_locked() {
            state.moving = None;
        }
    }
}

impl SharedRepository for CrewRepository {
    fn check(&self) -> Result<(), WorkspaceError> {
        if self.flaw == CrewFlaw::LeavesTreeHalfMoved {
            return Ok(());
        }
        self.call(|git| {
            git.check()?;
            let gone = {
                let state = self.floor.state();
                state.moving.is_some_and(|pid| state.is_gone(pid))
            };
            if gone {
                self.move_is_over();
            }
            Ok(())
        })
    }

    fn target(&self, wanted: Option<&str>) -> Result<String, WorkspaceError> {
        self.call(|git| git.target(wanted))
    }

    fn tip(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError> {
        self.call(|git| git.tip(branch))
    }

    fn divert(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        self.call(|git| git.divert(target))
    }

    fn reset(&self, worker: &WorkerId, commit: &CommitId) -> Result<WorkerTree, WorkspaceError> {
        self.call(|git| {
            let tree = git.reset(worker, commit)?;
            std::fs::create_dir_all(git.place(worker))?;
            Ok(tree)
        })
    }

    fn init_ran(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        self.call(|git| git.init_ran(worker))
    }

    fn start_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        self.call(|git| git.start_branch(worker, task, epoch))
    }

    fn transplant(
        &self,
        worker: &WorkerId,
        dead: &Dead<'_>,
        epoch: Epoch,
    ) -> Result<Option<WorkerTree>, WorkspaceError> {
        self.call(|git| {
            let mut tree = git.transplant(worker, dead, epoch)?;
            if self.flaw == CrewFlaw::ForgetsWork && tree.is_some() {
                tree = Some(git.reset(worker, &dead.base.commit)?);
                git.start_branch(worker, dead.task, epoch)?;
            }
            std::fs::create_dir_all(git.place(worker))?;
            Ok(tree)
        })
    }

    fn rebase(&self, worker: &WorkerId, rebase: &Rebase) -> Result<Rebased, WorkspaceError> {
        let onto = match self.flaw {
            CrewFlaw::SkipsRebase => rebase.base.clone(),
            _ => rebase.onto.clone(),
        };
        self.call(|git| git.rebase(worker, &Rebase { onto, ..rebase.clone() }))
    }

    fn set_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        self.call(|git| {
            git.set_token(task, to)?;
            // The same result may be tried again, for example on another branch.
            self.floor.state().landings.voided.remove(to);
            Ok(())
        })
    }

    fn void_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        self.call(|git| {
            let token = git.void_token(task, to)?;
            if token == Token::Voided {
                self.floor.state().landings.voided.insert(to.clone());
            }
            if self.flaw == CrewFlaw::KeepsTokens && token == Token::Voided {
                git.set_token(task, to)?;
            }
            Ok(token)
        })
    }

    fn land(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        if self.flaw == CrewFlaw::SkipsSwap {
            return Ok(Landed::Done);
        }
        self.moving(
            |_| false,
            |git| {
                let quiet = self.floor.state().git.clone();
                match self.flaw {
                    CrewFlaw::NeedsNoToken => {
                        let done = git.land(swap)?;
                        let there = quiet.tip(&swap.target).as_ref() == Some(&swap.from);
                        if done == Landed::Fenced && there {
                            match quiet.current_branch() == Some(swap.target.clone()) {
                                true => quiet.reset_hard(&swap.to),
                                false => quiet.move_branch(&swap.target, &swap.to),
                            }
                            return Ok(Landed::Done);
                        }
                        return Ok(done);
                    }
                    CrewFlaw::LeavesTreeHalfMoved => quiet.forget_move(),
                    CrewFlaw::ForcesTarget => {
                        let tip = quiet.tip(&swap.target);
                        let done = git.land(swap)?;
                        if done == Landed::TargetMoved && tip.is_some() {
                            quiet.move_branch(&swap.target, &swap.to);
                            quiet.model().tokens.remove(&land_token(&swap.task));
                            return Ok(Landed::Done);
                        }
                        return Ok(done);
                    }
                    CrewFlaw::TramplesTree => {
                        let done = git.land(swap)?;
                        if matches!(done, Landed::TreeInUse { .. }) {
                            quiet.reset_hard(&swap.to);
                            quiet.model().tokens.remove(&land_token(&swap.task));
                            return Ok(Landed::Done);
                        }
                        return Ok(done);
                    }
                    _ => {}
                }
                git.land(swap)
            },
        )
    }

    fn tokens(&self) -> Result<Vec<(TaskId, CommitId)>, WorkspaceError> {
        self.call(|git| git.tokens())
    }

    fn landed_results(
        &self,
        branches: &[String],
        since: Option<Timestamp>,
    ) -> Result<Vec<LandedResult>, WorkspaceError> {
        self.call(|git| git.landed_results(branches, since))
    }

    fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, WorkspaceError> {
        self.call(|git| git.contains(branch, commit))
    }

    fn files_between(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, WorkspaceError> {
        self.call(|git| git.files_between(from, to))
    }

    fn finish_main_tree(&self, swap: &Swap) -> Result<(), WorkspaceError> {
        if self.flaw == CrewFlaw::LeavesTreeHalfMoved {
            return Ok(());
        }
        self.call(|git| {
            git.finish_main_tree(swap)?;
            self.move_is_over();
            Ok(())
        })
    }

    fn take_in(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        let taken = self.moving(|taken| *taken == TakenIn::Done, |git| git.take_in(target));
        self.floor.state().story.tell(|| format!("      {} takes in: {taken:?}", self.pid));
        taken
    }

    fn end_branch(
        &self,
        worker: &WorkerId,
        task: &TaskId,
        epoch: Epoch,
        target: &str,
    ) -> Result<(), WorkspaceError> {
        if self.flaw == CrewFlaw::KeepsBranches {
            return Ok(());
        }
        self.call(|git| git.end_branch(worker, task, epoch, target))
    }

    fn close(&self, worker: &WorkerId) -> Result<(), WorkspaceError> {
        if self.flaw == CrewFlaw::KeepsTrees {
            return Ok(());
        }
        self.call(|git| {
            git.close(worker)?;
            _ = std::fs::remove_dir_all(git.place(worker));
            Ok(())
        })
    }
}
