//! The records that are due before a task is chosen: leases that ran out, tasks that wait on
//! themselves, and tasks that wait on one that will never be done.

use std::collections::VecDeque;

use super::{Change, Reply, change::Draft};
use crate::{
    Category, TaskId, Timestamp,
    fact::Fact,
    graph,
    ledger::{ConcurrencyMode, Ledger},
    task::{ErrorEntry, Status, Task, Via},
};

pub(super) fn upkeep(ledger: &Ledger, now: Timestamp) -> Change {
    let mut draft = Draft::new(ledger);
    let mut dead: Vec<TaskId> = Vec::new();

    // A session must recover the claim of a session, because it can read the work tree. The same
    // holds for a task with an intent, which is finished and never decided again.
    let expired = ledger.selection().expired(now).filter_map(|id| ledger.task(id));
    // Without sessions nobody else would: among several workers, a claim that names no road is a
    // worker's.
    let concurrent = ledger.head().session_config.concurrency_mode == ConcurrencyMode::Concurrent;
    let of_worker = |task: &&Task| {
        let unnamed = task.claim().is_some_and(|claim| claim.via.is_none());
        task.claimed_via() == Via::Client || (concurrent && unnamed)
    };
    let expired = expired.filter(|t| of_worker(t) && t.intent().is_none());
    for task in expired.filter(|t| !ledger.is_alive(t.claimed_by())) {
        let entry = ErrorEntry::lease_expired(task.claimed_by());
        draft.facts.push(failed(&task.id, Category::SessionTimeout, entry.message.clone()));
        draft.edit(&task.id, |t| {
            t.fail(now, entry);
            t.count_attempt();
        });
        dead.push(task.id.clone());
    }

    if !ledger.selection().cyclic().is_empty() {
        for (id, cycle) in graph::cycle_texts(ledger.by_id()) {
            fail_uncounted(&mut draft, &id, ErrorEntry::cyclic(&cycle), now);
            dead.push(id);
        }
    }

    let mut waiting: VecDeque<TaskId> = ledger.selection().blocked().iter().cloned().collect();
    for id in dead {
        waiting.extend(ledger.selection().dependents(&id).cloned());
    }
    while let Some(id) = waiting.pop_front() {
        let Some(task) = draft.task(&id) else { continue };
        if task.status() != Status::Pending && !task.retryable() {
            continue;
        }
        let gone = |d: &&TaskId| draft.task(d).is_some_and(Task::failed_for_good);
        let Some(culprit) = task.depends_on.iter().find(gone).cloned() else { continue };
        fail_uncounted(&mut draft, &id, ErrorEntry::blocked_by(culprit), now);
        waiting.extend(ledger.selection().dependents(&id).cloned());
    }
    draft.finish(Reply::NothingToClaim)
}

/// Fails a task without counting an attempt, because it was never tried.
fn fail_uncounted(draft: &mut Draft<'_>, id: &TaskId, entry: ErrorEntry, now: Timestamp) {
    draft.facts.push(failed(id, Category::Dependency, entry.message.clone()));
    draft.edit(id, |t| t.fail(now, entry));
}

fn failed(id: &TaskId, category: Category, message: String) -> Fact {
    Fact::Failed { task: id.clone(), category, message, retryable: None }
}
