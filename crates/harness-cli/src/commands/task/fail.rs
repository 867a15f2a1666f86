//! `harness task fail`

use harness_core::{
    Category, Command, Reply,
    command::{Attempts, Fail},
};
use serde_json::json;

use super::{Invocation, holder::Claimed};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
};

/// Give a claimed task up as failed
///
/// Counts an attempt. Nothing is rolled back: a client does its own git work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task fail --id task-002 \"Redis connection refused\"
  harness task fail --category ENV_SETUP \"no compiler\"")]
pub(super) struct Args {
    /// Why
    message: String,
    /// What sort of failure
    #[arg(long, default_value = "TASK_EXEC", value_parser = category)]
    category: Category,
    #[command(flatten)]
    claimed: Claimed,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

fn category(text: &str) -> std::result::Result<Category, String> {
    text.parse().map_err(|e: harness_core::category::UnknownCategory| e.to_string())
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let command = Command::Fail(Fail {
        holder: args.claimed.holder(invocation, &root)?,
        category: args.category,
        message: args.message,
        attempts: Attempts::One,
        rolled_back_to: None,
    });
    let reply = invocation.apply(&root, command)?;
    let Reply::Failed { task, retryable } = reply else {
        return Err(Failure::error(format!("unexpected answer: {reply:?}")));
    };
    if args.json {
        invocation.out.document(&json!({ "task_id": task, "retryable": retryable }))?;
    } else {
        let next = if retryable { "it will be tried again" } else { "it failed for good" };
        invocation.out.line(format_args!("Task {task} failed; {next}"))?;
    }
    Ok(ExitCode::Done)
}
