//! What landed, as an observer of the branches sees it.

use std::collections::BTreeMap;

use harness::workspace::shared::LANDED_BRANCH;
use harness_core::{CommitId, Epoch, TaskId};

use super::{deed::is_done, floor::State};
use crate::git::SimCommit;

/// The branch on which results land.
pub(super) const TARGET: &str = "main";

#[derive(Debug, Default)]
pub(super) struct Landings {
    /// The tips of the two branches at the last look.
    tips: BTreeMap<&'static str, CommitId>,
    /// The attempts whose work landed, each with its last commit.
    pub(super) landed: BTreeMap<TaskId, (Epoch, CommitId)>,
    /// The commits whose tokens were voided.
    pub(super) voided: std::collections::BTreeSet<CommitId>,
    /// The commits that are known, of the user and of ours.
    known: std::collections::BTreeSet<CommitId>,
}

impl State {
    /// Accepts what the user did with the branches.
    pub(super) fn know_refs(&mut self) {
        for branch in [TARGET, LANDED_BRANCH] {
            match self.git.tip(branch) {
                Some(tip) => {
                    let history = self.git.model().history(&tip);
                    self.landings.known.extend(history);
                    self.landings.tips.insert(branch, tip);
                }
                None => drop(self.landings.tips.remove(branch)),
            }
        }
    }

    /// Judges the moves of the two branches since the last look. The user made none of them.
    pub(super) fn follow_refs(&mut self) {
        for branch in [LANDED_BRANCH, TARGET] {
            let (was, is) = (self.landings.tips.get(branch).cloned(), self.git.tip(branch));
            let Some(is) = is else { continue };
            if was.as_ref() == Some(&is) {
                continue;
            }
            if let Err((checker, what)) = self.judge_move(was.as_ref(), &is) {
                self.broken(checker, format!("{branch}: {what}"));
            }
        }
        self.know_refs();
    }

    fn judge_move(
        &mut self,
        was: Option<&CommitId>,
        is: &CommitId,
    ) -> Result<(), (&'static str, String)> {
        let forward = "the_target_moves_forward";
        let Some(was) = was else {
            // The branch is new. It starts at a commit that was there.
            let known = self.landings.known.contains(is);
            return if known { Ok(()) } else { Err((forward, format!("{is} is new"))) };
        };
        let history = self.git.model().history(is);
        if !history.contains(was) {
            return Err((forward, format!("{is} does not descend from {was}")));
        }
        let mut commits = self.git.commits_between(was, is);
        commits.retain(|(id, _)| !self.landings.known.contains(id));
        commits.reverse();
        let mut last: Option<(TaskId, Epoch, CommitId)> = None;
        for (id, commit) in commits {
            if commit.parents.len() != 1 {
                return Err((forward, format!("{id} has {} parents", commit.parents.len())));
            }
            let Some((task, epoch)) = attempt_of(&commit) else {
                return Err((forward, format!("{id} names no task: {:?}", commit.message)));
            };
            if let Some(ended) = last.filter(|(of, ..)| *of != task) {
                self.lands(ended)?;
            }
            last = Some((task, epoch, id));
        }
        last.map_or(Ok(()), |ended| self.lands(ended))
    }

    fn lands(
        &mut self,
        (task, epoch, to): (TaskId, Epoch, CommitId),
    ) -> Result<(), (&'static str, String)> {
        self.story.tell(|| format!("      {task}.{epoch} has landed as {to}"));
        self.tally.landings += 1;
        if let Some((earlier, at)) = self.landings.landed.get(&task) {
            let what = format!("{task}.{epoch} as {to}, after {task}.{earlier} as {at}");
            return Err(("nothing_lands_twice", what));
        }
        self.landings.landed.insert(task.clone(), (epoch, to.clone()));
        if self.landings.voided.contains(&to) {
            let what = format!("{task}.{epoch} as {to}, whose token was voided");
            return Err(("nothing_lands_after_its_recovery", what));
        }
        let unvalidated = "nothing_lands_unvalidated";
        let files = self.git.committed(&to);
        if !is_done(&files, &task) {
            return Err((unvalidated, format!("{to} does not have what {task} asks for")));
        }
        if !self.passed.iter().any(|(of, tree)| *of == task && *tree == files) {
            return Err((unvalidated, format!("the check of {task} never passed on {to}")));
        }
        let receipt = |commit: &Option<CommitId>| commit.as_ref() == Some(&to);
        let proven = self
            .receipts
            .iter()
            .any(|kept| kept.task == task && kept.epoch == epoch && receipt(&kept.commit));
        if !proven {
            return Err((unvalidated, format!("no receipt of {task}.{epoch} names {to}")));
        }
        Ok(())
    }
}

/// Returns the attempt that the trailer of a commit names.
fn attempt_of(commit: &SimCommit) -> Option<(TaskId, Epoch)> {
    let trailer =
        commit.message.lines().rev().find_map(|line| line.strip_prefix("Harness-Task: "))?;
    let (task, epoch) = trailer.rsplit_once('.')?;
    Some((TaskId::parse(task).ok()?, Epoch(epoch.parse().ok()?)))
}
