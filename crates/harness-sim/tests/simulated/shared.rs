//! The simulated repository as a fixture with several work trees.

use std::{path::Path, sync::Arc};

use harness::workspace::shared::{SharedRepository, Swap};
use harness_core::{CommitId, Epoch, TaskId};
use harness_sim::{
    conformance::{
        shared::{LoggedCommit, SharedFixture},
        workspace::Fixture,
    },
    git::SimRepository,
};

use crate::simulated::Simulated;

impl SharedFixture for Simulated {
    fn shared(&self) -> Box<dyn SharedRepository> {
        Box::new(SimRepository::open(&self.0, Arc::new(|_| Ok(()))))
    }
    fn at(&self, tree: &Path) -> Box<dyn Fixture + '_> {
        Box::new(Self(self.0.at(tree)))
    }
    fn switch(&self, branch: &str) {
        assert!(self.0.switch(branch), "git refuses to switch to {branch}");
    }
    fn orphan(&self, branch: &str) {
        self.0.orphan(branch);
    }
    fn move_branch(&self, branch: &str, commit: &CommitId) {
        self.0.move_branch(branch, commit);
    }
    fn delete_branch(&self, branch: &str) {
        self.0.delete_branch(branch);
    }
    fn token(&self, task: &TaskId) -> Option<CommitId> {
        self.0.token(task)
    }
    fn original_work(&self, task: &TaskId, epoch: Epoch) -> Option<CommitId> {
        self.0.original_work(task, epoch)
    }
    fn log(&self, from: &CommitId, to: &CommitId) -> Vec<LoggedCommit> {
        let commits = self.0.commits_between(from, to);
        let logged = commits.into_iter().map(|(commit, made)| LoggedCommit {
            commit,
            parents: made.parents,
            message: made.message,
        });
        logged.collect()
    }
    fn die_in_move(&self, swap: &Swap) {
        self.0.die_in_move(swap);
    }
    fn merge_in(&self, tree: &Path, commit: &CommitId) {
        self.0.at(tree).merge(commit).unwrap();
    }
}
