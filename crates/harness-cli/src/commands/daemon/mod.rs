//! `harness daemon`

mod emitter;
mod notices;
pub(super) mod serve;

use std::{ffi::OsString, path::PathBuf};

use harness::{
    client::{ANSWER_WITHIN, Launch},
    host::wait_until_gone,
    protocol::{Answer, Pong, Request},
};
use harness_core::role::Operation;

use crate::{
    client::warn_of_version,
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
};

/// Serve the tasks of this ledger to many workers
///
/// Imports plans, hands out tasks, and runs their checks in the work tree. `harness daemon SOCKET
/// WORKTREE` stays in the foreground until Ctrl-C or `harness shutdown`. You need not start a
/// daemon: commands such as `harness task claim` do so, and a daemon that they start ends after
/// half an hour without work.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  harness daemon start
  harness daemon start --web
  harness daemon status
  harness daemon /tmp/shop.sock .      # in the foreground")]
pub(crate) struct Args {
    /// The path of the socket to listen on
    #[arg(required = true)]
    socket: Option<PathBuf>,
    /// The work tree that checks run in; the ledger is searched for from here upward
    #[arg(required = true)]
    worktree: Option<PathBuf>,
    /// Show the project in a browser too; `harness web --url` prints the link
    #[arg(long)]
    web: bool,
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
    /// Start a daemon in the background, which stays until it is stopped
    Start {
        /// Show the project in a browser too; `harness web --url` prints the link
        #[arg(long)]
        web: bool,
    },
    /// Stop the daemon
    Stop,
    /// Print the process id of the daemon; exit with 1 if there is none
    Status,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match (&args.command, &args.socket, &args.worktree) {
        (Some(Command::Start { web }), ..) => {
            let options = if *web { vec!["--web".into()] } else { Vec::new() };
            start(invocation, options)
        }
        (Some(Command::Stop), ..) => stop(invocation),
        (Some(Command::Status), ..) => status(invocation),
        (None, Some(socket), Some(worktree)) => serve::serve(invocation, &args, socket, worktree),
        (None, ..) => Err(Failure::usage("a socket and a work tree are required")
            .hint("`harness daemon start` finds both itself")),
    }
}

fn start(invocation: &mut Invocation, options: Vec<OsString>) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    if let Some(other) = running(invocation, &root)? {
        let pid = other.pid;
        if is_run(&root, pid) {
            return Err(Failure::error("`harness run` serves this ledger already")
                .hint(format!("it is process {pid}; commands ask it while it works")));
        }
        return Err(Failure::error("Another daemon is already running")
            .hint(format!("it is process {pid}")));
    }
    let launch = Launch { idle: None, options, ..invocation.launch()? };
    let pong = invocation.with_client(&root, |client| {
        client.start_daemon(&launch)?;
        client.ping()
    })?;
    invocation.out.line(pong.pid)?;
    Ok(ExitCode::Done)
}

/// Returns whether that process drives a run of this root.
fn is_run(root: &StateRoot, pid: u32) -> bool {
    let live = root.look_at_runs().ok().flatten().and_then(|runs| runs.live().ok());
    let mut leases = live.unwrap_or_default().into_iter().filter_map(|run| run.lease);
    leases.any(|lease| lease.owner.pid == pid)
}

/// Returns the host that answers now. None is started.
fn running(invocation: &Invocation, root: &StateRoot) -> Result<Option<Pong>> {
    match ask_running(invocation, root, &Request::Ping)? {
        Some(Answer::Pong(pong)) => Ok(Some(pong)),
        Some(_) | None => Ok(None),
    }
}

fn ask_running(
    invocation: &Invocation,
    root: &StateRoot,
    request: &Request,
) -> Result<Option<Answer>> {
    let mut options = invocation.client_options(root)?;
    options.launch = None;
    invocation.with_options(root, options, |client| client.ask_host(request))
}

fn nobody() -> Failure {
    Failure::error("no daemon is running").hint("`harness daemon start` starts one")
}

fn stop(invocation: &mut Invocation) -> Result<ExitCode> {
    match end(invocation)? {
        Found::Daemon => Ok(ExitCode::Done),
        Found::Nobody => Err(nobody()),
    }
}

/// Runs `harness shutdown`, which succeeds if no process serves the root.
pub(super) fn shut_down(invocation: &mut Invocation) -> Result<ExitCode> {
    if end(invocation)? == Found::Nobody {
        invocation.out.line("Daemon not running")?;
    }
    Ok(ExitCode::Done)
}

/// Whether there was a daemon to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Daemon,
    Nobody,
}

fn end(invocation: &mut Invocation) -> Result<Found> {
    let root = invocation.root_or_new()?;
    invocation.permit(&root, Operation::Shutdown)?;
    if ask_running(invocation, &root, &Request::Shutdown)?.is_none() {
        return Ok(Found::Nobody);
    }
    // The daemon was asked to end, and the code after this relies on its end.
    if !wait_until_gone(root.path(), ANSWER_WITHIN)? {
        return Err(Failure::error("the daemon was asked to stop but is still running"));
    }
    invocation.out.line("Daemon stopped")?;
    Ok(Found::Daemon)
}

fn status(invocation: &mut Invocation) -> Result<ExitCode> {
    let root = invocation.root_or_new()?;
    let pong = running(invocation, &root)?.ok_or_else(nobody)?;
    warn_of_version(&pong);
    invocation.out.line(pong.pid)?;
    Ok(ExitCode::Done)
}
