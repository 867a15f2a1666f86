//! Git's settings as they were at a claim: configuration, index flags, and the files in `info` and
//! `hooks`.
//!
//! An agent that changes them changes what git sees (`assume-unchanged`, `info/exclude`, a filter) or
//! runs. So they are recorded at the claim, outside of the repository, and set back before anything
//! is looked at. Because it may have been the user, every change is reported with the command that
//! makes it again.

mod config;
mod files;
pub(super) mod flags;
mod record;

use harness_core::{Epoch, TaskId};
use serde::{Deserialize, Serialize};

pub(super) use self::record::Records;

use super::{WorkspaceError, git::Git};

/// A setting that is not what it was at the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// A key, a file below the git directory, or a flag and the files that carry it.
    pub what: String,
    /// For people; empty if it was not there.
    pub old: String,
    /// For people; empty if it is gone.
    pub new: String,
    /// Makes the change again.
    pub command: String,
    /// It changes what git sees of the work tree.
    pub sight: bool,
    /// It is set back. Otherwise it is only reported.
    pub set_back: bool,
}

impl SettingChange {
    /// One line for the log.
    pub fn message(&self) -> String {
        let shown = |value: &str| match value {
            "" => "nothing".to_owned(),
            value => format!("{value:?}"),
        };
        let change = format!("{}: {} -> {}", self.what, shown(&self.old), shown(&self.new));
        match self.set_back {
            true => format!(
                "git settings were changed and set back: {change}; to make it again: {}",
                self.command
            ),
            false => format!("git settings were changed: {change}"),
        }
    }
}

/// What becomes of settings that differ from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// They are named and stay as they are.
    Named,
    /// Those that may be set back are.
    SetBack,
}

/// Everything that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Settings {
    config: config::Config,
    files: files::Files,
    flags: flags::Flags,
}

impl Settings {
    fn read(git: &Git, last: Option<&Self>) -> Result<Self, WorkspaceError> {
        Ok(Self {
            config: config::Config::read(git, last.map(|last| &last.config))?,
            files: files::Files::read(git)?,
            flags: flags::Flags::read(git)?,
        })
    }
}

impl Records {
    /// Records the settings for a claim.
    pub(super) fn record(
        &self,
        git: &Git,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        let settings = Settings::read(git, self.last().as_ref())?;
        self.write(git, task, epoch, &settings)?;
        self.set_last(settings);
        Ok(())
    }

    /// What differs from the record of a claim. Without a record nothing is known.
    pub(super) fn compare(
        &self,
        git: &Git,
        task: &TaskId,
        epoch: Epoch,
        treatment: Treatment,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let Some(recorded) = self.load(git, task, epoch)? else { return Ok(Vec::new()) };
        let kept = self.kept(git, task, epoch);
        let mut changes = recorded.config.compare(git, treatment)?;
        changes.extend(recorded.files.compare(git, &kept, treatment)?);
        changes.extend(recorded.flags.compare(git, treatment)?);
        Ok(changes)
    }
}
