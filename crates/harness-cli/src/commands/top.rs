//! `harness top`

mod dialog;
mod draw;
mod keys;
mod list;
mod pane;
mod shell;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod theme;

use std::io::IsTerminal as _;

use harness::{
    clock::{Clock as _, SystemClock},
    view::TaskStory,
};
use harness_core::TaskId;

use self::theme::Theme;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{Paint, warn},
    root::StateRoot,
    store::{not_found, task_id},
    view_sources::{BoardSource, story},
};

/// Watch and steer what runs here
///
/// It shows what needs you, what is being worked on, what waits and why, and what is done; with live
/// transcripts, the output of checks, diffs and receipts. Questions are answered and budgets are
/// changed here too: `?` lists the keys. It attaches to whatever runs here, from any terminal, and
/// leaving it never stops a run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness top
  harness run --top
  harness top --json
  harness top --json task-002")]
pub(crate) struct Args {
    /// Only with --json: this task, with its attempts, their checks, receipts, rescues and costs
    #[arg(value_parser = task_id)]
    task: Option<TaskId>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    match (args.json, args.task) {
        (true, task) => document(invocation, &root, task),
        (false, Some(_)) => Err(Failure::usage("a task is only shown with --json")
            .hint("in the view, `/` searches it and enter shows it")),
        (false, None) => show(invocation, &root),
    }
}

/// Shows the view on this terminal until the person leaves it.
pub(crate) fn show(invocation: &Invocation, root: &StateRoot) -> Result<ExitCode> {
    let able = invocation.env.get("TERM").is_some_and(|term| term != "dumb");
    if !able
        || invocation.plain
        || !std::io::stdout().is_terminal()
        || !std::io::stdin().is_terminal()
    {
        return Err(Failure::usage("harness top needs a terminal")
            .hint("`harness top --json` and `harness status` need none"));
    }
    let theme = match invocation.out.paint() {
        Paint::Coloured => Theme::Coloured,
        Paint::Plain => Theme::Plain,
    };
    shell::show(invocation.env.clone(), root.clone(), theme)?;
    Ok(ExitCode::Done)
}

/// Prints what the view shows, for programs.
fn document(
    invocation: &mut Invocation,
    root: &StateRoot,
    task: Option<TaskId>,
) -> Result<ExitCode> {
    let mut source = BoardSource::new(invocation.env.clone(), root.clone());
    let now = SystemClock.now();
    let document = match task {
        None => {
            let activity = source.activity();
            serde_json::to_value(source.board(&activity, now)?)?
        }
        Some(task) => {
            let ledger = source.ledger()?;
            let told = |told: &TaskStory<'_>| serde_json::to_value(told);
            let told = story(&invocation.env, root, ledger, &task, now, told);
            told.ok_or_else(|| not_found(ledger, task.clone()))??
        }
    };
    if let Some(problem) = source.problem() {
        warn(problem);
    }
    invocation.out.document(&document)?;
    Ok(ExitCode::Done)
}
