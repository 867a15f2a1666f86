//! `harness runs …`: reads the record of runs. It takes no lock and creates no file.

mod cost;
mod document;
mod list;
mod outcome;
mod show;

use std::{collections::BTreeMap, io::Write as _, path::PathBuf, sync::Arc};

use harness::store::{Runs, is_gone};
use harness_core::{
    agent::Usage,
    run::{Iteration, Run, RunId, RunStatus},
};

use self::outcome::Outcomes;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
};

/// List runs: their results, iterations and cost
///
/// A run is one objective, or one `harness run` over the ledger; each attempt at a task is a run
/// below that one. Runs are recorded in .harness/harness.db, or in the database of the ledger; these
/// commands only read them. Transcripts stay on the machine that made them, and `runs show` names it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness runs list
  harness runs show
  harness runs show 0197f0a2-41c3
  harness runs cost --json | jq .total")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List runs, newest first
    List {
        /// Also list attempts at tasks, below the run that made them
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a run, its iterations and its attempts
    Show {
        /// Its id, or the beginning of one [default: the newest]
        #[arg(value_name = "RUN_ID")]
        run: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the cost by run, task, agent and day
    Cost {
        /// Only this run; the beginning of its id is enough
        #[arg(value_name = "RUN_ID")]
        run: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let store = root.look_at_runs()?;
    let runs = store.as_ref().map(|store| store.runs()).transpose()?.unwrap_or_default();
    if runs.is_empty() {
        // If this fails, nothing is left to receive a message.
        _ = writeln!(std::io::stderr(), "there are no runs yet");
    }
    let hosts = store.as_ref().map(|store| store.hosts()).transpose()?.unwrap_or_default();
    let (outcomes, root) = (Outcomes::read(root.path()), root.path().to_owned());
    let record = Record { store, runs, hosts, outcomes, root };
    let out = &mut invocation.out;
    match args.command {
        Command::List { all, json } => list::print(out, &record, all, json)?,
        Command::Show { run, json } => show::print(out, &record, run.as_deref(), json)?,
        Command::Cost { run, json } => cost::print(out, &record, run.as_deref(), json)?,
    }
    Ok(ExitCode::Done)
}

/// All rows of `runs`, newest first, and the store of the iterations.
struct Record {
    store: Option<Arc<dyn Runs>>,
    runs: Vec<Run>,
    /// The machines that opened the runs of a ledger in a database.
    hosts: BTreeMap<RunId, String>,
    outcomes: Outcomes,
    root: PathBuf,
}

impl Record {
    /// Returns the run whose id begins like this.
    fn find(&self, name: &str) -> Result<&Run> {
        run_of_name(&self.runs, name)
    }

    /// Returns the run that was started last; an attempt only if there is nothing else.
    fn newest(&self) -> Option<&Run> {
        self.tops().next().or(self.runs.first())
    }

    fn tops(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.parent.is_none())
    }

    /// Returns its attempts, newest first.
    fn attempts<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(|other| other.parent.as_ref() == Some(&run.id))
    }

    /// Returns all transcripts of a context. A second execution in it, after a crash or a nudge,
    /// has its own.
    fn transcripts(&self, iteration: &Iteration) -> Vec<String> {
        let Some(first) = iteration.transcript.clone() else { return Vec::new() };
        let stem = first.strip_suffix(".log").unwrap_or(&first).to_owned();
        let others = (2..).map(|n| format!("{stem}.{n}.log"));
        let others = others.take_while(|name| self.root.join(name).symlink_metadata().is_ok());
        [first].into_iter().chain(others).collect()
    }

    fn iterations(&self, run: &Run) -> Result<Vec<Iteration>> {
        Ok(self.store.as_ref().map(|s| s.iterations(&run.id)).transpose()?.unwrap_or_default())
    }

    /// Returns the iterations with the machines of their transcripts.
    fn shown_iterations(&self, run: &Run) -> Result<Vec<ShownIteration>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut hosts = store.transcript_hosts(&run.id)?;
        let rows = self.iterations(run)?.into_iter();
        Ok(rows.map(|row| ShownIteration { host: hosts.remove(&row.number), row }).collect())
    }
}

/// An iteration, and the machine on which its transcripts are if the ledger is in a database.
struct ShownIteration {
    row: Iteration,
    host: Option<String>,
}

/// Returns the only run whose id begins like this.
pub(crate) fn run_of_name<'a>(runs: &'a [Run], name: &str) -> Result<&'a Run> {
    let name = name.trim().to_ascii_lowercase();
    let is_meant = |run: &&Run| !name.is_empty() && run.id.as_str().starts_with(&name);
    let found: Vec<&Run> = runs.iter().filter(is_meant).collect();
    match found[..] {
        [run] => Ok(run),
        [] => Err(Failure::error(format!("there is no run {name}"))
            .hint("`harness runs list --all` shows all runs")),
        _ => {
            let many = format!("{} runs begin with {name:?}", found.len());
            let failure = Failure::error(many);
            let shown = found.iter().take(10).map(|run| format!("{}  {}", run.id, what(run)));
            Err(shown.fold(failure, Failure::hint))
        }
    }
}

/// Returns the purpose of a run.
fn what(run: &Run) -> String {
    const WIDTH: usize = 50;
    let text = match (&run.objective, &run.task) {
        (Some(objective), _) => objective.split_whitespace().collect::<Vec<_>>().join(" "),
        (None, Some(task)) => match run.epoch {
            Some(epoch) => format!("{task} (epoch {epoch})"),
            None => task.to_string(),
        },
        (None, None) => "the ledger".to_owned(),
    };
    if text.chars().count() <= WIDTH {
        return text;
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// Returns its state, in a word or two.
fn state(record: &Record, run: &Run) -> String {
    if let Some(words) = record.outcomes.words(run, record.attempts(run)) {
        return words;
    }
    match run.stop_reason {
        _ if is_interrupted(run) => "interrupted".to_owned(),
        Some(reason) if run.status.is_over() && run.status != RunStatus::Succeeded => {
            let (status, reason) = (run.status.as_str(), reason.as_str());
            if status == reason { status.to_owned() } else { format!("{status}: {reason}") }
        }
        _ if run.wake_at.is_some() => "running: waits".to_owned(),
        _ => run.status.as_str().replace('_', " "),
    }
}

/// Returns whether no process drives it although it has not ended.
fn is_interrupted(run: &Run) -> bool {
    let dead = run.lease.as_ref().is_some_and(|lease| is_gone(&lease.owner));
    dead && !run.status.is_over()
}

/// Returns whether it is a loop of its own, and not the sum of others.
fn is_loop(run: &Run) -> bool {
    run.objective.is_some() || run.task.is_some()
}

/// Returns the cost in dollars, if it was reported. Small amounts are not shown as zero.
fn dollars(usage: &Usage) -> Option<String> {
    usage.cost_usd.map(|cost| match cost > 0.0 && cost < 0.01 {
        true => format!("{cost:.4}"),
        false => format!("{cost:.2}"),
    })
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
