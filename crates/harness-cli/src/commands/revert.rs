//! `harness revert`

use std::{collections::BTreeSet, sync::Arc};

use harness::{
    check::Check,
    clock::{Clock as _, SystemClock},
    project::{Project, Reversal, ReversalEnd},
    shell::{Cancel, SystemShell},
    store::{Locking, Store as _, lock::Wait},
    workspace::{GitRepository, GitWorkspace},
};
use harness_core::{
    Command, CommitId, Ledger, Reply, Run, Task, TaskId,
    check::Verdict,
    command::{Reopen, completed_dependents},
    ledger::ConcurrencyMode,
    role::Operation,
    task::Status,
    variables::Variables,
};
use serde_json::json;

use super::{runs::run_of_name, verify};
use crate::{
    config::Overrides,
    exit::ExitCode,
    failure::{Failure, Result},
    fleet::FleetTerms,
    host::{make_way, places},
    invocation::Invocation,
    paint::{one_line, visible, warn},
    root::StateRoot,
    trust,
};

/// Take back what landed for a task or a run
///
/// Makes commits that undo what landed for the task, or for all tasks of the run, newest first, on the
/// branch on which it landed. Before they land, the checks of all completed tasks that do not depend on
/// it must pass on the result. Then the tasks are pending again, with the reason. Completed tasks that
/// depend on them stay completed and are named.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness revert task-003 --reason 'the login is broken'
  harness revert 1f3c
  harness revert task-003 --json | jq -r .commit")]
pub(crate) struct Args {
    /// The task, or the run; the beginning of its id is enough
    #[arg(value_name = "TASK|RUN")]
    what: String,
    /// The reason, for the log and for the next attempt
    #[arg(long, value_name = "TEXT", default_value = "taken back by a person")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The time within which a transaction gets the lock.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Revert)?;
    trust::require(invocation, &root)?;
    let config = invocation.config(&root, Overrides::default())?;
    let project = invocation.project(&root)?;
    let locking = locking(invocation, &root, &project)?;
    let ledger = invocation.look(&root)?;
    let tasks = chosen(&root, &ledger, &args.what)?;
    let workspace = invocation.workspace(&root)?.bringing(config.validation.bring());
    let target = target(&ledger, &workspace)?;
    let secrets = crate::secrets::known(&config);
    let fleet = FleetTerms {
        env: &invocation.env,
        root: &root,
        config: &config,
        workspace: &workspace,
        secrets: &secrets,
        lease_seconds: invocation.lease_seconds()?,
    };
    let end = take_back(&fleet, &ledger, &target, &tasks)?;
    let (commit, reverted) = match end {
        ReversalEnd::Landed { commit, reverted } => (Some(commit), reverted),
        // An earlier revert was cut short, or the tasks changed nothing.
        ReversalEnd::Nothing => {
            refuse_without_trailer(&root, &ledger, &tasks, &target)?;
            (None, Vec::new())
        }
        refused => return Err(refusal(&refused, &target)),
    };
    let reason = secrets.text(&args.reason).into_owned();
    let tasks: Vec<TaskId> = tasks.into_iter().collect();
    let dependents = reopen(&project, locking, &tasks, reason)?;
    tell(invocation, &args, &Told { tasks, commit, reverted, dependents, target })
}

/// A session that works alone must not run meanwhile. Several workers go on.
fn locking(invocation: &Invocation, root: &StateRoot, project: &Project) -> Result<Locking> {
    let head = invocation.look(root)?.head().session_config.concurrency_mode;
    Ok(match head {
        ConcurrencyMode::Concurrent => Locking::Each(Wait::For(LOCK_WAIT)),
        ConcurrencyMode::Exclusive => {
            make_way(root, &places(&invocation.env))?;
            let acquired = project.hold()?;
            acquired.warnings.iter().for_each(|w| warn(&w.to_string()));
            Locking::Held(acquired.guard)
        }
    })
}

