//! Performs a session over the ledger. The machine of that name decides which steps are taken, and
//! in which order.

use std::{fs, path::PathBuf, sync::Arc};

use futures_util::future::join_all;

use harness::{
    Branch, Error, Result,
    agent::Prompt,
    core::{
        Command, Holder, Ledger, Stop, Task, WorkerId,
        agent::End,
        check::Verdict,
        command::Renew,
        machine::{
            recovery::{Checkpoints, Evidence, TaskCommits, Uncommitted},
            scope::TaskScope,
            session::{
                Alerts, Gathered, Interrupted, LedgerSession, Prepared, SessionEffect,
                SessionReport, SessionTerms, Survey,
            },
            worker::{WorkerEnd, WorkerTerms},
        },
        run::StopReason,
        task::{Status, Via},
    },
    home::Home,
    workspace::{
        WorkspaceError,
        shared::{SharedRepository, TakenIn},
    },
};

use super::{
    Bench, OwnPlace, Team,
    attempt::{attempt, set_settings_back},
    worker::{in_main_tree, worker},
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
        SessionEffect::Target { wanted } => target(&bench, wanted).await,
        SessionEffect::Work(terms) => work(&branch, &bench, terms).await.map(SessionReport::Worked),
        SessionEffect::Gather => gather(&bench).await.map(SessionReport::Gathered),
        SessionEffect::Close(scope) => close(&bench, &scope).await.map(SessionReport::Closed),
    }
}

/// Lets the workers work at the same time, each at its own bench.
async fn work<A>(
    branch: &Branch<Team<A>>,
    bench: &Bench,
    terms: Vec<WorkerTerms>,
) -> Result<Vec<WorkerEnd>>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let all = terms.into_iter().map(|terms| {
        let bench = match (&bench.tools.shared, &terms.parallel) {
            (Some(shared), Some(parallel)) => {
                let folder = parallel.worktree.clone().map(PathBuf::from);
                let own = OwnPlace::new(shared.clone(), terms.worker.clone(), folder);
                bench.clone().of_several(own)
            }
            _ => bench.clone().of_worker(terms.worker.clone()),
        };
        let branch = match &bench.own {
            Some(place) => branch.of_worker(&place.worker),
            None => branch.clone(),
        };
        Box::pin(async move {
            let end = worker(&branch, &bench, terms).await;
            if let (Err(why), Some(place)) = (&end, &bench.own) {
                give_up(&bench, place, why).await;
            }
            if let Some(place) = &bench.own
                && !leaves_work(&bench, &place.worker).await
            {
                // The tree goes with its worker. What cannot be removed now is found by `gc`.
                _ = place.repository(|git, worker| git.close(worker)).await?;
            }
            end
        })
    });
    join_all(all).await.into_iter().collect()
}

/// Lets nobody wait for a worker that an error ended: its lease ends, and the others of this process
/// stop after the task that they have, because the run ends with this error.
async fn give_up(bench: &Bench, place: &OwnPlace, why: &Error) {
    if let Ok(ledger) = bench.tools.read_ledger_now().await {
        for task in ledger.selection().held_by(&place.worker) {
            let epoch = ledger.task(task).and_then(|task| task.epoch);
            let holder = Holder { task: task.clone(), worker: place.worker.clone(), epoch };
            // If the store is the reason, the lease runs out by itself.
            _ = bench.tools.commit(Command::Renew(Renew::new(holder, 0))).await;
        }
    }
    tracing::warn!(worker = %place.worker, %why, "a worker stopped; the others of this process finish their task");
    place.shared.stop(&Stop::with_words(StopReason::Crashed, why.to_string()));
}

/// Returns whether the worker still holds a task, whose work is then in its tree.
async fn leaves_work(bench: &Bench, worker: &WorkerId) -> bool {
    let Ok(ledger) = bench.tools.read_ledger_now().await else { return true };
    ledger.selection().held_by(worker).next().is_some()
}

