//! `harness task claim`

use std::time::{Duration, Instant};

use harness::{host::wire, workspace::glance};
use harness_core::{
    Command, Reply,
    command::{Claim, Place},
    role::Operation,
    task::Via,
};
use serde_json::Value;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    host::{Asked, Patience},
    root::StateRoot,
    worker,
};

/// How often the files are looked at where nobody can be asked to send word.
const LOOK: Duration = Duration::from_secs(1);
/// As long as it takes.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Take the next task
///
/// Prints the task with its instructions as JSON, or `"task":null` when nothing is ready. Asked
/// again, a worker is given what it already has. Where git is, the commit that the work starts from
/// is recorded. The daemon gives the tasks out, and is started if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task claim
  harness task claim --role backend --worker alice
  harness task claim --wait")]
pub(super) struct Args {
    /// Only tasks of this role, or of none
    #[arg(long)]
    role: Option<String>,
    /// Wait until a task is ready, or for this many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "clap's form for a flag with an optional value")]
    wait: Option<Option<u64>>,
    #[command(flatten)]
    worker: worker::Choice,
}

pub(super) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let wait = args.wait.map(|seconds| seconds.map_or(FOR_EVER, Duration::from_secs));
    let data = claim(invocation, &args.worker, args.role, wait)?;
    invocation.out.json(&data)?;
    Ok(ExitCode::Done)
}

/// The next task with its instructions; `"task": null` where none is ready within `wait`.
pub(crate) fn claim(
    invocation: &Invocation,
    worker: &worker::Choice,
    role: Option<String>,
    wait: Option<Duration>,
) -> Result<Value> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Claim)?;
    let claim = Claim {
        worker: worker.id(&invocation.env, || Ok(root.clone()))?,
        via: Via::Client,
        role,
        only: None,
        lease_seconds: invocation.lease_seconds()?,
        place: Place::default(),
    };
    match by_host(invocation, &root, &claim, wait)? {
        Some(data) => Ok(data),
        None => by_files(invocation, &root, claim, wait),
    }
}

fn by_host(
    invocation: &Invocation,
    root: &StateRoot,
    claim: &Claim,
    wait: Option<Duration>,
) -> Result<Option<Value>> {
    let command = Command::Claim(claim.clone());
    let Some(mut request) = wire::request(&command) else { return Ok(None) };
    let mut patience = Patience::Short;
    if let Some(wait) = wait {
        request["wait_ms"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
        patience = Patience::Patient("waiting for a task".to_owned());
    }
    let asked = invocation.ask_or_start(root, &request, &patience);
    match asked.map_err(|failure| invocation.explained(root, &command, failure))? {
        Asked::Answered(data) => Ok(Some(data)),
        Asked::Nobody => Ok(None),
    }
}

fn by_files(
    invocation: &Invocation,
    root: &StateRoot,
    mut claim: Claim,
    wait: Option<Duration>,
) -> Result<Value> {
    let deadline = wait.map(|wait| Instant::now() + wait);
    loop {
        claim.place = place(root);
        let (reply, _) = invocation.apply_archiving(root, Command::Claim(claim.clone()))?;
        match reply {
            Reply::Claimed(claimed) => {
                invocation.keep_rules(root, &claimed);
                return Ok(wire::claimed(Some(&claimed)));
            }
            Reply::NothingToClaim => {}
            other => return Err(Failure::error(format!("unexpected answer: {other:?}"))),
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => invocation.interrupt.pause(left.min(LOOK))?,
            None => return Ok(wire::claimed(None)),
        }
    }
}

/// A client does its own git work: of the repository only HEAD is looked at, and where there is
/// none the claim says so (`base=none`).
fn place(root: &StateRoot) -> Place {
    Place { base: glance::head(root.path()), ..Place::default() }
}
