//! The invariants that hold whatever an agent reports, writes and kills.

use harness_core::{Flag, RunId, Task, task::Status};

use super::tree::FLAGGED;
use crate::{
    checkers::Violation,
    git::Files,
    run::{
        checkers::{Verdict, ends},
        shell::{asked_for, is_done},
        stage::{Seen, Snapshot, State},
    },
};

/// The limit of starts of a context.
const STARTS_MAX: u32 = 3;
const BRANCH: &str = "main";

/// The task's own check passed on exactly the committed tree.
pub(in crate::run) fn completed_means_judged(
    state: &State,
    b: &Task,
    a: &Task,
    seen: Option<&Seen>,
) -> Verdict {
    if a.status() != Status::Completed || b.status() == Status::Completed {
        return Ok(());
    }
    let seen = seen.ok_or("completed without a claim")?;
    let of = (a.id.clone(), a.epoch.unwrap_or_default());
    let receipt = state.lies.receipts.get(&of).ok_or("completed without a receipt")?;
    let given = state.lies.given.get(&a.id).ok_or("nobody gave it")?;
    let check = receipt.check.as_ref().map(|check| &check.command);
    if check != given.check.as_ref() || a.validation.command != given.check {
        return Err(format!("judged by {check:?}, and it was given {:?}", given.check));
    }
    let commit = receipt.commit.as_ref().ok_or("completed without a commit")?;
    let committed = state.git.committed(commit);
    // Work that no commit can hold is reported, so that a person looks at it. A file that no commit
    // held at the claim belongs to the user, and a check in the work tree sees it.
    let (work, _) = asked_for(&a.id);
    let [hidden, unstable] =
        [Flag::HiddenWork, Flag::Unstable].map(|flag| receipt.flags.contains(&flag));
    let hidden = hidden || is_users(seen, &work);
    if !is_done(&committed, &a.id) && !hidden && !unstable {
        return Err(format!("the commit {commit} does not have what was asked for"));
    }
    let same = |tree: &Files| of_project(seen, tree).eq(of_project(seen, &committed));
    // A tree that keeps changing is judged twice, and the tree before the second check is kept.
    let restless = if unstable { &seen.unsteady[..] } else { &[] };
    if !seen.passed.iter().chain(restless).any(same) {
        return Err(format!("no check passed on the tree of {commit} since the claim"));
    }
    let model = state.git.model();
    let tip = model.branches.get(BRANCH).ok_or("the branch is gone")?;
    if !model.history(tip).contains(commit) {
        return Err(format!("{commit} is not on the branch"));
    }
    Ok(())
}

/// Returns the files, except those that the user had outside of all commits at the claim.
fn of_project<'a>(
    seen: &'a Seen,
    files: &'a Files,
) -> impl Iterator<Item = (&'a String, &'a Vec<u8>)> {
    files.iter().filter(|(path, _)| !is_users(seen, path) && *path != FLAGGED)
}

fn is_users(seen: &Seen, path: &str) -> bool {
    seen.claim.work.contains_key(path) && !seen.claim.index.contains_key(path)
}

/// The number of attempts stays within the limit, and no counter contradicts it.
pub(in crate::run) fn limits_hold(state: &State, _: &Task, a: &Task, _: Option<&Seen>) -> Verdict {
    let Some(given) = state.lies.given.get(&a.id) else { return Ok(()) };
    if a.max_attempts != given.max_attempts {
        return Err(format!("{} attempts, and {} were given", a.max_attempts, given.max_attempts));
    }
    let ends = state.lies.ends.get(&a.id).copied().unwrap_or(0);
    if ends > given.max_attempts {
        return Err(format!("{ends} attempts ended, of {}", given.max_attempts));
    }
    Ok(())
}

/// A rollback and a release leave the user's files as they were at the claim.
pub(in crate::run) fn the_users_files_stay(
    state: &State,
    b: &Task,
    a: &Task,
    seen: Option<&Seen>,
) -> Verdict {
    if !ends(b, a, Status::Failed) && !ends(b, a, Status::Pending) {
        return Ok(());
    }
    let seen = seen.ok_or("it ended without a claim")?;
    let now = Snapshot::of(&state.git);
    let untracked = seen.claim.work.iter().filter(|(path, _)| {
        (!seen.claim.index.contains_key(*path) && !path.starts_with("late-")) || *path == FLAGGED
    });
    for (path, bytes) in untracked.filter(|(path, _)| !path.starts_with("work/")) {
        if now.work.get(path) != Some(bytes) {
            return Err(format!("{path} is not what it was at the claim"));
        }
    }
    Ok(())
}

