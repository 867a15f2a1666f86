//! The cost of starting the binary.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use harness_core::{
    Ledger, TaskId, Timestamp,
    format::Document,
    ledger::Head,
    task::{Task, TaskCompletion, TaskState},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use serde_json::Value;

use crate::{
    Effort,
    report::{Report, median},
};

const PROGRAM_BAR: u64 = 25_000_000;

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let empty = empty_program(place.path())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds(300) {
        theirs.push(start(Command::new(&empty))?);
        let mut version = Command::new(harness);
        version.arg("--version");
        ours.push(start(version)?);
    }
    report.ratio("harness --version / empty program", median(ours), median(theirs.clone()), 2.0);

    let nowhere = place.path().join("nowhere");
    fs::create_dir(&nowhere)?;
    let mut hooks = Vec::new();
    for _ in 0..effort.rounds(300) {
        let mut hook = Command::new(harness);
        hook.args(["hook", "stop"]).current_dir(&nowhere);
        hooks.push(start(hook)?);
    }
    let label = "harness hook stop, nothing to do / empty program";
    report.ratio(label, median(hooks), median(theirs), 1.7);
    report.bytes("harness, the program file", fs::metadata(harness)?.len(), PROGRAM_BAR);

    let root = place.path().join("root");
    fs::create_dir(&root)?;
    fs::write(root.join("harness-tasks.json"), ledger_of(10_000)?)?;
    fs::write(root.join("harness-progress.txt"), "")?;
    let status = |json: bool| -> Result<Duration, Box<dyn Error>> {
        let mut command = Command::new(harness);
        command.arg("status").args(json.then_some("--json")).current_dir(&root);
        cpu(command, Some(0))
    };
    let times = (0..effort.rounds(30)).map(|_| status(false)).collect::<Result<_, _>>()?;
    report.absolute("harness status, 10,000 tasks, CPU", median(times), Duration::from_millis(30));
    let times = (0..effort.rounds(30)).map(|_| status(true)).collect::<Result<_, _>>()?;
    let bar = Duration::from_millis(30);
    report.absolute("harness status --json, 10,000 tasks, CPU", median(times), bar);
    claims(harness, place.path(), effort, report)
}

/// Measures `task claim` and `task complete` as two commands on the files, without a daemon.
fn claims(
    harness: &Path,
    place: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let root = place.join("claims");
    fs::create_dir(&root)?;
    fs::write(root.join("harness-tasks.json"), unchecked(&ledger_of(10_000)?)?)?;
    let of = |arguments: &[&str]| {
        let mut command = Command::new(harness);
        command.arg("task").args(arguments).args(["--worker", "w"]).current_dir(&root);
        command.env("HARNESS_DAEMON", "off").env("HOME", place).env_remove("XDG_STATE_HOME");
        command
    };
    let mut times = Vec::new();
    // The first pair indents the file and starts the journal.
    for round in 0..=effort.rounds(30) {
        let before = spent()?;
        let claimed = of(&["claim"]).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        let claimed: Value = serde_json::from_slice(&claimed.stdout)?;
        let id = claimed["task"]["id"].as_str().ok_or("nothing was claimed")?;
        cpu(of(&["complete", id]), Some(0))?;
        if round > 0 {
            times.push(spent()? - before);
        }
    }
    let what = "task claim + task complete on files, 10,000 tasks, CPU";
    report.absolute(what, median(times), Duration::from_millis(100));
    Ok(())
}

fn empty_program(place: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let (source, program) = (place.join("empty.rs"), place.join("empty"));
    fs::write(&source, "fn main() {}")?;
    let built = Command::new("rustc").args(["-O", "-o"]).arg(&program).arg(&source).status()?;
    if built.success() { Ok(program) } else { Err("rustc could not build an empty program".into()) }
}

fn start(mut command: Command) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    let took = started.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Returns the user and system time of one child and of all that it waited for. The child must end
/// with `code`.
pub(crate) fn cpu(mut command: Command, code: Option<i32>) -> Result<Duration, Box<dyn Error>> {
    let before = spent()?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.code() != code {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(spent()? - before)
}

/// Returns the user and system time of all children so far.
fn spent() -> Result<Duration, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let both = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(both)?))
}

/// Returns a ledger as it looks in the middle of the work.
pub(crate) fn ledger_of(tasks: usize) -> Result<String, Box<dyn Error>> {
    let now = Timestamp::from_seconds(1_750_000_000);
    let task = |n: usize| -> Result<Task, Box<dyn Error>> {
        let mut task = Task::new(
            TaskId::parse(&format!("task-{n:05}"))?,
            format!("Implement part {n} of the system"),
        );
        task.validation.command = Some(format!("cargo test part_{n}"));
        task.instructions =
            Some("Read the specification, then write the code and its tests.".into());
        if !n.is_multiple_of(10) {
            task.depends_on = vec![TaskId::parse(&format!("task-{:05}", n - 1))?];
        }
        if n % 10 < 5 {
            task.attempts = 1;
            let completion = TaskCompletion { at: Some(now), ..TaskCompletion::default() };
            task.state = TaskState::Completed(completion);
        }
        Ok(task)
    };
    let tasks = (0..tasks).map(task).collect::<Result<_, _>>()?;
    let ledger = Ledger::new(Head::new(now), tasks)?;
    Ok(Document::new(&ledger).render(&ledger))
}

/// Removes the checks from a ledger, so that their time is not measured.
pub(crate) fn unchecked(ledger: &str) -> Result<String, Box<dyn Error>> {
    let mut ledger: Value = serde_json::from_str(ledger)?;
    for task in ledger["tasks"].as_array_mut().into_iter().flatten() {
        task["validation"]["command"] = Value::Null;
    }
    Ok(serde_json::to_string_pretty(&ledger)?)
}
