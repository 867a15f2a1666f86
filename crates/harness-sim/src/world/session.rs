//! A session that works in a git tree. It claims with a base, its agent changes files, and it rolls
//! back. It dies at any step of git and of the store, until the attempt has ended.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::workspace::{Base, Sight, Workspace as _};
use harness_core::{
    Category, Command, Epoch, Holder, TaskId,
    command::{Attempts, Claim, ClaimChoice, Fail, Intend, Place},
    select::Applicant,
    task::{Intent, Status, Via},
};

use super::World;
use crate::{
    checkers::Violation,
    git::{Crash, Files, Hook},
};

/// More steps than a rollback has.
const STEPS_OF_A_ROLLBACK: usize = 24;
/// A store that fails this often in a row fails permanently.
const TRIES: usize = 12;

struct Attempt {
    task: TaskId,
    epoch: Epoch,
    number: u32,
    base: Base,
}

impl World {
    pub(crate) fn session_attempts(&mut self) -> Result<(), Violation> {
        let Some(attempt) = self.session_claims()? else { return Ok(()) };
        let files = self.git.files();
        let committer = harness::workspace::committer("User", &attempt.task, attempt.epoch);
        self.agent_works(&committer);
        let mess = self.git.files();
        if self.random.percent(50) {
            self.worker_acts()?;
        }
        let intent =
            Intent::Rollback { category: Category::TestFail, message: self.ids.text("red") };
        let intend =
            Intend { holder: self.holder(&attempt), intent, check: None, files: Vec::new() };
        self.insist(&attempt, &Command::Intend(intend), |task| task.intent().is_some())?;
        // A worker that lost the claim cleans up as well, but may not record it.
        self.roll_back(&attempt)?;
        self.check_rollback(&attempt, &files, &mess)?;
        let fail = Fail {
            holder: self.holder(&attempt),
            category: Category::TaskExec,
            message: "never seen: the intent is the cause".into(),
            attempts: Attempts::One,
            rolled_back_to: Some(attempt.base.commit.clone()),
        };
        self.insist(&attempt, &Command::Fail(fail), |_| false)?;
        self.tally.rollbacks += 1;
        self.git.forget(&attempt.task).map_err(|e| broken(e.to_string()))
    }

    fn session_claims(&mut self) -> Result<Option<Attempt>, Violation> {
        let Some(task) = self.current.selection().next_of_run(Applicant::PLAIN).cloned() else {
            return Ok(None);
        };
        let base = self.git.base(&task, Sight::Anew).map_err(|e| broken(e.to_string()))?;
        let claim = Claim {
            worker: self.session_id().clone(),
            via: Via::Run,
            role: None,
            labels: Vec::new(),
            choice: ClaimChoice::NextIs(task.clone()),
            lease_seconds: 60,
            place: Place {
                base: Some(base.commit.clone()),
                base_untracked: base.untracked.clone(),
                worktree: Some(base.worktree.display().to_string()),
                branch: base.branch.clone(),
            },
            parallel: None,
        };
        let trouble = self.some_trouble();
        self.transact(self.session(), vec![Command::Claim(claim)], trouble)?;
        // It reads the ledger, as a starting session does, because it may not have received the
        // answer.
        let mine = self.current.task(&task).filter(|t| {
            t.status() == Status::InProgress && t.claimed_by() == Some(self.session_id())
        });
        let Some(mine) = mine else { return Ok(None) };
        let untracked = mine.claim().and_then(|claim| claim.base_untracked.clone());
        let recorded = (&mine.started_at_commit, &untracked);
        if recorded != (&Some(base.commit.clone()), &base.untracked) {
            return Err(broken(format!("{task} was claimed with {recorded:?}, not {base:?}")));
        }
        let epoch = mine.epoch.unwrap_or_default();
        let number = mine.attempts + 1;
        let base = Base { epoch: Some(epoch), ..base };
        Ok(Some(Attempt { task, epoch, number, base }))
    }

