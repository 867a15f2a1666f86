//! A real clone and the bare repository of its remote as a fixture. Branches are those of the remote,
//! except for the branches of attempts. What the user commits is pushed at once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use harness::workspace::{
    Workspace,
    shared::{LANDED_BRANCH, SharedRepository, Swap, land_token},
};
use harness_core::{CommitId, Epoch, TaskId};

use super::{LoggedCommit, SharedFixture};
use crate::conformance::{repository::Repository, workspace::Fixture};

/// Opens a clone with the implementation under test, as a process of its own.
pub type OpenClone = fn(&RemoteClone) -> Box<dyn SharedRepository>;

/// A clone and its remote.
pub struct RemoteClone {
    pub clone: Repository,
    /// The bare repository.
    pub bare: PathBuf,
    open: OpenClone,
}

impl RemoteClone {
    pub fn new(open: OpenClone) -> Self {
        let clone = Repository::new();
        let bare = clone.beside("remote.git");
        clone.git(["init", "--quiet", "--bare", "--initial-branch=main", &bare.to_string_lossy()]);
        clone.git(["remote", "add", "origin", &Self::url_of(&bare)]);
        let fixture = Self { clone, bare, open };
        // Cases remove branches as a user of the server can.
        fixture.in_bare(["config", "receive.denyDeleteCurrent", "ignore"]);
        fixture.publish();
        fixture
    }

    fn url_of(bare: &Path) -> String {
        format!("file://{}", bare.display())
    }

    /// Returns the address of the remote.
    pub fn url(&self) -> String {
        Self::url_of(&self.bare)
    }

    /// Runs git in the bare repository. It must succeed.
    pub fn in_bare<const N: usize>(&self, arguments: [&str; N]) -> String {
        self.clone.in_tree(&self.bare).git(arguments)
    }

    /// Returns the commit of a ref of the remote.
    pub fn remote_ref(&self, name: &str) -> Option<CommitId> {
        let found = self.in_bare(["for-each-ref", "--format=%(objectname)", name]);
        CommitId::parse(&found).ok()
    }

    /// Returns the names of the refs of the remote below a prefix.
    pub fn remote_refs(&self, prefix: &str) -> Vec<String> {
        let found = self.in_bare(["for-each-ref", "--format=%(refname)", prefix]);
        found.lines().map(str::to_owned).collect()
    }

    /// Pushes the branch of the main tree.
    fn publish(&self) {
        if let Some(branch) = self.clone.current_branch() {
            self.push(&format!("+HEAD:refs/heads/{branch}"));
        }
    }

    fn push(&self, refspec: &str) {
        self.clone.git(["push", "--quiet", &self.url(), refspec]);
    }
}

fn is_of_an_attempt(branch: &str) -> bool {
    branch.starts_with("harness/") && branch != LANDED_BRANCH
}

impl Fixture for RemoteClone {
    fn workspace(&self) -> Box<dyn Workspace> {
        self.clone.workspace()
    }

    fn write(&self, path: &str, text: &str) {
        self.clone.write(path, text);
    }

    fn remove(&self, path: &str) {
        self.clone.remove(path);
    }

    fn files(&self) -> BTreeMap<String, String> {
        self.clone.files()
    }

    fn stage(&self, path: &str) {
        self.clone.stage(path);
    }

    fn unstage(&self, path: &str) {
        self.clone.unstage(path);
    }

    fn commit_as(&self, committer: &str, message: &str) -> CommitId {
        let commit = self.clone.commit_as(committer, message);
        self.publish();
        commit
    }

    fn create_branch(&self, name: &str) {
        self.clone.create_branch(name);
        self.publish();
    }

    fn detach(&self) {
        self.clone.detach();
    }

    fn current_branch(&self) -> Option<String> {
        self.clone.current_branch()
    }

    fn tip(&self, branch: &str) -> Option<CommitId> {
        match is_of_an_attempt(branch) {
            true => self.clone.tip(branch),
            false => self.remote_ref(&format!("refs/heads/{branch}")),
        }
    }

    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String> {
        self.clone.committed(commit)
    }

    fn stash(&self, subject: &str) {
        self.clone.stash(subject);
    }

    fn staged(&self) -> Vec<String> {
        self.clone.staged()
    }

    fn landed(&self, task: &str) -> Option<CommitId> {
        self.clone.landed(task)
    }

    fn configure(&self, key: &str, value: &str) {
        self.clone.configure(key, value);
    }

    fn setting(&self, key: &str) -> Option<String> {
        self.clone.setting(key)
    }

    fn exclude(&self, rules: &str) {
        self.clone.exclude(rules);
    }

    fn assume_unchanged(&self, path: &str) {
        self.clone.assume_unchanged(path);
    }
}

impl SharedFixture for RemoteClone {
    fn shared(&self) -> Box<dyn SharedRepository> {
        (self.open)(self)
    }

    fn at(&self, tree: &Path) -> Box<dyn Fixture + '_> {
        self.clone.at(tree)
    }

    fn switch(&self, branch: &str) {
        if self.clone.tip(branch).is_none() {
            self.clone.git(["fetch", "--quiet", &self.url(), &format!("{branch}:{branch}")]);
        }
        self.clone.switch(branch);
    }

    fn orphan(&self, branch: &str) {
        self.clone.orphan(branch);
    }

    fn move_branch(&self, branch: &str, commit: &CommitId) {
        self.clone.move_branch(branch, commit);
        // Some names cannot be on the remote beside others.
        if branch != "harness" {
            self.push(&format!("+{commit}:refs/heads/{branch}"));
        }
    }

    fn delete_branch(&self, branch: &str) {
        self.clone.delete_branch(branch);
        self.push(&format!(":refs/heads/{branch}"));
    }

    fn token(&self, task: &TaskId) -> Option<CommitId> {
        self.remote_ref(&land_token(task))
    }

    fn original_work(&self, task: &TaskId, epoch: Epoch) -> Option<CommitId> {
        self.clone.original_work(task, epoch)
    }

    fn log(&self, from: &CommitId, to: &CommitId) -> Vec<LoggedCommit> {
        self.clone.log(from, to)
    }

    fn die_in_move(&self, swap: &Swap) {
        self.clone.die_in_move(swap);
    }

    fn merge_in(&self, tree: &Path, commit: &CommitId) {
        self.clone.merge_in(tree, commit);
    }
}
