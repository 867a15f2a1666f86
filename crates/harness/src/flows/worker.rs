//! Performs one worker. The machine of that name decides which steps are taken, and in which order.

use std::path::{Path, PathBuf};

use harness::{
    Branch, Error, Result,
    agent::Prompt,
    core::{
        Command, Epoch, Stop, Task, TaskId, Timestamp, WorkerId,
        agent::End,
        check::Verdict,
        command::{Note, Place},
        ledger::Phase,
        line,
        machine::{
            gate::{GateEnd, Waiting},
            scope::TaskScope,
            session::Alerts,
            worker::{
                Claiming, Found, LandedAlready, Worker, WorkerEffect, WorkerEnd, WorkerReport,
                WorkerStop, WorkerTerms,
            },
        },
        run::StopReason,
        select::Applicant,
        stop::StopDetail,
        task::Intent,
    },
    workspace::{
        Base, Sight, WorkspaceError,
        shared::{Dead, InitScript, LANDED_BRANCH, SharedRepository, Swap, Token},
    },
};

use super::{
    Bench, OwnPlace, Team,
    attempt::{attempt, end_branch, set_settings_back},
    gate::gate,
    session::look,
    settle::settled_ledger,
    shared::LOOK,
};

/// Works on one task after the other at `bench`, until the session is full, nothing is left or
/// something stops the worker.
pub async fn worker<A>(cx: &Branch<Team<A>>, bench: &Bench, terms: WorkerTerms) -> Result<WorkerEnd>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let end = cx.drive(&bench.tools.ports, Worker::new(terms), |branch, effect| {
        let bench = bench.clone();
        async move { perform(branch, bench, effect).await }
    });
    let end = end.await?;
    if let (Some(place), WorkerStop::Stopped(stop)) = (&bench.own, &end.why) {
        place.shared.stop(stop);
    }
    Ok(end)
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
        WorkerEffect::Peek { scope, labels } => reached(peek(&bench, &scope, &labels).await),
        WorkerEffect::Gate { phase, until } => {
            try_gate(&branch, &bench, phase, until).await.map(WorkerReport::Gated)
        }
        WorkerEffect::Base { task } => match &bench.own {
            None => base(&bench, task).await.map(WorkerReport::Based),
            Some(place) => reached(tip(&bench, place).await),
        },
        WorkerEffect::Attempt { task, holder, entry } => {
            let bench = bench.in_own_tree();
            let end = Box::pin(attempt(&branch, &bench, *task, holder, entry)).await?;
            Ok(WorkerReport::Attempted(end))
        }
        WorkerEffect::Await => {
            match &bench.own {
                Some(place) => place.wait(&branch).await,
                None => pause(&branch).await,
            }
            Ok(WorkerReport::Awaited)
        }
        WorkerEffect::Open { task } => open(&branch, &bench, &task).await,
        WorkerEffect::Resolve { task, epoch } => reached(resolved(&bench, &task, epoch).await),
        WorkerEffect::Transplant { found, taken } => {
            reached(transplanted(&branch, &bench, &found, &taken).await)
        }
    }
}

/// Tries the gate of a phase, where several workers work at the tip of the target.
async fn try_gate<A>(
    branch: &Branch<Team<A>>,
    bench: &Bench,
    phase: Phase,
    until: Option<Timestamp>,
) -> Result<GateEnd>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let (name, shared) = (phase.name.clone(), bench.own.as_ref().map(|place| &place.shared));
    if let Some(why) = shared.and_then(|shared| shared.closed_gate(&name)) {
        // Another worker of this process tried it just now.
        return Ok(GateEnd::Closed { why, output: String::new() });
    }
    let bench = match at_tip(bench).await? {
        Ok(bench) => bench,
        Err(why) => return Ok(GateEnd::Closed { why, output: String::new() }),
    };
    let loops = &bench.tools.loops;
    let waiting = Waiting { run: loops.run.clone(), by: loops.by.clone() };
    let end = gate(branch, &bench, phase, Some(waiting), until).await?;
    if let (GateEnd::Closed { why, .. }, Some(shared)) = (&end, shared) {
        // The others stop before one of them could take the gate that this worker gives back.
        let detail = StopDetail::Gate { phase: name, why: why.clone() };
        shared.stop(&Stop { detail, ..Stop::because(StopReason::Gate) });
    }
    Ok(end)
}

/// Returns a report of its own if the server that has the target could not be reached.
fn reached(performed: Result<WorkerReport>) -> Result<WorkerReport> {
    match performed {
        Err(Error::Workspace(why @ WorkspaceError::Unreachable { .. })) => {
            Ok(WorkerReport::Unreachable { why: why.to_string() })
        }
        performed => performed,
    }
}

