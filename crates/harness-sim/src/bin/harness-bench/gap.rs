//! The cost of `harness run` itself between the end of one agent and the start of the next. The
//! time of git and of the disk is measured in the same run and subtracted.

use std::{
    error::Error,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Effort,
    report::{Report, median},
    store::replace,
};

/// The number of durable replacements of the ledger between two agents: a completion and a claim.
/// Upkeep changes nothing.
const WRITES: u32 = 2;
/// The number of times that the record of runs becomes durable: with the stop of a run, and with the
/// beginning of the first iteration of the next one. Each is one append to the write-ahead log.
const COMMITS: u32 = 2;

/// A wrapper of git that records the start and the end of the real program.
const SHIM: &str = "#!/bin/sh
s=$(date +%s%N); REAL \"$@\"; c=$?; echo \"$s $(date +%s%N)\" >> LOG; exit $c
";

pub(crate) fn measure(
    harness: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let (repository, log) = (place.path().join("repository"), place.path().join("git.log"));
    fs::create_dir(&repository)?;
    let path = shim(place.path(), &log)?;
    let run = |program: &Path, args: &[&str]| -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(program);
        command.args(args).current_dir(&repository).env("PATH", &path);
        command.env("HOME", place.path()).env_remove("XDG_STATE_HOME");
        let status =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("{args:?}: {status}").into()) }
    };
    let git = |args: &[&str]| run(Path::new("git"), args);
    git(&["init", "--quiet"])?;
    git(&["config", "user.name", "bench"])?;
    git(&["config", "user.email", "bench@localhost"])?;
    git(&["commit", "--quiet", "--allow-empty", "-m", "start"])?;
    run(harness, &["init", "--yes"])?;
    let tasks = effort.rounds(100).clamp(5, 20);
    for n in 0..tasks {
        let script = format!("date +%s%N >> ../times; touch f{n}; date +%s%N >> ../times");
        run(harness, &["add", "x", "--instructions", &script, "--validate", ":"])?;
    }
    fs::remove_file(&log)?;
    run(harness, &["run", "--agent", "shell", "--max-tasks-per-session", "1000"])?;
    let overhead = shim_overhead(place.path(), &path, &log)?;
    let times = numbers(&place.path().join("times"))?;
    let calls = numbers(&log)?;
    let disk = durable_replacement(&repository)? * WRITES + durable_append(&repository)? * COMMITS;
    let mut gaps = Vec::new();
    // Each task records its start and its end. The gap lies between an end and the next start.
    for gap in times[1..times.len() - 1].chunks_exact(2) {
        let inside = calls.chunks_exact(2).filter(|c| c[0] >= gap[0] && c[1] <= gap[1]);
        let (mut git, mut count) = (0, 0);
        for call in inside {
            git += call[1] - call[0];
            count += 1;
        }
        let all = Duration::from_nanos(gap[1] - gap[0]);
        let aside = Duration::from_nanos(git) + overhead * count + disk;
        gaps.push(all.saturating_sub(aside));
    }
    let what = "run: between two agents, our own, git and disk aside";
    report.absolute(what, median(gaps), Duration::from_millis(20));
    Ok(())
}

fn shim(place: &Path, log: &Path) -> Result<std::ffi::OsString, Box<dyn Error>> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&old).map(|p| p.join("git")).find(|p| p.is_file());
    let real = real.ok_or("no git on PATH")?;
    let folder = place.join("bin");
    fs::create_dir(&folder)?;
    let text = SHIM.replace("REAL", &real.to_string_lossy());
    let file = folder.join("git");
    fs::write(&file, text.replace("LOG", &log.to_string_lossy()))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    let paths =
        std::iter::once(folder).chain(std::env::split_paths(&old).collect::<Vec<PathBuf>>());
    Ok(std::env::join_paths(paths)?)
}

/// Returns the time that a call through the wrapper takes beyond the recorded time.
fn shim_overhead(
    place: &Path,
    path: &std::ffi::OsStr,
    log: &Path,
) -> Result<Duration, Box<dyn Error>> {
    let before = numbers(log)?.len();
    let mut walls = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        Command::new(place.join("bin/git"))
            .arg("--version")
            .env("PATH", path)
            .stdout(Stdio::null())
            .status()?;
        walls.push(started.elapsed());
    }
    let all = numbers(log)?;
    let noted = all[before..].chunks_exact(2).map(|c| Duration::from_nanos(c[1] - c[0])).collect();
    fs::write(log, all[..before].iter().map(|n| format!("{n} ")).collect::<String>())?;
    Ok(median(walls).saturating_sub(median(noted)))
}

fn durable_replacement(repository: &Path) -> Result<Duration, Box<dyn Error>> {
    let ledger = fs::read(repository.join("harness-tasks.json"))?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        replace(repository, &ledger)?;
        times.push(started.elapsed());
    }
    Ok(median(times))
}

/// Measures the durable append of one page, as SQLite makes it.
fn durable_append(repository: &Path) -> Result<Duration, Box<dyn Error>> {
    let mut file = fs::File::create(repository.join(".harness/append"))?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(median(times))
}

fn numbers(file: &Path) -> Result<Vec<u64>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}
