//! The invariants of several workers, judged only by the disk and by git.

use std::collections::BTreeSet;

use harness::{store::disk::File, workspace::shared::LANDED_BRANCH};
use harness_core::{
    Receipt, Task,
    log::{Kind, LogLine},
    task::{Intent, Status},
};

use super::{floor::State, landings::TARGET};
use crate::{checkers::Violation, git::Model};

type Verdict = Result<(), String>;
type OfChange = fn(&State, &Task, &Task) -> Verdict;

const CHECKERS: [(&str, OfChange); 5] = [
    ("a_conflict_fails_nothing_for_good", a_conflict_fails_nothing_for_good),
    ("attempts_count_ends", attempts_count_ends),
    ("epochs_only_grow", epochs_only_grow),
    ("completed_means_landed", completed_means_landed),
    ("finished_work_is_not_forgotten", finished_work_is_not_forgotten),
];

/// Judges a task that changed since the last look.
pub(super) fn changed(state: &mut State, before: &Task, after: &Task) -> Result<(), Violation> {
    if after.status() == Status::InProgress && before.epoch != after.epoch {
        // A worker that takes the task over continues the same attempt, or finishes its rollback.
        let reserved = state.reserved.entry(after.id.clone()).or_default();
        if before.status() != Status::InProgress {
            reserved.clear();
        }
        if !matches!(before.intent(), Some(Intent::Rollback { .. })) {
            reserved.extend(harness_core::line::reservation(before).iter().cloned());
        }
    }
    for (checker, check) in CHECKERS {
        check(state, before, after)
            .map_err(|what| Violation { checker, what: format!("{}: {what}", after.id) })?;
    }
    if before.status() == Status::InProgress {
        if after.status() != Status::InProgress {
            state.joined.remove(&after.id);
        }
        match after.status() {
            Status::Completed => state.tally.completed += 1,
            Status::Failed => state.tally.rollbacks += 1,
            Status::Pending | Status::InProgress => {}
        }
    }
    Ok(())
}

fn ends(before: &Task, after: &Task, status: Status) -> bool {
    before.status() == Status::InProgress && after.status() == status
}

/// Returns whether the last attempt ended with a conflict in a file that the task had reserved.
fn lost_a_reserved_file(state: &State, after: &Task) -> bool {
    let entry = after.error_log.last().map(ToString::to_string).unwrap_or_default();
    let Some((_, rest)) = entry.split_once("Conflict with ") else { return false };
    let files = rest.split_once(" in ").map(|(_, files)| files).unwrap_or_default();
    let reserved = state.reserved.get(&after.id).map(Vec::as_slice).unwrap_or_default();
    files.split(", ").any(|file| reserved.iter().any(|kept| kept == file))
}

/// Every attempt that ended counts once, and nothing else counts: no lost swap, no repeated
/// validation, no interruption, no conflict in a file that the task had reserved.
fn attempts_count_ends(state: &State, before: &Task, after: &Task) -> Verdict {
    let lost = ends(before, after, Status::Failed) && !lost_a_reserved_file(state, after);
    let ended = ends(before, after, Status::Completed) || lost;
    // A takeover ends the attempt of the dead worker in the change that claims it again.
    let taken_over = before.status() == Status::InProgress && before.epoch != after.epoch;
    let expected = before.attempts + u32::from(ended);
    let most = expected + u32::from(taken_over);
    if !(expected..=most).contains(&after.attempts) {
        return Err(format!("{} attempts are counted, not {expected}", after.attempts));
    }
    if after.attempts > after.max_attempts {
        return Err(format!("{} attempts of {}", after.attempts, after.max_attempts));
    }
    Ok(())
}

fn epochs_only_grow(_: &State, before: &Task, after: &Task) -> Verdict {
    if after.epoch < before.epoch {
        return Err(format!("{:?} follows {:?}", after.epoch, before.epoch));
    }
    Ok(())
}

/// A task is completed only when its commit is on the branch on which results land.
fn completed_means_landed(state: &State, before: &Task, after: &Task) -> Verdict {
    if after.status() != Status::Completed || before.status() == Status::Completed {
        return Ok(());
    }
    let epoch = after.epoch.unwrap_or_default();
    let of_claim = |kept: &&Receipt| kept.task == after.id && Some(kept.epoch) == after.epoch;
    let receipt = state.receipts.iter().rev().find(of_claim);
    let receipt = receipt.ok_or("completed without a receipt")?;
    let commit = receipt.commit.as_ref().ok_or("the receipt names no commit")?;
    let on_it = {
        let model = state.git.model();
        let tips = [TARGET, LANDED_BRANCH].map(|branch| model.branches.get(branch).cloned());
        tips.into_iter().flatten().any(|tip| model.history(&tip).contains(commit))
    };
    match state.landings.landed.get(&after.id) {
        Some((_, at)) if at != commit => {
            Err(format!("{at} landed, and the receipt of epoch {epoch} names {commit}"))
        }
        // The user may have taken it back.
        Some(_) => Ok(()),
        // It changed nothing, so its commit is a tip on which it was validated.
        None if on_it => Ok(()),
        None => Err(format!("{commit} is not on {TARGET}")),
    }
}

