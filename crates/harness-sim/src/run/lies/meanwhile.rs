//! Events beside a process at any of its steps: writes of processes that an agent left behind, and
//! commits of the person who owns the repository.

use harness_core::task::Status;

use super::ledger;
use crate::{
    git::Head,
    run::{
        shell::asked_for,
        stage::{Moment, State},
    },
};

/// The limit of commits of the person, because a tree that never rests cannot be judged.
const COMMITS_MAX: usize = 8;
const BRANCH: &str = "main";

impl State {
    /// May cause an event before the next step of the process.
    pub(in crate::run) fn meanwhile(&mut self, moment: Moment) {
        if !self.lies.on {
            return;
        }
        if self.lies.behind > 0 && self.random.percent(12) {
            self.lies.behind -= 1;
            self.late_write();
        }
        if moment == Moment::Effect && self.random.percent(3) {
            self.person_commits();
        }
    }

    /// May cause an event between a passed check and the commit of its tree.
    pub(in crate::run) fn meanwhile_before_commit(&mut self) {
        if self.lies.behind > 0 && self.random.percent(50) {
            self.lies.behind -= 1;
            self.late_write();
        }
    }

    /// May cause an event at a step of git in which a commit of others must not be lost.
    pub(in crate::run) fn meanwhile_in_git(&mut self, step: &str) {
        if self.lies.on && step == "commit ref" && self.random.percent(15) {
            self.person_commits();
        }
    }

    fn late_write(&mut self) {
        self.tally.late_writes += 1;
        self.files_made += 1;
        let number = self.files_made;
        let in_progress = self.ledger.tasks().find(|task| task.status() == Status::InProgress);
        let task = in_progress.or_else(|| self.ledger.tasks().next()).map(|task| task.id.clone());
        let Some(task) = task else { return };
        let (work, done) = asked_for(&task);
        let is_there = self.git.read(&work).is_some();
        let (path, bytes) = match self.random.weighted(&[30, 15, 25, 20, 10]) {
            0 => (work, format!("late {number}").into_bytes()),
            // A new file in the middle of a check is taken for one that the check made, and is
            // removed.
            1 if is_there => (work, done),
            2 => ("src/main.rs".to_owned(), format!("// late {number}").into_bytes()),
            1 | 3 => (format!("late-{number}"), b"late".to_vec()),
            _ => {
                let lie = ledger::Lie::any(&mut self.random);
                self.story.tell(|| format!("      a process that was left behind: {lie:?}"));
                return ledger::tell(self, lie, &task);
            }
        };
        self.story.tell(|| format!("      a process that was left behind writes {path}"));
        self.git.write(&path, &bytes);
        // The agent itself replaced the earlier content.
        for seen in self.attempts.values_mut() {
            if let Some(mess) = &mut seen.mess {
                mess.work.remove(&path);
            }
        }
    }

    /// Performs `git commit FILE` on the shared branch.
    fn person_commits(&mut self) {
        if self.lies.foreign.len() >= COMMITS_MAX {
            return;
        }
        let git = self.git.clone();
        let mut model = git.model();
        let Ok(head) = model.head_commit() else { return };
        if model.head != Head::Branch(BRANCH.to_owned()) {
            return;
        }
        let number = self.lies.foreign.len();
        let (path, bytes) = (format!("person/{number}.txt"), format!("mine {number}").into_bytes());
        let mut files = model.files_of(&head);
        files.insert(path.clone(), bytes.clone());
        let message = format!("my own work {number}");
        let Ok(commit) = model.add_commit(vec![head], files, &message, None) else { return };
        model.set_head(commit.clone());
        model.index.insert(path.clone(), bytes.clone());
        model.work.insert(path.clone(), bytes);
        drop(model);
        self.story.tell(|| format!("      the person commits {path}"));
        self.tally.foreign_commits += 1;
        self.lies.foreign.push(commit);
    }
}
