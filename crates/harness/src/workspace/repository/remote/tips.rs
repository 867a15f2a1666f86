//! The branches of the server, as this clone knows them: a ref below `refs/harness/remotes/` for each.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use harness_core::CommitId;

use super::{RemoteRepository, names::Names};
use crate::workspace::{
    WorkspaceError,
    git::{Git, failed},
    repository::branch::{commit_of, full},
    shared::LANDED_BRANCH,
};

/// The time for which an answer of the server counts for those who only look. A push that relies on
/// an older one is refused by its lease.
const FRESH: Duration = Duration::from_secs(2);
/// The prefix of the refs for what this clone knows of its remotes.
pub(in super::super) const KNOWN: &str = "refs/harness/remotes/";

/// The branches of the server.
#[derive(Debug)]
pub(super) struct Tips {
    prefix: String,
    seen: Mutex<Seen>,
    /// Held while the server is asked, so that an older answer never replaces a newer one.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    /// `None` is a branch that does not exist.
    tips: BTreeMap<String, Option<CommitId>>,
}

/// How old an answer of the server may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The server is asked.
    Now,
    /// It may be some seconds old, and older if the server cannot be reached.
    Recent,
}

impl Tips {
    pub(super) fn new(remote: &str) -> Self {
        Self { prefix: format!("{KNOWN}{remote}/"), seen: Mutex::default(), turn: Mutex::default() }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ref of this clone for a branch of the server.
    pub(super) fn reference(&self, branch: &str) -> String {
        format!("{}{branch}", self.prefix)
    }

    /// Sets what this process has just done to a branch of the server.
    pub(super) fn moved(
        &self,
        git: &Git,
        branch: &str,
        commit: Option<&CommitId>,
    ) -> Result<(), WorkspaceError> {
        let _turn = self.turn();
        self.know(git, branch, commit)
    }

    /// Sets what is known of a branch. Its commit is in this clone.
    fn know(
        &self,
        git: &Git,
        branch: &str,
        commit: Option<&CommitId>,
    ) -> Result<(), WorkspaceError> {
        let reference = self.reference(branch);
        let known = commit_of(git, &reference)?;
        let call = git.write("update-ref").args(["-m", "harness: the remote"]);
        let call = match commit {
            Some(commit) if known.as_ref() != Some(commit) => {
                Some(call.args([reference.as_str(), commit.as_str()]))
            }
            None if known.is_some() => Some(call.args(["-d", &reference])),
            Some(_) | None => None,
        };
        if let Some(call) = call {
            call.output()?;
        }
        self.seen().tips.insert(branch.to_owned(), commit.cloned());
        Ok(())
    }

    /// Returns the branches that were asked for.
    pub(super) fn branches(&self) -> Vec<String> {
        self.seen().tips.keys().cloned().collect()
    }

    /// Lets the next look ask the server.
    pub(super) fn doubt(&self) {
        self.seen().at = None;
    }

    /// Returns what the server answered to a question that was asked after `time`.
    fn since(&self, branch: &str, time: Instant) -> Option<Option<CommitId>> {
        let seen = self.seen();
        let later = seen.at.is_some_and(|at| at > time);
        later.then(|| seen.tips.get(branch).cloned()).flatten()
    }

    fn recent(&self, branch: &str) -> Option<Option<CommitId>> {
        let seen = self.seen();
        let fresh = seen.at.is_some_and(|at| at.elapsed() < FRESH);
        fresh.then(|| seen.tips.get(branch).cloned()).flatten()
    }
}

impl RemoteRepository {
    /// Returns the commit of a branch of the server, which is then in this clone.
    pub(super) fn tip_of(
        &self,
        branch: &str,
        freshness: Freshness,
    ) -> Result<Option<CommitId>, WorkspaceError> {
        if freshness == Freshness::Recent
            && let Some(tip) = self.tips.recent(branch)
        {
            return Ok(tip);
        }
        match self.ask(branch) {
            Err(why @ WorkspaceError::Unreachable { .. }) if freshness == Freshness::Recent => {
                match commit_of(&self.local.main.git, &self.tips.reference(branch))? {
                    Some(known) => Ok(Some(known)),
                    None => Err(why),
                }
            }
            asked => asked,
        }
    }

    /// Asks the server for a branch, and for those that were asked for before.
    fn ask(&self, branch: &str) -> Result<Option<CommitId>, WorkspaceError> {
        let wanted_at = Instant::now();
        let _turn = self.tips.turn();
        if let Some(tip) = self.tips.since(branch, wanted_at) {
            return Ok(tip);
        }
        let asked_at = Instant::now();
        let mut branches = self.tips.branches();
        for wanted in [branch, LANDED_BRANCH] {
            if !branches.iter().any(|known| known == wanted) {
                branches.push(wanted.to_owned());
            }
        }
        let names: Vec<String> = branches.iter().map(|branch| full(branch)).collect();
        let listed = self.transport.list(&names)?;
        let mut missing = Vec::new();
        for (branch, name) in branches.iter().zip(&names) {
            match listed.get(name) {
                Some(commit) if !self.has(commit)? => missing.push(name.clone()),
                commit => self.tips.know(&self.local.main.git, branch, commit)?,
            }
        }
        for (name, commit) in self.transport.fetch(&missing)? {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(&name);
            self.tips.know(&self.local.main.git, branch, Some(&commit))?;
        }
        let mut seen = self.tips.seen();
        seen.at = Some(asked_at);
        Ok(seen.tips.get(branch).cloned().flatten())
    }

    /// Makes sure that this clone has a commit, which may be one that a worker of another clone
    /// announced.
    pub(super) fn bring(&self, commit: &CommitId) -> Result<(), WorkspaceError> {
        if self.has(commit)? {
            return Ok(());
        }
        self.reach(|| {
            let heads = [full(LANDED_BRANCH)].into_iter();
            let known = self.tips.branches().into_iter().map(|name| full(&name));
            let works = Names::ALL.into_iter().map(Names::works);
            let patterns: Vec<String> = heads.chain(known).chain(works).collect();
            let listed = self.transport.list(&patterns)?;
            let exact = listed.iter().filter(|(_, found)| *found == commit);
            let mut wanted: Vec<String> = exact.map(|(name, _)| name.clone()).collect();
            if wanted.is_empty() {
                wanted = listed.into_keys().collect();
            }
            self.transport.fetch(&wanted).map(drop)
        })?;
        match self.has(commit)? {
            true => Ok(()),
            false => Err(WorkspaceError::NoSuchCommit { commit: commit.clone() }),
        }
    }

    /// Returns a commit that a ref of the server names, which is then in this clone.
    pub(super) fn fetch_one(&self, reference: &str) -> Result<Option<CommitId>, WorkspaceError> {
        let names = [reference.to_owned()];
        let listed = self.transport.list(&names)?;
        if !listed.contains_key(reference) {
            return Ok(None);
        }
        let fetched = self.transport.fetch(&names)?.remove(reference);
        fetched.map(Some).ok_or_else(|| failed("fetch", b"the ref is not there"))
    }
}
