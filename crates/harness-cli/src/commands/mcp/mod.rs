//! `harness mcp`: the commands of an agent as tools, by the Model Context Protocol.
//!
//! A tool is a schema, and a call of the function that the corresponding command calls. Nothing is
//! decided here. Only [`server`] and [`wire`] know the crate that implements the protocol.

mod server;
mod tool;
mod tools;
mod wire;

use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Serve the tools of harness to an agent (MCP, stdio)
///
/// Agents start this command, people need not: `harness run` gives it to the agents that it starts.
/// Worker, task and state root come from the environment (HARNESS_WORKER_ID, HARNESS_TASK_ID,
/// HARNESS_STATE_ROOT), as for every command. It ends when its standard input does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness mcp < requests.jsonl
  claude mcp add harness -- harness mcp
  codex mcp add harness -- harness mcp")]
pub(crate) struct Args {}

pub(crate) fn run(invocation: &mut Invocation, Args {}: Args) -> Result<ExitCode> {
    server::serve(&invocation.env)?;
    Ok(ExitCode::Done)
}
