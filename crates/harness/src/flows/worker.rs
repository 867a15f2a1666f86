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
            scope::TaskScope,
            session::Alerts,
            worker::{Worker, WorkerEffect, WorkerEnd, WorkerReport, WorkerTerms},
        },
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
        WorkerEffect::Peek(scope) => peek(&bench, &scope),
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

fn peek(bench: &Bench, scope: &TaskScope) -> Result<WorkerReport> {
    let ledger = (bench.tools.ledger)()?;
    Ok(WorkerReport::Peeked {
        next: scope.next(&ledger).cloned().map(Box::new),
        gate: scope.due_gate(&ledger).cloned(),
        in_progress: scope.in_progress(&ledger).map(|task| task.id.clone()),
        waiting: scope.waiting(&ledger),
        alerts: Alerts::of(&ledger),
    })
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
