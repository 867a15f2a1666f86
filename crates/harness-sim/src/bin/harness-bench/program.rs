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

use crate::{
    Effort,
    report::{Report, median},
};

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
    report.ratio(label, median(hooks), median(theirs), 2.0);

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
    report.note("harness status --json, 10,000 tasks, CPU", median(times));
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
    let used = || -> Result<i64, nix::Error> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        Ok(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
    };
    let before = used()?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.code() != code {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(Duration::from_micros(u64::try_from(used()? - before)?))
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
