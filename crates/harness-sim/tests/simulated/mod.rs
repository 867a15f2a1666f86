//! The simulated repository as a fixture.

use std::{collections::BTreeMap, sync::Arc};

use harness::workspace::Workspace;
use harness_core::{CommitId, Timestamp};
use harness_sim::{
    conformance::workspace::Fixture,
    git::{Hook, SimGit},
};

pub(crate) struct Simulated(pub(crate) SimGit);

fn never() -> Hook {
    Arc::new(|_| Ok(()))
}

impl Simulated {
    pub(crate) fn new() -> Self {
        let git = SimGit::new(never());
        for (path, text) in [("a.txt", "a"), ("b.txt", "b"), (".gitignore", "*.log\n")] {
            git.write(path, text.as_bytes());
            git.stage(path);
        }
        git.commit_index("first").unwrap();
        Self(git)
    }
}

fn text(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    files.into_iter().map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap())).collect()
}

impl Fixture for Simulated {
    fn workspace(&self) -> Box<dyn Workspace> {
        Box::new(self.0.clone())
    }
    fn write(&self, path: &str, text: &str) {
        self.0.write(path, text.as_bytes());
    }
    fn remove(&self, path: &str) {
        self.0.remove(path);
    }
    fn files(&self) -> BTreeMap<String, String> {
        text(self.0.files())
    }
    fn stage(&self, path: &str) {
        self.0.stage(path);
    }
    fn unstage(&self, path: &str) {
        self.0.unstage(path);
    }
    fn commit_as(&self, committer: &str, message: &str) -> CommitId {
        self.0.commit_index_as(committer, message).unwrap()
    }
    fn create_branch(&self, name: &str) {
        self.0.create_branch(name).unwrap();
    }
    fn detach(&self) {
        self.0.detach().unwrap();
    }
    fn current_branch(&self) -> Option<String> {
        self.0.current_branch()
    }
    fn tip(&self, branch: &str) -> Option<CommitId> {
        self.0.tip(branch)
    }
    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String> {
        text(self.0.committed(commit))
    }
    fn stash(&self, subject: &str) {
        self.0.stash(subject, Timestamp::from_seconds(1_800_000_000));
    }
    fn staged(&self) -> Vec<String> {
        self.0.staged_files().into_keys().collect()
    }
    fn landed(&self, task: &str) -> Option<CommitId> {
        self.0.landed(task)
    }
    fn configure(&self, key: &str, value: &str) {
        self.0.configure(key, value);
    }
    fn setting(&self, key: &str) -> Option<String> {
        self.0.setting(key)
    }
    fn exclude(&self, rules: &str) {
        self.0.exclude(rules);
    }
    fn assume_unchanged(&self, path: &str) {
        self.0.assume_unchanged(path);
    }
}
