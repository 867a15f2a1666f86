//! The simulated rescue: the same rules as the real one, over the model.

use std::collections::BTreeSet;

use harness::workspace::{Base, Rescue, WorkspaceError};
use harness_core::{CommitId, TaskId};

use super::{Files, SimGit};

/// The path, its content in the base, and its content in the rescue.
type Change = (String, Option<Vec<u8>>, Option<Vec<u8>>);

impl SimGit {
    /// Describes for people what a rescue would restore.
    pub(super) fn shown(&self, rescue: &Rescue) -> String {
        let lines = self.changes(rescue).into_iter().map(|(path, _, after)| {
            let text = after.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            format!("{path}: {}\n", text.as_deref().unwrap_or("deleted"))
        });
        lines.collect()
    }

    pub(super) fn save(
        &self,
        task: &TaskId,
        attempt: u32,
        base: &Base,
        stays: Option<&CommitId>,
    ) -> Result<Option<Rescue>, WorkspaceError> {
        let (files, staged, tips) = self.losses(base)?;
        let name = format!("refs/harness/rescue/{task}/{attempt}");
        let saved: Vec<_> =
            self.list(Some(task)).into_iter().filter(|r| of(&r.reference, &name)).collect();
        let tips_at_risk = self.at_risk(&tips, stays);
        if self.covered(&files, staged.as_ref(), &tips_at_risk, &saved, base) {
            return Ok(saved.into_iter().next_back());
        }
        let mut parents = tips;
        if let Some(staged) = staged {
            let head = parents[..1].to_vec();
            let commit =
                self.op("rescue index", |model| model.add_commit(head, staged, "index", None))??;
            parents.push(commit);
        }
        let subject = format!("{task}: work of attempt {attempt}, saved before its rollback");
        let base = Some(base.commit.clone());
        let commit =
            self.op("rescue commit", |model| model.add_commit(parents, files, &subject, base))??;
        let taken = saved.len();
        let reference = if taken == 0 { name } else { format!("{name}-{}", taken + 1) };
        let (key, target) = (reference.clone(), commit.clone());
        self.op("rescue ref", |model| drop(model.rescues.insert(key, target)))?;
        Ok(self.list(Some(task)).into_iter().find(|rescue| rescue.reference == reference))
    }

    /// Returns the tips that are not in the history of `stays`.
    fn at_risk(&self, tips: &[CommitId], stays: Option<&CommitId>) -> Vec<CommitId> {
        let held = stays.map(|stays| self.model().history(stays)).unwrap_or_default();
        tips.iter().filter(|tip| !held.contains(*tip)).cloned().collect()
    }

    /// Returns the work tree, the index if it has its own contents, and the commits to keep.
    fn losses(&self, base: &Base) -> Result<(Files, Option<Files>, Vec<CommitId>), WorkspaceError> {
        let recorded = self.recorded(base);
        let model = self.model();
        let mut files = model.snapshot(&self.own);
        let base_files = model.files_of(&base.commit);
        // A file that was tracked at the base but is untracked and ignored now would be overwritten
        // by a reset.
        let overwritten = base_files.keys().chain(recorded.keys());
        for path in overwritten.filter(|path| !self.own.own(path.as_bytes())) {
            if let Some(bytes) = model.work.get(path) {
                files.insert(path.clone(), bytes.clone());
            }
        }
        let head = model.head_files();
        let only_staged = model.index.iter().any(|(path, bytes)| {
            !self.own.own(path.as_bytes())
                && head.get(path) != Some(bytes)
                && model.work.get(path) != Some(bytes)
        });
        let mut tips = vec![model.head_commit()?];
        let claimed = base.branch.as_ref().and_then(|name| model.branches.get(name));
        if let Some(tip) = claimed.filter(|tip| !tips.contains(tip)) {
            tips.push(tip.clone());
        }
        Ok((files, only_staged.then(|| model.index.clone()), tips))
    }

