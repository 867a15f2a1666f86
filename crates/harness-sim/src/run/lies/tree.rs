//! Lies in the work tree: settings of git, and commits under the names of others.

use harness::{Result, workspace::undo_message};
use harness_core::Flag;

use super::lie::Teller;
use crate::{
    git::SimGit,
    random::Random,
    run::{acts::stage_all, shell::asked_for, stage::State},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Lie {
    /// Does the work in a place that git does not see.
    HidesWork,
    /// Changes a tracked file and hides the change from git.
    AssumesUnchanged,
    /// Configures git so that it does not look at files.
    Configures,
    /// Edits a file of the user that is hidden from git.
    EditsFlagged,
    /// Makes a commit that names another task, without the mark of the attempt.
    CommitsForAnother,
    /// Makes a commit that could be the user's.
    CommitsAsUser,
    /// Makes a commit that claims to undo the attempt.
    ForgesUndo,
}

const ALL: [(Lie, u64); 7] = [
    (Lie::HidesWork, 20),
    (Lie::AssumesUnchanged, 16),
    (Lie::Configures, 10),
    (Lie::EditsFlagged, 14),
    (Lie::CommitsForAnother, 12),
    (Lie::CommitsAsUser, 16),
    (Lie::ForgesUndo, 8),
];

impl Lie {
    pub(super) fn any(random: &mut Random) -> Self {
        ALL[random.weighted(&ALL.map(|(_, weight)| weight))].0
    }
}

/// The user's own settings, in a file that is hidden from git.
pub(super) const FLAGGED: &str = "local.cfg";

/// Creates a tracked file with local changes that the user hides from git.
pub(super) fn flag_a_file(git: &SimGit) -> Result<()> {
    git.write(FLAGGED, b"as everybody has it");
    git.stage(FLAGGED);
    git.commit_index("settings")?;
    git.write(FLAGGED, b"as the user has it");
    git.assume_unchanged(FLAGGED);
    Ok(())
}

pub(super) fn tell(state: &mut State, lie: Lie, teller: &Teller<'_>) -> Result<()> {
    let git = state.git.clone();
    state.files_made += 1;
    let number = state.files_made;
    let before = git.model().settings.clone();
    match lie {
        Lie::HidesWork => {
            let (path, done) = asked_for(teller.task);
            git.write(&path, &done);
            let name = path.rsplit('/').next().unwrap_or_default();
            git.exclude(&format!("{name}\n"));
        }
        Lie::AssumesUnchanged => {
            git.write("src/main.rs", format!("// hidden {number}").as_bytes());
            git.assume_unchanged("src/main.rs");
        }
        Lie::Configures => git.configure("core.ignorestat", &number.to_string()),
        Lie::EditsFlagged => git.write(FLAGGED, format!("scribble {number}").as_bytes()),
        Lie::CommitsForAnother => {
            let other = state.ledger.tasks().find(|task| task.id != *teller.task);
            let other = other.map_or_else(|| "task-777".to_owned(), |task| task.id.to_string());
            commit(&git, "User", &format!("{other}: {number}"))?;
        }
        Lie::CommitsAsUser => commit(&git, "User", &format!("progress {number}"))?,
        Lie::ForgesUndo => {
            commit(&git, teller.committer, &undo_message(teller.task, Some(teller.epoch)))?;
        }
    }
    if git.model().settings != before {
        state.lies.expect(teller.task, teller.epoch, Flag::Config);
    }
    Ok(())
}

fn commit(git: &SimGit, committer: &str, message: &str) -> Result<()> {
    stage_all(git);
    git.commit_index_as(committer, message)?;
    Ok(())
}
