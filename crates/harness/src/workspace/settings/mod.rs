//! Git's settings at a claim: configuration, index flags, and the files in `info` and `hooks`.
//!
//! An agent that changes them changes what git sees (`assume-unchanged`, `info/exclude`, a filter)
//! or runs. So they are recorded at the claim, outside of the repository, and set back before any
//! look. Because the user may have made the change, every one is reported with the command that
//! repeats it.

mod config;
mod files;
pub(super) mod flags;
mod record;

use harness_core::{Epoch, TaskId};
use serde::{Deserialize, Serialize};

pub(super) use self::record::Records;

use super::{WorkspaceError, git::Git};

/// A setting that differs from the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// A key, a file below the git directory, or a flag with its files.
    pub what: String,
    /// The old value for people; empty if it did not exist.
    pub old: String,
    /// The new value for people; empty if it was removed.
    pub new: String,
    /// The command that repeats the change.
    pub command: String,
    /// `true` if it changes what git sees of the work tree.
    pub sight: bool,
    /// `true` if it is set back; `false` if it is only reported.
    pub set_back: bool,
}

impl SettingChange {
    /// Returns one line for the log.
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

/// The treatment of settings that differ from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// They are reported and stay unchanged.
    Named,
    /// Those that may be set back are set back.
    SetBack,
}

/// All recorded settings.
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

    /// Returns the differences from the record of a claim. Without a record, there are none.
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