    fn holder(&self, attempt: &Attempt) -> Holder {
        let (task, worker) = (attempt.task.clone(), self.session_id().clone());
        Holder { task, worker, epoch: Some(attempt.epoch) }
    }

    /// Repeats the command until it took effect, or until the claim is lost.
    fn insist(
        &mut self,
        attempt: &Attempt,
        command: &Command,
        done: impl Fn(&harness_core::Task) -> bool,
    ) -> Result<(), Violation> {
        for tries in 0..=TRIES {
            let trouble = if tries < TRIES { self.some_trouble() } else { None };
            self.transact(self.session(), vec![command.clone()], trouble)?;
            let held = self
                .current
                .task(&attempt.task)
                .filter(|t| t.status() == Status::InProgress && t.epoch == Some(attempt.epoch));
            if held.is_none_or(&done) {
                return Ok(());
            }
        }
        Err(broken(format!("{command:?} was never done")))
    }

    fn agent_works(&mut self, committer: &str) {
        for _ in 0..1 + self.random.below(5) {
            let text = self.ids.text("agent").into_bytes();
            match self.random.below(6) {
                0 => self.git.write("src/main.rs", &text),
                1 => self.git.write("src/new.rs", &text),
                2 => self.git.write("notes.txt", &text),
                3 => self.git.remove("README"),
                4 => self.git.stage("src/new.rs"),
                _ => {
                    self.git.stage("src/main.rs");
                    let _ = self.git.commit_index_as(committer, "agent: a commit");
                }
            }
        }
    }

    /// Dies at a random step, again and again, each time later or not at all.
    fn roll_back(&mut self, attempt: &Attempt) -> Result<(), Violation> {
        for _ in 0..TRIES {
            let git = self.git.with_hook(dies_after(self.random.below(STEPS_OF_A_ROLLBACK)));
            match git.rollback(&attempt.task, attempt.number, &attempt.base) {
                Ok(_) => return Ok(()),
                Err(error) => {
                    if Crash::behind(&error).is_none() {
                        return Err(broken(format!("the rollback failed: {error}")));
                    }
                    self.tally.kills += 1;
                    self.story.tell(|| format!("session: rollback of {}: {error}", attempt.task));
                }
            }
        }
        let done = self.git.rollback(&attempt.task, attempt.number, &attempt.base);
        done.map(|_| ()).map_err(|e| broken(e.to_string()))
    }

    /// Checks that HEAD is the base, that every file is restored, and that everything that vanished
    /// is in a rescue.
    fn check_rollback(
        &self,
        attempt: &Attempt,
        files: &Files,
        mess: &Files,
    ) -> Result<(), Violation> {
        let head = self.git.head().map_err(|e| broken(e.to_string()))?;
        if head != attempt.base.commit {
            return Err(broken(format!("HEAD is {head}, not {}", attempt.base.commit)));
        }
        if self.git.files() != *files {
            let now = self.git.files();
            return Err(broken(format!("the files were {files:?} and are {now:?}")));
        }
        let rescues = self.git.rescues(Some(&attempt.task)).map_err(|e| broken(e.to_string()))?;
        let rescued: Vec<Files> = rescues.iter().map(|r| self.git.committed(&r.commit)).collect();
        let vanished = mess.iter().filter(|(path, bytes)| files.get(*path) != Some(bytes));
        for (path, bytes) in vanished {
            if !rescued.iter().any(|of| of.get(path) == Some(bytes)) {
                return Err(broken(format!("{path} vanished and is in no rescue")));
            }
        }
        Ok(())
    }
}

/// Returns a hook that allows this many steps.
fn dies_after(steps: usize) -> Hook {
    let left = AtomicUsize::new(steps);
    Arc::new(move |step| {
        let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        more.map(|_| ()).map_err(|_| Crash::before(step))
    })
}

fn broken(what: String) -> Violation {
    Violation { checker: "rollback_restores_the_tree", what }
}
