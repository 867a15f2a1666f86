//! Performs a session over the ledger. The machine of that name decides which steps are taken, and
//! in which order.

use std::fs;

use harness::{
    Branch, Error, Result,
    agent::Prompt,
    core::{
        Ledger, Stop, Task,
        agent::End,
        check::Verdict,
        machine::{
            recovery::{Checkpoints, Evidence, TaskCommits, Uncommitted},
            scope::TaskScope,
            session::{
                Alerts, Interrupted, LedgerSession, Prepared, SessionEffect, SessionReport,
                SessionTerms, Survey,
            },
        },
        task::{Status, Via},
    },
    home::Home,
};

use super::{
    Bench, Team,
    attempt::{attempt, set_settings_back},
    worker::worker,
};

/// Works on the ledger until nothing is left or something stops it. `bench` is in the main work tree.
pub async fn session<A>(cx: &Branch<Team<A>>, bench: &Bench, terms: SessionTerms) -> Result<Stop>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let bench = bench.clone().of_worker(terms.worker.clone());
    cx.drive(&bench.tools.ports, LedgerSession::new(terms), |branch, effect| {
        let bench = bench.clone();
        async move { perform(branch, bench, effect).await }
    })
    .await
}

async fn perform<A>(
    branch: Branch<Team<A>>,
    bench: Bench,
    effect: SessionEffect,
) -> Result<SessionReport>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    match effect {
        SessionEffect::Survey => survey(&bench).await.map(SessionReport::Surveyed),
        SessionEffect::Prepare => {
            Ok(SessionReport::Prepared(match bench.prepare(&branch).await? {
                None => Prepared::NoScript,
                Some(Verdict::Passed) => Prepared::Passed,
                Some(_) => Prepared::Failed,
            }))
        }
        SessionEffect::Recover { task, holder, entry } => {
            let end = Box::pin(attempt(&branch, &bench, *task, holder, entry)).await?;
            Ok(SessionReport::Recovered(end))
        }
        SessionEffect::Work(terms) => {
            let end = Box::pin(worker(&branch, &bench, terms)).await?;
            Ok(SessionReport::Worked(end))
        }
        SessionEffect::Close(scope) => close(&bench, &scope).map(SessionReport::Closed),
    }
}

/// Removes the marker: hooks act only while there is work.
fn close(bench: &Bench, scope: &TaskScope) -> Result<Alerts> {
    let ledger = (bench.tools.ledger)()?;
    if scope.leaves_work(&ledger) {
        return Ok(Alerts::of(&ledger));
    }
    match fs::remove_file(Home::of(&bench.tools.root).marker()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        Ok(()) | Err(_) => {}
    }
    Ok(Alerts::of(&ledger))
}

/// Surveys the tree, the claims of clients and the unfinished attempts.
async fn survey(bench: &Bench) -> Result<Survey> {
    let ledger: Ledger = (bench.tools.ledger)()?;
    let status = bench.git(|git| git.preflight()).await??;
    let now = bench.tools.ports.clock.now();
    let alerts = Alerts::of(&ledger);
    let mut survey = Survey { dirty: status.changed, alerts, ..Survey::default() };
    for task in ledger.tasks().filter(|t| t.status() == Status::InProgress) {
        match task.claimed_via() {
            Via::Client if !task.lease_ran_out(now) => {
                survey.client = Some((
                    task.id.clone(),
                    task.claimed_by().cloned().ok_or_else(|| {
                        Error::message(format!("task {} is claimed by nobody", task.id))
                    })?,
                ));
            }
            // The next upkeep records that.
            Via::Client => {}
            Via::Run => survey.interrupted.push(look(bench, task).await?),
        }
    }
    Ok(survey)
}

/// Returns the evidence about an interrupted attempt.
async fn look(bench: &Bench, task: &Task) -> Result<Interrupted> {
    let nothing = Evidence {
        uncommitted: Uncommitted::Nothing,
        task_commits: TaskCommits::Missing,
        checkpoints: Checkpoints::Missing,
    };
    // Without a base, or if the base is gone, there is nothing to compare with.
    let Some(base) = bench.base(task) else {
        return Ok(Interrupted { task: task.clone(), evidence: nothing, remark: None });
    };
    set_settings_back(bench, task).await?;
    let (id, claimed_at) = (task.id.clone(), task.claimed_at().unwrap_or_default());
    let found = match bench.git(move |git| git.evidence(&id, &base, claimed_at)).await? {
        Ok(found) => found,
        Err(harness::workspace::WorkspaceError::NoSuchCommit { .. }) => {
            return Ok(Interrupted { task: task.clone(), evidence: nothing, remark: None });
        }
        Err(other) => return Err(other.into()),
    };
    let checkpoints = match task.checkpoints.last() {
        None => Checkpoints::Missing,
        Some(last) if last.tree.as_ref() == Some(&found.tree) => {
            Checkpoints::Matching { step: last.step }
        }
        Some(_) => Checkpoints::Lost,
    };
    let evidence = Evidence {
        uncommitted: if found.uncommitted { Uncommitted::Changes } else { Uncommitted::Nothing },
        task_commits: match found.task_commits.is_empty() {
            true => TaskCommits::Missing,
            false => TaskCommits::Found,
        },
        checkpoints,
    };
    let remark = (!found.stashes.is_empty())
        .then(|| format!("a stash was made after the claim: {}", found.stashes.join(", ")));
    Ok(Interrupted { task: task.clone(), evidence, remark })
}
