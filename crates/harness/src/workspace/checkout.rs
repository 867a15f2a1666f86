//! A clean checkout of a commit: what is in no commit can not make a check green there.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use harness_core::CommitId;

use super::{WorkspaceError, evidence::must_be_commit, git::Git};

/// A folder with the files of one commit and nothing else. Dropped, it is removed.
pub struct Checkout {
    path: PathBuf,
    remove: Option<Box<dyn FnOnce() + Send>>,
}

impl Checkout {
    /// `remove` is called once, when nobody needs it any more.
    pub fn new(path: PathBuf, remove: impl FnOnce() + Send + 'static) -> Self {
        Self { path, remove: Some(Box::new(remove)) }
    }

    /// Its top level.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Checkout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkout").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(remove) = self.remove.take() {
            remove();
        }
    }
}

/// A linked work tree in a private folder of the system's temporary one, so that git works in it and
/// objects are shared.
pub(super) fn checkout(git: &Git, commit: &CommitId) -> Result<Checkout, WorkspaceError> {
    must_be_commit(git, commit)?;
    let folder = tempfile::Builder::new().prefix("harness-checkout-").tempdir()?;
    let path = folder.path().canonicalize()?.join("tree");
    let call = git.write("worktree").args(["add", "--quiet", "--force", "--detach"]);
    call.arg(&path).arg(commit.as_str()).output()?;
    let (git, place) = (git.clone(), path.clone());
    let remove = move || {
        let call = git.write("worktree").args(["remove", "--force", "--force"]);
        if let Err(why) = call.arg(&place).output() {
            tracing::warn!(path = %place.display(), %why, "a checkout was not removed");
        }
        drop(folder);
    };
    Ok(Checkout::new(path, remove))
}
