//! `harness task …`

pub(crate) mod checkpoint;
pub(crate) mod claim;
pub(crate) mod complete;
mod edit;
pub(crate) mod fail;
mod graph;
pub(crate) mod holder;
mod list;
mod release;
mod remove;
mod renew;
mod retry;
pub(crate) mod show;

use harness::protocol::{Answer, Request};
use serde_json::json;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// Show tasks and work on them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task list --ready
  harness task claim
  harness task checkpoint --step 2 --total 4 \"routes done\"
  harness task complete task-001
  harness task edit task-002 --priority P0")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Checkpoint(checkpoint::Args),
    Claim(claim::Args),
    Complete(complete::Args),
    Edit(Box<edit::Args>),
    Fail(fail::Args),
    Graph(graph::Args),
    List(list::Args),
    Release(release::Args),
    Remove(remove::Args),
    Renew(renew::Args),
    Retry(retry::Args),
    Show(show::Args),
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Checkpoint(args) => checkpoint::run(invocation, args),
        Command::Claim(args) => claim::run(invocation, args),
        Command::Complete(args) => complete::run(invocation, args),
        Command::Edit(args) => edit::run(invocation, *args),
        Command::Fail(args) => fail::run(invocation, args),
        Command::Graph(args) => graph::run(invocation, args),
        Command::List(args) => list::run(invocation, args),
        Command::Release(args) => release::run(invocation, args),
        Command::Remove(args) => remove::run(invocation, args),
        Command::Renew(args) => renew::run(invocation, args),
        Command::Retry(args) => retry::run(invocation, args),
        Command::Show(args) => show::run(invocation, args),
    }
}

/// Changes one task, if the role of this process allows it, and prints that it is done.
fn done(invocation: &mut Invocation, request: Request, word: &str, json: bool) -> Result<ExitCode> {
    let root = invocation.root()?;
    match &request {
        Request::TaskRelease(of) => invocation.permit_release(&root, &of.task_id)?,
        other => invocation.permit(&root, other.operation()?)?,
    }
    let about = match &request {
        Request::TaskEdit(edit) => Some(edit.task.clone()),
        Request::TaskRetry(of) | Request::TaskRelease(of) => Some(of.task_id.clone()),
        Request::TaskRemove { task_id } => Some(task_id.clone()),
        _ => None,
    };
    let asked = match &about {
        Some(task) => invocation.with_client_of_task(&root, task, |client| client.ask(request)),
        None => invocation.with_client(&root, |client| client.ask(request)),
    };
    let task = match asked? {
        Answer::Task { task_id } => task_id,
        other => return Err(Failure::error(format!("unexpected answer: {other:?}"))),
    };
    if json {
        invocation.out.document(&json!({ "task_id": task }))?;
    } else {
        invocation.out.line(format_args!("Task {task} {word}"))?;
    }
    Ok(ExitCode::Done)
}
