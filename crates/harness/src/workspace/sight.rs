//! Whether the work tree is looked at again.

use std::time::{Duration, Instant};

use super::{WorkspaceError, git::Git, own::OwnFiles, status::Look};
use crate::home::FileStamp;

/// The required freshness of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// A fresh look at the work tree is taken.
    Anew,
    /// The last look of the same workspace is used if nothing has run in the work tree since
    /// ([`Workspace::disturbed`](super::Workspace::disturbed)). Otherwise a fresh look is taken.
    Last,
}

/// The last look, and the stamps of git's own files at that time. Staging, committing and checking
/// out each replace one of them.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) look: Look,
    index: Option<FileStamp>,
    head: Option<FileStamp>,
    at: Instant,
}

/// A process that was stopped for longer than this looks again, because people work meanwhile.
const LONGEST: Duration = Duration::from_secs(30);

impl Seen {
    pub(super) fn take(git: &Git, own: &OwnFiles) -> Result<Self, WorkspaceError> {
        let [index, head] = stamps(git);
        Ok(Self { look: Look::take(git, own)?, index, head, at: Instant::now() })
    }

    /// Records the result that a look would have now, as far as it is known.
    pub(super) fn known(git: &Git, look: Look) -> Self {
        let [index, head] = stamps(git);
        Self { look, index, head, at: Instant::now() }
    }

    pub(super) fn holds(&self, git: &Git) -> bool {
        self.at.elapsed() < LONGEST && stamps(git) == [self.index, self.head]
    }
}

fn stamps(git: &Git) -> [Option<FileStamp>; 2] {
    ["index", "HEAD"].map(|name| FileStamp::at(&git.git_dir.join(name)))
}
