//! `harness task …`

pub(crate) mod by_files;
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

use harness_core::{Reply, command::Edit, role::Operation};
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    root::StateRoot,
};

/// Look at tasks and work on them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task list --ready
  harness task claim
  harness task checkpoint --step 2 --total 4 \"routes done\"
  harness task complete --id task-001
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
    Edit(edit::Args),
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
        Command::Edit(args) => edit::run(invocation, args),
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

/// The same command with its author, if the role of this process allows it.
fn permitted(
    invocation: &Invocation,
    root: &StateRoot,
    command: harness_core::Command,
) -> Result<harness_core::Command> {
    use harness_core::Command as C;
    match &command {
        C::Release(release) => invocation.permit_release(root, &release.task)?,
        C::Remove(_) => invocation.permit(root, Operation::Remove)?,
        C::Retry(_) => invocation.permit(root, Operation::Retry)?,
        _ => invocation.permit(root, Operation::Edit)?,
    }
    Ok(match command {
        C::Edit(edit) => C::Edit(Edit { by: invocation.author(root), ..edit }),
        other => other,
    })
}

/// Applies a command that is about one task and says that it is done.
fn done(
    invocation: &mut Invocation,
    command: harness_core::Command,
    word: &str,
    json: bool,
) -> Result<ExitCode> {
    let root = invocation.root()?;
    let command = permitted(invocation, &root, command)?;
    let reply = invocation.apply(&root, command)?;
    let Reply::Task(task) = reply else {
        return Err(Failure::error(format!("unexpected answer: {reply:?}")));
    };
    if json {
        invocation.out.document(&json!({ "task_id": task }))?;
    } else {
        invocation.out.line(format_args!("Task {task} {word}"))?;
    }
    Ok(ExitCode::Done)
}
