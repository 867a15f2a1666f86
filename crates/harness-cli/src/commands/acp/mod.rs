//! `harness acp`: harness as an agent of the Agent Client Protocol, for editors.
//!
//! Each turn is a `harness run` of its own process, so that it survives a crash of the editor. This
//! process follows it as any other program could: through the client of the library.

mod active;
mod history;
mod question;
mod reader;
mod server;
mod session;
mod updates;

use std::sync::mpsc;

use server::Server;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// The number of inputs that wait to be handled.
const WAITING: usize = 256;

/// Serve an editor that speaks the Agent Client Protocol
///
/// An editor such as Zed starts this and talks to it on standard input and output. A message is an
/// objective, and `/tasks` works on the tasks of the ledger. The editor shows the plan, the text and
/// the tool calls, asks you what the run asks, can cancel it, and can load a session again. The words
/// after -- are options of `harness run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness acp
  harness acp -- --agent claude --max-cost 5")]
pub(crate) struct Args {
    /// Options of `harness run`
    #[arg(last = true, value_name = "OPTION")]
    run: Vec<String>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let (inputs, waiting) = mpsc::sync_channel(WAITING);
    reader::start(inputs.clone());
    let mut server = Server::new(invocation.env.clone(), args.run, inputs)?;
    for input in waiting {
        if server.take(input)?.is_over() {
            break;
        }
    }
    Ok(ExitCode::Done)
}
