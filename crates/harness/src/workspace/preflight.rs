//! States of a repository in which a session does not start, each with a hint.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use super::{
    WorkspaceError,
    filter::refuse_silenced,
    git::Git,
    path::{RepoPath, records},
    status::{Look, Staged},
};

fn refuse(what: impl Into<String>, hint: impl Into<String>) -> WorkspaceError {
    WorkspaceError::Unsafe { what: what.into(), hint: hint.into() }
}

/// An operation that git began and did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnderWay {
    Merge,
    CherryPick,
    Revert,
    Sequence,
    Rebase,
    Am,
    Bisect,
}

const MARKS: [(&str, UnderWay); 8] = [
    ("MERGE_HEAD", UnderWay::Merge),
    ("CHERRY_PICK_HEAD", UnderWay::CherryPick),
    ("REVERT_HEAD", UnderWay::Revert),
    ("sequencer", UnderWay::Sequence),
    ("rebase-merge", UnderWay::Rebase),
    ("rebase-apply/applying", UnderWay::Am),
    ("rebase-apply", UnderWay::Rebase),
    ("BISECT_LOG", UnderWay::Bisect),
];

impl UnderWay {
    pub(super) fn find(git: &Git) -> Option<Self> {
        let mut marks = MARKS.iter();
        marks.find(|(mark, _)| git.git_dir.join(mark).exists()).map(|(_, what)| *what)
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Merge => ("a merge", "git merge --continue, or git merge --abort"),
            Self::CherryPick | Self::Sequence => {
                ("a cherry-pick", "git cherry-pick --continue, or git cherry-pick --abort")
            }
            Self::Revert => ("a revert", "git revert --continue, or git revert --abort"),
            Self::Rebase => ("a rebase", "git rebase --continue, or git rebase --abort"),
            Self::Am => ("git am", "git am --continue, or git am --abort"),
            Self::Bisect => ("a bisect", "git bisect reset"),
        }
    }

    pub(super) fn refusal(self) -> WorkspaceError {
        let (what, hint) = self.words();
        refuse(format!("{what} is in progress"), hint)
    }

    /// Forgets it and leaves index, work tree and HEAD unchanged. Anything that `reset --hard`
    /// forgets by itself is not handled here.
    pub(super) fn quit(self, git: &Git) -> Result<(), WorkspaceError> {
        let (command, argument): (&'static str, &[&str]) = match self {
            Self::Merge => ("merge", &["--quit"]),
            Self::CherryPick | Self::Sequence => ("cherry-pick", &["--quit"]),
            Self::Revert => ("revert", &["--quit"]),
            Self::Rebase => ("rebase", &["--quit"]),
            Self::Am => ("am", &["--quit"]),
            Self::Bisect => ("bisect", &["reset", "HEAD"]),
        };
        git.write(command).args(argument).output().map(drop)
    }
}

/// The longest wait for an editor's `git status` in the background.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// Refuses a locked index. `index.lock` means that git is running or was killed, and only the user
/// can tell which.
pub(super) fn refuse_locked_index(git: &Git) -> Result<(), WorkspaceError> {
    let lock = git.git_dir.join("index.lock");
    let start = Instant::now();
    while fs::symlink_metadata(&lock).is_ok() {
        if start.elapsed() >= LOCK_PATIENCE {
            return Err(WorkspaceError::Locked { lock });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

pub(super) fn preflight(git: &Git, look: &Look) -> Result<(), WorkspaceError> {
    look.commit()?;
    refuse_locked_index(git)?;
    if let Some(what) = UnderWay::find(git) {
        return Err(what.refusal());
    }
    let unmerged = look.changed.iter().find(|changed| changed.staged == Staged::Unmerged);
    if let Some(unmerged) = unmerged {
        let what = format!("{} has unresolved conflicts", unmerged.path.shown());
        return Err(refuse(what, "resolve them, then: git add -- <file>"));
    }
    if !git.silenced.is_empty() {
        let tracked = git.read("ls-files").arg("-z").output()?;
        let tracked: Vec<_> = records(&tracked).map(RepoPath::new).collect();
        refuse_silenced(git, None, tracked.iter().chain(&look.untracked))?;
    }
    Ok(())
}
