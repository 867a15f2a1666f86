//! The move of the branch on which results land: one ref transaction that also takes the token, and
//! the main tree together with it.

use std::{fs, path::Path, sync::PoisonError};

use harness_core::{CommitId, TaskId};

use super::{
    GitRepository,
    branch::{ahead, commit_of, full, is_below},
    entry::{TreeEntry, head_ref},
    main_tree::{HeldTree, Obstacle, Standing},
    submodule,
    tree_move::{self, Landing, TreeMove},
};
use crate::workspace::{
    WorkspaceError,
    git::{Git, Ran, failed},
    rescue::resolve,
    shared::{LANDED_BRANCH, Landed, Swap, TakenIn, Token, land_token},
};

/// The number of landings that are remembered.
const LANDED: usize = 16;

/// The tree that has a branch checked out.
enum Holder {
    Nobody,
    Main,
    Other(Obstacle),
}

/// Changes of refs that happen together or not at all.
#[derive(Default)]
pub(super) struct RefChanges(Vec<u8>);

impl RefChanges {
    pub(super) fn update(mut self, reference: &str, from: &CommitId, to: &CommitId) -> Self {
        // NUL separates the parts, so a name cannot be read as another instruction.
        self.0.extend(format!("update {reference}\0{to}\0{from}\0").into_bytes());
        self
    }

    pub(super) fn delete(mut self, reference: &str, from: &CommitId) -> Self {
        self.0.extend(format!("delete {reference}\0{from}\0").into_bytes());
        self
    }

    pub(super) fn run(self, git: &Git, reason: &str) -> Result<Ran, WorkspaceError> {
        let call = git.write("update-ref").args(["-m", reason, "-z", "--stdin"]);
        call.input(self.0).run()
    }
}

/// The result of moving a branch together with the main tree.
enum Move {
    Done,
    /// The refs are not as they were expected to be.
    Refused(Ran),
    Moved,
    InTheWay(Obstacle),
}

impl GitRepository {
    pub(super) fn put_token(&self, task: &TaskId, to: &CommitId) -> Result<(), WorkspaceError> {
        let call = self.main.git.write("update-ref").args(["-m", "harness: may land"]);
        call.args([land_token(task).as_str(), to.as_str()]).output().map(drop)
    }

    pub(super) fn take_token(&self, task: &TaskId, to: &CommitId) -> Result<Token, WorkspaceError> {
        let (git, token) = (&self.main.git, land_token(task));
        let call = git.write("update-ref").args(["-m", "harness: must not land", "-d"]);
        let ran = call.args([token.as_str(), to.as_str()]).run()?;
        if ran.code == Some(0) {
            return Ok(Token::Voided);
        }
        match resolve(git, &token)?.as_ref() == Some(to) {
            true => Err(failed("update-ref", &ran.stderr)),
            false => Ok(Token::Missing),
        }
    }

    pub(super) fn land_swap(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        let git = &self.main.git;
        let (token, target) = (land_token(&swap.task), full(&swap.target));
        if commit_of(git, &token)?.as_ref() != Some(&swap.to) {
            return Ok(Landed::Fenced);
        }
        let refs = RefChanges::default().update(&target, &swap.from, &swap.to);
        let refs = refs.delete(&token, &swap.to);
        let reason = format!("harness: land {}", swap.task);
        match self.advance(&swap.target, &swap.from, &swap.to, refs, &reason)? {
            Move::Done => {
                self.remember_landed(swap);
                Ok(Landed::Done)
            }
            Move::Moved => Ok(Landed::TargetMoved),
            Move::InTheWay(why) => Ok(Landed::TreeInUse { why }),
            Move::Refused(_) if resolve(git, &token)?.as_ref() != Some(&swap.to) => {
                Ok(Landed::Fenced)
            }
            Move::Refused(_) if resolve(git, &target)?.as_ref() != Some(&swap.from) => {
                Ok(Landed::TargetMoved)
            }
            Move::Refused(ran) => Err(failed("update-ref", &ran.stderr)),
        }
    }

    /// Returns whether this process moved the branch to the commit.
    pub(super) fn has_landed(&self, branch: &str, commit: &CommitId) -> bool {
        let landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.iter().any(|(to, known)| to == branch && known == commit)
    }

    pub(super) fn remember_landed(&self, swap: &Swap) {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.truncate(LANDED - 1);
        landed.push_front((swap.target.clone(), swap.to.clone()));
    }

    /// Moves the branch of the main tree forward, and that tree with it, if the tree is clean. Returns
    /// whether it moved.
    pub(super) fn fast_forward(
        &self,
        branch: &str,
        from: &CommitId,
        to: &CommitId,
    ) -> Result<bool, WorkspaceError> {
        let refs = RefChanges::default().update(&full(branch), from, to);
        let moved = self.advance(branch, from, to, refs, "harness: take in results")?;
        Ok(matches!(moved, Move::Done))
    }

