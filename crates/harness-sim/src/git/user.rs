//! The actions of people and agents in a simulated repository. None of them is a step of harness,
//! so nothing here can crash.

use std::sync::Arc;

use harness::workspace::WorkspaceError;
use harness_core::{CommitId, Epoch, Timestamp};

use super::{Files, Head, SimCommit, SimGit};

impl SimGit {
    pub fn write(&self, path: &str, bytes: &[u8]) {
        self.model().work.insert(path.to_owned(), bytes.to_vec());
    }

    pub fn remove(&self, path: &str) {
        self.model().work.remove(path);
    }

    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.model().work.get(path).cloned()
    }

    pub fn files(&self) -> Files {
        self.model().work.clone()
    }

    pub fn staged_files(&self) -> Files {
        self.model().index.clone()
    }

    /// `git add --force`: the file's content, or its deletion.
    pub fn stage(&self, path: &str) {
        let mut model = self.model();
        match model.work.get(path).cloned() {
            Some(bytes) => drop(model.index.insert(path.to_owned(), bytes)),
            None => drop(model.index.remove(path)),
        }
    }

    /// `git rm --cached`.
    pub fn unstage(&self, path: &str) {
        self.model().index.remove(path);
    }

    /// Commits the index under another committer's name.
    pub fn commit_index_as(
        &self,
        committer: &str,
        message: &str,
    ) -> Result<CommitId, WorkspaceError> {
        let commit = self.commit_index(message)?;
        if let Some(made) = self.model().commits.get_mut(&commit) {
            committer.clone_into(&mut made.committer);
        }
        Ok(commit)
    }

    /// Commits the index.
    pub fn commit_index(&self, message: &str) -> Result<CommitId, WorkspaceError> {
        let mut model = self.model();
        let parents = model.head_commit().ok().into_iter().collect();
        let files = model.index.clone();
        let commit = model.add_commit(parents, files, message, None)?;
        model.set_head(commit.clone());
        Ok(commit)
    }

    /// `git switch --create`.
    pub fn create_branch(&self, name: &str) -> Result<(), WorkspaceError> {
        let mut model = self.model();
        let head = model.head_commit()?;
        model.branches.insert(name.to_owned(), head);
        model.head = Head::Branch(name.to_owned());
        Ok(())
    }

    pub fn detach(&self) -> Result<(), WorkspaceError> {
        let mut model = self.model();
        model.head = Head::Detached(model.head_commit()?);
        Ok(())
    }

    /// `git switch`. Returns whether git allowed it: not with changed files, nor to a branch that
    /// another tree has.
    pub fn switch(&self, name: &str) -> bool {
        let mut model = self.model();
        let taken = model.holder_of(name).is_some();
        let Some(commit) = model.branches.get(name).cloned().filter(|_| !taken) else {
            return false;
        };
        let (files, untracked) = (model.files_of(&commit), model.untracked(&self.own));
        let overwrites = files.keys().any(|path| untracked.contains_key(path));
        if overwrites || !model.changed(&self.own).is_empty() {
            return false;
        }
        let tracked = std::mem::replace(&mut model.index, files.clone());
        model.work.retain(|path, _| !tracked.contains_key(path));
        model.work.extend(files);
        model.head = Head::Branch(name.to_owned());
        true
    }

    /// `git update-ref`: moves or creates a branch, and no tree with it.
    pub fn move_branch(&self, name: &str, commit: &CommitId) {
        self.model().branches.insert(name.to_owned(), commit.clone());
    }

    pub fn delete_branch(&self, name: &str) {
        self.model().branches.remove(name);
    }

    /// `git reset --hard`.
    pub fn reset_hard(&self, commit: &CommitId) {
        let mut model = self.model();
        let files = model.files_of(commit);
        let tracked = std::mem::replace(&mut model.index, files.clone());
        model.work.retain(|path, _| !tracked.contains_key(path));
        model.work.extend(files);
        model.set_head(commit.clone());
    }

    /// `git switch --orphan`.
    pub fn orphan(&self, name: &str) {
        let mut model = self.model();
        let tracked = std::mem::take(&mut model.index);
        model.work.retain(|path, _| !tracked.contains_key(path));
        model.head = Head::Branch(name.to_owned());
    }

    /// `git merge --no-ff`, without conflicts. Files that only one side changed are its files.
    pub fn merge(&self, commit: &CommitId) -> Result<CommitId, WorkspaceError> {
        let mut model = self.model();
        let head = model.head_commit()?;
        let (ours, theirs) = (model.files_of(&head), model.files_of(commit));
        let others = model.history(commit);
        let mut common: Vec<_> = model.history(&head).intersection(&others).cloned().collect();
        common.sort_by_key(|id| model.commits.get(id).map(|commit| commit.when));
        let base = common.last().map(|base| model.files_of(base)).unwrap_or_default();
        let files = super::undo::merged(&base, ours, &theirs)
            .map_err(|files| WorkspaceError::Conflicts { files })?;
        let made = model.add_commit(vec![head, commit.clone()], files.clone(), "merge", None)?;
        model.set_head(made.clone());
        let tracked = std::mem::replace(&mut model.index, files.clone());
        model.work.retain(|path, _| !tracked.contains_key(path));
        model.work.extend(files);
        Ok(made)
    }

    /// Returns the commits of `to` that `from` does not have, newest first.
    pub fn commits_between(&self, from: &CommitId, to: &CommitId) -> Vec<(CommitId, SimCommit)> {
        let model = self.model();
        let before = model.history(from);
        let (mut open, mut found) = (vec![to.clone()], Vec::new());
        while let Some(id) = open.pop() {
            if before.contains(&id) || found.iter().any(|(known, _)| *known == id) {
                continue;
            }
            if let Some(commit) = model.commits.get(&id) {
                open.extend(commit.parents.iter().cloned());
                found.push((id, commit.clone()));
            }
        }
        found
    }

    /// Returns the token of a task.
    pub fn token(&self, task: &harness_core::TaskId) -> Option<CommitId> {
        self.model().tokens.get(&harness::workspace::shared::land_token(task)).cloned()
    }

    /// Returns whether the index of the main tree is locked, because a landing moves it or was cut
    /// short.
    pub fn main_is_locked(&self) -> bool {
        self.model().others.pending.is_some()
    }

    /// Locks the index of the main tree for a move of a process that is gone.
    pub fn die_in_move(&self, swap: &harness::workspace::shared::Swap) {
        let others = &mut self.model().others;
        others.processes += 1;
        let number = others.processes;
        others.ended.insert(number);
        others.pending = Some((number, swap.clone()));
    }

    /// Forgets that a move of the main tree was cut short.
    pub fn forget_move(&self) {
        self.model().others.pending = None;
    }

    /// Returns the original work of a result on its way to land.
    pub fn original_work(&self, task: &harness_core::TaskId, epoch: Epoch) -> Option<CommitId> {
        let name = harness::workspace::shared::work_ref(task, epoch);
        self.model().works.get(&name).cloned()
    }

    pub fn current_branch(&self) -> Option<String> {
        self.model().branch()
    }

    pub fn tip(&self, branch: &str) -> Option<CommitId> {
        self.model().branches.get(branch).cloned()
    }

    pub fn committed(&self, commit: &CommitId) -> Files {
        self.model().files_of(commit)
    }

    /// Adds a stash entry and leaves the work tree unchanged.
    pub fn stash(&self, subject: &str, when: Timestamp) {
        self.model().stashes.push((when, subject.to_owned()));
    }

    /// Returns the messages of the commits between `base` and HEAD, newest first.
    pub fn messages_since(&self, base: &CommitId) -> Vec<String> {
        let model = self.model();
        let before = model.history(base);
        let head = model.head_commit().map(|head| model.history(&head)).unwrap_or_default();
        let since = head.iter().filter(|commit| !before.contains(*commit));
        let mut since: Vec<_> = since.filter_map(|commit| model.commits.get(commit)).collect();
        since.sort_by_key(|commit| std::cmp::Reverse(commit.when));
        since.into_iter().map(|commit| commit.message.clone()).collect()
    }

    pub fn landed(&self, task: &str) -> Option<CommitId> {
        self.model().landed.get(&format!("refs/harness/landed/{task}")).cloned()
    }

    /// `git config KEY VALUE`.
    pub fn configure(&self, key: &str, value: &str) {
        self.model().settings.config.insert(key.to_owned(), value.to_owned());
    }

    pub fn setting(&self, key: &str) -> Option<String> {
        self.model().settings.config.get(key).cloned()
    }

    /// Replaces the rules of `info/exclude`.
    pub fn exclude(&self, rules: &str) {
        rules.clone_into(&mut self.model().settings.exclude);
    }

    /// `git update-index --assume-unchanged`.
    pub fn assume_unchanged(&self, path: &str) {
        self.model().settings.assumed.insert(path.to_owned());
    }
}

/// Returns a repository with a commit, and with a file of the user that no commit contains.
pub(crate) fn repository() -> SimGit {
    let git = SimGit::new(Arc::new(|_| Ok(())));
    git.write("src/main.rs", b"fn main() {}");
    git.write("README", b"read me");
    git.stage("src/main.rs");
    git.stage("README");
    // A simulated commit of staged files cannot fail.
    let _ = git.commit_index("start");
    git.write("notes.txt", b"the user's own");
    git
}
