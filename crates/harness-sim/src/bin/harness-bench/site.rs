//! A project for the parts about views: its environment, its web server, and clients of that server.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// The longest wait for anything. Nothing that is measured comes near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The unit of the processor times in `/proc`, which is the same on every machine.
const TICK_MILLISECONDS: u64 = 10;

/// A repository with a ledger, and a home of its own.
pub(crate) struct Project {
    place: tempfile::TempDir,
    harness: PathBuf,
}

impl Project {
    /// Creates a repository, with this ledger or with an empty one.
    pub(crate) fn new(harness: &Path, ledger: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let project = Self { place: tempfile::tempdir()?, harness: harness.to_owned() };
        fs::create_dir(project.root())?;
        for arguments in [
            &["init", "--quiet"][..],
            &["config", "user.name", "bench"],
            &["config", "user.email", "bench@localhost"],
            &["commit", "--quiet", "--allow-empty", "-m", "start"],
        ] {
            done(project.command(Path::new("git")).args(arguments))?;
        }
        done(project.harness().args(["init", "--yes"]))?;
        if let Some(ledger) = ledger {
            fs::write(project.root().join("harness-tasks.json"), ledger)?;
            done(project.harness().args(["trust", "--yes"]))?;
        }
        Ok(project)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.place.path().join("repository")
    }

    /// Returns the folder beside the repository, which is also the home.
    pub(crate) fn home(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn harness(&self) -> Command {
        self.command(&self.harness)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("TERM", "xterm-256color");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

pub(crate) fn done(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// A program that is ended with this value.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Returns the processor time of the process, its threads and the children that it waited for.
    pub(crate) fn cpu(&self) -> Result<Duration, Box<dyn Error>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name of the program, in parentheses, may contain spaces.
        let fields = stat.rsplit_once(')').ok_or("no stat")?.1.split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(4).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Duration::from_millis(ticks.iter().sum::<u64>() * TICK_MILLISECONDS))
    }

    /// Returns the largest memory that the process ever had.
    pub(crate) fn peak_bytes(&self) -> Result<u64, Box<dyn Error>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A run ends its agent when it is asked to stop, and not when it is killed.
        if let Ok(id) = i32::try_from(self.0.id()) {
            _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        _ = self.0.wait();
    }
}

/// The address of a web server, and the right to use it.
#[derive(Clone)]
pub(crate) struct Site {
    port: u16,
    base: String,
    /// The header that opens it.
    pass: String,
}

impl Site {
    /// Starts `harness web`.
    pub(crate) fn start(project: &Project) -> Result<(Self, Running), Box<dyn Error>> {
        let mut child = project.harness().args(["web", "--json"]).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let running = Running(child);
        let document = first_line(output)?;
        let document: Value = serde_json::from_str(&document)?;
        let token = document["token"].as_str().ok_or("no token")?;
        let link = document["url"].as_str().ok_or("no address")?;
        Ok((Self::of(link, format!("Authorization: Bearer {token}"))?, running))
    }

    /// Exchanges a link for a session, as a browser does.
    pub(crate) fn enter(link: &str) -> Result<Self, Box<dyn Error>> {
        let mut site = Self::of(link, "X-Nothing: 1".to_owned())?;
        let code = link.trim().rsplit('/').next().unwrap_or_default();
        let answer = site.get(&format!("enter/{code}"))?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next()).ok_or("no cookie")?;
        site.pass = format!("Cookie: {cookie}");
        Ok(site)
    }

    fn of(link: &str, pass: String) -> Result<Self, Box<dyn Error>> {
        let rest = link.trim().strip_prefix("http://").ok_or("no address")?;
        let (host, path) = rest.split_once('/').ok_or("no path")?;
        let port = host.rsplit(':').next().unwrap_or_default().parse()?;
        let base = format!("/{}/", path.split('/').next().unwrap_or_default());
        Ok(Self { port, base, pass })
    }

    /// Asks for a page and returns the stream of its answer, of which nothing has been read.
    pub(crate) fn ask(&self, page: &str) -> Result<TcpStream, Box<dyn Error>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let Self { port, base, pass } = self;
        let head = format!(
            "GET {base}{page} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{pass}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }

    /// Returns the whole answer.
    pub(crate) fn get(&self, page: &str) -> Result<String, Box<dyn Error>> {
        let mut answer = Vec::new();
        self.ask(page)?.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        match answer.starts_with("HTTP/1.1 200") {
            true => Ok(answer),
            false => Err(format!("{page}: {}", answer.lines().next().unwrap_or_default()).into()),
        }
    }
}

fn first_line(output: ChildStdout) -> Result<String, Box<dyn Error>> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}
