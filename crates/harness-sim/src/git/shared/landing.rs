//! The simulated swap, and the tree of the user that moves with it.

use std::collections::BTreeSet;

use harness::workspace::{
    WorkspaceError,
    shared::{LANDED_BRANCH, Landed, Swap, TakenIn, land_token},
};

use super::SimRepository;
use crate::git::{Files, Head, Model};

/// A move of the user's tree from one set of files to another.
struct Move {
    from: Files,
    to: Files,
    paths: Vec<String>,
}

impl SimRepository {
    pub(super) fn swap(&self, swap: &Swap) -> Result<Landed, WorkspaceError> {
        if let Some(refused) = refusal(&self.main.model(), swap) {
            return Ok(refused);
        }
        let moved = match self.enter(swap)? {
            Ok(moved) => moved,
            Err(why) => return Ok(Landed::TreeInUse { why }),
        };
        let refused = self.main.op("land ref", |model| {
            let refused = refusal(model, swap);
            if refused.is_none() {
                model.branches.insert(swap.target.clone(), swap.to.clone());
                model.tokens.remove(&land_token(&swap.task));
            }
            refused
        })?;
        if let Some(moved) = moved {
            self.settle(&moved)?;
        }
        Ok(refused.unwrap_or(Landed::Done))
    }

    /// Moves the user's tree, if the target is checked out there. Returns the reason if a tree is in
    /// the way.
    fn enter(&self, swap: &Swap) -> Result<Result<Option<Move>, String>, WorkspaceError> {
        if !self.take_back()? {
            return Ok(Err("another result is landing".to_owned()));
        }
        let moved = {
            let model = self.main.model();
            if let Some(place) = model.holder_of(&swap.target) {
                return Ok(Err(format!("{} has {} checked out", place.display(), swap.target)));
            }
            if model.branch().as_ref() != Some(&swap.target) {
                return Ok(Ok(None));
            }
            let moved = moved(&model, swap);
            if let Some(why) = in_the_way(&model, &self.main, &moved) {
                return Ok(Err(why));
            }
            moved
        };
        let pending = Some((self.process.number, swap.clone()));
        self.main.op("lock main", |model| model.others.pending = pending)?;
        for path in &moved.paths {
            let (from, to) = (moved.from.get(path), moved.to.get(path));
            let written = self.main.op("land file", |model| {
                let untouched = model.work.get(path) == from;
                if untouched {
                    set(&mut model.work, path, to);
                }
                untouched
            })?;
            if !written {
                self.settle(&moved)?;
                return Ok(Err(format!("{path} was changed meanwhile")));
            }
        }
        self.main.op("land index", |model| {
            for path in &moved.paths {
                if model.index.get(path) == moved.from.get(path) {
                    set(&mut model.index, path, moved.to.get(path));
                }
            }
        })?;
        Ok(Ok(Some(moved)))
    }

    /// Ends a move of this process.
    fn settle(&self, moved: &Move) -> Result<(), WorkspaceError> {
        self.agree(moved)?;
        let number = self.process.number;
        self.main.op("unlock main", |model| {
            model.others.pending.take_if(|(owner, _)| *owner == number);
        })
    }

    /// Ends the move of a process that is gone. Returns `false` if that is alive, or if another process
    /// is faster.
    fn take_back(&self) -> Result<bool, WorkspaceError> {
        let (pending, ended) = {
            let others = &self.main.model().others;
            (others.pending.clone(), others.ended.clone())
        };
        let Some((owner, swap)) = pending else { return Ok(true) };
        if owner != self.process.number && !ended.contains(&owner) {
            return Ok(false);
        }
        let number = self.process.number;
        // From here on others wait for this process.
        let owned = self.main.op("own move", |model| match &mut model.others.pending {
            Some((of, _)) if *of == owner => {
                *of = number;
                true
            }
            _ => false,
        })?;
        if owned {
            let moved = moved(&self.main.model(), &swap);
            self.settle(&moved)?;
        }
        Ok(owned)
    }

    /// Brings the files of a move to what HEAD names now, and leaves what others changed.
    fn agree(&self, moved: &Move) -> Result<(), WorkspaceError> {
        let ours = |path: &String, now: Option<&Vec<u8>>| {
            now == moved.from.get(path) || now == moved.to.get(path)
        };
        for path in &moved.paths {
            let (now, head) = {
                let model = self.main.model();
                (model.work.get(path).cloned(), model.head_files().get(path).cloned())
            };
            if now != head && ours(path, now.as_ref()) {
                self.main.op("agree file", |model| set(&mut model.work, path, head.as_ref()))?;
            }
        }
        let differs = {
            let model = self.main.model();
            let head = model.head_files();
            moved.paths.iter().any(|path| model.index.get(path) != head.get(path))
        };
        if !differs {
            return Ok(());
        }
        self.main.op("agree index", |model| {
            let head = model.head_files();
            for path in &moved.paths {
                if ours(path, model.index.get(path)) {
                    set(&mut model.index, path, head.get(path));
                }
            }
        })
    }

    /// Ends a move that a process left which is gone.
    pub(super) fn end_stale_move(&self) -> Result<(), WorkspaceError> {
        self.take_back().map(drop)
    }

