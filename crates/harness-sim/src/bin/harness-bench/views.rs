//! The costs of `harness top` and `harness web` on a ledger of 10,000 tasks, beside a run whose agent
//! reports 1,000 events a second and makes a checkpoint every second, which replaces the ledger.

use std::{
    error::Error,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use nix::pty::{Winsize, openpty};

use crate::{
    Effort,
    program::ledger_of,
    report::{Report, median},
    site::{Project, Running, Site},
};

const TASKS: usize = 10_000;
const FIRST_RESPONSE: Duration = Duration::from_millis(300);
const CPU_PER_SECOND: Duration = Duration::from_millis(50);
const MEMORY: u64 = 60 * 1024 * 1024;
/// The number of events that the agent writes at once, ten times a second.
const AT_ONCE: usize = 100;
/// The pages that are shown, each once for a first look and then some times more.
const PAGES: [&str; 8] =
    ["", "tasks", "tasks?q=part&page=7", "task/task-00017", "landing", "money", "log", "report"];

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let project = Project::new(harness, Some(&ledger_of(TASKS)?))?;
    let _run = flood(&project)?;
    let seconds = match effort {
        Effort::Full => 20,
        Effort::Quick => 5,
    };
    web(&project, effort, seconds, report)?;
    top(&project, seconds, report)
}

/// Starts a run whose agent reports events without end.
fn flood(project: &Project) -> Result<Running, Box<dyn Error>> {
    let events = project.home().join("events");
    let line = |n| format!("{{\"type\":\"text\",\"text\":\"line {n} of what the agent says\"}}\n");
    fs::write(&events, (0..AT_ONCE).map(line).collect::<String>())?;
    let agent = project.home().join("agent.sh");
    let script = format!(
        "n=0\nwhile :; do\n  for i in 0 1 2 3 4 5 6 7 8 9; do cat {} >> $HARNESS_EVENTS; sleep 0.1; done\n  \
         n=$((n + 1))\n  echo \"{{\\\"type\\\":\\\"checkpoint\\\",\\\"step\\\":$n,\\\"total\\\":9999}}\" >> $HARNESS_EVENTS\ndone\n",
        events.display()
    );
    fs::write(&agent, script)?;
    let mut command = project.harness();
    command.args(["run", "--agent-command", &format!("sh {}", agent.display())]);
    Ok(Running(command.spawn()?))
}

fn web(
    project: &Project,
    effort: Effort,
    seconds: u32,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let (site, running) = Site::start(project)?;
    let first = timed(|| site.get(""))?;
    report.absolute("web, 10,000 tasks: first response", first, FIRST_RESPONSE);
    for page in PAGES {
        let times = (0..effort.rounds(30)).map(|_| timed(|| site.get(page)));
        let name = format!("web, 10,000 tasks: /{page}");
        report.absolute(&name, median(times.collect::<Result<_, _>>()?), FIRST_RESPONSE);
    }
    let ends = Arc::new(AtomicBool::new(false));
    let (events, refreshes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    follow(site.ask("api/events")?, Arc::clone(&events), &ends, |_| {});
    let page = site.clone();
    follow(site.ask("live")?, Arc::clone(&refreshes), &ends, move |line| {
        // The script of the page does the same.
        if line.starts_with("data:") {
            _ = page.get("");
        }
    });
    let used = over(&running, seconds)?;
    report.absolute("web, 1,000 events/s: CPU per second", used, CPU_PER_SECOND);
    report.count("web: events per second", per(&events, seconds), None);
    report.count("web: refreshes of a page", refreshes.load(Ordering::Relaxed), None);
    report.bytes("web: largest memory", running.peak_bytes()?, MEMORY);
    ends.store(true, Ordering::Relaxed);
    Ok(())
}

fn timed<T>(act: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed())
}

/// Returns the processor time per second.
fn over(running: &Running, seconds: u32) -> Result<Duration, Box<dyn Error>> {
    let before = running.cpu()?;
    thread::sleep(Duration::from_secs(seconds.into()));
    Ok((running.cpu()?.saturating_sub(before)) / seconds)
}

fn per(count: &AtomicUsize, seconds: u32) -> usize {
    count.load(Ordering::Relaxed) / seconds as usize
}

/// Counts the messages of a stream in a thread of its own, until its end.
fn follow(
    stream: std::net::TcpStream,
    count: Arc<AtomicUsize>,
    ends: &Arc<AtomicBool>,
    mut each: impl FnMut(&str) + Send + 'static,
) {
    let ends = Arc::clone(ends);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if ends.load(Ordering::Relaxed) {
                return;
            }
            if line.starts_with("data:") {
                count.fetch_add(1, Ordering::Relaxed);
            }
            each(&line);
        }
    });
}

fn top(project: &Project, seconds: u32, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None)?;
    let mut command = project.harness();
    command.arg("top").stdin(Stdio::from(pty.slave.try_clone()?));
    command.stdout(Stdio::from(pty.slave));
    let begun = Instant::now();
    let running = Running(command.spawn()?);
    // The command holds the other end of the terminal, which must end with the program.
    drop(command);
    let (drawn, first) = mpsc::channel();
    let mut screen = File::from(pty.master);
    thread::spawn(move || {
        let (mut seen, mut chunk) = (Vec::new(), [0; 65536]);
        while let Ok(count @ 1..) = screen.read(&mut chunk) {
            if seen.len() < 1 << 20 {
                seen.extend(&chunk[..count]);
                // The heading of the list is drawn with the first board.
                if seen.windows(7).any(|word| word == b"Working") {
                    _ = drawn.send(begun.elapsed());
                    seen = vec![0; 1 << 20];
                }
            }
        }
    });
    let first = first.recv_timeout(Duration::from_secs(60))?;
    report.absolute("top, 10,000 tasks: first screen, start included", first, FIRST_RESPONSE);
    let used = over(&running, seconds)?;
    report.absolute("top, 1,000 events/s: CPU per second", used, CPU_PER_SECOND);
    report.bytes("top: largest memory", running.peak_bytes()?, MEMORY);
    Ok(())
}
