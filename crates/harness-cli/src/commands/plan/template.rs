//! `harness plan template`

use harness_core::plan::Plan;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Explain how to write a plan, with an example
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan template
  harness plan template > plan.md")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, Args {}: Args) -> Result<ExitCode> {
    invocation.out.raw(Plan::template().as_bytes())?;
    Ok(ExitCode::Done)
}
