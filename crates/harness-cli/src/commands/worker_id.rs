//! `harness worker-id`

use crate::{exit::ExitCode, failure::Result, invocation::Invocation, worker};

/// Print the id under which this terminal claims tasks
///
/// This is HARNESS_WORKER_ID if set, else the id in the file that HARNESS_WORKER_ID_FILE names. In
/// a session of Codex or Claude Code the id is derived from the session (CODEX_THREAD_ID,
/// CLAUDE_CODE_SESSION_ID); elsewhere it is created once per terminal session and kept in
/// .harness/workers/.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness worker-id
  HARNESS_WORKER_ID=$(harness worker-id) ./my-agent")]
pub(crate) struct Args {
    #[command(flatten)]
    worker: worker::Choice,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let worker = args.worker.id(&invocation.env, || invocation.root_or_new())?;
    invocation.out.line(worker)?;
    Ok(ExitCode::Done)
}