/// Returns the tasks that are meant. They must be completed, or pending again after a revert that was
/// cut short.
fn chosen(root: &StateRoot, ledger: &Ledger, what: &str) -> Result<BTreeSet<TaskId>> {
    if let Some(task) = TaskId::parse(what).ok().and_then(|id| ledger.task(&id)) {
        return match task.status() {
            Status::Completed => Ok([task.id.clone()].into()),
            status => Err(Failure::error(format!("Task {} is {status}, not completed", task.id))
                .hint("only what landed can be taken back")),
        };
    }
    let store = root.look_at_runs()?;
    let runs = store.map_or_else(|| Ok(Vec::new()), |store| store.runs())?;
    let run = run_of_name(&runs, what)
        .map_err(|failure| failure.hint(format!("and there is no task {what}")))?;
    let of_run = |row: &&Run| row.parent.as_ref() == Some(&run.id) || row.id == run.id;
    let completed = |row: &Run| {
        let task = ledger.task(row.task.as_ref()?)?;
        let landed = task.status() == Status::Completed && task.epoch == row.epoch;
        landed.then(|| task.id.clone())
    };
    let tasks: BTreeSet<TaskId> = runs.iter().filter(of_run).filter_map(completed).collect();
    match tasks.is_empty() {
        true => Err(Failure::error(format!("no task is completed by run {}", run.id))),
        false => Ok(tasks),
    }
}

fn target(ledger: &Ledger, workspace: &GitWorkspace) -> Result<String> {
    let landed = ledger.head().session_config.landing_branch().map(str::to_owned);
    landed.or_else(|| workspace.branch()).ok_or_else(|| {
        Failure::config("HEAD is on no branch").hint("check out the branch on which it landed")
    })
}

fn take_back(
    fleet: &FleetTerms<'_>,
    ledger: &Ledger,
    target: &str,
    tasks: &BTreeSet<TaskId>,
) -> Result<ReversalEnd> {
    let FleetTerms { root, config, workspace, .. } = *fleet;
    let settings = config.parallel.trees();
    let repository = Arc::new(GitRepository::new(workspace.clone(), root.path(), settings)?);
    let remote = fleet.repository(Arc::clone(&repository))?;
    let reversal = Reversal {
        repository: &repository,
        shared: match &remote {
            Some(remote) => remote,
            None => &*repository,
        },
        workspace,
        root: root.path(),
        target,
        tasks: tasks.clone(),
        checks: checks(root, ledger, tasks),
    };
    let mut begins =
        |task: &TaskId, check: &Check| eprintln!("checking {task}: {}", visible(&check.command));
    Ok(reversal.perform(&SystemShell::default(), &Cancel::new()?, &mut begins)?)
}

/// Returns the checks of the completed tasks that do not depend on what is taken back, each command
/// once.
fn checks(root: &StateRoot, ledger: &Ledger, tasks: &BTreeSet<TaskId>) -> Vec<(TaskId, Check)> {
    let gone: Vec<TaskId> = tasks.iter().cloned().collect();
    let dependents = completed_dependents(ledger, &gone);
    let stays = |task: &&Task| {
        task.status() == Status::Completed
            && !tasks.contains(&task.id)
            && !dependents.contains(&task.id)
    };
    let mut commands = BTreeSet::new();
    let check = |task: &Task| {
        let command = task.check().filter(|command| commands.insert((*command).to_owned()))?;
        let environment = match crate::view_sources::receipt_of(root, task) {
            Some(receipt) => verify::environment(root, &receipt),
            None => Variables::of_root(root.path().display()).list(),
        };
        let timeout_seconds = task.validation.timeout_seconds;
        let check = Check { command: command.to_owned(), timeout_seconds, environment };
        Some((task.id.clone(), check))
    };
    ledger.tasks().filter(stays).filter_map(check).collect()
}

