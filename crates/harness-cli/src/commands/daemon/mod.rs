//! `harness daemon`

mod emitter;
mod serve;

use std::path::PathBuf;

use harness::host::{client::ANSWER_WITHIN, spawn};
use harness_core::role::Operation;
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    host::{Asked, Stay, warn_of_version},
};

/// Serve the tasks of this ledger to many workers
///
/// Takes plans in, gives tasks out, and has the checks run in the work tree. `harness daemon SOCKET
/// WORKTREE` stays in the foreground until Ctrl-C or `harness shutdown`. There is no need to start one:
/// the commands of workers do so, and what they start leaves after half an hour without work.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  harness daemon start
  harness daemon status
  harness daemon /tmp/shop.sock .      # in the foreground")]
pub(crate) struct Args {
    /// Where it listens
    #[arg(required = true)]
    socket: Option<PathBuf>,
    /// Where checks run; the ledger is looked for from here upward
    #[arg(required = true)]
    worktree: Option<PathBuf>,
    #[arg(long, hide = true)]
    root: Option<PathBuf>,
    #[arg(long, hide = true)]
    detached: bool,
    #[arg(long, hide = true)]
    idle_seconds: Option<u64>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it in the background, to stay until it is stopped
    Start,
    /// End it
    Stop,
    /// Print its process id; exit code 1 if there is none
    Status,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match (&args.command, &args.socket, &args.worktree) {
        (Some(Command::Start), ..) => start(invocation),
        (Some(Command::Stop), ..) => stop(invocation),
        (Some(Command::Status), ..) => status(invocation),
        (None, Some(socket), Some(worktree)) => serve::serve(invocation, &args, socket, worktree),
        (None, ..) => Err(Failure::usage("a socket and a work tree are needed")
            .hint("`harness daemon start` finds both by itself")),
    }
}

fn start(invocation: &mut Invocation) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    let ping = || json!({ "command": "ping" });
    if let Asked::Answered(other) = invocation.ask_host(&root, ping(), Some(ANSWER_WITHIN))? {
        return Err(Failure::error("Another daemon is already running")
            .hint(format!("it is process {}", other["pid"])));
    }
    let mut started = invocation.start_daemon(&root, Stay::UntilStopped)?;
    let answer = started.ask(&ping(), Some(ANSWER_WITHIN));
    let answer = answer.map_err(|why| Failure::error(why.to_string()))?;
    invocation.out.line(&answer["pid"])?;
    Ok(ExitCode::Done)
}

fn nobody() -> Failure {
    Failure::error("no daemon is running").hint("`harness daemon start` starts one")
}

pub(super) fn stop(invocation: &mut Invocation) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    invocation.permit(&root, Operation::Shutdown)?;
    let shutdown = json!({ "command": "shutdown" });
    match invocation.ask_host(&root, shutdown, Some(ANSWER_WITHIN))? {
        Asked::Nobody => return Err(nobody()),
        Asked::Answered(_) => {}
    }
    // It is asked; whoever goes on from here wants it gone.
    if !spawn::wait_until_gone(root.path(), ANSWER_WITHIN)? {
        return Err(Failure::error("the daemon was asked to end and is still there"));
    }
    invocation.out.line("Daemon stopped")?;
    Ok(ExitCode::Done)
}

fn status(invocation: &mut Invocation) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    let ping = json!({ "command": "ping" });
    match invocation.ask_host(&root, ping, Some(ANSWER_WITHIN))? {
        Asked::Nobody => Err(nobody()),
        Asked::Answered(answer) => {
            warn_of_version(&answer);
            invocation.out.line(&answer["pid"])?;
            Ok(ExitCode::Done)
        }
    }
}
