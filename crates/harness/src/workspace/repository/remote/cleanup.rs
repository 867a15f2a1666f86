//! What ended attempts left on the server, and its removal. Nothing is removed that exists nowhere else,
//! except for rescues that are old enough.

use harness_core::{CommitId, Ledger, TaskId, Timestamp};

use super::{
    RemoteRepository,
    names::{Names, RESCUES, task_of_rescue},
    push::{Pushed, Update},
    transport::Listed,
};
use crate::workspace::{
    WorkspaceError,
    git::failed,
    repository::{CleanupItem, CleanupKind, CleanupMode, CleanupTerms, remote::KNOWN},
    rescue::{PREFIX, create},
};

impl RemoteRepository {
    /// Removes what ended attempts of the tasks of `ledger` left on the server, or lists it. Refs of
    /// tasks that the ledger does not know stay: they may belong to another one.
    pub fn cleanup_remote(
        &self,
        ledger: &Ledger,
        terms: &CleanupTerms,
    ) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let own = self.settings.ledger.as_deref();
        let works =
            Names::ALL.into_iter().flat_map(|names| [names.works(), names.tokens(own) + "*"]);
        let patterns: Vec<String> = works.chain([RESCUES.to_owned()]).collect();
        let listed = self.reach(|| self.transport.list(&patterns))?;
        let is_closed =
            |task: &TaskId| ledger.task(task).is_some() && !terms.open_tasks.contains(task);
        let (mut works, mut tokens, mut rescues) = (Listed::new(), Listed::new(), Listed::new());
        for (name, commit) in listed {
            if let Some((task, epoch)) = Names::attempt_of(&name) {
                let known = ledger.task(&task).and_then(|task| task.epoch);
                if is_closed(&task) && known.is_some_and(|known| epoch <= known) {
                    works.insert(name, commit);
                }
            } else if Names::token_of(own, &name).is_some_and(|task| is_closed(&task)) {
                tokens.insert(name, commit);
            } else if task_of_rescue(&name).is_some_and(|task| ledger.task(&task).is_some()) {
                rescues.insert(name, commit);
            }
        }
        let mut items = self.clean_works(&works, terms)?;
        for (name, commit) in &tokens {
            items.extend(self.clean(CleanupKind::StaleRef, name, commit, None, terms)?);
        }
        items.extend(self.clean_rescues(&rescues, terms)?);
        if terms.mode == CleanupMode::Remove {
            // What was saved here is shared as any other rescue is.
            self.share_rescues();
        }
        Ok(items)
    }

    fn clean_works(
        &self,
        works: &Listed,
        terms: &CleanupTerms,
    ) -> Result<Vec<CleanupItem>, WorkspaceError> {
        let mut items = Vec::new();
        if terms.mode == CleanupMode::Remove {
            self.fetch_missing(works)?;
        }
        for (name, commit) in works {
            let Some((task, epoch)) = Names::attempt_of(name) else { continue };
            let mut saved = None;
            if terms.mode == CleanupMode::Remove && !self.is_held(&task, commit)? {
                let git = &self.local.main.git;
                let rescue = create(git, &format!("{PREFIX}{task}/{epoch}"), commit)?;
                saved = Some(rescue.reference);
            }
            items.extend(self.clean(CleanupKind::StaleRef, name, commit, saved, terms)?);
        }
        Ok(items)
    }

    fn clean_rescues(
        &self,
        rescues: &Listed,
        terms: &CleanupTerms,
    ) -> Result<Vec<CleanupItem>, WorkspaceError> {
        self.fetch_missing(rescues)?;
        let mut items = Vec::new();
        for (name, commit) in rescues {
            let call = self.local.main.git.read("log").args(["-1", "--format=%ct"]);
            let seconds = call.arg(commit.as_str()).line()?;
            let seconds = seconds.parse().map_err(|_| failed("log", b"unexpected output"))?;
            if Timestamp::from_seconds(seconds) < terms.rescues_before {
                items.extend(self.clean(CleanupKind::OldRescue, name, commit, None, terms)?);
            }
        }
        Ok(items)
    }

    fn fetch_missing(&self, listed: &Listed) -> Result<(), WorkspaceError> {
        let mut missing = Vec::new();
        for (name, commit) in listed {
            if !self.has(commit)? {
                missing.push(name.clone());
            }
        }
        self.reach(|| self.transport.fetch(&missing)).map(drop)
    }

    /// Returns whether a branch of the server that this clone knows, or a rescue here, has a commit.
    fn is_held(&self, task: &TaskId, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let call = self.local.main.git.read("for-each-ref").args(["--count=1", "--format=x"]);
        let call = call.arg(format!("--contains={commit}"));
        Ok(!call.args([format!("{PREFIX}{task}/"), KNOWN.to_owned()]).output()?.is_empty())
    }

    /// Removes a ref of the server, if it is still the same.
    fn clean(
        &self,
        kind: CleanupKind,
        name: &str,
        commit: &CommitId,
        saved: Option<String>,
        terms: &CleanupTerms,
    ) -> Result<Option<CleanupItem>, WorkspaceError> {
        let removed = match terms.mode {
            CleanupMode::Plan => true,
            CleanupMode::Remove => {
                let push = || self.transport.push(&[Update::delete(name, commit)]);
                self.reach(push)? == Pushed::Done
            }
        };
        let name = format!("{} {name}", self.name());
        Ok(removed.then_some(CleanupItem { kind, name, bytes: 0, saved }))
    }
}
