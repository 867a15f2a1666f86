//! The cost of `harness run` in a git repository: an attempt at a task as a ratio to one `git
//! status` of the same repository, an iteration of an objective in CPU time, and the number of git
//! calls.

use std::{
    error::Error,
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    Effort,
    daemon::{MEMORY_BAR, resident},
    program::cpu,
    report::{Report, median},
};

/// The limit for an attempt, as a multiple of the time of one `git status`.
const STATUSES: f64 = 5.0;
const SCANS: usize = 3;
const CALLS_OF_AN_ITERATION: usize = 4;
const CPU_OF_AN_ITERATION: Duration = Duration::from_millis(12);
/// The number of tasks. The first attempt of a session reads more than the others.
const TASKS: usize = 8;

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let sizes: &[usize] = match effort {
        Effort::Quick => &[100, 7_000],
        Effort::Full => &[100, 7_000, 50_000],
    };
    for files in sizes {
        let place = Place::new(harness, *files)?;
        place.attempts(report, *files)?;
    }
    let place = Place::new(harness, 100)?;
    place.memory(report)?;
    place.iterations(report)
}

/// A repository with harness in it, and a git that records its calls.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    harness: PathBuf,
    shim: OsString,
    log: PathBuf,
}

impl Place {
    pub(crate) fn new(harness: &Path, files: usize) -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let log = directory.path().join("git.log");
        let shim = shim(directory.path(), &log)?;
        let place = Self { directory, harness: harness.to_owned(), shim, log };
        for number in 0..files {
            let folder = format!("src/{}/{}", number / 100, number / 10 % 10);
            let folder = place.repository().join(folder);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{number}.txt")), format!("file {number}\n").repeat(20))?;
        }
        for arguments in [
            &["init", "--quiet"][..],
            &["config", "user.name", "bench"],
            &["config", "user.email", "bench@localhost"],
            &["add", "--all"],
            &["commit", "--quiet", "-m", "start"],
        ] {
            done(place.command(Path::new("git")).args(arguments))?;
        }
        done(place.command(harness).args(["init", "--yes"]))?;
        Ok(place)
    }

    fn repository(&self) -> PathBuf {
        self.directory.path().join("repository")
    }

    /// Returns a command with its own environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.repository()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.directory.path()).env("HARNESS_DAEMON", "off");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn counted(&self, mut command: Command) -> Command {
        command.env("PATH", &self.shim);
        command
    }

    /// Adds tasks that record the start of their agent by creating a file.
    fn add_tasks(&self) -> Result<(), Box<dyn Error>> {
        self.add(TASKS)
    }

    /// Adds this many tasks.
    pub(crate) fn add(&self, tasks: usize) -> Result<(), Box<dyn Error>> {
        let marks = self.directory.path().join("marks");
        let _ = fs::remove_dir_all(&marks);
        fs::create_dir(&marks)?;
        let log = self.log.display();
        for number in 0..tasks {
            let mark = marks.join(format!("{number}"));
            let name = SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
            let work = format!(": > {}; echo AGENT >> {log}; echo x > {name}.txt", mark.display());
            let check = format!("test -f {name}.txt");
            let arguments = ["add", "x", "--instructions", &work, "--validate", &check];
            done(self.command(&self.harness).args(arguments))?;
        }
        Ok(())
    }

    fn work(&self) -> Command {
        let mut command = self.command(&self.harness);
        command.args(["run", "--agent", "shell", "--max-tasks-per-session", "1000"]);
        command
    }

    /// Runs all tasks in the way that these arguments say.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        done(self.work().args(arguments))
    }

    /// Adds this many tasks, runs them and returns the number of git processes.
    pub(crate) fn count(&self, arguments: &[&str], tasks: usize) -> Result<usize, Box<dyn Error>> {
        self.add(tasks)?;
        fs::write(&self.log, "")?;
        done(self.counted(self.work()).args(arguments))?;
        let log = fs::read_to_string(&self.log)?;
        Ok(log.lines().filter(|line| *line != "AGENT").count())
    }

    fn attempts(&self, report: &mut Report, files: usize) -> Result<(), Box<dyn Error>> {
        self.add_tasks()?;
        done(&mut self.work())?;
        let starts = (0..TASKS).map(|number| {
            let mark = self.directory.path().join(format!("marks/{number}"));
            Ok::<_, Box<dyn Error>>(fs::symlink_metadata(mark)?.modified()?)
        });
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        let gaps = starts.windows(2).map(|two| two[1].duration_since(two[0]));
        let attempt = median(gaps.collect::<Result<_, _>>()?);
        let status = || -> Result<Duration, Box<dyn Error>> {
            let started = Instant::now();
            done(self.command(Path::new("git")).arg("status"))?;
            Ok(started.elapsed())
        };
        let statuses = (0..10).map(|_| status()).collect::<Result<_, _>>()?;
        let what = format!("attempt in {files} files / git status");
        report.ratio(&what, attempt, median(statuses), STATUSES);

        self.add_tasks()?;
        fs::write(&self.log, "")?;
        done(&mut self.counted(self.work()))?;
        let (calls, scans) = self.calls()?;
        report.count(&format!("attempt in {files} files, git processes"), calls, None);
        report.count(&format!("attempt in {files} files, scans of the tree"), scans, Some(SCANS));
        Ok(())
    }

    /// Measures the main process of a run. Its agents record it: the process is the parent of the
    /// guard, which is the parent of the agent.
    fn memory(&self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let status = self.directory.path().join("status");
        let parent = "sed -n 's/^PPid:[^0-9]*//p'";
        let work = format!(
            "cat /proc/$({parent} /proc/$PPID/status)/status > {}; date > $HARNESS_TASK_ID",
            status.display()
        );
        for _ in 0..TASKS {
            let arguments = ["add", "x", "--instructions", &work, "--validate", ":"];
            done(self.command(&self.harness).args(arguments))?;
        }
        done(&mut self.work())?;
        let resident = resident(&fs::read_to_string(status)?)?;
        report.bytes("run: memory of the main process", resident, MEMORY_BAR);
        Ok(())
    }

    /// Returns the numbers of the most expensive stretch between two agents: all calls, and those
    /// that look at every file.
    fn calls(&self) -> Result<(usize, usize), Box<dyn Error>> {
        let log = fs::read_to_string(&self.log)?;
        let stretches: Vec<&str> = log.split("AGENT\n").collect();
        let inner = stretches.get(1..stretches.len() - 1).unwrap_or_default();
        let scans = |stretch: &&str| {
            let scan = |line: &&str| {
                let mut words = line.split(' ');
                words.any(|word| ["status", "ls-files", "reset"].contains(&word))
            };
            stretch.lines().filter(scan).count()
        };
        let calls = inner.iter().map(|stretch| stretch.lines().count()).max();
        Ok((calls.unwrap_or(0), inner.iter().map(scans).max().unwrap_or(0)))
    }

    fn iterations(&self, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let agent = self.directory.path().join("agent");
        let (log, few, many) = (self.log.display(), 5, 25);
        let script = "while read -r line; do :; done; echo x >> out; echo more";
        fs::write(&agent, format!("#!/bin/sh\necho AGENT >> {log}\n{script}\n"))?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))?;
        let run = |most: u32| {
            let mut command = self.command(&self.harness);
            command.args(["run", "--agent-command"]).arg(&agent);
            command.args(["--max-iterations", &most.to_string(), "write more"]);
            command
        };
        // The run is stopped by the number of iterations, which the exit code shows.
        let spent = |most: u32| cpu(run(most), Some(3));
        let each = spent(many)?.saturating_sub(spent(few)?) / (many - few);
        report.absolute("iteration of an objective, CPU with git", each, CPU_OF_AN_ITERATION);
        fs::write(&self.log, "")?;
        self.counted(run(few)).status()?;
        let (calls, _) = self.calls()?;
        let bar = Some(CALLS_OF_AN_ITERATION);
        report.count("iteration of an objective, git processes", calls, bar);
        Ok(())
    }
}

fn done(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Returns a `PATH` that starts with a git that writes a line for each call.
fn shim(place: &Path, log: &Path) -> Result<OsString, Box<dyn Error>> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&old).map(|p| p.join("git")).find(|p| p.is_file());
    let real = real.ok_or("no git on PATH")?;
    let folder = place.join("bin");
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(place.join("repository"))?;
    let (log, real) = (log.display(), real.display());
    let text = format!("#!/bin/sh\necho \"$*\" >> {log}\nexec {real} \"$@\"\n");
    fs::write(folder.join("git"), text)?;
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755))?;
    let paths = [folder].into_iter().chain(std::env::split_paths(&old).collect::<Vec<_>>());
    Ok(std::env::join_paths(paths)?)
}
