//! Performs one worker. The machine of that name decides which steps are taken, and in which order.

use harness::{
    Branch, Result,
    agent::Prompt,
    core::{
        TaskId,
        agent::End,
        command::Place,
        machine::{
            gate::Waiting,
            session::Alerts,
            worker::{Worker, WorkerEffect, WorkerEnd, WorkerReport, WorkerTerms},
        },
        task::Status,
    },
    workspace::Sight,
};

use super::{Bench, Team, attempt::attempt, gate::gate};

/// Works on one task after the other at `bench`, until the session is full, nothing is left or
/// something stops the worker.
pub async fn worker<A>(cx: &Branch<Team<A>>, bench: &Bench, terms: WorkerTerms) -> Result<WorkerEnd>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    cx.drive(&bench.tools.ports, Worker::new(terms), |branch, effect| {
        let bench = bench.clone();
        async move { perform(branch, bench, effect).await }
    })
    .await
}

async fn perform<A>(
    branch: Branch<Team<A>>,
    bench: Bench,
    effect: WorkerEffect,
) -> Result<WorkerReport>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    match effect {
        WorkerEffect::Peek => peek(&bench),
        WorkerEffect::Gate { phase, until } => {
            let loops = &bench.tools.loops;
            let waiting = Waiting { run: loops.run.clone(), by: loops.by.clone() };
            let end = gate(&branch, &bench, phase, Some(waiting), until).await?;
            Ok(WorkerReport::Gated(end))
        }
        WorkerEffect::Base { task } => base(&bench, task).await.map(WorkerReport::Based),
        WorkerEffect::Attempt { task, holder, entry } => {
            let end = Box::pin(attempt(&branch, &bench, *task, holder, entry)).await?;
            Ok(WorkerReport::Attempted(end))
        }
    }
}

fn peek(bench: &Bench) -> Result<WorkerReport> {
    let ledger = (bench.tools.ledger)()?;
    let next = ledger.selection().next_of_run(None).and_then(|id| ledger.task(id));
    let gate = ledger.selection().due_gate().cloned();
    let mut in_progress = ledger.tasks().filter(|task| task.status() == Status::InProgress);
    let in_progress = in_progress.next().map(|task| task.id.clone());
    let (next, alerts) = (next.cloned().map(Box::new), Alerts::of(&ledger));
    Ok(WorkerReport::Peeked { next, gate, in_progress, alerts })
}

async fn base(bench: &Bench, task: TaskId) -> Result<Place> {
    let base = bench.git(move |git| git.base(&task, Sight::Last)).await??;
    Ok(Place {
        base: Some(base.commit),
        base_untracked: base.untracked,
        worktree: Some(base.worktree.display().to_string()),
        branch: base.branch,
    })
}
