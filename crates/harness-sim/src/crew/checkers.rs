//! The invariants of several workers, judged only by the disk and by git.

use std::collections::BTreeSet;

use harness::{clock::Clock as _, store::disk::File, workspace::shared::LANDED_BRANCH};
use harness_core::{
    Task,
    log::{Kind, LogLine},
    task::Status,
};

use super::{floor::State, landings::TARGET};
use crate::{checkers::Violation, git::Model};

type Verdict = Result<(), String>;
type OfChange = fn(&State, &Task, &Task) -> Verdict;

const CHECKERS: [(&str, OfChange); 5] = [
    ("attempts_count_ends", attempts_count_ends),
    ("epochs_only_grow", epochs_only_grow),
    ("completed_means_landed", completed_means_landed),
    ("a_conflict_fails_nothing_for_good", a_conflict_fails_nothing_for_good),
    ("finished_work_is_not_forgotten", finished_work_is_not_forgotten),
];

/// Judges a task that changed since the last look.
pub(super) fn changed(state: &mut State, before: &Task, after: &Task) -> Result<(), Violation> {
    if after.status() == Status::InProgress && before.status() != Status::InProgress {
        state.reserved.insert(after.id.clone(), harness_core::line::reservation(before).to_vec());
    }
    let taken_over = before.status() == Status::InProgress && before.epoch != after.epoch;
    if taken_over || harness_core::line::reserved(after, state.clock.now()).is_empty() {
        // Nobody worked on it for a while, so others could land in the files.
        if before.status() == Status::InProgress && after.status() == Status::InProgress {
            state.reserved.remove(&after.id);
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

/// Every attempt that ended counts once, and nothing else counts: no lost swap, no repeated
/// validation, no interruption.
fn attempts_count_ends(_: &State, before: &Task, after: &Task) -> Verdict {
    let ended = ends(before, after, Status::Completed) || ends(before, after, Status::Failed);
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
    let receipt = state.receipts.iter().rev().find(|kept| kept.task == after.id);
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

/// A task that lost to a conflict before does not fail for good by another one in the same files.
fn a_conflict_fails_nothing_for_good(state: &State, before: &Task, after: &Task) -> Verdict {
    let Some(entry) = after.error_log.last().map(ToString::to_string) else { return Ok(()) };
    let reserved = state.reserved.get(&after.id).map(Vec::as_slice).unwrap_or_default();
    let again = after.conflicts.iter().any(|file| reserved.contains(file));
    let failed = ends(before, after, Status::Failed) && after.failed_for_good();
    if failed && again && entry.contains("Conflict with") {
        return Err(format!("it had reserved {reserved:?}, and failed for good by {entry}"));
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
    if model.branches.contains_key(LANDED_BRANCH) {
        let forward = model.branches.get(LANDED_BRANCH).zip(model.branches.get(TARGET));
        let forward = forward.is_some_and(|(to, from)| model.history(to).contains(from));
        if forward && !state.users.dirty {
            return Violation::of(checker, format!("{LANDED_BRANCH}, although it was possible"));
        }
    }
    Ok(())
}
