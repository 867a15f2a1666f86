//! The invariants of `harness run`, judged only by the disk and by git.

use harness::store::disk::File;
use harness_core::{
    Category, Ledger, Task, TaskId,
    log::{Kind, LogLine},
    task::{Intent, Status, Via},
};

use super::{
    lies,
    shell::is_done,
    stage::{Seen, Snapshot, State},
};
use crate::{
    checkers::Violation,
    git::{Files, SimGit},
};

pub(super) type Verdict = Result<(), String>;
type OfChange = fn(&State, &Task, &Task, Option<&Seen>) -> Verdict;

/// These apply to every worker.
const OF_ALL: [(&str, OfChange); 3] = [
    ("attempts_count_ends", attempts_count_ends),
    ("completed_means_checked", completed_means_checked),
    ("a_receipt_comes_first", a_receipt_comes_first),
];

/// These apply to runs, which also manage the tree.
const OF_RUNS: [(&str, OfChange); 4] = [
    ("the_first_cause_is_recorded", the_first_cause_is_recorded),
    ("rolled_back_means_as_before", rolled_back_means_as_before),
    ("released_means_untouched", released_means_untouched),
    ("nothing_vanishes", nothing_vanishes),
];

/// These apply even with lying agents.
const OF_LIARS: [(&str, OfChange); 9] = [
    ("attempts_count_ends", attempts_count_ends),
    ("completed_means_judged", lies::checkers::completed_means_judged),
    ("a_receipt_comes_first", a_receipt_comes_first),
    ("limits_hold", lies::checkers::limits_hold),
    ("foreign_commits_stay", lies::checkers::foreign_commits_stay),
    ("nothing_vanishes", nothing_vanishes),
    ("a_failed_attempt_leaves_nothing", lies::checkers::a_failed_attempt_leaves_nothing),
    ("the_users_files_stay", lies::checkers::the_users_files_stay),
    ("a_completion_tells_what_was_tried", lies::checkers::a_completion_tells_what_was_tried),
];

/// Judges a task that changed since the last look.
pub(super) fn changed(state: &mut State, before: &Task, after: &Task) -> Result<(), Violation> {
    if after.status() == Status::InProgress && before.status() != Status::InProgress {
        let claim = Snapshot::of(&state.git);
        let (epoch, passed, unsteady) = (after.epoch, Vec::new(), Vec::new());
        let seen = Seen { epoch, claim, mess: None, kept: false, intent: None, passed, unsteady };
        state.attempts.insert(after.id.clone(), seen);
    }
    if let (Some(Intent::Rollback { category, message }), Some(seen)) =
        (after.intent(), state.attempts.get_mut(&after.id))
    {
        seen.intent.get_or_insert_with(|| format!("[{category}] {message}"));
    }
    if ends(before, after, Status::Completed) || ends(before, after, Status::Failed) {
        *state.lies.ends.entry(after.id.clone()).or_default() += 1;
    }
    let seen = state.attempts.get(&after.id).filter(|seen| seen.epoch == after.epoch);
    let of_runs = if before.claimed_via() == Via::Run { &OF_RUNS[..] } else { &[] };
    let (of_all, of_runs) =
        if state.lies.on { (&OF_LIARS[..], &[][..]) } else { (&OF_ALL[..], of_runs) };
    for (checker, check) in of_all.iter().chain(of_runs) {
        check(state, before, after, seen)
            .map_err(|what| Violation { checker, what: format!("{}: {what}", after.id) })?;
    }
    if before.status() == Status::InProgress && after.status() != Status::InProgress {
        let of = (after.id.clone(), after.epoch.unwrap_or_default());
        match after.status() {
            Status::Completed => drop(state.lies.completed.insert(of)),
            Status::Failed | Status::Pending | Status::InProgress => {}
        }
    }
    if before.status() == Status::InProgress {
        let tally = &mut state.tally;
        match after.status() {
            Status::Completed => tally.completed += 1,
            Status::Failed => tally.rollbacks += 1,
            Status::Pending | Status::InProgress => {}
        }
    }
    Ok(())
}

pub(super) fn ends(before: &Task, after: &Task, status: Status) -> bool {
    before.status() == Status::InProgress && after.status() == status
}

