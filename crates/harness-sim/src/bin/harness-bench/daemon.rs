//! Costs of the daemon: a task through its socket, many clients at once, its idle memory, and
//! reporting to telemetry.

use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use harness::{process::Redactor, telemetry::Telemetry};
use harness_core::{Epoch, Fact, TaskId, WorkerId};
use serde_json::{Value, json};

use crate::{
    Effort,
    program::{ledger_of, unchecked},
    report::{Report, median},
    store::replace,
};

pub(crate) const MEMORY_BAR: u64 = 12 * 1024 * 1024;

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    memory(harness, report)?;
    for tasks in [1_000, 10_000] {
        let daemon = Daemon::start(harness, Some(&unchecked(&ledger_of(tasks)?)?))?;
        let mut client = daemon.client()?;
        let (mut ours, mut yardstick) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds(100) {
            let text = fs::read(daemon.ledger())?;
            let started = Instant::now();
            replace(daemon.place.path(), &text)?;
            replace(daemon.place.path(), &text)?;
            yardstick.push(started.elapsed());
            let started = Instant::now();
            claim_and_complete(&mut client, "w")?.ok_or("the ledger is empty")?;
            ours.push(started.elapsed());
        }
        let what = format!("daemon: claim + complete, {tasks} tasks / two durable replacements");
        report.ratio(&what, median(ours), median(yardstick), 3.0);
    }
    together(harness, effort, report)?;
    crowd(harness, effort, report)?;
    emit(effort, report)
}

/// A daemon in the foreground. It is ended when this value is dropped.
struct Daemon {
    place: tempfile::TempDir,
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Daemon {
    fn start(harness: &Path, ledger: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let place = tempfile::tempdir()?;
        if let Some(ledger) = ledger {
            fs::write(place.path().join("harness-tasks.json"), ledger)?;
        }
        let mut command = Command::new(harness);
        command.args(["daemon", "s", "."]).current_dir(place.path()).env("HARNESS_ACP", "off");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut said = String::new();
        let errors = child.stderr.take().ok_or("no standard error")?;
        let mut errors = BufReader::new(errors);
        errors.read_line(&mut said)?;
        if !said.starts_with("listening") {
            errors.read_to_string(&mut said)?;
            return Err(said.into());
        }
        Ok(Self { place, child })
    }

    fn ledger(&self) -> PathBuf {
        self.place.path().join("harness-tasks.json")
    }

    fn client(&self) -> Result<BufReader<UnixStream>, Box<dyn Error>> {
        Ok(BufReader::new(UnixStream::connect(self.place.path().join("s"))?))
    }

    fn resident_bytes(&self) -> Result<u64, Box<dyn Error>> {
        resident(&fs::read_to_string(format!("/proc/{}/status", self.child.id()))?)
    }
}

/// Returns the resident memory in a `/proc/PID/status`.
pub(crate) fn resident(status: &str) -> Result<u64, Box<dyn Error>> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}

fn ask(client: &mut BufReader<UnixStream>, request: &Value) -> Result<Value, Box<dyn Error>> {
    client.get_mut().write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    client.read_line(&mut line)?;
    let mut answer: Value = serde_json::from_str(&line)?;
    if answer["status"] == "ok" { Ok(answer["data"].take()) } else { Err(line.into()) }
}

/// Returns the task; `None` when no task is left.
fn claim_and_complete(
    client: &mut BufReader<UnixStream>,
    worker: &str,
) -> Result<Option<String>, Box<dyn Error>> {
    let claim = json!({ "command": "task_claim", "worker_id": worker, "wait_ms": 1000 });
    let claimed = ask(client, &claim)?;
    let Some(id) = claimed["task"]["id"].as_str() else { return Ok(None) };
    let complete = json!({ "command": "task_complete", "task_id": id, "worker_id": worker });
    ask(client, &complete)?;
    Ok(Some(id.to_owned()))
}

fn memory(harness: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let idle = Daemon::start(harness, None)?;
    ask(&mut idle.client()?, &json!({ "command": "ping" }))?;
    report.bytes("daemon: memory when idle", idle.resident_bytes()?, MEMORY_BAR);
    let large = Daemon::start(harness, Some(&ledger_of(10_000)?))?;
    ask(&mut large.client()?, &json!({ "command": "task_claim", "worker_id": "w" }))?;
    let what = "daemon: memory with 10,000 tasks";
    report.bytes(what, large.resident_bytes()?, 80 * 1024 * 1024);
    Ok(())
}

