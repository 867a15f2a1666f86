//! `harness trace`

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
};

use harness::{
    home::folder::Folder,
    trace::{Span, Timeline, chrome, otlp},
};
use harness_core::Run;
use serde_json::Value;

use super::runs::run_of_name;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
};

/// Write the trace of a run: what took how long, and inside of what
///
/// The spans are made from the record of the run: the run, attempts, iterations and executions of
/// agents, checks, gates, waits, landings and rollbacks. They hold names, numbers and outcomes, and
/// never a prompt or the content of a file. While a run works it sends the same to a collector, if
/// OTEL_EXPORTER_OTLP_ENDPOINT or `[otel] endpoint` names one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness trace export -o trace.json --format chrome   # open it in Perfetto or chrome://tracing
  harness trace export --run 0197f0a2 | curl -sf -H content-type:application/json \\
    --data-binary @- http://localhost:4318/v1/traces")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write the spans of a past or present run
    Export {
        /// The run, or the beginning of its id; the newest run if it is missing
        #[arg(long, value_name = "ID")]
        run: Option<String>,
        /// OTLP in JSON, or the trace event format of Chrome
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// The file to write; standard output if it is missing
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Otlp,
    Chrome,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let Command::Export { run, format, output } = args.command;
    let root = invocation.root()?;
    let run = chosen(&root, run.as_deref())?;
    let spans = spans(&root, &run)?;
    let document = match format {
        Format::Otlp => otlp::traces(&spans),
        Format::Chrome => chrome::document(&spans),
    };
    match output {
        None => invocation.out.line(document)?,
        Some(path) => {
            let written = fs::File::create(&path).and_then(|mut file| writeln!(file, "{document}"));
            written.map_err(|why| Failure::file("write", &path, &why))?;
            eprintln!("{} spans of run {} are in {}", spans.len(), run.id, path.display());
        }
    }
    Ok(ExitCode::Done)
}

fn chosen(root: &StateRoot, name: Option<&str>) -> Result<Run> {
    let store = root.look_at_runs()?;
    let runs = store.map(|store| store.runs()).transpose()?.unwrap_or_default();
    let run = match name {
        Some(name) => run_of_name(&runs, name)?.clone(),
        None => {
            let newest = runs.iter().find(|run| run.parent.is_none());
            let none = || Failure::error("no run was ever recorded here");
            newest.ok_or_else(|| none().hint("`harness run` records one"))?.clone()
        }
    };
    match &run.parent {
        None => Ok(run),
        Some(parent) => Err(Failure::error(format!("run {} is an attempt of {parent}", run.id))
            .hint(format!("export the whole run: `harness trace export --run {parent}`"))),
    }
}

/// Returns the spans of the events that the processes of a run have recorded.
fn spans(root: &StateRoot, run: &Run) -> Result<Vec<Span>> {
    let mut events = Vec::new();
    for name in records(&root.home().runs(), run)? {
        read(&root.home().runs(), &name, &mut events)?;
    }
    // The processes of several workers record into files of their own. Ids sort by time.
    events.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
    let mut timeline = Timeline::new(&run.id);
    let mut spans: Vec<Span> = events.iter().flat_map(|event| timeline.take(event)).collect();
    spans.extend(timeline.end(run));
    Ok(spans)
}

/// Returns the names of the records of a run: that of its driver, and those of workers that joined.
fn records(folder: &Path, run: &Run) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(Failure::file("read", folder, &why)),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_of_run = |name: &String| {
        let rest = name.strip_prefix(run.id.as_str()).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest == "jsonl" || rest.ends_with(".jsonl"))
    };
    let mut names: Vec<String> = names.filter(is_of_run).collect();
    names.sort();
    Ok(names)
}

fn read(folder: &Path, name: &str, events: &mut Vec<Value>) -> Result<()> {
    let path = folder.join(name);
    let failed = |why: std::io::Error| Failure::file("read", &path, &why);
    let opened = Folder::find(folder).map_err(failed)?;
    let file = opened.map(|folder| folder.open_to_read(name)).transpose().map_err(failed)?;
    let Some(file) = file.flatten() else { return Ok(()) };
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(failed)?;
        // A killed process may have left half a line.
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
        if event["event"]["type"].as_str().is_some_and(Timeline::uses) {
            events.push(event);
        }
    }
    Ok(())
}
