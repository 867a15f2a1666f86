//! `harness task complete`

use std::{
    io::Write,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use harness::{
    host::{client::ANSWER_WITHIN, wire},
    shell::{Script, Shell, SystemShell},
    workspace::glance,
};
use harness_core::{
    Command, Holder, Task,
    check::{Found, Verdict},
    command::{Authority, Complete, Proof, Renew, Unchecked},
    task::Status,
};

use serde_json::Value;

use super::{Invocation, done, holder::Claimed};
use crate::{
    config::Overrides,
    exit::ExitCode,
    failure::{Failure, Kind, Result},
    host::Asked,
    interrupt,
    render::visible,
    root::StateRoot,
    store::warn,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Say that a task is done, and have it checked
///
/// The task's check (validation.command) is run, in the work tree, and only if it passes does the
/// task count as completed. If it does not pass the task stays yours, no attempt is counted, and the
/// end of the output is shown. A task that has no check is completed on your word, which is logged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task complete --id task-001
  harness task complete --id task-001 --force   # another's, or unclaimed: still checked")]
pub(super) struct Args {
    #[command(flatten)]
    claimed: Claimed,
    /// Complete a task that another worker or nobody has claimed
    #[arg(long)]
    force: bool,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

/// How much of a failing check's output is shown; the tail is where checks say what is wrong.
const SHOWN_LINES: usize = 20;

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let holder = args.claimed.holder(invocation, &root)?;
    let authority = if args.force { Authority::Force } else { Authority::Holder };
    if let Some(data) = by_host(invocation, &root, &holder, authority)? {
        return told(invocation, &data, args.json);
    }
    let ledger = invocation.look(&root)?;
    let task = ledger.task(&holder.task).cloned();
    let check = task.as_ref().filter(|t| t.status != Status::Completed && t.check().is_some());
    let proof = match check {
        // A wrong holder hears so at once, not after a check that may take an hour.
        Some(task) if authority == Authority::Force || held(task, &holder) => {
            passed(invocation, &root, task, &holder, ledger.head().session_count)?
        }
        _ => Proof::Word,
    };
    let unchecked = match proof {
        Proof::Passed { .. } => Unchecked::Allowed,
        Proof::Word if invocation.config(&root, Overrides::default())?.require_validation => {
            Unchecked::Forbidden
        }
        Proof::Word => Unchecked::Allowed,
    };
    let commit = glance::head(root.path());
    let complete = Complete { holder, authority, proof, unchecked, commit };
    done(invocation, Command::Complete(complete), "completed", args.json)
}

/// What the host says, if there is one: it has the check run, by the rules of its own.
fn by_host(
    invocation: &Invocation,
    root: &StateRoot,
    holder: &Holder,
    authority: Authority,
) -> Result<Option<Value>> {
    let command = Command::Complete(Complete {
        holder: holder.clone(),
        authority,
        proof: Proof::Word,
        unchecked: Unchecked::Forbidden,
        commit: None,
    });
    let Some(request) = wire::request(&command) else { return Ok(None) };
    let asked = invocation.ask_host(root, request, Some(ANSWER_WITHIN));
    match asked.map_err(|failure| invocation.explained(root, &command, failure))? {
        Asked::Answered(data) => Ok(Some(data)),
        Asked::Nobody => Ok(None),
    }
}

fn told(invocation: &mut Invocation, data: &Value, json: bool) -> Result<ExitCode> {
    let task = data["task_id"].as_str().unwrap_or_default();
    if json {
        invocation.out.document(data)?;
    } else if data["requested"] == true {
        invocation.out.line(format_args!("Task {task}: check requested"))?;
    } else {
        invocation.out.line(format_args!("Task {task} completed"))?;
    }
    Ok(ExitCode::Done)
}

fn held(task: &Task, holder: &Holder) -> bool {
    task.status == Status::InProgress
        && task.claimed_by.as_ref() == Some(&holder.worker)
        && holder.epoch.is_none_or(|e| task.epoch == Some(e))
}

/// Runs the check and gives its proof; a check that does not pass is a failure.
fn passed(
    invocation: &Invocation,
    root: &StateRoot,
    task: &Task,
    holder: &Holder,
    session: u64,
) -> Result<Proof> {
    let command = task.check().unwrap_or_default().to_owned();
    if !Trust::of_user(&invocation.env)?.is_trusted(root)? {
        return Err(trust::refusal(root, &WouldRun::in_root(root)?));
    }
    let directory =
        task.worktree.as_ref().map_or_else(|| work_tree(invocation, root), PathBuf::from);
    let timeout = Duration::from_secs(task.validation.timeout_seconds.max(1));
    let environment = environment(root, task, holder, session);
    let script = Script { command: command.clone(), directory, timeout, environment };
    _ = writeln!(std::io::stderr(), "checking {}: {}", task.id, visible(&command));
    let shell = SystemShell::default();
    let found = if shell.lacks(&command, &script.directory) { Found::No } else { Found::Yes };
    let stop = interrupt::request()?;
    let check = || shell.run_until(&script, &stop);
    let ran = while_renewing(invocation, root, task, holder, check)?;
    let told = tail(&ran.tail);
    match Verdict::of(found, ran.exit) {
        Verdict::Passed => Ok(Proof::Passed { command }),
        Verdict::Red { why } => {
            Err(Failure::error(format!("Task {}: the check failed ({why}){told}", task.id))
                .hint("the task is still yours: mend it and complete it again"))
        }
        Verdict::TimedOut => Err(Failure::error(format!(
            "Task {}: the check took longer than {} s{told}",
            task.id,
            timeout.as_secs()
        ))
        .hint(format!("`harness task edit {} --timeout SECONDS` gives it more", task.id))),
        Verdict::Missing => Err(Failure::error(format!(
            "Task {}: the check can not be run here: {}{told}",
            task.id,
            visible(&command)
        ))
        .hint("install what it needs; the task is still yours")),
        Verdict::Cancelled => {
            let stopped = format!("Task {}: the check was stopped", task.id);
            Err(Failure::new(Kind::Interrupted, stopped).hint("the task is still yours"))
        }
    }
}

/// The work tree that clients share: HARNESS_WORKTREE, else the top of the repository, else the
/// state root.
fn work_tree(invocation: &Invocation, root: &StateRoot) -> PathBuf {
    let told = invocation.env.path("HARNESS_WORKTREE").map(PathBuf::from);
    told.or_else(|| glance::top_level(root.path())).unwrap_or_else(|| root.path().to_owned())
}

fn environment(
    root: &StateRoot,
    task: &Task,
    holder: &Holder,
    session: u64,
) -> Vec<(String, String)> {
    [
        ("HARNESS_STATE_ROOT", root.path().display().to_string()),
        ("HARNESS_TASK_ID", task.id.to_string()),
        ("HARNESS_EPOCH", task.epoch.unwrap_or_default().to_string()),
        ("HARNESS_ATTEMPT", (task.attempts + 1).to_string()),
        ("HARNESS_WORKER_ID", holder.worker.to_string()),
        ("HARNESS_SESSION", session.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A check may outlast the lease: it is renewed meanwhile, outside of any lock.
fn while_renewing<T: Send>(
    invocation: &Invocation,
    root: &StateRoot,
    task: &Task,
    holder: &Holder,
    work: impl FnOnce() -> std::io::Result<T> + Send,
) -> Result<T> {
    if task.status != Status::InProgress {
        return Ok(work()?);
    }
    let lease = task.timeout_seconds.unwrap_or(harness_core::lease::CLIENT_LEASE_SECONDS);
    let third = Duration::from_millis((lease.max(1) * 1000 / 3).max(300));
    let lease_seconds = invocation.lease_seconds()?;
    let (finished, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let working = scope.spawn(move || {
            let _finished = finished;
            work()
        });
        while waiting.recv_timeout(third) == Err(RecvTimeoutError::Timeout) {
            let renew = Command::Renew(Renew { holder: holder.clone(), lease_seconds });
            if let Err(failure) = invocation.apply(root, renew) {
                // Whether the claim was lost is told when the result is recorded.
                warn(&format!("the lease of {} was not renewed: {failure}", holder.task));
            }
        }
        match working.join() {
            Ok(done) => Ok(done?),
            Err(_) => Err(Failure::error("the check could not be watched")),
        }
    })
}

fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| format!("\n  | {line}")).collect()
}
