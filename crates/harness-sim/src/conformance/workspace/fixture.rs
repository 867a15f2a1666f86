//! What a case needs of a repository.

use std::collections::BTreeMap;

use harness::workspace::Workspace;
use harness_core::CommitId;

/// The committer's name that agents of the claim are given.
pub const AGENT: &str = "User (harness task-1.1)";

/// What people and agents do to a repository, and how a case looks at it.
pub trait Fixture {
    fn workspace(&self) -> Box<dyn Workspace>;
    fn write(&self, path: &str, text: &str);
    fn remove(&self, path: &str);
    /// All files of the work tree, links aside.
    fn files(&self) -> BTreeMap<String, String>;
    /// Stages a file or its deletion, ignored or not.
    fn stage(&self, path: &str);
    /// Takes a file out of the index, not out of the work tree.
    fn unstage(&self, path: &str);
    /// Commits what is staged.
    fn commit(&self, message: &str) -> CommitId {
        self.commit_as("User", message)
    }
    /// Commits what is staged under this committer's name.
    fn commit_as(&self, committer: &str, message: &str) -> CommitId;
    /// Creates a branch at HEAD and switches to it.
    fn create_branch(&self, name: &str);
    fn detach(&self);
    fn current_branch(&self) -> Option<String>;
    fn tip(&self, branch: &str) -> Option<CommitId>;
    /// All files of a commit.
    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String>;
    /// Makes a stash entry and leaves the work tree alone.
    fn stash(&self, subject: &str);
    /// The names of the files in the index.
    fn staged(&self) -> Vec<String>;

    /// The commit of `refs/harness/landed/<task>`.
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

    /// An agent that commits a file itself.
    fn commit_file(&self, path: &str, text: &str, message: &str) -> CommitId {
        self.write(path, text);
        self.stage(path);
        self.commit_as(AGENT, message)
    }

    /// A person who commits a file.
    fn foreign_file(&self, path: &str, text: &str, message: &str) -> CommitId {
        self.write(path, text);
        self.stage(path);
        self.commit(message)
    }
}
