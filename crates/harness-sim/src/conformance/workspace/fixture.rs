//! The operations that a case needs on a repository.

use std::collections::BTreeMap;

use harness::workspace::Workspace;
use harness_core::CommitId;

/// The committer name of agents of the claim.
pub const AGENT: &str = "User (harness task-1.1)";

/// The actions of people and agents on a repository, and the ways in which a case inspects it.
pub trait Fixture {
    fn workspace(&self) -> Box<dyn Workspace>;
    fn write(&self, path: &str, text: &str);
    fn remove(&self, path: &str);
    /// Returns all files of the work tree, except links.
    fn files(&self) -> BTreeMap<String, String>;
    /// Stages a file or its deletion, ignored or not.
    fn stage(&self, path: &str);
    /// Removes a file from the index, but not from the work tree.
    fn unstage(&self, path: &str);
    /// Commits the staged files.
    fn commit(&self, message: &str) -> CommitId {
        self.commit_as("User", message)
    }
    /// Commits the staged files under this committer name.
    fn commit_as(&self, committer: &str, message: &str) -> CommitId;
    /// Creates a branch at HEAD and switches to it.
    fn create_branch(&self, name: &str);
    fn detach(&self);
    fn current_branch(&self) -> Option<String>;
    fn tip(&self, branch: &str) -> Option<CommitId>;
    /// Returns all files of a commit.
    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String>;
    /// Creates a stash entry and leaves the work tree unchanged.
    fn stash(&self, subject: &str);
    /// Returns the names of the files in the index.
    fn staged(&self) -> Vec<String>;

    /// Returns the commit of `refs/harness/landed/<task>`.
    fn landed(&self, task: &str) -> Option<CommitId>;
    fn configure(&self, key: &str, value: &str);
    fn setting(&self, key: &str) -> Option<String>;
    /// Replaces the rules of `info/exclude`.
    fn exclude(&self, rules: &str);
    fn assume_unchanged(&self, path: &str);

    fn read(&self, path: &str) -> Option<String> {
        self.files().remove(path)
    }

    fn write_all(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
    }

    /// Writes and commits a file as an agent does.
    fn commit_file(&self, path: &str, text: &str, message: &str) -> CommitId {
        self.write(path, text);
        self.stage(path);
        self.commit_as(AGENT, message)
    }

    /// Writes and commits a file as a person does.
    fn foreign_file(&self, path: &str, text: &str, message: &str) -> CommitId {
        self.write(path, text);
        self.stage(path);
        self.commit(message)
    }
}
