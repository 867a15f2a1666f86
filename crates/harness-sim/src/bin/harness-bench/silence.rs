//! A run whose webhook and collector never answer and whose browsers never read, beside one without
//! them. The work itself must take the same time; only the end may wait, and not for long.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{
    Effort,
    report::{Report, median},
    site::{Project, Running, Site, done},
};

/// The number of tasks of a run.
const TASKS: usize = 20;
/// The lines that each agent prints, which are events for the browsers.
const LINES: usize = 200;
/// The number of browsers that ask and do not read.
const BROWSERS: usize = 24;
/// The limit for the work, as a multiple of that of a run without them.
const TIMES: f64 = 1.15;
/// The limit for the end: the outbox gets five seconds.
const END: Duration = Duration::from_secs(6);

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let (mut alone, mut burdened, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    // They alternate, because machines get slower and faster.
    for _ in 0..effort.rounds(11) {
        alone.push(work(harness, None)?.0);
        let silence = Silence::new()?;
        let (took, end) = work(harness, Some(&silence))?;
        burdened.push(took);
        ends.push(end);
    }
    let what = "run: work with dead webhook, collector and browsers / without";
    report.ratio(what, median(burdened), median(alone), TIMES);
    report.absolute("run: end with dead webhook, collector and browsers", median(ends), END);
    Ok(())
}

/// Two ports whose connections are accepted by the kernel and never answered.
struct Silence {
    webhook: TcpListener,
    collector: TcpListener,
}

impl Silence {
    fn new() -> Result<Self, Box<dyn Error>> {
        let bind = || TcpListener::bind("127.0.0.1:0");
        Ok(Self { webhook: bind()?, collector: bind()? })
    }

    fn settings(&self) -> Result<String, Box<dyn Error>> {
        let (webhook, collector) = (self.webhook.local_addr()?, self.collector.local_addr()?);
        Ok(format!(
            "[otel]\nendpoint = \"http://{collector}\"\n[[notify]]\nkind = \"webhook\"\nurl = \"http://{webhook}/\"\n"
        ))
    }
}

/// Returns the time from the start of the first agent to the end of the last one, and from there to
/// the end of the program.
fn work(harness: &Path, silence: Option<&Silence>) -> Result<(Duration, Duration), Box<dyn Error>> {
    let project = Project::new(harness, None)?;
    let times = project.home().join("times");
    // The first task fails for good, which is a message.
    let mut add = project.harness();
    done(add.args(["add", "x", "--instructions", "true", "--validate", "false"]).args([
        "--max-attempts",
        "1",
        "--priority",
        "P0",
    ]))?;
    for n in 0..TASKS {
        let mark = format!("date +%s%N >> {}", times.display());
        let script = format!("{mark}; seq {LINES}; touch f{n}; {mark}");
        let check = format!("test -f f{n}");
        done(project.harness().args([
            "add",
            "x",
            "--instructions",
            &script,
            "--validate",
            &check,
        ]))?;
    }
    let mut command = project.harness();
    command.args(["run", "--agent", "shell", "--max-tasks-per-session", "1000"]);
    let mut browsers = Vec::new();
    if let Some(silence) = silence {
        let folder = project.home().join(".config/harness");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.toml"), silence.settings()?)?;
        command.arg("--web").stderr(Stdio::piped());
    }
    let mut running = Running(command.spawn()?);
    if let Some(errors) = running.0.stderr.take() {
        browsers = freeze(&project, BufReader::new(errors))?;
    }
    running.0.wait()?;
    let ended = Instant::now();
    let ended_at = std::time::SystemTime::UNIX_EPOCH.elapsed()?.saturating_sub(ended.elapsed());
    drop(browsers);
    let text = fs::read_to_string(&times)?;
    let times: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let (Some(first), Some(last), true) = (times.first(), times.last(), times.len() == 2 * TASKS)
    else {
        return Err(format!("{} marks instead of {}", times.len(), 2 * TASKS).into());
    };
    Ok((Duration::from_nanos(last - first), ended_at.saturating_sub(Duration::from_nanos(*last))))
}

/// Opens pages and streams of the server of the run, and reads none of them.
fn freeze(
    project: &Project,
    mut errors: BufReader<std::process::ChildStderr>,
) -> Result<Vec<TcpStream>, Box<dyn Error>> {
    let mut line = String::new();
    while !line.starts_with("web: ") {
        line.clear();
        if errors.read_line(&mut line)? == 0 {
            return Err("the run started no web server".into());
        }
    }
    // Nobody reads the rest of it, so it must be taken.
    std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(drop));
    let link = project.harness().args(["web", "--url"]).stdout(Stdio::piped()).output()?;
    let site = Site::enter(&String::from_utf8(link.stdout)?)?;
    let pages = ["live", "api/events", "", "report"];
    (0..BROWSERS).map(|n| site.ask(pages[n % pages.len()])).collect()
}