/// A task that lost to a conflict before does not fail for good by another one in the same files, not
/// even if its worker was gone for a while.
fn a_conflict_fails_nothing_for_good(state: &State, before: &Task, after: &Task) -> Verdict {
    let failed = ends(before, after, Status::Failed) && after.failed_for_good();
    if failed && lost_a_reserved_file(state, after) {
        let (reserved, entry) = (state.reserved.get(&after.id), after.error_log.last());
        let entry = entry.map(ToString::to_string);
        return Err(format!("it had reserved {reserved:?}, and failed for good by {entry:?}"));
    }
    Ok(())
}

/// A result that has been in the line is judged again by the worker that recovers it. It never counts
/// as an attempt without progress.
fn finished_work_is_not_forgotten(state: &State, before: &Task, after: &Task) -> Verdict {
    let Some(entry) = after.error_log.last().map(ToString::to_string) else { return Ok(()) };
    let failed = ends(before, after, Status::Failed) && entry.contains("No progress detected");
    match failed && state.joined.contains(&after.id) {
        true => Err(format!("it had passed its check, and failed by {entry}")),
        false => Ok(()),
    }
}

/// Judges the state after the last process, which reported that nothing is left to do.
pub(super) fn at_the_end(state: &mut State) -> Result<(), Violation> {
    state.follow_refs();
    state.judge_users_tree();
    if let Some(violation) = state.violation.clone() {
        return Err(violation);
    }
    if state.moving.is_some() {
        let what = "a landing that was cut short was never finished".into();
        return Violation::of("the_users_tree_stays", what);
    }
    let open = |task: &&Task| task.status() != Status::Completed && !task.failed_for_good();
    let unfinished: Vec<_> = state.ledger.tasks().filter(open).map(|task| &task.id).collect();
    if !unfinished.is_empty() {
        let what = format!("there is work left: {unfinished:?}");
        return Violation::of("the_line_never_stops", what);
    }
    completed_is_logged_once(state)?;
    nothing_is_left_behind(state)
}

fn completed_is_logged_once(state: &State) -> Result<(), Violation> {
    let log = String::from_utf8_lossy(&state.disk.bytes(File::Log)).into_owned();
    let lines: Vec<_> = log.lines().filter_map(LogLine::parse).collect();
    for task in state.ledger.tasks() {
        let of_task = lines.iter().filter(|line| line.task.as_ref() == Some(&task.id));
        let completed = of_task.filter(|line| line.kind == Kind::Completed).count();
        let expected = usize::from(task.status() == Status::Completed);
        if completed != expected {
            let what = format!("{}: {completed} lines say that it is completed", task.id);
            return Violation::of("completed_is_logged_once", what);
        }
    }
    Ok(())
}

/// Returns the work trees, branches and refs of attempts.
pub(super) fn belongings(model: &Model) -> BTreeSet<String> {
    let ours = |branch: &&String| branch.starts_with("harness/") && *branch != LANDED_BRANCH;
    let trees = model.linked_trees().iter().map(|tree| tree.display().to_string());
    let refs = model.branches.keys().filter(ours).chain(model.works.keys());
    trees.chain(refs.chain(model.tokens.keys()).cloned()).collect()
}

/// No work tree, no branch of an attempt and no token is left when every worker has ended, except for
/// those of killed ones.
fn nothing_is_left_behind(state: &State) -> Result<(), Violation> {
    let checker = "nothing_is_left_behind";
    let model = state.git.model();
    if let Some(left) = belongings(&model).difference(&state.orphaned).next() {
        return Violation::of(checker, left.clone());
    }
    if could_be_taken_in(state, &model) {
        return Violation::of(checker, format!("{LANDED_BRANCH}, although it was possible"));
    }
    Ok(())
}

/// Returns whether there are results beside the target that a fast-forward brings there, without a
/// file of the user in the way.
fn could_be_taken_in(state: &State, model: &Model) -> bool {
    let landed = model.branches.get(LANDED_BRANCH).zip(model.branches.get(TARGET));
    let Some((to, from)) = landed.filter(|(to, from)| model.history(to).contains(*from)) else {
        return false;
    };
    if model.branch().as_deref() != Some(TARGET) {
        // The tree of the user does not move with it.
        return true;
    }
    let (before, after) = (model.files_of(from), model.files_of(to));
    let in_the_way =
        |path: &String| !model.index.contains_key(path) && before.get(path) != after.get(path);
    !state.users.dirty && !model.work.keys().any(in_the_way)
}