/// Every attempt that ended counts once, and nothing else counts.
fn attempts_count_ends(_: &State, before: &Task, after: &Task, _: Option<&Seen>) -> Verdict {
    let ended = ends(before, after, Status::Completed) || ends(before, after, Status::Failed);
    let expected = before.attempts + u32::from(ended);
    if after.attempts != expected {
        return Err(format!("{} attempts are counted, not {expected}", after.attempts));
    }
    if after.attempts > after.max_attempts {
        return Err(format!("{} attempts of {}", after.attempts, after.max_attempts));
    }
    Ok(())
}

/// The check passed after the claim, on the committed tree, and correctly so.
fn completed_means_checked(state: &State, b: &Task, a: &Task, seen: Option<&Seen>) -> Verdict {
    if a.status() != Status::Completed || b.status() == Status::Completed {
        return Ok(());
    }
    let seen = seen.ok_or("completed without a claim")?;
    let head = state.head().ok_or("there is no HEAD")?;
    let committed = state.git.committed(&head);
    if !is_done(&committed, &a.id) {
        return Err(format!("the commit {head} does not have what was asked for"));
    }
    let users: Vec<_> = users_files(&seen.claim).into_keys().collect();
    let same = |tree: &Files| {
        let of_agent = tree.iter().filter(|(path, _)| !users.contains(path));
        of_agent.eq(committed.iter().filter(|(path, _)| !users.contains(path)))
    };
    if !seen.passed.iter().any(same) {
        return Err(format!("no check passed on the tree of {head} since the claim"));
    }
    let snapshot = Snapshot::of(&state.git);
    if snapshot.index != committed || snapshot.head != seen.claim.head_like(&snapshot) {
        return Err("the tree is not left on the claimed branch, clean".into());
    }
    Ok(())
}

/// A crash between the two leaves a receipt without a completion, never the other way round.
fn a_receipt_comes_first(state: &State, b: &Task, a: &Task, _: Option<&Seen>) -> Verdict {
    let completed = a.status() == Status::Completed && b.status() != Status::Completed;
    if !completed || state.receipts.contains(&(a.id.clone(), a.epoch.unwrap_or_default())) {
        return Ok(());
    }
    Err("completed without a receipt".into())
}

fn the_first_cause_is_recorded(_: &State, b: &Task, a: &Task, seen: Option<&Seen>) -> Verdict {
    if !ends(b, a, Status::Failed) {
        return Ok(());
    }
    let Some(intent) = seen.and_then(|seen| seen.intent.as_ref()) else {
        // If there is nothing to undo, nothing is intended. The next checker verifies that the tree
        // is unchanged.
        let category = a.error_log.last().and_then(|entry| entry.category);
        let timeout = category == Some(Category::SessionTimeout);
        return if timeout { Ok(()) } else { Err("failed, and that was never intended".into()) };
    };
    match a.error_log.last() {
        Some(entry) if entry.to_string() == *intent => Ok(()),
        entry => Err(format!("{entry:?} is recorded, {intent:?} was intended")),
    }
}

fn rolled_back_means_as_before(state: &State, b: &Task, a: &Task, seen: Option<&Seen>) -> Verdict {
    if !ends(b, a, Status::Failed) {
        return Ok(());
    }
    let seen = seen.ok_or("failed without a claim")?;
    as_before(&seen.claim, &Snapshot::of(&state.git))
}

fn released_means_untouched(state: &State, b: &Task, a: &Task, seen: Option<&Seen>) -> Verdict {
    if !ends(b, a, Status::Pending) {
        return Ok(());
    }
    let seen = seen.ok_or("released without a claim")?;
    as_before(&seen.claim, &Snapshot::of(&state.git))
}

fn as_before(claim: &Snapshot, now: &Snapshot) -> Verdict {
    if now.commit != claim.commit || now.head != claim.head {
        return Err(format!("HEAD is {:?}, at the claim it was {:?}", now.head, claim.head));
    }
    for (what, was, is) in
        [("work tree", &claim.work, &now.work), ("index", &claim.index, &now.index)]
    {
        if was == is {
            continue;
        }
        let paths: std::collections::BTreeSet<_> = was.keys().chain(is.keys()).collect();
        let differ: Vec<_> = paths.into_iter().filter(|p| was.get(*p) != is.get(*p)).collect();
        return Err(format!("the {what} is not what it was at the claim: {differ:?}"));
    }
    Ok(())
}