async fn resolved(bench: &Bench, task: &Task, epoch: Epoch) -> Result<WorkerReport> {
    let landed = resolve(bench, task).await?;
    if landed == LandedAlready::Yes {
        if let Some(Intent::Land { to, .. }) = task.intent() {
            let tools = &bench.tools;
            let carry = || {
                let (judging, id, to) = (tools.judging.clone(), task.id.clone(), to.clone());
                tools.blocking(move || judging.carry_over(&id, &to, epoch))
            };
            tools.hold.hold(carry).await?;
        }
        end_dead_branch(bench, task).await?;
    }
    Ok(WorkerReport::Resolved(landed))
}

async fn transplanted<A>(
    branch: &Branch<A>,
    bench: &Bench,
    found: &Task,
    taken: &Task,
) -> Result<WorkerReport> {
    let brought = transplant(branch, bench, found, taken).await?;
    end_dead_branch(bench, found).await?;
    Ok(WorkerReport::Transplanted(brought))
}

fn own(bench: &Bench) -> Result<&OwnPlace> {
    bench.own.as_ref().ok_or_else(|| Error::message("this worker is alone, in the main tree"))
}

/// Waits a moment, for the only worker of a ledger.
async fn pause<A>(branch: &Branch<A>) {
    tokio::select! {
        () = tokio::time::sleep(LOOK) => {}
        () = branch.cancelled().cancelled() => {}
    }
}

