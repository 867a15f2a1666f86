//! `harness task claim`

use std::time::Duration;

use harness::protocol::{Answer, Request, TaskClaim};
use harness_core::task::problem_of_label;

use super::super::fields::seconds;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation, worker};

/// A wait that is practically unlimited.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Claim the next task
///
/// Prints the task with its instructions as JSON, or `"task":null` if nothing is ready. A worker
/// that already holds a task gets that one. In a git repository the starting commit is recorded.
/// The daemon hands out the tasks, and is started if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task claim
  harness task claim --role backend --worker alice
  harness task claim --label gpu --wait")]
pub(super) struct Args {
    /// Only tasks of this role, or without a role
    #[arg(long)]
    role: Option<String>,
    /// A label of the worker; tasks that require it are eligible too (repeatable)
    #[arg(long = "label", value_name = "LABEL", value_delimiter = ',', value_parser = label)]
    labels: Vec<String>,
    /// Wait until a task is ready, or for this long, such as 90s or 10m
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = patience)]
    #[expect(clippy::option_option, reason = "clap's form for a flag with an optional value")]
    wait: Option<Option<u64>>,
    #[command(flatten)]
    worker: worker::Choice,
}

/// Parses a label of a worker.
pub(crate) fn label(text: &str) -> std::result::Result<String, String> {
    match problem_of_label(text) {
        None => Ok(text.to_owned()),
        Some(problem) => Err(problem),
    }
}

/// Parses a waiting time. With 0 the command asks once.
fn patience(text: &str) -> std::result::Result<u64, String> {
    if text == "0" { Ok(0) } else { seconds(text) }
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let wait = args.wait.map(|seconds| seconds.map_or(FOR_EVER, Duration::from_secs));
    let answer = claim(invocation, &args.worker, args.role, args.labels, wait)?;
    invocation.out.json(&answer)?;
    Ok(ExitCode::Done)
}

/// Returns the next task with its instructions; `"task": null` if none is ready within `wait`.
pub(crate) fn claim(
    invocation: &Invocation,
    worker: &worker::Choice,
    role: Option<String>,
    labels: Vec<String>,
    wait: Option<Duration>,
) -> Result<Answer> {
    let root = invocation.root()?;
    let worker = worker.id(&invocation.env, || Ok(root.clone()))?;
    let mut claim =
        TaskClaim { role, labels, ..TaskClaim::any(worker) }.lease(invocation.own_lease_seconds()?);
    if let Some(wait) = wait {
        claim = claim.wait(wait);
    }
    invocation.with_client(&root, |client| client.ask(Request::TaskClaim(claim)))
}
