//! The place of the demo: a temporary repository and the commands that are run in it.

use std::{
    fs,
    io::{BufRead, BufReader, IsTerminal},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use harness_core::task::Status;

use super::crash::Step;
use crate::{
    failure::{Failure, Result},
    paint::visible,
    render::Out,
};
use harness::home::Home;

/// Whether a person reads along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Reader,
    Fast,
}

impl Pace {
    pub(super) fn of_this_terminal() -> Self {
        if std::io::stdout().is_terminal() { Self::Reader } else { Self::Fast }
    }

    fn wait(self) {
        if self == Self::Reader {
            thread::sleep(Duration::from_millis(700));
        }
    }
}

pub(super) struct Stage<'a> {
    out: &'a mut Out,
    pace: Pace,
    place: tempfile::TempDir,
    program: PathBuf,
}

/// One command, ready to be run with or without its output.
pub(super) struct Act<'s, 'a> {
    stage: &'s mut Stage<'a>,
    said: String,
    command: Command,
}

impl<'a> Stage<'a> {
    pub(super) fn build(out: &'a mut Out, pace: Pace) -> Result<Self> {
        let place = tempfile::Builder::new().prefix("harness-demo-").tempdir()?;
        let program = std::env::current_exe()?;
        let stage = Self { out, pace, place, program };
        fs::create_dir(stage.repository())?;
        for args in
            [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "start"]]
        {
            let made = stage.command(Path::new("git")).args(args).status();
            let made = made.map_err(|why| {
                Failure::error(format!("cannot run git: {why}")).hint("install git")
            })?;
            if !made.success() {
                return Err(Failure::error("git could not make the demo's repository"));
            }
        }
        Ok(stage)
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.place.path().join("greeting")
    }

    /// Returns a command for a program in the repository. The caller's settings must not reach the
    /// demo, and the demo leaves no traces in the caller's home.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.repository()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("HARNESS_") || name.starts_with("GIT_") {
                command.env_remove(&*name);
            }
        }
        let home = self.place.path().join("home");
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("state"));
        // No process is left running when the demo ends.
        command.env("HARNESS_DAEMON", "off");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "demo");
            command.env(format!("GIT_{who}_EMAIL"), "demo@localhost");
        }
        command
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn title(&mut self, text: &str) -> Result<()> {
        self.pace.wait();
        let heading = self.out.paint().heading(text).to_string();
        self.out.line(format_args!("\n{heading}"))?;
        self.out.finish()
    }

    pub(super) fn say(&mut self, text: &str) -> Result<()> {
        self.pace.wait();
        self.out.line(text)?;
        self.out.finish()
    }

    pub(super) fn harness<'s>(&'s mut self, args: &[&str]) -> Result<Act<'s, 'a>> {
        let mut command = self.command(&self.program);
        command.args(args);
        Ok(Act { said: format!("harness {}", args.join(" ")), command, stage: self })
    }

    pub(super) fn shell(&mut self, script: &str) -> Result<()> {
        let mut command = self.command(Path::new("sh"));
        command.args(["-c", script]);
        Act { said: script.to_owned(), command, stage: self }.shown()
    }

    pub(super) fn write(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.repository().join(name);
        fs::write(&path, text).map_err(|why| Failure::file("write", &path, &why))
    }

    /// Claims the next task and does its work. The process that will die has to complete it.
    pub(super) fn claim_for(&mut self, worker: &str) -> Result<()> {
        self.harness(&["task", "claim", "--worker", worker])?.quiet()?;
        self.shell("tar cf greet.tar greet.sh README LICENSE && git add greet.tar")?;
        self.shell("git commit --quiet --message 'publish: Make the archive'")
    }

    /// Runs the process that dies at `step` while it completes the claimed task.
    pub(super) fn crash(&mut self, step: Step) -> Result<()> {
        use std::os::unix::process::ExitStatusExt;
        let mut command = self.command(&self.program);
        command.args(["demo", "--die-at", step.name(), "--root"]).arg(self.repository());
        self.pace.wait();
        let status = command.status()?;
        let how = match status.signal() {
            Some(signal) => format!("killed by signal {signal}, {}", step.when()),
            None => return Err(Failure::error(format!("the demo's victim survived: {status}"))),
        };
        self.out.line(format_args!("$ harness task complete --id publish --worker cat"))?;
        let line = self.out.paint().error(format_args!("  {how}")).to_string();
        self.out.line(line)?;
        self.out.finish()
    }

    /// Writes a file beside the repository.
    pub(super) fn write_outside(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.place.path().join(name);
        fs::write(&path, text).map_err(|why| Failure::file("write", &path, &why))
    }

    /// Shows a session while it runs, and kills it once its log contains `moment` and the agent has
    /// begun.
    pub(super) fn run_and_kill_at(&mut self, moment: &str) -> Result<()> {
        let mut run = self.start_run(&[])?;
        let mut reached = false;
        for line in BufReader::new(run.stderr.take().ok_or("no output")?).lines() {
            let line = line?;
            self.show(&line)?;
            if line.contains(moment) {
                reached = true;
                break;
            }
        }
        // The agent first writes this file, then it sleeps.
        let begun = self.repository().join("README");
        while reached && !begun.exists() && run.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        run.kill()?;
        run.wait()?;
        if reached { Ok(()) } else { Err(Failure::error("the session ended too early")) }
    }

    /// Shows a session with these arguments until its end, and returns its exit code.
    pub(super) fn run_to_the_end(&mut self, arguments: &[&str]) -> Result<i32> {
        let mut run = self.start_run(arguments)?;
        for line in BufReader::new(run.stderr.take().ok_or("no output")?).lines() {
            self.show(&line?)?;
        }
        Ok(run.wait()?.code().unwrap_or(-1))
    }

    fn start_run(&mut self, arguments: &[&str]) -> Result<Child> {
        self.pace.wait();
        let words = [&["harness", "run", "--agent", "shell"], arguments].concat();
        self.out.line(format_args!("$ {}", words.join(" ")))?;
        self.out.finish()?;
        let mut command = self.command(&self.program);
        command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    }

    fn show(&mut self, line: &str) -> Result<()> {
        let paint = self.out.paint();
        let painted =
            crate::log_line::Painted { line, paint, zone: crate::log_line::Zone::Utc }.to_string();
        self.out.line(format_args!("  {painted}"))?;
        self.out.finish()
    }

    /// Prints how many processes of the killed session are left, after its guard has had time to
    /// act.
    pub(super) fn nothing_survived(&mut self) -> Result<()> {
        let folder = self.repository();
        let mut left = usize::MAX;
        for _ in 0..1000 {
            left = working_in(&folder);
            if left == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.say(&format!("Processes left over: {left}. The task is still claimed:"))
    }

    /// Returns the problem of the ledger at the end; `None` if each task has the expected state and
    /// each completed task was logged as completed once.
    pub(super) fn wrong(&self, expected: impl Fn(&str) -> Status) -> Result<Option<String>> {
        let ledger = harness::Project::open(&self.repository())?.snapshot()?;
        let log = fs::read_to_string(Home::of(&self.repository()).log())?;
        for task in ledger.tasks() {
            let expected = expected(task.id.as_str());
            if task.status() != expected {
                return Ok(Some(format!("{} is {}", task.id, task.status())));
            }
            let lines = log.matches(&format!("Completed [{}]", task.id)).count();
            if lines != usize::from(expected == Status::Completed) {
                return Ok(Some(format!("{} has {lines} lines that say Completed", task.id)));
            }
        }
        Ok(None)
    }

    /// Returns the path of the lock of the repository's ledger.
    pub(super) fn lock(&self) -> String {
        let root = self.repository();
        let root = root.canonicalize().unwrap_or(root);
        Home::of(&root).lock_directory().display().to_string()
    }

    /// Removes the repository, or returns its place if it is kept.
    pub(super) fn end(self, keep: bool) -> Result<Option<PathBuf>> {
        if keep {
            return Ok(Some(self.place.keep().join("greeting")));
        }
        // The guard file is useless without the repository. It may be gone already.
        _ = fs::remove_file(format!("{}.guard", self.lock()));
        self.place.close()?;
        Ok(None)
    }
}

impl Act<'_, '_> {
    pub(super) fn shown(mut self) -> Result<()> {
        self.stage.pace.wait();
        self.stage.out.line(format_args!("$ {}", self.said))?;
        let output = self.command.output()?;
        for stream in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(stream).lines() {
                self.stage.out.line(format_args!("  {}", visible(line)))?;
            }
        }
        self.stage.out.finish()?;
        if output.status.success() { Ok(()) } else { Err(self.failed(&output.stderr)) }
    }

    /// Runs the command without printing its output.
    pub(super) fn quiet(mut self) -> Result<String> {
        let output = self.command.output()?;
        if !output.status.success() {
            return Err(self.failed(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn failed(&self, stderr: &[u8]) -> Failure {
        let why = String::from_utf8_lossy(stderr);
        Failure::error(format!("`{}` failed: {}", self.said, why.trim()))
    }
}

/// Returns how many processes have their working directory there. Only Linux can report it;
/// elsewhere it is 0.
fn working_in(folder: &Path) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let there = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).ok();
    processes.flatten().filter_map(there).filter(|cwd| cwd.starts_with(folder)).count()
}