    pub(super) fn finish(&self, swap: &Swap) -> Result<(), WorkspaceError> {
        if !self.take_back()? {
            // The process that moves the tree brings it to an end.
            return Ok(());
        }
        let cut_short = {
            let model = self.main.model();
            let tip = model.branches.get(&swap.target).cloned();
            let on_it = model.branch().as_ref() == Some(&swap.target);
            let at_an_end = [Some(&swap.from), Some(&swap.to)].contains(&tip.as_ref());
            let all = moved(&model, swap);
            (on_it && at_an_end && is_between(&model, &self.main, &all)).then_some(all)
        };
        cut_short.map_or(Ok(()), |moved| self.agree(&moved))
    }

    pub(super) fn bring_in(&self, target: &str) -> Result<TakenIn, WorkspaceError> {
        let Some(landed) = self.main.tip(LANDED_BRANCH) else { return Ok(TakenIn::Nothing) };
        if target == LANDED_BRANCH {
            return Ok(TakenIn::Done);
        }
        let (tip, ahead, forward) = {
            let model = self.main.model();
            let results = model.history(&landed);
            let tip = model.branches.get(target).cloned();
            let known = tip.as_ref().map(|tip| model.history(tip)).unwrap_or_default();
            let forward = tip.as_ref().is_some_and(|tip| results.contains(tip));
            (tip, results.difference(&known).count(), forward)
        };
        let kept = |why: String| {
            Ok(TakenIn::Kept { why, ahead: u32::try_from(ahead).unwrap_or(u32::MAX) })
        };
        let Some(from) = tip else { return kept(format!("there is no branch {target}")) };
        if self.main.current_branch().as_deref() == Some(LANDED_BRANCH)
            || self.main.model().holder_of(LANDED_BRANCH).is_some()
        {
            return kept(format!("{LANDED_BRANCH} is checked out"));
        }
        if ahead > 0 && !forward {
            return kept(format!("{target} has commits that {LANDED_BRANCH} has not"));
        }
        let to = if ahead > 0 { landed.clone() } else { from.clone() };
        let task = harness_core::TaskId::numbered(0);
        let swap = Swap { task, target: target.to_owned(), from: from.clone(), to: to.clone() };
        self.finish(&swap)?;
        let moved = match self.enter(&swap)? {
            Ok(moved) => moved,
            Err(why) => return kept(why),
        };
        let done = self.main.op("take in ref", |model| {
            let stays = model.branches.get(target) == Some(&from)
                && model.branches.get(LANDED_BRANCH) == Some(&landed);
            if stays {
                model.branches.insert(target.to_owned(), to);
                model.branches.remove(LANDED_BRANCH);
            }
            stays
        })?;
        if let Some(moved) = moved {
            self.settle(&moved)?;
        }
        if done { Ok(TakenIn::Done) } else { kept(format!("{target} was moved meanwhile")) }
    }
}

fn refusal(model: &Model, swap: &Swap) -> Option<Landed> {
    if model.tokens.get(&land_token(&swap.task)) != Some(&swap.to) {
        return Some(Landed::Fenced);
    }
    (model.branches.get(&swap.target) != Some(&swap.from)).then_some(Landed::TargetMoved)
}

fn moved(model: &Model, swap: &Swap) -> Move {
    let (from, to) = (model.files_of(&swap.from), model.files_of(&swap.to));
    let paths: BTreeSet<_> = from.keys().chain(to.keys()).collect();
    let paths = paths.into_iter().filter(|path| from.get(*path) != to.get(*path));
    let paths = paths.cloned().collect();
    Move { from, to, paths }
}

/// Returns why the tree of the user must not be touched.
fn in_the_way(model: &Model, git: &crate::git::SimGit, moved: &Move) -> Option<String> {
    if let Some(path) = model.changed(&git.own).first() {
        return Some(format!("{path} is changed in the main tree"));
    }
    let own = |path: &&String| git.own.own(path.as_bytes());
    let untracked =
        |path: &&String| !model.index.contains_key(*path) && model.work.contains_key(*path);
    if let Some(path) = moved.paths.iter().find(untracked) {
        return Some(format!("the untracked file {path} is in the way"));
    }
    let path = moved.paths.iter().find(own)?;
    Some(format!("{path} belongs to harness"))
}

/// Returns whether every file of the tree and of the index is at one of the two ends.
fn is_between(model: &Model, git: &crate::git::SimGit, moved: &Move) -> bool {
    let either = |path: &String, now: Option<&Vec<u8>>| {
        now == moved.from.get(path) || now == moved.to.get(path)
    };
    let paths: BTreeSet<_> =
        moved.from.keys().chain(moved.to.keys()).chain(model.index.keys()).collect();
    paths
        .into_iter()
        .filter(|path| !git.own.own(path.as_bytes()))
        .all(|path| either(path, model.work.get(path)) && either(path, model.index.get(path)))
        && matches!(model.head, Head::Branch(_))
}

fn set(files: &mut Files, path: &str, bytes: Option<&Vec<u8>>) {
    match bytes {
        Some(bytes) => drop(files.insert(path.to_owned(), bytes.clone())),
        None => drop(files.remove(path)),
    }
}
