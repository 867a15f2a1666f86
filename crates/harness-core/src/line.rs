//! The line in which results land one at a time: the place of an entry, the commit that it builds on,
//! and when it may land.
//!
//! Entries prepare side by side. Each builds on the result that the entry before it announced, as if
//! that had landed. If the assumption proves wrong, those behind prepare again.

use crate::{
    CommitId, Epoch, TaskId, Timestamp,
    ledger::{LandingEntry, Ledger},
    task::{Intent, Status, Task},
};

/// The branch on which results land while the tree of the user must not be touched.
pub const LANDED_BRANCH: &str = "harness/landed";
/// An entry gives a sign of life at this interval.
pub const RENEW_SECONDS: u64 = 15;
/// An entry without a sign of life for this time has lost its place.
pub const SILENT_SECONDS: u64 = 60;
/// The default number of entries that prepare at the same time.
pub const PREPARING: usize = 8;

/// What an entry has to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It is not in the line.
    Out,
    /// It waits for an entry before it.
    Wait,
    /// It has to be put on top of this commit.
    Prepare {
        /// The commit.
        onto: CommitId,
        /// Whether everything below has landed.
        below: Below,
    },
    /// It is announced on the right commit and has to be judged.
    Judge {
        /// Whether everything below has landed.
        below: Below,
    },
    /// It is green and everything below has landed.
    Land,
    /// It conflicts, or its check failed, on top of what really landed.
    Refused,
}

/// Whether everything below a result has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// The target is at that commit.
    Landed,
    /// Entries before it may still fail.
    Announced,
}

/// Returns the place of an entry.
pub fn position(line: &[LandingEntry], task: &TaskId, epoch: Epoch) -> Option<usize> {
    line.iter().position(|entry| entry.task == *task && entry.epoch == epoch)
}

/// Returns whether an entry has lost its place: it gave no sign of life for too long, or its claim has
/// ended. A worker that stops in order ends its lease, so that nobody has to wait for it.
pub fn has_lost_place(ledger: &Ledger, entry: &LandingEntry, now: Timestamp) -> bool {
    let task = ledger.task(&entry.task).filter(|task| task.epoch == Some(entry.epoch));
    let is_claimed = |task: &Task| task.claim().is_some() && !task.lease_ran_out(now);
    let is_silent = |renewed| now.since(renewed) > SILENT_SECONDS;
    !task.is_some_and(is_claimed) || entry.renewed_at.is_none_or(is_silent)
}

/// Whether an entry waits because of a conflict or a failed check on top of results that had not
/// landed. Those behind it do not build on it.
fn parked(entry: &LandingEntry) -> bool {
    entry.green == Some(false) || (entry.onto.is_some() && entry.commit.is_none())
}

/// Decides what the entry of a claim has to do while the target is at `tip`. At most `preparing`
/// entries prepare at the same time.
pub fn turn(
    line: &[LandingEntry],
    task: &TaskId,
    epoch: Epoch,
    tip: &CommitId,
    preparing: usize,
) -> Turn {
    let Some(at) = position(line, task, epoch) else { return Turn::Out };
    if at >= preparing.max(1) {
        return Turn::Wait;
    }
    let before = line[..at].iter().rev().find(|entry| !parked(entry));
    let (onto, below) = match before {
        // Everything before it waits for its own turn, and none of it is below this result.
        None => (tip, Below::Landed),
        Some(before) => match &before.commit {
            None => return Turn::Wait,
            Some(commit) if commit == tip => (commit, Below::Landed),
            Some(commit) => (commit, Below::Announced),
        },
    };
    let entry = &line[at];
    if entry.onto.as_ref() != Some(onto) {
        return Turn::Prepare { onto: onto.clone(), below };
    }
    match (&entry.commit, entry.green, below) {
        (None, _, Below::Announced) | (Some(_), Some(false), Below::Announced) => Turn::Wait,
        (None, _, Below::Landed) | (Some(_), Some(false), Below::Landed) => Turn::Refused,
        (Some(_), None, below) => Turn::Judge { below },
        // An entry before it that is parked lands, or fails, on its own.
        (Some(_), Some(true), Below::Landed) => Turn::Land,
        (Some(_), Some(true), Below::Announced) => Turn::Wait,
    }
}

/// Returns the files that a task reserves once it is claimed: those of its last conflict, if this is
/// its last attempt.
pub fn reservation(task: &Task) -> &[String] {
    let last = task.attempts + 1 >= task.max_attempts;
    if last && task.unfinished() { &task.conflicts } else { &[] }
}

/// Returns whether a conflict in these files is not the fault of the attempt, because the task had
/// reserved one of them. Others land there only while nobody works on the task, after its worker is
/// gone. Such an attempt does not count, so that a busy file cannot fail the task for good.
pub fn is_spared(task: &Task, conflicts: &[String]) -> bool {
    reservation(task).iter().any(|file| conflicts.contains(file))
}

/// Returns the files of the conflicts of a task after it lost to a conflict in `conflicts`, or to a
/// failed check. What it had reserved for its last attempt stays reserved, because that attempt may
/// have to be judged again.
pub fn conflicts_after(task: &Task, conflicts: &[String]) -> Vec<String> {
    let mut all: Vec<String> = reservation(task).iter().chain(conflicts).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the files that a task reserves now. Nothing else may land in them while its last attempt is
/// under way, so that a busy file cannot fail it for good. Before its claim it reserves nothing:
/// results that waited for it could keep every worker from claiming it. The same holds after its
/// lease, when its worker is gone.
pub fn reserved(task: &Task, now: Timestamp) -> &[String] {
    let under_way = task.claim().is_some() && !task.lease_ran_out(now);
    if under_way { reservation(task) } else { &[] }
}

/// Returns the task with a reservation that keeps the result of `task`, which touches `files`, from
/// landing.
pub fn held_back<'l>(
    ledger: &'l Ledger,
    task: &TaskId,
    files: &[String],
    now: Timestamp,
) -> Option<&'l TaskId> {
    let reserves = |other: &&Task| {
        other.id != *task && reserved(other, now).iter().any(|file| files.contains(file))
    };
    // Of two reservations on one file, the one that was claimed first counts.
    let mine = ledger.task(task).map(|task| !reserved(task, now).is_empty()).unwrap_or_default();
    let counts =
        |other: &&Task| !mine || other.claim().is_some() && other.epoch < epoch(ledger, task);
    ledger.tasks().filter(reserves).find(counts).map(|other| &other.id)
}

fn epoch(ledger: &Ledger, task: &TaskId) -> Option<Epoch> {
    ledger.task(task).and_then(|task| task.epoch)
}

/// Returns the claimed task that keeps `task` from being claimed: both reserve a file, or the other one
/// is about to land and may change a file that `task` reserves.
pub fn waits_for_reservation<'l>(ledger: &'l Ledger, task: &Task) -> Option<&'l TaskId> {
    let mine = reservation(task);
    if mine.is_empty() {
        return None;
    }
    let lands = |other: &Task| matches!(other.intent(), Some(Intent::Land { .. }));
    let overlaps = |other: &Task| reservation(other).iter().any(|file| mine.contains(file));
    let mut claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
    claimed.find(|other| other.id != task.id && (lands(other) || overlaps(other))).map(|o| &o.id)
}

/// Returns the number of completed tasks, if `task` reserves files. A landing completes a task, so the
/// number shows whether anything landed between two looks.
pub fn landed_for(ledger: &Ledger, task: &Task) -> Option<usize> {
    let completed = |task: &&Task| task.status() == Status::Completed;
    (!reservation(task).is_empty()).then(|| ledger.tasks().filter(completed).count())
}
