//! Performs a session over the ledger. What to do and in which order is the machine's.

use std::fs;

use harness::{
    Branch, Error, Result,
    agent::Prompt,
    core::{
        Ledger, Stop, Task, TaskId,
        agent::End,
        check::Verdict,
        command::Place,
        machine::{
            gate::Waiting,
            recovery::{Checkpoints, Evidence, TaskCommits, Uncommitted},
            work::{Alerts, Effect, Ended, Interrupted, Prepared, Session, Survey, Work},
        },
        task::{Status, Via},
    },
    home::Home,
    workspace::Sight,
};

use super::{
    Team, Tools,
    attempt::{attempt, set_settings_back},
    gate::gate,
};

/// Works on the ledger until nothing is left or something says stop.
pub async fn work<A>(cx: &Branch<Team<A>>, tools: &Tools, session: Session) -> Result<Stop>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    cx.drive(&tools.ports, Work::new(session), |branch, effect| {
        let tools = tools.clone();
        async move { perform(branch, tools, effect).await }
    })
    .await
}

async fn perform<A>(branch: Branch<Team<A>>, tools: Tools, effect: Effect) -> Result<Ended>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    match effect {
        Effect::Survey => survey(&tools).await.map(Ended::Surveyed),
        Effect::Prepare => Ok(Ended::Prepared(match tools.prepare(&branch).await? {
            None => Prepared::NoScript,
            Some(Verdict::Passed) => Prepared::Passed,
            Some(_) => Prepared::Failed,
        })),
        Effect::Peek => {
            let ledger = (tools.ledger)()?;
            let next = ledger.selection().next(None).and_then(|id| ledger.task(id));
            let gate = ledger.selection().due_gate().cloned();
            let mut in_progress = ledger.tasks().filter(|task| task.status() == Status::InProgress);
            let in_progress = in_progress.next().map(|task| task.id.clone());
            let (next, alerts) = (next.cloned().map(Box::new), Alerts::of(&ledger));
            Ok(Ended::Peeked { next, gate, in_progress, alerts })
        }
        Effect::Gate { phase, until } => {
            let (run, by) = (tools.looping.run.clone(), tools.looping.by.clone());
            let end = gate(&branch, &tools, phase, Some(Waiting { run, by }), until).await?;
            Ok(Ended::Gated(end))
        }
        Effect::Base { task } => base(&tools, task).await.map(Ended::Based),
        Effect::Attempt { task, holder, entry } => {
            let end = Box::pin(attempt(&branch, &tools, *task, holder, entry)).await?;
            Ok(Ended::Attempted(end))
        }
        Effect::Close => {
            match fs::remove_file(Home::of(&tools.root).marker()) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
            Ok(Ended::Closed(Alerts::of(&(tools.ledger)()?)))
        }
    }
}

async fn base(tools: &Tools, task: TaskId) -> Result<Place> {
    let base = tools.git(move |git| git.base(&task, Sight::Last)).await??;
    Ok(Place {
        base: Some(base.commit),
        base_untracked: base.untracked,
        worktree: Some(base.worktree.display().to_string()),
        branch: base.branch,
    })
}

/// What is there: the tree, claims of clients, attempts that nobody finished.
async fn survey(tools: &Tools) -> Result<Survey> {
    let ledger: Ledger = (tools.ledger)()?;
    let status = tools.git(|git| git.preflight()).await??;
    let now = tools.ports.clock.now();
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
            Via::Run => survey.interrupted.push(look(tools, task).await?),
        }
    }
    Ok(survey)
}

/// What is left of an interrupted attempt.
async fn look(tools: &Tools, task: &Task) -> Result<Interrupted> {
    let nothing = Evidence {
        uncommitted: Uncommitted::Nothing,
        task_commits: TaskCommits::Missing,
        checkpoints: Checkpoints::Missing,
    };
    // Without a base, or with one that is gone, there is nothing to compare with.
    let Some(base) = tools.base(task) else {
        return Ok(Interrupted { task: task.clone(), evidence: nothing, remark: None });
    };
    set_settings_back(tools, task).await?;
    let (id, claimed_at) = (task.id.clone(), task.claimed_at().unwrap_or_default());
    let found = match tools.git(move |git| git.evidence(&id, &base, claimed_at)).await? {
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