async fn peek(bench: &Bench, scope: &TaskScope, labels: &[String]) -> Result<WorkerReport> {
    let of = Applicant::with_labels(labels);
    if let Some(place) = &bench.own {
        place.about_to_look().await;
    }
    let ledger = settled_ledger(bench).await?;
    let (next, others) = match &bench.own {
        None => (scope.next(&ledger, of), None),
        Some(place) => {
            let (now, main) = (bench.tools.ports.clock.now(), bench.workspace.top_level());
            let mut others = place.others(&ledger, now, main, of);
            let next = scope.next_free(&ledger, of);
            others.landed = next.and_then(|task| line::landed_for(&ledger, task));
            (next, Some(Box::new(others)))
        }
    };
    Ok(WorkerReport::Peeked {
        next: next.cloned().map(Box::new),
        gate: scope.due_gate(&ledger).cloned(),
        in_progress: scope.in_progress(&ledger).map(|task| task.id.clone()),
        waiting: scope.waiting(&ledger, of),
        alerts: Alerts::of(&ledger),
        others,
        claiming: Claiming::of(&ledger),
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

/// Returns the commit from which a task of one of several workers starts: the branch on which results
/// land.
async fn tip(bench: &Bench, place: &OwnPlace) -> Result<WorkerReport> {
    let branch = landing_branch(bench).await?;
    let name = branch.clone();
    let tip = place.repository(move |git, _| {
        git.refresh(&name)?;
        git.tip(&name)
    });
    Ok(match tip.await?? {
        Some(commit) => WorkerReport::Based(Place {
            base: Some(commit),
            worktree: place.folder().map(|folder| folder.display().to_string()),
            ..Place::default()
        }),
        None => WorkerReport::NoBase { why: format!("the target branch {branch} is gone") },
    })
}

async fn landing_branch(bench: &Bench) -> Result<String> {
    let ledger = bench.tools.read_ledger().await?;
    let branch = ledger.head().session_config.landing_branch().unwrap_or(LANDED_BRANCH);
    Ok(branch.to_owned())
}

/// Returns the bench in which a gate is judged: for one of several workers, its tree at the branch on
/// which results land.
async fn at_tip(bench: &Bench) -> Result<Result<Bench, String>> {
    let Some(place) = &bench.own else { return Ok(Ok(bench.clone())) };
    let branch = landing_branch(bench).await?;
    let name = branch.clone();
    let tip = place.repository(move |git, _| git.tip(&name)).await??;
    let Some(tip) = tip else { return Ok(Err(format!("the target branch {branch} is gone"))) };
    Ok(match place.reset(tip).await? {
        Ok(_) => Ok(bench.clone().in_own_tree()),
        Err(why) => Err(why.to_string()),
    })
}

/// Makes the tree of one of several workers ready. What fails here says nothing about the task.
async fn open<A>(branch: &Branch<A>, bench: &Bench, task: &Task) -> Result<WorkerReport> {
    let place = own(bench)?;
    let Some(commit) = task.started_at_commit.clone() else {
        return Err(Error::message(format!("the claim of {} recorded no base", task.id)));
    };
    let epoch = task.epoch.unwrap_or_default();
    let init = match place.open(commit, task.id.clone(), epoch).await? {
        Ok(init) => init,
        Err(why) => return Ok(WorkerReport::NotOpened { why: described(&why) }),
    };
    if initialized(branch, bench, init).await? {
        return Ok(WorkerReport::Opened);
    }
    // The claim is given back, and no attempt follows that would end the branch.
    end_branch(bench, task).await?;
    Ok(WorkerReport::NotOpened { why: "harness-init.sh failed twice".to_owned() })
}

fn described(why: &WorkspaceError) -> String {
    match why {
        WorkspaceError::Unsafe { what, hint } => format!("{what} ({hint})"),
        why => why.to_string(),
    }
}

/// Runs the init script in a new tree, a second time if it fails. Returns whether the tree is ready.
async fn initialized<A>(branch: &Branch<A>, bench: &Bench, init: InitScript) -> Result<bool> {
    if init == InitScript::Ran {
        return Ok(true);
    }
    let bench = bench.clone().in_own_tree();
    for _ in 0..2 {
        let Some(verdict) = bench.prepare(branch).await? else { return Ok(true) };
        let passed = verdict == Verdict::Passed;
        bench.tools.commit(Command::Note(Note::HealthCheck { passed })).await?;
        if passed {
            own(&bench)?.repository(|git, worker| git.init_ran(worker)).await??;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the token of a landing that a dead worker intended, and returns whether it had landed.
async fn resolve(bench: &Bench, task: &Task) -> Result<LandedAlready> {
    let Some(Intent::Land { target, from, to }) = task.intent().cloned() else {
        return Ok(LandedAlready::No);
    };
    let swap = Swap { task: task.id.clone(), target, from, to };
    let resolved = own(bench)?.repository(move |git, _| resolve_in(git, &swap)).await??;
    Ok(resolved)
}

fn resolve_in(git: &dyn SharedRepository, swap: &Swap) -> Result<LandedAlready, WorkspaceError> {
    let landed = match git.void_token(&swap.task, &swap.to)? {
        Token::Voided => LandedAlready::No,
        Token::Missing if git.contains(&swap.target, &swap.to)? => LandedAlready::Yes,
        Token::Missing => LandedAlready::No,
    };
    git.finish_main_tree(swap)?;
    Ok(landed)
}

/// Deletes the branch of a dead attempt, whose work is on the target or saved by now. A worker that
/// was only late ends its branch itself, because its tree is on it.
async fn end_dead_branch(bench: &Bench, task: &Task) -> Result<()> {
    let place = own(bench)?;
    let by = task.claimed_by();
    if !by.is_some_and(|by| *by == place.worker || (place.shared.is_dead)(by)) {
        return Ok(());
    }
    let target = landing_branch(bench).await?;
    let (id, epoch) = (task.id.clone(), task.epoch.unwrap_or_default());
    let end = move |git: &dyn SharedRepository, worker: &WorkerId| {
        git.end_branch(worker, &id, epoch, &target)
    };
    // What stays is found by `gc`.
    if let Err(why) = place.repository(end).await? {
        tracing::warn!(%why, task = %task.id, "the branch of a dead attempt stays");
    }
    Ok(())
}

/// Brings the work of a dead worker into the tree of this one, and returns the evidence about it.
async fn transplant<A>(
    branch: &Branch<A>,
    bench: &Bench,
    found: &Task,
    taken: &Task,
) -> Result<Option<Found>> {
    let place = own(bench)?;
    let Some(tree) = found.claim().and_then(|claim| claim.worktree.clone()) else {
        return Ok(None);
    };
    let tree = PathBuf::from(tree);
    let Some(base) = Base::of_claim(found, &tree) else { return Ok(None) };
    let (task, attempt) = (found.id.clone(), found.attempts + 1);
    let epoch = taken.epoch.unwrap_or_default();
    let brought = place.repository(move |git: &dyn SharedRepository, worker: &WorkerId| {
        let dead = Dead { tree: &tree, task: &task, attempt, base: &base };
        git.transplant(worker, &dead, epoch)
    });
    let Some(tree) = brought.await?? else { return Ok(None) };
    let init = place.transplanted(tree);
    // A check needs what the script prepares. If it fails, the check reports that.
    initialized(branch, bench, init).await?;
    let bench = bench.clone().in_own_tree();
    set_settings_back(&bench, found).await?;
    let interrupted = look(&bench, taken).await?;
    Ok(Some(Found { evidence: interrupted.evidence, remark: interrupted.remark }))
}

/// Returns whether a claim was made in the main tree.
pub(super) fn in_main_tree(task: &Task, main: &Path) -> bool {
    let tree = task.claim().and_then(|claim| claim.worktree.as_ref());
    tree.is_none_or(|tree| Path::new(tree) == main)
}
