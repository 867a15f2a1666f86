//! `harness task complete`

use harness::{
    clock::{Clock, SystemClock},
    host::{client::ANSWER_WITHIN, wire},
    workspace::{Workspace, glance},
};
use harness_core::{
    Command, Epoch, Holder, Receipt, Task,
    command::{Authority, Complete, Proof, Unchecked},
    receipt,
    task::Status,
};
use serde_json::Value;

use super::{Invocation, done, holder::Claimed, judged::Candidate};
use crate::{
    config::Overrides,
    exit::ExitCode,
    failure::{Failure, Result},
    host::Asked,
    root::StateRoot,
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

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let holder = args.claimed.holder(invocation, &root)?;
    let authority = if args.force { Authority::Force } else { Authority::Holder };
    if let Some(data) = by_host(invocation, &root, &holder, authority)? {
        return told(invocation, &data, args.json);
    }
    let ledger = invocation.look(&root)?;
    let config = invocation.config(&root, Overrides::default())?;
    let (rules, session) = (config.rules()?, ledger.head().session_count);
    // A wrong holder hears so at once, not after a check that may take an hour.
    let task = ledger.task(&holder.task).filter(|t| t.status != Status::Completed);
    let task = task.filter(|t| authority == Authority::Force || held(t, &holder));
    let mut written = None;
    let mut proof = Proof::Word;
    if let Some(task) = task {
        let (invocation, root, holder) = (&*invocation, &root, &holder);
        let rules = &rules;
        let judged = Candidate { invocation, root, task, holder, session, rules };
        // By force it is a new claim.
        let epoch = if held(task, holder) { task.epoch } else { Some(ledger.next_epoch()) };
        let mut receipt = receipt_of(&judged, epoch.unwrap_or_default());
        receipt.protected = judged.protected()?;
        if let Some(command) = task.check() {
            receipt.check = Some(judged.check()?);
            proof = Proof::Passed { command: command.to_owned() };
        }
        if proof != Proof::Word || !config.require_validation {
            harness::store::record(root.path(), &receipt)?;
            written = Some(receipt);
        }
    }
    let unchecked = match proof {
        Proof::Passed { .. } => Unchecked::Allowed,
        Proof::Word if config.require_validation => Unchecked::Forbidden,
        Proof::Word => Unchecked::Allowed,
    };
    let commit = glance::head(root.path());
    let complete = Complete { holder, authority, proof, unchecked, commit };
    let code = done(invocation, Command::Complete(complete), "completed", args.json)?;
    if let Some(receipt) = written {
        under_its_epoch(invocation, &root, receipt)?;
    }
    Ok(code)
}

/// A completion by force gets the epoch that is next when it is made; usually that is the one that
/// was next when we looked.
fn under_its_epoch(invocation: &Invocation, root: &StateRoot, receipt: Receipt) -> Result<()> {
    let ledger = invocation.look(root)?;
    match ledger.task(&receipt.task).and_then(|task| task.epoch) {
        Some(epoch) if epoch != receipt.epoch => {
            harness::store::record(root.path(), &Receipt { epoch, ..receipt })
                .map_err(Failure::from)
        }
        Some(_) | None => Ok(()),
    }
}

fn receipt_of(judged: &Candidate<'_>, epoch: Epoch) -> Receipt {
    let commit = glance::head(&judged.directory());
    let tree = commit.as_ref().and_then(|at| judged.workspace().ok()?.tree_of(at).ok());
    Receipt {
        version: receipt::VERSION,
        task: judged.task.id.clone(),
        epoch,
        worker: judged.holder.worker.clone(),
        attempt: judged.task.attempts + 1,
        base: judged.task.started_at_commit.clone(),
        commit,
        tree,
        check: None,
        baseline: None,
        protected: Vec::new(),
        agent: None,
        iterations: None,
        tokens: None,
        cost_usd: None,
        time: SystemClock.now(),
    }
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