/// Everything that the agent left is in the tree, in a commit of a branch, or in a rescue.
fn nothing_vanishes(state: &State, b: &Task, a: &Task, seen: Option<&Seen>) -> Verdict {
    let ended = b.status() == Status::InProgress && a.status() != Status::InProgress;
    let Some((seen, mess)) = seen.and_then(|s| Some((s, s.mess.as_ref()?))).filter(|_| ended)
    else {
        return Ok(());
    };
    let kept = Kept::of(&state.git);
    // Once the tree is committed, the agent itself has replaced what was staged and then changed.
    let staged = (!seen.kept).then_some(&mess.index);
    let made = mess.work.iter().chain(staged.into_iter().flatten());
    for (path, bytes) in made {
        let was_there = [&seen.claim.work, &seen.claim.index].map(|files| files.get(path));
        if !was_there.contains(&Some(bytes)) && !kept.has(path, bytes) {
            let text = String::from_utf8_lossy(bytes);
            return Err(format!("{path} with {text:?} is nowhere any more"));
        }
    }
    match &mess.commit {
        Some(commit) if !kept.commits.contains(commit) => {
            Err(format!("the agent's commit {commit} is nowhere any more"))
        }
        _ => Ok(()),
    }
}

struct Kept {
    commits: std::collections::BTreeSet<harness_core::CommitId>,
    trees: Vec<Files>,
}

impl Kept {
    fn of(git: &SimGit) -> Self {
        let model = git.model();
        let tips = model.branches.values().chain(model.rescues.values());
        let commits: std::collections::BTreeSet<_> =
            tips.flat_map(|tip| model.history(tip)).collect();
        let mut trees: Vec<_> = commits.iter().map(|commit| model.files_of(commit)).collect();
        trees.push(model.work.clone());
        trees.push(model.index.clone());
        Self { commits, trees }
    }

    fn has(&self, path: &str, bytes: &Vec<u8>) -> bool {
        self.trees.iter().any(|tree| tree.get(path) == Some(bytes))
    }
}

fn users_files(claim: &Snapshot) -> Files {
    let untracked = claim.work.iter().filter(|(path, _)| !claim.index.contains_key(*path));
    untracked.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
}

impl Snapshot {
    /// Returns the head of the claim, with the current commit if it was detached.
    fn head_like(&self, now: &Self) -> crate::git::Head {
        match (&self.head, &now.commit) {
            (crate::git::Head::Detached(_), Some(commit)) => {
                crate::git::Head::Detached(commit.clone())
            }
            (head, _) => head.clone(),
        }
    }
}

/// Returns the tasks that can still be worked on.
pub(super) fn unfinished(ledger: &Ledger) -> Vec<&TaskId> {
    let open = |task: &&Task| task.status() != Status::Completed && !task.failed_for_good();
    ledger.tasks().filter(open).map(|task| &task.id).collect()
}

/// Judges the state after the last process, which reported that nothing is left to do.
pub(super) fn at_the_end(state: &State, marker_is_there: bool) -> Result<(), Violation> {
    let broken = |checker, what| Err(Violation { checker, what });
    let unfinished = unfinished(&state.ledger);
    if !unfinished.is_empty() {
        return broken("ends_with_nothing_to_do", format!("there is work left: {unfinished:?}"));
    }
    if marker_is_there {
        return broken("no_marker_without_work", ".harness-active is there".into());
    }
    let log = String::from_utf8_lossy(&state.disk.bytes(File::Log)).into_owned();
    let lines: Vec<_> = log.lines().filter_map(LogLine::parse).collect();
    for task in state.ledger.tasks() {
        let of_task = lines.iter().filter(|line| line.task.as_ref() == Some(&task.id));
        let completed = of_task.filter(|line| line.kind == Kind::Completed).count();
        let expected = usize::from(task.status() == Status::Completed);
        if completed != expected {
            let what = format!("{}: {completed} lines say that it is completed", task.id);
            return broken("completed_is_logged_once", what);
        }
    }
    if !harness::workspace::Workspace::status(&state.git).is_ok_and(|s| s.changed.is_empty()) {
        return broken("ends_clean", "tracked files are changed".into());
    }
    Ok(())
}
