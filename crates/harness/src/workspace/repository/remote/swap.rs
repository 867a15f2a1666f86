//! The move of the target on the server: one atomic push that also takes the token.

use std::thread;

use harness_core::{CommitId, TaskId};

use super::{
    FIRST_PAUSE, RemoteRepository,
    names::Names,
    push::{Pushed, Update},
    tips::Freshness,
    transport::Listed,
};
use crate::workspace::{
    WorkspaceError,
    repository::branch::{ahead, full, is_below, refuse_name},
    shared::{LANDED_BRANCH, Landed, Swap, TakenIn, Token},
};

/// The number of pushes that another one may overtake although nothing is seen of it afterwards.
const OVERTAKEN_MAX: u32 = 5;

impl RemoteRepository {
    pub(super) fn put_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        self.push_ours(|names| vec![Update::set(&self.token(names, task), to)])
    }

    /// Pushes refs of harness. A server that refuses them below `refs/harness/` gets branches.
    pub(super) fn push_ours(
        &self,
        updates: impl Fn(Names) -> Vec<Update>,
    ) -> Result<(), WorkspaceError> {
        let mut overtaken = 0;
        loop {
            let names = self.names();
            match self.reach(|| self.transport.push(&updates(names)))? {
                Pushed::Done => return Ok(()),
                Pushed::Overtaken if overtaken < OVERTAKEN_MAX => {
                    overtaken += 1;
                    thread::sleep(FIRST_PAUSE);
                }
                Pushed::Refused { why } if names == Names::Hidden => self.use_branches(&why),
                Pushed::Refused { why } => return Err(self.refused(&why)),
                Pushed::Overtaken => return Err(self.refused("other pushes are always faster")),
            }
        }
    }

    fn refused(&self, why: &str) -> WorkspaceError {
        WorkspaceError::Unsafe {
            what: format!("{} refuses what workers need: {why}", self.name()),
            hint: "allow pushes to refs/harness/* there, or to branches harness/*".to_owned(),
        }
    }

    /// Returns the names that the token of a task may have, and the target.
    fn look(&self, task: &TaskId, target: &str) -> Result<Listed, WorkspaceError> {
        let names: Vec<String> = self.tokens(task).into_iter().chain([full(target)]).collect();
        self.transport.list(&names)
    }

    pub(super) fn take_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        let names = self.tokens(task);
        let (mut tried, mut retries) = (false, self.retries());
        loop {
            let listed = match self.transport.list(&names) {
                Err(why @ WorkspaceError::Unreachable { .. }) => {
                    retries.wait(why)?;
                    continue;
                }
                listed => listed?,
            };
            let Some((token, _)) = listed.iter().find(|(_, commit)| *commit == to) else {
                // The answer to the push was lost. A landing may have taken the token instead.
                let landed = tried && self.is_on_a_branch(to)?;
                return Ok(if tried && !landed { Token::Voided } else { Token::Missing });
            };
            match self.transport.push(&[Update::delete(token, to)]) {
                Ok(Pushed::Done) => return Ok(Token::Voided),
                Ok(Pushed::Overtaken) => {}
                Ok(Pushed::Refused { why }) => return Err(self.refused(&why)),
                Err(why @ WorkspaceError::Unreachable { .. }) => {
                    tried = true;
                    retries.wait(why)?;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Returns whether a branch of the server on which results land has a commit.
    fn is_on_a_branch(&self, commit: &CommitId) -> Result<bool, WorkspaceError> {
        for branch in self.tips.branches() {
            if self.branch_contains(&branch, commit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn branch_contains(
        &self,
        branch: &str,
        commit: &CommitId,
    ) -> Result<bool, WorkspaceError> {
        match self.reach(|| self.tip_of(branch, Freshness::Now))? {
            Some(tip) => is_below(&self.local.main.git, commit, &tip),
            None => Ok(false),
        }
    }

    pub(super) fn land_on_remote(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        let target = full(&swap.target);
        if self.has_large_files(&swap.to)? {
            self.reach(|| self.transport.push_large_files(&swap.to))?;
        }
        let (mut tried, mut overtaken, mut retries) = (false, 0, self.retries());
        loop {
            let listed = match self.look(&swap.task, &swap.target) {
                Err(why @ WorkspaceError::Unreachable { .. }) => {
                    retries.wait(why)?;
                    continue;
                }
                listed => listed?,
            };
            let tokens = self.tokens(&swap.task);
            let token = tokens.iter().find(|token| listed.get(*token) == Some(&swap.to));
            let Some(token) = token else {
                // After a push whose answer was lost, the branch shows what happened.
                return match tried && self.branch_contains(&swap.target, &swap.to)? {
                    true => self.landed(swap),
                    false => Ok(Landed::Fenced),
                };
            };
            if listed.get(&target) != Some(&swap.from) {
                self.tips.doubt();
                return Ok(Landed::TargetMoved);
            }
            let advance = Update::advance(&target, &swap.from, &swap.to);
            match self.transport.push(&[advance, Update::delete(token, &swap.to)]) {
                Ok(Pushed::Done) => return self.landed(swap),
                // The next look shows by what. Otherwise the server was only busy.
                Ok(Pushed::Overtaken) if overtaken < OVERTAKEN_MAX => {
                    overtaken += 1;
                    thread::sleep(FIRST_PAUSE);
                }
                Ok(Pushed::Overtaken) => return Ok(Landed::TargetMoved),
                Ok(Pushed::Refused { why }) => {
                    let (name, target) = (self.name(), &swap.target);
                    let why = format!("{name} refuses a push to {target}: {why}");
                    return Ok(Landed::TreeInUse { why });
                }
                Err(why @ WorkspaceError::Unreachable { .. }) => {
                    tried = true;
                    retries.wait(why)?;
                }
                Err(why) => return Err(why),
            }
        }
    }

    fn landed(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        self.tips.moved(&self.local.main.git, &swap.target, Some(&swap.to))?;
        self.local.remember_landed(swap);
        Ok(Landed::Done)
    }

    /// Returns the branch on which results land. It is created on the server if it is missing there.
    pub(super) fn find_remote_target(
        &self,
        wanted: Option<&str>,
    ) -> Result<String, WorkspaceError> {
        let main = &self.local.main;
        let branch = wanted.map(str::to_owned).or_else(|| main.branch());
        let branch = branch.unwrap_or_else(|| LANDED_BRANCH.to_owned());
        if branch != LANDED_BRANCH {
            refuse_name(&main.git, &branch)?;
        }
        // A server that is away now may be there for the first claim.
        if self.reach_soon(|| self.tip_of(&branch, Freshness::Recent))?.is_none() {
            let head = crate::workspace::rescue::resolve(&main.git, "HEAD")?;
            self.create_remote_branch(&branch, &head.ok_or(WorkspaceError::NoCommits)?)?;
        }
        Ok(branch)
    }

    /// Creates a branch of the server, unless it exists. Returns its commit.
    fn create_remote_branch(
        &self,
        branch: &str,
        start: &CommitId,
    ) -> Result<CommitId, WorkspaceError> {
        let create = [Update::create(&full(branch), start)];
        if let Pushed::Refused { why } = self.reach(|| self.transport.push(&create))? {
            return Err(WorkspaceError::Unsafe {
                what: format!("{} refuses a new branch {branch}: {why}", self.name()),
                hint: "create it there, or allow this push".to_owned(),
            });
        }
        // Another worker may have created it.
        let tip = self.reach(|| self.tip_of(branch, Freshness::Now))?;
        tip.ok_or_else(|| WorkspaceError::Unsafe {
            what: format!("the branch {branch} of {} was just removed", self.name()),
            hint: "start again".to_owned(),
        })
    }

    pub(super) fn divert_on_remote(&self, target: &str) -> Result<CommitId, WorkspaceError> {
        if let Some(tip) = self.reach(|| self.tip_of(LANDED_BRANCH, Freshness::Now))? {
            return Ok(tip);
        }
        let start = self.reach(|| self.tip_of(target, Freshness::Now))?;
        self.create_remote_branch(LANDED_BRANCH, &start.ok_or(WorkspaceError::NoCommits)?)
    }

    pub(super) fn take_in_on_remote(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        let git = &self.local.main.git;
        let Some(from) = self.reach(|| self.tip_of(LANDED_BRANCH, Freshness::Now))? else {
            return Ok(TakenIn::Nothing);
        };
        let Some(tip) = self.reach(|| self.tip_of(target, Freshness::Now))? else {
            let why = format!("the branch {target} is gone");
            let line = git.read("rev-list").args(["--count", from.as_str()]).line()?;
            return Ok(TakenIn::Kept { why, ahead: line.parse().unwrap_or(u32::MAX) });
        };
        let kept = |why: String| -> Result<TakenIn, WorkspaceError> {
            Ok(TakenIn::Kept { why, ahead: ahead(git, tip.as_str(), from.as_str())? })
        };
        if target == LANDED_BRANCH {
            return kept("HEAD was on no branch".to_owned());
        }
        let remove = Update::delete(&full(LANDED_BRANCH), &from);
        let updates = if is_below(git, &from, &tip)? {
            vec![remove]
        } else if is_below(git, &tip, &from)? {
            vec![Update::advance(&full(target), &tip, &from), remove]
        } else {
            return kept(format!("{target} has commits that {LANDED_BRANCH} does not have"));
        };
        match self.reach(|| self.transport.push(&updates))? {
            Pushed::Done => {
                self.tips.moved(git, LANDED_BRANCH, None)?;
                let newest = if updates.len() > 1 { &from } else { &tip };
                self.tips.moved(git, target, Some(newest))?;
                Ok(TakenIn::Done)
            }
            Pushed::Overtaken => {
                self.tips.doubt();
                kept(format!("{target} was just changed"))
            }
            Pushed::Refused { why } => {
                kept(format!("{} refuses a push to {target}: {why}", self.name()))
            }
        }
    }

    /// Returns whether the files of a commit name large files of `git lfs`.
    fn has_large_files(&self, commit: &CommitId) -> Result<bool, WorkspaceError> {
        let call = self.local.main.git.read("grep").env("GIT_LITERAL_PATHSPECS", "0");
        let call = call.args(["--quiet", "-F", "-e", "filter=lfs", commit.as_str(), "--"]);
        call.arg(":(top,glob)**/.gitattributes").answer()
    }
}
