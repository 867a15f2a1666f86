//! Simulated settings: some configuration, `info/exclude` and a flag of the index.

use std::collections::BTreeSet;

use harness::workspace::{Base, SettingChange, WorkspaceError};
use harness_core::{Epoch, TaskId};

use super::{Settings, SimGit};

pub(super) fn key(task: &TaskId, epoch: Epoch) -> String {
    format!("{task}.{epoch}")
}

impl SimGit {
    pub(super) fn remember_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<(), WorkspaceError> {
        let key = key(task, epoch);
        self.op("record settings", |model| {
            model.recorded.insert(key, model.settings.clone());
        })
    }

    pub(super) fn set_settings_back(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let (recorded, now) = {
            let model = self.model();
            (model.recorded.get(&key(task, epoch)).cloned(), model.settings.clone())
        };
        let Some(recorded) = recorded else { return Ok(Vec::new()) };
        let mut changes = self.config_back(&recorded, &now)?;
        if recorded.exclude != now.exclude {
            let old = recorded.exclude.clone();
            self.op("set back info", |model| model.settings.exclude = old)?;
            changes.push(change(".git/info/exclude", &recorded.exclude, &now.exclude));
        }
        let set: Vec<_> = now.assumed.difference(&recorded.assumed).cloned().collect();
        let cleared: Vec<_> = recorded.assumed.difference(&now.assumed).cloned().collect();
        for (paths, old, new) in [(set, "", "set"), (cleared, "set", "")] {
            if !paths.is_empty() {
                let name = format!("assume-unchanged of {}", paths.join(", "));
                changes.push(change(&name, old, new));
            }
        }
        if recorded.assumed != now.assumed {
            self.op("set back flags", |model| {
                // A flag can only be given to what the index has.
                let tracked = |path: &&String| model.index.contains_key(*path);
                let assumed = recorded.assumed.iter().filter(tracked).cloned().collect();
                model.settings.assumed = assumed;
            })?;
        }
        Ok(changes)
    }

    fn config_back(
        &self,
        recorded: &Settings,
        now: &Settings,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let keys: BTreeSet<_> = recorded.config.keys().chain(now.config.keys()).collect();
        let mut changes = Vec::new();
        for key in keys {
            let (old, new) = (recorded.config.get(key), now.config.get(key));
            if old == new || key.starts_with("user.") || key.starts_with("branch.") {
                continue;
            }
            self.op("set back config", |model| match old {
                Some(old) => drop(model.settings.config.insert(key.clone(), old.clone())),
                None => drop(model.settings.config.remove(key)),
            })?;
            let text = |value: Option<&String>| value.cloned().unwrap_or_default();
            changes.push(change(key, &text(old), &text(new)));
        }
        Ok(changes)
    }

    /// Flagged files that are what they were at the claim.
    pub(super) fn flagged_as_recorded(&self, base: &Base) -> BTreeSet<String> {
        let recorded = self.recorded(base);
        let model = self.model();
        let same = |path: &&String| {
            recorded.contains_key(*path) && recorded.get(*path) == model.work.get(*path)
        };
        model.settings.assumed.iter().filter(same).cloned().collect()
    }
}

fn change(what: &str, old: &str, new: &str) -> SettingChange {
    SettingChange {
        what: what.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
        command: String::new(),
        sight: true,
        set_back: true,
    }
}