/// Refuses tasks whose commits have no trailer, because a worker in the main tree made them.
fn refuse_without_trailer(
    root: &StateRoot,
    ledger: &Ledger,
    tasks: &BTreeSet<TaskId>,
    target: &str,
) -> Result<()> {
    let receipts =
        tasks.iter().filter_map(|id| crate::view_sources::receipt_of(root, ledger.task(id)?));
    let changed = receipts.filter(|receipt| receipt.commit != receipt.base);
    let Some(receipt) = changed.into_iter().next() else { return Ok(()) };
    let (task, commit) = (&receipt.task, receipt.commit.as_ref().map_or("-", CommitId::short));
    let what = format!("no commit on {target} has the trailer `Harness-Task: {task}`");
    Err(Failure::error(what)
        .hint(format!("it was made in your own work tree: `git revert {commit}`"))
        .hint(format!("then `harness task edit {task}` or a new task says what is left to do")))
}

fn refusal(end: &ReversalEnd, target: &str) -> Failure {
    match end {
        ReversalEnd::Conflict { commit, files } => {
            let files = files.join(", ");
            Failure::error(format!("{} conflicts with later commits in {files}", commit.short()))
                .hint("take back what landed later first, or revert it by hand")
        }
        ReversalEnd::Refused { task, command, verdict } => {
            let command = visible(command);
            let why = reason(verdict);
            Failure::error(format!("without it the check of {task} fails: {command} ({why})"))
                .hint("nothing was changed; take that task back too, or fix it first")
        }
        ReversalEnd::InUse { why } => {
            Failure::error(format!("{target} cannot be moved: {why}")).hint("nothing was changed")
        }
        _ => Failure::error(format!("{target} moved again and again"))
            .hint("nothing was changed; try again"),
    }
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Passed => "it passed",
        Verdict::Red { why } => why,
        Verdict::TimedOut => "it took too long",
        Verdict::Missing => "it or harness-init.sh cannot be run in a clean checkout",
        Verdict::Cancelled => "it was stopped",
    }
}

/// Sets the tasks back to pending. Returns the completed tasks that depend on them.
fn reopen(
    project: &Project,
    locking: Locking,
    tasks: &[TaskId],
    reason: String,
) -> Result<Vec<TaskId>> {
    let mut store = project.file_store(locking)?;
    let command = Command::Reopen(Reopen { tasks: tasks.to_vec(), reason });
    let mut applied = store.apply(SystemClock.now(), &[command])?;
    applied.warnings.iter().for_each(|warning| warn(&warning.to_string()));
    match applied.replies.pop() {
        Some(Ok(Reply::Reopened { dependents, .. })) => Ok(dependents),
        Some(Err(refusal)) => Err(Failure::error(refusal.to_string())),
        Some(Ok(_)) | None => Err(Failure::error("the store returned an unexpected answer")),
    }
}

struct Told {
    tasks: Vec<TaskId>,
    commit: Option<CommitId>,
    reverted: Vec<CommitId>,
    dependents: Vec<TaskId>,
    target: String,
}

fn tell(invocation: &mut Invocation, args: &Args, told: &Told) -> Result<ExitCode> {
    let Told { tasks, commit, reverted, dependents, target } = told;
    if args.json {
        invocation.out.document(&json!({
            "tasks": tasks, "commit": commit, "reverted": reverted, "dependents": dependents,
            "target": target,
        }))?;
        return Ok(ExitCode::Done);
    }
    let named: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
    let named = named.join(", ");
    let line = match commit {
        Some(commit) => {
            let count = reverted.len();
            let commits =
                if count == 1 { "1 commit".to_owned() } else { format!("{count} commits") };
            format!("took {commits} back on {target}, which is at {} now", commit.short())
        }
        None => "nothing was left to take back".to_owned(),
    };
    invocation.out.line(one_line(&format!("{line}; pending again: {named}")))?;
    for task in dependents {
        warn(&format!("{task} is completed and depends on what was taken back"));
    }
    Ok(ExitCode::Done)
}
