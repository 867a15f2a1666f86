//! The sources of the pages behind a board: one task, all spending, the objectives.

use harness::{
    flows::{failed_output, failed_output_of},
    view::{MoneyView, RescueCard, RunHistory, RunStory, TaskDetail, TaskStory},
    workspace::{GitWorkspace, Workspace as _},
};
use harness_core::{CommitId, Ledger, Receipt, Standing, Task, TaskId, Timestamp};

use super::{Surroundings, task_record};
use crate::{
    environment::Environment,
    failure::{Failure, Result},
    repository::{short, workspace},
    root::StateRoot,
};

/// Passes the story of a task to `show`. It is `None` if there is no such task.
pub(crate) fn story<T>(
    env: &Environment,
    root: &StateRoot,
    ledger: &Ledger,
    task: &TaskId,
    now: Timestamp,
    show: impl FnOnce(&TaskStory<'_>) -> T,
) -> Option<T> {
    let task = ledger.task(task)?;
    let record = task_record(root, &task.id);
    let surroundings = Surroundings::of(env, root);
    let workers = surroundings.workers(ledger, &record, now);
    let around = surroundings.of_task(&record, &workers, ledger.head().paused_at);
    let detail = TaskDetail::of(task, Standing::of(ledger, task), &around, now);
    let receipts = receipts(root, &record, task);
    let git = workspace(env, root, root.path()).ok();
    let rescues = git.map(|git| rescues(&git, &task.id)).unwrap_or_default();
    // An unreadable file must not prevent the display of the rest.
    let output = failed_output(root.path(), &task.id).ok().flatten();
    let of_attempt = |epoch| failed_output_of(root.path(), &task.id, epoch).ok().flatten();
    let story = TaskStory::of(detail, &record, &receipts, &rescues, output);
    Some(show(&story.with_outputs(of_attempt)))
}

fn receipts(root: &StateRoot, record: &RunHistory, task: &Task) -> Vec<Receipt> {
    let epochs = record.attempts(&task.id).filter_map(|run| run.epoch);
    let epochs = epochs.chain(task.epoch);
    let mut found: Vec<Receipt> =
        epochs.filter_map(|epoch| root.receipt(&task.id, epoch).ok().flatten()).collect();
    found.dedup_by_key(|receipt| receipt.epoch);
    found
}

fn rescues(git: &GitWorkspace, task: &TaskId) -> Vec<RescueCard> {
    let found = git.rescues(Some(task)).unwrap_or_default();
    let card = |found: &harness::workspace::Rescue| {
        let base = git.base_of_rescue(found).ok().flatten();
        RescueCard::new(short(found).to_owned(), found.commit.clone(), base, found.when)
    };
    found.iter().map(card).collect()
}

/// Returns the changes between two commits, as a patch.
pub(crate) fn diff(
    env: &Environment,
    root: &StateRoot,
    from: &CommitId,
    to: &CommitId,
) -> Result<String> {
    let git = workspace(env, root, root.path())?;
    git.diff(from, to).map_err(Failure::from)
}

/// Returns what all work has cost.
#[allow(dead_code, reason = "for the pages of a browser")]
pub(crate) fn money(root: &StateRoot, ledger: &Ledger, now: Timestamp) -> MoneyView {
    let record = super::with_all_iterations(root);
    MoneyView::of(ledger, &record, now)
}

/// Returns the objectives with their contexts, newest first.
#[allow(dead_code, reason = "for the pages of a browser")]
pub(crate) fn objectives(root: &StateRoot) -> Vec<RunStory> {
    RunStory::objectives(&super::with_all_iterations(root))
}