    fn covered(
        &self,
        files: &Files,
        staged: Option<&Files>,
        tips: &[CommitId],
        saved: &[Rescue],
        base: &Base,
    ) -> bool {
        let recorded = self.recorded(base);
        let model = self.model();
        let base_files = model.files_of(&base.commit);
        let saved: Vec<_> = saved.iter().filter_map(|r| model.commits.get(&r.commit)).collect();
        let paths: BTreeSet<_> = files.keys().chain(base_files.keys()).collect();
        let paths_kept = paths.into_iter().all(|path| {
            let here = files.get(path);
            self.own.own(path.as_bytes())
                || here == base_files.get(path)
                || (here.is_some() && here == recorded.get(path))
                || saved.iter().any(|rescue| rescue.files.get(path) == here)
        });
        let kept = saved.iter().flat_map(|rescue| &rescue.parents).chain([&base.commit]);
        let kept: BTreeSet<_> = kept.flat_map(|commit| model.history(commit)).collect();
        let parents = saved.iter().flat_map(|rescue| &rescue.parents);
        let mut holders: Vec<_> = parents.map(|parent| model.files_of(parent)).collect();
        holders.extend(saved.iter().map(|rescue| rescue.files.clone()));
        let head = model.head_files();
        let index_kept = staged.into_iter().flatten().all(|(path, bytes)| {
            self.own.own(path.as_bytes())
                || [&head, &model.work]
                    .into_iter()
                    .chain(&holders)
                    .any(|f| f.get(path) == Some(bytes))
        });
        paths_kept && index_kept && tips.iter().all(|tip| kept.contains(tip))
    }

    pub(super) fn list(&self, task: Option<&TaskId>) -> Vec<Rescue> {
        let prefix = task.map_or_else(
            || "refs/harness/rescue/".to_owned(),
            |task| format!("refs/harness/rescue/{task}/"),
        );
        let model = self.model();
        let named = model.rescues.iter().filter(|(name, _)| name.starts_with(&prefix));
        let mut rescues: Vec<_> = named
            .filter_map(|(reference, id)| {
                let commit = model.commits.get(id)?;
                Some(Rescue {
                    reference: reference.clone(),
                    commit: id.clone(),
                    when: commit.when,
                    subject: commit.message.clone(),
                })
            })
            .collect();
        rescues.sort_by_key(|rescue| rescue.when);
        rescues
    }

    pub(super) fn changes(&self, rescue: &Rescue) -> Vec<Change> {
        let model = self.model();
        let Some(commit) = model.commits.get(&rescue.commit) else { return Vec::new() };
        let base = commit.base.as_ref().or(commit.parents.first());
        let before = base.map(|base| model.files_of(base)).unwrap_or_default();
        let paths: BTreeSet<_> = before.keys().chain(commit.files.keys()).collect();
        paths
            .into_iter()
            .filter(|path| !self.own.own(path.as_bytes()))
            .map(|path| (path.clone(), before.get(path).cloned(), commit.files.get(path).cloned()))
            .filter(|(_, before, after)| before != after)
            .collect()
    }

    pub(super) fn bring_back(&self, rescue: &Rescue) -> Result<Vec<String>, WorkspaceError> {
        let mut changes = self.changes(rescue);
        let here = self.model().work.clone();
        changes.retain(|(path, _, after)| here.get(path) != after.as_ref());
        let in_danger: Vec<_> = changes
            .iter()
            .filter(|(path, before, _)| here.get(path) != before.as_ref())
            .map(|(path, _, _)| path.clone())
            .collect();
        if !in_danger.is_empty() {
            return Err(WorkspaceError::WouldOverwrite { files: in_danger });
        }
        let mut written = Vec::new();
        for (path, _, after) in changes {
            self.set_file("restore", &path, after.as_ref())?;
            if after.is_some() {
                written.push(path);
            }
        }
        Ok(written)
    }
}

/// Returns whether `reference` is `name` or one of its numbered copies.
fn of(reference: &str, name: &str) -> bool {
    reference.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