/// The commits of a failed attempt are undone, whatever their messages are.
pub(in crate::run) fn a_failed_attempt_leaves_nothing(
    state: &State,
    b: &Task,
    a: &Task,
    _: Option<&Seen>,
) -> Verdict {
    let Some(epoch) = a.epoch.filter(|_| ends(b, a, Status::Failed)) else { return Ok(()) };
    let marked = harness::workspace::committer("User", &a.id, epoch);
    let undo = harness::workspace::undo_message(&a.id, Some(epoch));
    let model = state.git.model();
    let tip = model.branches.get(BRANCH).ok_or("the branch is gone")?;
    let history = model.history(tip);
    let commits: Vec<_> = history.iter().filter_map(|id| model.commits.get(id)).collect();
    let of_attempt = commits.iter().find(|commit| commit.committer == marked);
    let undone = commits.iter().any(|c| c.committer != marked && c.message == undo);
    match of_attempt {
        Some(commit) if !undone => Err(format!("{:?} is still on the branch", commit.message)),
        _ => Ok(()),
    }
}

/// No commit of the person is removed from the branch.
pub(in crate::run) fn foreign_commits_stay(
    state: &State,
    _: &Task,
    _: &Task,
    _: Option<&Seen>,
) -> Verdict {
    let model = state.git.model();
    let tip = model.branches.get(BRANCH).ok_or("the branch is gone")?;
    let history = model.history(tip);
    match state.lies.foreign.iter().find(|commit| !history.contains(*commit)) {
        Some(commit) => Err(format!("{commit} of the person is not on the branch any more")),
        None => Ok(()),
    }
}

/// The receipt of a completion contains the flags of the attempt.
pub(in crate::run) fn a_completion_tells_what_was_tried(
    state: &State,
    b: &Task,
    a: &Task,
    _: Option<&Seen>,
) -> Verdict {
    if a.status() != Status::Completed || b.status() == Status::Completed {
        return Ok(());
    }
    let of = (a.id.clone(), a.epoch.unwrap_or_default());
    let tried = state.lies.flags.get(&of).into_iter().flatten();
    let told = state.lies.receipts.get(&of).map(|receipt| &receipt.flags[..]).unwrap_or_default();
    match tried.into_iter().find(|flag| !told.contains(flag)) {
        Some(flag) => Err(format!("its receipt does not say {:?}", flag.name())),
        None => Ok(()),
    }
}

impl State {
    /// Checks that the budget is not spent, whatever the rows contain.
    pub(in crate::run) fn budget_is_left(&mut self) {
        let mut spent = self.lies.spent_before;
        spent += self.lies.spent;
        if let Some(used) = self.lies.terms.used_up(&spent) {
            self.broken("no_budget_falls", format!("an agent starts, and {used} are spent"));
        }
    }

    /// Counts the starts of a context.
    pub(in crate::run) fn context_starts(&mut self, run: &RunId, number: u32) {
        let starts = self.lies.starts.entry((run.clone(), number)).or_default();
        *starts += 1;
        let starts = *starts;
        if starts > STARTS_MAX {
            let what = format!("context {number} of {run} was started {starts} times");
            self.broken("contexts_are_bounded", what);
        }
    }
}

/// Judges the state after the last process.
pub(in crate::run) fn at_the_end(state: &State) -> Result<(), Violation> {
    let broken = |checker, what| Err(Violation { checker, what });
    for task in state.lies.given.keys() {
        if state.ledger.task(task).is_none() {
            return broken("nothing_of_the_ledger_is_lost", format!("{task} is gone"));
        }
    }
    for (task, epoch) in state.lies.receipts.keys() {
        let row = state.ledger.task(task);
        let completed = row.is_some_and(|row| row.status() == Status::Completed);
        let recorded = state.lies.completed.contains(&(task.clone(), *epoch));
        if recorded && !completed {
            let what = format!("{task} was completed, and is not any more");
            return broken("nothing_of_the_ledger_is_lost", what);
        }
    }
    for (task, epoch) in &state.lies.completed {
        let name = format!("{task}.{epoch}.json");
        if !state.lies.receipts_lost && !state.disk.has_receipt(&name) {
            return broken("nothing_of_the_ledger_is_lost", format!("the receipt {name} is gone"));
        }
    }
    let unfinished = crate::run::checkers::unfinished(&state.ledger);
    if !unfinished.is_empty() {
        return broken("ends_with_nothing_to_do", format!("there is work left: {unfinished:?}"));
    }
    Ok(())
}