/// Measures many clients that share a write.
fn together(harness: &Path, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let daemon = Daemon::start(harness, Some(&unchecked(&ledger_of(4_000)?)?))?;
    let rounds = effort.rounds(40);
    let (alone, _) = workers(&daemon, 1, Some(rounds))?;
    let (crowd, _) = workers(&daemon, 100, Some(rounds.div_ceil(8)))?;
    report.ratio("daemon: a task, 100 clients / a task, 1 client", crowd, alone, 1.0 / 3.0);
    Ok(())
}

/// Completes all tasks of a large ledger with a hundred workers, and checks that none is lost or
/// done twice.
fn crowd(harness: &Path, effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let tasks = effort.rounds(10_000);
    // All tasks are open from the start. Ten in a row depend on each other.
    let ledger = unchecked(&ledger_of(tasks)?)?.replace("\"completed\"", "\"pending\"");
    let daemon = Daemon::start(harness, Some(&ledger))?;
    let (each, done) = workers(&daemon, 100, None)?;
    let distinct = done.iter().collect::<BTreeSet<_>>().len();
    let kept = fs::read_to_string(daemon.ledger())?.matches("\"completed\"").count();
    if done.len() != tasks || distinct != tasks || kept != tasks {
        let told = done.len();
        return Err(format!("{tasks} tasks, {told} told, {distinct} apart, {kept} kept").into());
    }
    report.note(&format!("daemon: a task, 100 workers through {tasks} tasks, none twice"), each);
    Ok(())
}

/// Returns the time per task, and the completed tasks.
fn workers(
    daemon: &Daemon,
    clients: usize,
    rounds: Option<usize>,
) -> Result<(Duration, Vec<String>), Box<dyn Error>> {
    let ready = Barrier::new(clients + 1);
    let connections = (0..clients).map(|_| daemon.client()).collect::<Result<Vec<_>, _>>()?;
    let mut started = Instant::now();
    let done = thread::scope(|scope| {
        let ready = &ready;
        let working: Vec<_> = (0..)
            .zip(connections)
            .map(|(n, mut client): (usize, _)| {
                scope.spawn(move || {
                    ready.wait();
                    let mut done = Vec::new();
                    while rounds.is_none_or(|rounds| done.len() < rounds) {
                        let one = claim_and_complete(&mut client, &format!("w{n}"));
                        match one.map_err(|e| e.to_string())? {
                            Some(id) => done.push(id),
                            // The client waited for a second, and no task became ready.
                            None => break,
                        }
                    }
                    Ok::<_, String>(done)
                })
            })
            .collect();
        ready.wait();
        started = Instant::now();
        let mut done = Vec::new();
        for one in working {
            done.extend(one.join().map_err(|_| "a client panicked".to_owned())??);
        }
        Ok::<_, String>(done)
    })?;
    let each = started.elapsed() / u32::try_from(done.len().max(1))?;
    Ok((each, done))
}

/// Measures the cost of emitting a fact, with a listener and without one.
fn emit(effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let reader = thread::spawn(move || {
        let mut heard = 0;
        if let Ok((mut stream, _)) = listener.accept() {
            heard = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0);
        }
        heard
    });
    let fact = Fact::Claimed {
        task: TaskId::parse("task-00001")?,
        title: "Implement part 1 of the system".into(),
        worker: WorkerId::parse("worker-3f9a01c2d4e5")?,
        epoch: Epoch(1),
        base: None,
    };
    let (say, said) = std::sync::mpsc::channel();
    let telemetry = Telemetry::start(
        port,
        Redactor::default(),
        Box::new(move |text| _ = say.send(text.to_owned())),
    )?;
    let mut each = Vec::new();
    let rounds = effort.rounds(100_000);
    for n in 0..rounds {
        // Facts come in small groups, followed by a pause in which they are sent.
        if n % 16 == 0 {
            thread::sleep(Duration::from_micros(50));
        }
        let started = Instant::now();
        telemetry.emit(&fact);
        each.push(started.elapsed());
    }
    telemetry.close();
    let line = harness::telemetry::object(&fact).ok_or("it is not told")?.to_string().len() + 1;
    let heard = reader.join().map_err(|_| "the listener panicked")?;
    if heard != u64::try_from(rounds * line)? {
        return Err(format!("{heard} bytes were heard; {:?}", said.try_recv()).into());
    }
    each.sort_unstable();
    let [typical, p99] = [each[each.len() / 2], each[each.len() * 99 / 100]];
    report.absolute("telemetry: emit, typical", typical, Duration::from_micros(5));
    report.absolute("telemetry: emit, p99", p99, Duration::from_millis(1));
    report.note("telemetry: emit, longest", *each.last().unwrap_or(&Duration::ZERO));
    Ok(())
}
