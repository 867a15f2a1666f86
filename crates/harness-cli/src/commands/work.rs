//! `harness work`

use std::path::Path;

use harness::core::machine::worker::WhenIdle;

use super::{
    clone,
    run::{self, Joining, Manner},
};
use crate::{exit::ExitCode, failure::Result, invocation::Invocation};

/// Add one more worker, in a work tree of its own
///
/// It works on the tasks of the ledger beside `harness run --workers N` and other workers, from
/// another terminal or container. It joins the run in progress, which pays for it: the budget of that
/// run counts the usage of all its workers. If there is none, it is a run of its own. It leaves when
/// no work is left.
///
/// With `[fleet] remote` its results land on a branch of a git remote, and it may work in a clone of its
/// own: `--clone` makes one. A new clone runs nothing before you have looked at it (`harness trust`).
///
/// Its results are rebased, checked and landed like those of the other workers. On a ledger that one
/// worker had for itself, it begins the mode of several workers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness work                              # with the agent of the run in progress
  harness work --agent codex --label gpu
  harness work --agent claude --wait        # stay for new tasks
  harness work --once --run-id 0197
  harness work --clone git@example.org:shop.git ~/shop-2   # in a clone of its own")]
pub(crate) struct Args {
    /// The agent [default: that of the run it joins, else as in `harness run`]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Any program that reads a prompt on standard input, or from the file that replaces
    /// {prompt_file}
    #[arg(long, value_name = "COMMAND", conflicts_with = "agent")]
    agent_command: Option<String>,
    /// A variable that the program of --agent-command gets, as in `harness run`
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "agent_command")]
    #[arg(conflicts_with = "agent")]
    agent_env: Vec<String>,
    /// Clone a repository into a directory, with your own git configuration, and work there; a
    /// directory that is such a clone already is used again
    #[arg(long, num_args = 2, value_names = ["URL", "DIR"])]
    clone: Vec<String>,
    /// Stop after this session, even if work is left
    #[arg(long)]
    once: bool,
    /// Stay for new tasks when no work is left
    #[arg(long, conflicts_with = "once")]
    wait: bool,
    /// The run to join, if several are in progress; the beginning of its id is enough
    #[arg(long, value_name = "RUN_ID")]
    run_id: Option<String>,
    /// A label of this worker, for tasks that require it (repeatable, or with commas)
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    #[arg(value_parser = crate::commands::task::claim::label)]
    label: Vec<String>,
    /// Show what the agent says and which tools it uses, line by line
    #[arg(short, long)]
    verbose: bool,
    /// Stop at a usage limit instead of waiting until it lifts
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    worker: crate::worker::Choice,
    /// Print a JSON document on standard output at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    if let [url, directory] = &args.clone[..] {
        clone::enter(&invocation.env, url, Path::new(directory))?;
    }
    let Args { agent, agent_command, agent_env, once, wait, .. } = args;
    let Args { run_id, label, verbose, no_wait, worker, json, .. } = args;
    let when_idle = if wait { WhenIdle::Wait } else { WhenIdle::Leave };
    let manner = Manner::Work(Joining { when_idle, run: run_id });
    let of_run = run::Args {
        agent,
        agent_command,
        agent_env,
        once,
        label,
        verbose,
        no_wait,
        worker,
        json,
        ..run::Args::default()
    };
    run::run_as(invocation, of_run, &manner)
}
