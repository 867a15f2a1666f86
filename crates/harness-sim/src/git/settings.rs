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

    /// Returns the differences from the record, and the record; `None` without one.
    pub(super) fn differing_settings(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Option<(Vec<SettingChange>, Settings)> {
        let (recorded, now) = {
            let model = self.model();
            (model.recorded.get(&key(task, epoch)).cloned()?, model.settings.clone())
        };
        let keys: BTreeSet<_> = recorded.config.keys().chain(now.config.keys()).collect();
        let mut changes = Vec::new();
        for key in keys.into_iter().filter(|key| is_ours(key)) {
            let text = |settings: &Settings| settings.config.get(key).cloned();
            let (old, new) = (text(&recorded), text(&now));
            if old != new {
                changes.push(change(key, &old.unwrap_or_default(), &new.unwrap_or_default()));
            }
        }
        if recorded.exclude != now.exclude {
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
        Some((changes, recorded))
    }

    pub(super) fn set_settings_back(
        &self,
        task: &TaskId,
        epoch: Epoch,
    ) -> Result<Vec<SettingChange>, WorkspaceError> {
        let Some((changes, recorded)) = self.differing_settings(task, epoch) else {
            return Ok(Vec::new());
        };
        let now = self.model().settings.clone();
        let keys: BTreeSet<_> = recorded.config.keys().chain(now.config.keys()).collect();
        for key in keys.into_iter().filter(|key| is_ours(key)) {
            let old = recorded.config.get(key);
            if old == now.config.get(key) {
                continue;
            }
            self.op("set back config", |model| match old {
                Some(old) => drop(model.settings.config.insert(key.clone(), old.clone())),
                None => drop(model.settings.config.remove(key)),
            })?;
        }
        if recorded.exclude != now.exclude {
            let old = recorded.exclude.clone();
            self.op("set back info", |model| model.settings.exclude = old)?;
        }
        if recorded.assumed != now.assumed {
            self.op("set back flags", |model| {
                // Only a path in the index can have a flag.
                let tracked = |path: &&String| model.index.contains_key(*path);
                let assumed = recorded.assumed.iter().filter(tracked).cloned().collect();
                model.settings.assumed = assumed;
            })?;
        }
        Ok(changes)
    }

    /// Returns the flagged files that are unchanged since the claim.
    pub(super) fn flagged_as_recorded(&self, base: &Base) -> BTreeSet<String> {
        let recorded = self.recorded(base);
        let model = self.model();
        let same = |path: &&String| {
            recorded.contains_key(*path) && recorded.get(*path) == model.work.get(*path)
        };
        model.settings.assumed.iter().filter(same).cloned().collect()
    }
}

/// Returns whether a changed key is set back.
fn is_ours(key: &str) -> bool {
    !key.starts_with("user.") && !key.starts_with("branch.")
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
