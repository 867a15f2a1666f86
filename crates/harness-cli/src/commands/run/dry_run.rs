//! The actions of a session, in order, if every check passed. Nothing is changed.

use harness::clock::{Clock, SystemClock};
use harness_core::{
    Command, Ledger, Reply, Task, WorkerId,
    command::{Authority, Claim, ClaimChoice, Complete, Place, Proof, Unchecked},
    decide,
    machine::scope::TaskScope,
    select::Applicant,
    task::{Status, Via},
};
use serde_json::{Value, json};

use super::super::Invocation;
use crate::{exit::ExitCode, failure::Result, paint::warn};

/// What would happen to one task.
struct Planned {
    task: Task,
    what: &'static str,
}

impl Planned {
    fn line(&self) -> String {
        let check = self.task.check().unwrap_or("no check: the session would stop here");
        let (id, title) = (&self.task.id, crate::paint::one_line(&self.task.title));
        format!("{:<8} {id}: {title}  ({})", self.what, crate::paint::one_line(check))
    }

    fn json(&self) -> Value {
        json!({ "task_id": self.task.id, "action": self.what, "check": self.task.check() })
    }
}

/// Prints the order of work.
pub(super) fn show(
    invocation: &mut Invocation,
    ledger: &Ledger,
    scope: &TaskScope,
    labels: &[String],
    json: bool,
) -> Result<ExitCode> {
    let (planned, waiting) = plan(ledger, scope, labels)?;
    if json {
        let planned: Vec<_> = planned.iter().map(Planned::json).collect();
        invocation.out.document(&json!({ "planned": planned }))?;
    } else {
        planned.iter().try_for_each(|p| invocation.out.line(p.line()))?;
    }
    if let Some(waiting) = waiting {
        warn(&waiting);
    }
    Ok(ExitCode::Done)
}

/// Simulates the session on a copy of the ledger: the same decisions, with checks that all pass.
///
/// Returns the order of work, and what the tasks that would be left wait for.
fn plan(
    ledger: &Ledger,
    scope: &TaskScope,
    labels: &[String],
) -> Result<(Vec<Planned>, Option<String>)> {
    let of = Applicant::with_labels(labels);
    let now = SystemClock.now();
    let worker = WorkerId::parse("dry-run")?;
    let mut ledger = ledger.clone();
    let mut planned = Vec::new();
    let left = ledger.tasks().filter(|t| t.status() == Status::InProgress).cloned();
    let left: Vec<Task> = left.filter(|t| t.claimed_via() == Via::Run).collect();
    for task in left {
        let done = complete(&task, task.claimed_by().cloned().unwrap_or_else(|| worker.clone()));
        if let Ok(change) = decide(&ledger, now, &done) {
            ledger.put_in(&change);
        }
        planned.push(Planned { task, what: "recover" });
    }
    loop {
        let choice = match (scope, scope.next(&ledger, of)) {
            (TaskScope::Ledger, _) => ClaimChoice::Next,
            (TaskScope::Tasks(_), Some(task)) => scope.choice(task.id.clone()),
            (TaskScope::Tasks(_), None) => return Ok((planned, scope.waiting(&ledger, of))),
        };
        let claim = Command::Claim(Claim {
            worker: worker.clone(),
            via: Via::Run,
            role: None,
            labels: labels.to_vec(),
            choice,
            lease_seconds: 1,
            place: Place::default(),
            parallel: None,
        });
        let change = decide(&ledger, now, &claim)?;
        ledger.put_in(&change);
        let Reply::Claimed(claimed) = change.reply else {
            return Ok((planned, scope.waiting(&ledger, of)));
        };
        let task = claimed.task;
        let checked = task.check().is_some();
        let done = complete(&task, worker.clone());
        let what = if task.attempts > 0 { "retry" } else { "work" };
        planned.push(Planned { task, what });
        if !checked {
            return Ok((planned, None));
        }
        let change = decide(&ledger, now, &done)?;
        ledger.put_in(&change);
    }
}

fn complete(task: &Task, worker: WorkerId) -> Command {
    Command::Complete(Complete {
        holder: harness_core::Holder { task: task.id.clone(), worker, epoch: task.epoch },
        authority: Authority::Holder,
        proof: Proof::Passed { command: task.check().unwrap_or_default().to_owned() },
        unchecked: Unchecked::Allowed,
        commit: None,
    })
}