/// Determines the branch on which the results of several workers land.
async fn target(bench: &Bench, wanted: Option<String>) -> Result<SessionReport> {
    let repository = repository(bench)?;
    let remote = repository.remote();
    let chosen = bench.tools.blocking(move || {
        Ok(repository.check().and_then(|()| repository.target(wanted.as_deref())))
    });
    Ok(match chosen.await? {
        Ok(branch) => SessionReport::Targeted { branch, remote },
        Err(why @ WorkspaceError::Unreachable { .. }) => {
            SessionReport::Unreachable { why: why.to_string() }
        }
        Err(WorkspaceError::Unsafe { what, hint }) => {
            SessionReport::NotTargeted { why: format!("{what} ({hint})") }
        }
        Err(why) => SessionReport::NotTargeted { why: why.to_string() },
    })
}

/// Brings results to the target that landed beside it, unless another process is at work.
async fn gather(bench: &Bench) -> Result<Gathered> {
    let ledger = bench.tools.read_ledger().await?;
    let config = &ledger.head().session_config;
    let at_work = ledger.selection().claimed().next().is_some();
    let (Some(target), false) = (config.target_branch.clone(), at_work) else {
        return Ok(Gathered::Unchanged);
    };
    let (repository, diverted) = (repository(bench)?, config.landed_branch.is_some());
    let taken = bench.tools.blocking(move || {
        let taken = match diverted {
            true => repository.take_in(&target).map(Some),
            false => Ok(None),
        };
        // The results are where they are. What cannot be brought here is named by `status`.
        if let Err(why) = repository.follow(&target) {
            tracing::warn!(%why, "the branch of the main tree was not brought up to date");
        }
        Ok(taken)
    });
    Ok(match taken.await? {
        Ok(Some(TakenIn::Done | TakenIn::Nothing)) => Gathered::Done,
        Ok(Some(TakenIn::Kept { .. }) | None) => Gathered::Unchanged,
        Err(WorkspaceError::Unreachable { .. }) => Gathered::Unchanged,
        Err(why) => return Err(why.into()),
    })
}

fn repository(bench: &Bench) -> Result<Arc<dyn SharedRepository>> {
    let shared = bench.tools.shared.as_ref();
    let shared = shared.ok_or_else(|| Error::message("the session has one worker only"))?;
    Ok(Arc::clone(&shared.repository))
}

/// Removes the marker: hooks act only while there is work.
async fn close(bench: &Bench, scope: &TaskScope) -> Result<Alerts> {
    let ledger = bench.tools.read_ledger().await?;
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
    let ledger: Ledger = bench.tools.read_ledger().await?;
    let several = bench.tools.shared.is_some();
    let dirty = match several {
        // Several workers do not touch the main tree.
        true => Vec::new(),
        false => bench.git(|git| git.preflight()).await??.changed,
    };
    let now = bench.tools.ports.clock.now();
    let alerts = Alerts::of(&ledger);
    let mut survey = Survey { dirty, alerts, ..Survey::default() };
    for task in ledger.tasks().filter(|t| t.status() == Status::InProgress) {
        match task.claimed_via() {
            // Clients and several workers have trees of their own. A worker finds those that are gone.
            Via::Client if several => {}
            Via::Run if several && !in_main_tree(task, bench.workspace.top_level()) => {}
            // Another process recovers it at this moment.
            Via::Run if recovered_by_another(bench, task) => {}
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

/// Returns whether a live worker of another process holds the task.
fn recovered_by_another(bench: &Bench, task: &Task) -> bool {
    let by = task.claimed_by().filter(|by| Some(*by) != bench.worker.as_ref());
    let shared = bench.tools.shared.as_ref();
    by.zip(shared).is_some_and(|(by, shared)| (shared.is_alive)(by))
}

/// Returns the evidence about an interrupted attempt.
pub(super) async fn look(bench: &Bench, task: &Task) -> Result<Interrupted> {
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
