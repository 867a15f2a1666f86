//! `harness research …`

use std::{
    fs,
    path::{Path, PathBuf},
};

use harness::research::{self, Finalized, ResearchError};
use harness_core::TaskId;

use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    paint::{visible, warn},
    root::StateRoot,
    store::task_id,
};

/// Keep what search tools found for later contexts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness research finalize task-001")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Finalize(Finalize),
}

/// Collect the sources in search_results/ into tasks/ID/
///
/// Reads each *.json in search_results/, keeps every source once, and writes
/// tasks/ID/research_overview.md: counts, an index, and a note per source. A file with sources
/// moves to search_results/processed_json/; nothing is overwritten. A file that is not JSON, or has
/// no source, stays where it is and is reported. A second call adds nothing twice.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness research finalize task-001
  harness research finalize survey --json | jq '.stayed[].file'")]
struct Finalize {
    #[command(flatten)]
    owner: Owner,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Finalize(args) => finalize(invocation, &args),
    }
}

/// The folder that the sources go to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Owner {
    /// The id of the folder below tasks/; the ledger need not have a task of this id
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
    /// The same
    #[arg(long, value_name = "ID", value_parser = task_id)]
    task: Option<TaskId>,
}

impl Owner {
    fn task(&self) -> Result<&TaskId> {
        let named = self.id.as_ref().or(self.task.as_ref());
        named.ok_or_else(|| Failure::usage("no task named"))
    }
}

fn finalize(invocation: &mut Invocation, args: &Finalize) -> Result<ExitCode> {
    let done = take(invocation, args.owner.task()?)?;
    for stayed in &done.stayed {
        warn(&format!("{} was not used: it {}", stayed.file, stayed.why));
    }
    if args.json {
        invocation.out.document(&done)?;
        return Ok(ExitCode::Done);
    }
    for moved in &done.moved {
        let (from, to) = (visible(&moved.file), visible(&moved.to));
        invocation.out.line(format_args!("{from} -> {to} ({} found)", moved.entries))?;
    }
    let (added, sources) = (done.added, done.sources);
    match &done.overview {
        Some(page) => {
            let new = if added == 1 { "new source" } else { "new sources" };
            invocation.out.line(format_args!("{added} {new}, {sources} in all: {page}"))?;
        }
        None => invocation.out.line("no source found in search_results/")?,
    }
    Ok(ExitCode::Done)
}

/// Takes the sources out of the inbox.
pub(crate) fn take(invocation: &Invocation, task: &TaskId) -> Result<Finalized> {
    let root = invocation.root()?;
    let place = work_tree(&root, &working_directory()?);
    Ok(research::finalize(&place, task)?)
}

/// Returns the place of the inbox: the linked work tree of this root's worker, or else the root.
fn work_tree(root: &StateRoot, start: &Path) -> PathBuf {
    let below = start.ancestors().take_while(|directory| *directory != root.path());
    let linked = below.filter(|directory| is_linked(directory)).map(Path::to_owned).next();
    linked.unwrap_or_else(|| root.path().to_owned())
}

/// Returns whether this is a linked work tree. A submodule also has a file `.git`, but it points
/// elsewhere.
fn is_linked(directory: &Path) -> bool {
    let git = directory.join(".git");
    let is_file = fs::symlink_metadata(&git).is_ok_and(|found| found.is_file());
    let leads_to = || fs::read_to_string(&git).unwrap_or_default();
    is_file && leads_to().starts_with("gitdir:") && leads_to().contains("/worktrees/")
}

impl From<ResearchError> for Failure {
    fn from(error: ResearchError) -> Self {
        let text = error.to_string();
        match error {
            ResearchError::Kept { .. } => Self::config(text)
                .hint("fix it, or move it away (the sources in it are then no longer kept)"),
            ResearchError::Busy { .. } => Self::error(text).hint("try again when it has finished"),
            ResearchError::Io(why) => Self::from(why),
        }
    }
}
