//! The work tree as a git tree: tracked and untracked files, ours and ignored ones aside.

use harness_core::TreeId;

use super::{
    WorkspaceError, git::Git, index::PrivateIndex, own::OwnFiles, path::RepoPath, status::Look,
};

pub(super) struct Snapshot {
    pub(super) look: Look,
    pub(super) tree: TreeId,
    /// The tree of the user's index, if it holds contents that are nowhere else.
    pub(super) staged: Option<TreeId>,
    index: PrivateIndex,
}

impl Snapshot {
    pub(super) fn take(git: &Git, own: &OwnFiles) -> Result<Self, WorkspaceError> {
        let look = Look::take(git, own)?;
        let index = PrivateIndex::copy_of_users(git)?;
        let staged = if look.only_staged() { Some(index.write_tree(git)?) } else { None };
        index.take(git, look.unstaged())?;
        index.drop_paths(git, &own.pathspecs())?;
        let tree = index.write_tree(git)?;
        Ok(Self { look, tree, staged, index })
    }

    /// Adds files that git would not have looked at.
    pub(super) fn add(&mut self, git: &Git, hidden: &[RepoPath]) -> Result<(), WorkspaceError> {
        if !hidden.is_empty() {
            self.index.take(git, hidden)?;
            self.tree = self.index.write_tree(git)?;
        }
        Ok(())
    }
}
