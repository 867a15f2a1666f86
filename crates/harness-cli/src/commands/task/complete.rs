//! `harness task complete`

use harness::host::wire;
use harness_core::{
    Command, Holder,
    command::{Authority, Complete, Proof, Unchecked},
    role::Operation,
};
use serde_json::{Value, json};

use super::{Invocation, by_files::ByFiles, holder::Claimed};
use crate::{
    exit::ExitCode,
    failure::Result,
    host::{Asked, Patience},
    root::StateRoot,
};

/// Say that a task is done, and have it checked
///
/// The task's check (validation.command) is run, in the work tree, and only if it passes does the
/// task count as completed. If it does not pass the task stays yours, no attempt is counted, and the
/// end of the output is shown. A task that has no check is completed on your word, which is logged.
/// The daemon has the check run, in its work tree, and is started if there is none.
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
    let authority = if args.force { Authority::Force } else { Authority::Holder };
    let data = complete(invocation, &args.claimed, authority)?;
    told(invocation, &data, args.json)
}

/// The answer has `"requested": true` where the check follows the end of the agent.
pub(crate) fn complete(
    invocation: &Invocation,
    claimed: &Claimed,
    authority: Authority,
) -> Result<Value> {
    let root = invocation.root()?;
    let holder = claimed.holder(invocation, &root)?;
    match authority {
        Authority::Force => invocation.permit(&root, Operation::ForceComplete)?,
        Authority::Holder => invocation.permit_holder(&root, Operation::Complete, &holder)?,
    }
    if let Some(data) = by_host(invocation, &root, &holder, authority)? {
        return Ok(data);
    }
    let task = ByFiles::new(invocation, &root)?.complete(holder, authority)?;
    Ok(json!({ "task_id": task }))
}

/// What the host says, if one may be asked: it has the check run, by the rules of its own.
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
    // A check takes as long as it takes.
    let waiting = Patience::Patient(format!("waiting for the check of {}", holder.task));
    let asked = invocation.ask_or_start(root, &request, &waiting);
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