    /// Moves a branch by a transaction, and the main tree with it if that has the branch.
    fn advance(
        &self,
        branch: &str,
        from: &CommitId,
        to: &CommitId,
        refs: RefChanges,
        reason: &str,
    ) -> Result<Move, WorkspaceError> {
        match self.holder(branch)? {
            Holder::Other(why) => return Ok(Move::InTheWay(why)),
            Holder::Nobody => {
                let ran = refs.run(&self.main.git, reason)?;
                return Ok(if ran.code == Some(0) { Move::Done } else { Move::Refused(ran) });
            }
            Holder::Main => {}
        }
        let git = self.main.git()?;
        let (reference, own) = (full(branch), &self.main.own);
        let planned = TreeMove { reference, from: from.clone(), to: to.clone() };
        let held = match HeldTree::take(&git, own, &planned)? {
            Ok(held) => held,
            Err(why) => return Ok(Move::InTheWay(why)),
        };
        // The user may have switched branches before the index was locked.
        if !matches!(self.holder(branch)?, Holder::Main) {
            return Ok(Move::InTheWay(format!("{branch} was just switched to or from")));
        }
        match held.obstacle(own, from)? {
            Some(Standing::Moved) => return Ok(Move::Moved),
            Some(Standing::InTheWay(why)) => return Ok(Move::InTheWay(why)),
            None => {}
        }
        let changes = self.changes(from, to)?;
        if let Some(why) = held.in_the_way(&changes)? {
            return Ok(Move::InTheWay(why));
        }
        super::tree::refuse_filtered(&git, to)?;
        if let Err(why) = held.walk(from, to)? {
            held.take_back(from, &changes)?;
            return Ok(Move::InTheWay(why));
        }
        let ran = refs.run(&git, reason)?;
        if ran.code != Some(0) {
            match held.walk(to, from)? {
                Ok(()) => held.install()?,
                Err(_) => held.take_back(from, &changes)?,
            }
            return Ok(Move::Refused(ran));
        }
        held.install()?;
        submodule::follow(&git, from, to);
        Ok(Move::Done)
    }

    /// Returns the tree that has a branch checked out, or is in the middle of changing it.
    fn holder(&self, branch: &str) -> Result<Holder, WorkspaceError> {
        let (git, reference) = (&self.main.git, full(branch));
        let common = git.common_dir();
        let mut git_dirs = vec![common.clone()];
        git_dirs.extend(TreeEntry::all(git)?.into_iter().map(|entry| entry.git_dir));
        for git_dir in git_dirs.iter().filter(|git_dir| **git_dir != git.git_dir) {
            // A bare repository has a HEAD, but no tree that could hold the branch.
            let bare = *git_dir == common && self.is_bare();
            if !bare && uses(git_dir, &reference) {
                let entry = TreeEntry { git_dir: git_dir.clone() };
                let place = entry.tree().unwrap_or_else(|| git_dir.clone());
                let why = format!("{branch} is checked out in {}", place.display());
                return Ok(Holder::Other(why));
            }
        }
        if head_ref(&git.git_dir).as_deref() == Some(&reference) {
            return Ok(Holder::Main);
        }
        match uses(&git.git_dir, &reference) {
            true => Ok(Holder::Other(format!("a rebase or bisect of {branch} is in progress"))),
            false => Ok(Holder::Nobody),
        }
    }

    fn is_bare(&self) -> bool {
        let call = self.main.git.read("config").args(["--type=bool", "--get", "core.bare"]);
        call.line().is_ok_and(|value| value == "true")
    }

    pub(super) fn finish_swap(&self, swap: &Swap) -> Result<(), WorkspaceError> {
        let (git, own) = (self.main.git()?, &self.main.own);
        if tree_move::wait_for_lock(&git, own)? == Landing::Other {
            // That landing, or the next process that finds its lock, brings the tree to an end.
            return Ok(());
        }
        let (reference, from, to) = (full(&swap.target), swap.from.clone(), swap.to.clone());
        tree_move::finish(&git, own, &TreeMove { reference, from, to }, None)
    }

    pub(super) fn take_results(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        let git = &self.main.git;
        let landed = full(LANDED_BRANCH);
        let Some(from) = resolve(git, &landed)? else { return Ok(TakenIn::Nothing) };
        let start = if target == LANDED_BRANCH { "HEAD".to_owned() } else { full(target) };
        let Some(tip) = resolve(git, &start)? else {
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
        if let Holder::Main | Holder::Other(_) = self.holder(LANDED_BRANCH)? {
            return kept(format!("{LANDED_BRANCH} is checked out"));
        }
        let remove = RefChanges::default().delete(&landed, &from);
        let reason = format!("harness: take in {LANDED_BRANCH}");
        if is_below(git, &from, &tip)? {
            let ran = remove.run(git, &reason)?;
            return match ran.code {
                Some(0) => Ok(TakenIn::Done),
                Some(_) | None => Err(failed("update-ref", &ran.stderr)),
            };
        }
        if !is_below(git, &tip, &from)? {
            return kept(format!("{target} has commits that {LANDED_BRANCH} does not have"));
        }
        let refs = remove.update(&start, &tip, &from);
        match self.advance(target, &tip, &from, refs, &reason)? {
            Move::Done => Ok(TakenIn::Done),
            Move::Moved | Move::Refused(_) => kept(format!("{target} was just changed")),
            Move::InTheWay(why) => kept(why),
        }
    }
}

/// Returns whether a git directory has a branch checked out, or rebases or bisects it.
fn uses(git_dir: &Path, reference: &str) -> bool {
    let names = |file: &str, expected: &str| {
        fs::read_to_string(git_dir.join(file)).is_ok_and(|text| text.trim_end() == expected)
    };
    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
    head_ref(git_dir).as_deref() == Some(reference)
        || names("rebase-merge/head-name", reference)
        || names("rebase-apply/head-name", reference)
        || names("BISECT_START", branch)
}
