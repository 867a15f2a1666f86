//! `harness plan check`

use harness_core::plan::Plan;
use serde_json::json;

use super::source;
use crate::{
    commands::add::note_unchecked, exit::ExitCode, failure::Result, invocation::Invocation,
    paint::one_line, render::tasks,
};

/// Check a plan without importing it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan check plan.md
  my-agent 'write a plan' | harness plan check -")]
pub(crate) struct Args {
    #[command(flatten)]
    source: source::Source,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let plan = Plan::parse(&source::read(args.source.file())?)?;
    plan.check_titles()?;
    source::warn_of(&plan);
    note_unchecked(&source::unchecked(&plan));
    let count = plan.tasks.len();
    if args.json {
        let Plan { goal, warnings, .. } = &plan;
        let answer = json!({ "goal": goal, "task_count": count, "warnings": warnings });
        invocation.out.document(&answer)?;
    } else {
        invocation.out.line(format_args!("Plan is valid ({})", tasks(count)))?;
        invocation.out.line(format_args!("Goal: {}", one_line(&plan.goal)))?;
    }
    Ok(ExitCode::Done)
}
