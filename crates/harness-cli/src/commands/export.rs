//! `harness export`

use harness::clock::{Clock as _, SystemClock};
use harness_core::export::{self, ExportForm};

use crate::{exit::ExitCode, failure::Result, invocation::Invocation, paint::warn};

/// Print the ledger in the form of another tool
///
/// The text goes to standard output, and `harness import` reads it again. Whatever a form cannot
/// hold is named on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness export --to checklist > TODO.md
  harness export --to prd > prd.json
  harness export --to beads | bd import")]
pub(crate) struct Args {
    /// The form: plan, prd, checklist, taskmaster, beads
    #[arg(long, value_name = "FORM", value_parser = form)]
    to: ExportForm,
}

fn form(word: &str) -> Result<ExportForm, String> {
    let known = || ExportForm::ALL.iter().map(|form| form.name()).collect::<Vec<_>>().join(", ");
    ExportForm::parse(word).ok_or_else(|| format!("it is not one of {}", known()))
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let exported = export::export(&ledger, args.to, SystemClock.now());
    exported.warnings.iter().for_each(|warning| warn(warning));
    invocation.out.raw(exported.text.as_bytes())?;
    Ok(ExitCode::Done)
}
