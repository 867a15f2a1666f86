//! `harness plan export`

use harness_core::plan::Plan;

use super::source;
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Print the ledger as a plan
///
/// A plan holds no history of the tasks, so it can be imported elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan export > plan.md
  harness plan export --json | jq '.tasks | keys'")]
pub(crate) struct Args {
    /// Print the plan as JSON, without text around it
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let plan = Plan::of_ledger(&invocation.look(&root)?);
    source::warn_of(&plan);
    if args.json {
        invocation.out.document(&plan.to_value())?;
    } else {
        invocation.out.raw(plan.to_markdown().as_bytes())?;
    }
    Ok(ExitCode::Done)
}
