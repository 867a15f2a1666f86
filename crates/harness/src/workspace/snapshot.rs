//! The work tree as a git tree: tracked and untracked files, except ours and ignored ones.

use harness_core::TreeId;

use super::{
    WorkspaceError, git::Git, index::PrivateIndex, own::OwnFiles, path::RepoPath, status::Look,
};

pub(super) struct Snapshot {
    pub(super) look: Look,
    pub(super) tree: TreeId,
    pub(super) staged: Option<StagedOnly>,
    index: PrivateIndex,
}

/// The user's index, if it has contents that neither HEAD nor the work tree has.
pub(super) struct StagedOnly {
    pub(super) tree: TreeId,
    pub(super) paths: Vec<RepoPath>,
}

impl Snapshot {
    pub(super) fn take(git: &Git, own: &OwnFiles, look: Look) -> Result<Self, WorkspaceError> {
        let index = PrivateIndex::copy_of_users(git)?;
        let paths = look.only_staged();
        let staged = if paths.is_empty() {
            None
        } else {
            Some(StagedOnly { tree: index.write_tree(git)?, paths })
        };
        index.take(git, look.unstaged())?;
        index.drop_ours(git, own)?;
        let tree = index.write_tree(git)?;
        Ok(Self { look, tree, staged, index })
    }

    /// Adds files that git would not have looked at. Entries whose flags hide them from git are
    /// removed first.
    pub(super) fn add(&mut self, git: &Git, hidden: &[RepoPath]) -> Result<(), WorkspaceError> {
        if !hidden.is_empty() {
            self.index.remove(git, hidden)?;
            self.index.take(git, hidden)?;
            self.tree = self.index.write_tree(git)?;
        }
        Ok(())
    }
}
