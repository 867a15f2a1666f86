//! The common parts of the tests: specs, runs, and a way to know that all of a tree is gone.

use std::{
    ffi::OsString,
    fs::File,
    future::Future,
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use harness::process::{Finished, Job, JobEvent, Limits, OutputSource, Spec, Stdin};
use rustix::event::{PollFd, PollFlags, Timespec};

/// A time limit that no step reaches, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);
pub(crate) const GRACE: Duration = Duration::from_millis(200);

pub(crate) fn within<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, future).await.expect("it hangs") })
}

pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), std::env::var_os("PATH").unwrap())]
}

pub(crate) fn spec(script: &str) -> Spec {
    Spec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        directory: std::env::temp_dir(),
        environment: environment(),
        stdin: Stdin::Null,
        limits: Limits { timeout: None, stall: None, grace: GRACE },
        label: "run-of-a-test".to_owned(),
        records: None,
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) finished: Finished,
}

pub(crate) async fn to_the_end(job: &mut Job) -> Ran {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(event) = job.next().await {
        match event {
            JobEvent::Output(chunk) => match chunk.source {
                OutputSource::Stdout => stdout.extend(chunk.bytes),
                OutputSource::Stderr => stderr.extend(chunk.bytes),
            },
            JobEvent::Stalled { .. } => {}
        }
    }
    let finished = job.wait_for_end().await.unwrap().clone();
    Ran { stdout, stderr, finished }
}

pub(crate) fn run(spec: Spec) -> Ran {
    within(async { to_the_end(&mut Job::start(spec).await.unwrap()).await })
}

/// Reads the output until it contains `word`.
pub(crate) async fn until_it_says(job: &mut Job, word: &str) -> String {
    let mut said = String::new();
    while !said.contains(word) {
        match job.next().await.expect("it ended first") {
            JobEvent::Output(chunk) => said.push_str(&String::from_utf8_lossy(&chunk.bytes)),
            JobEvent::Stalled { .. } => {}
        }
    }
    said
}

/// A named pipe that every process of a tree holds open, so that its end is the end of all of them.
pub(crate) struct Roll {
    pub(crate) folder: tempfile::TempDir,
    reader: File,
}

impl Roll {
    pub(crate) fn new() -> Roll {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roll");
        let status = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        let reader = File::options().read(true).custom_flags(flags).open(&path).unwrap();
        Roll { folder, reader }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("roll")
    }

    /// Returns the start of a script: `linger NAME` holds the pipe open and does nothing forever,
    /// whatever signal it gets.
    pub(crate) fn prelude(&self) -> String {
        format!(
            "roll={}\n\
             linger() {{ exec 9>\"$roll\"; trap '' TERM HUP INT; echo $1 >&9; exec sleep 100000; }}\n",
            self.path().display()
        )
    }

    /// Returns a lingering process that is reparented and in its own session.
    pub(crate) fn detached(&self, name: &str) -> String {
        format!(
            "( setsid sh -c 'exec 9>{}; trap \"\" TERM HUP INT; echo {name} >&9; \
             exec sleep 100000 >/dev/null 2>&1' & )\n",
            self.path().display()
        )
    }

    /// Returns the same, with nothing in its environment by which it could be found.
    pub(crate) fn nameless(&self, name: &str) -> String {
        self.detached(name).replacen("setsid", "setsid env -i", 1)
    }

    fn poll(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap();
        let mut polled = [PollFd::new(&self.reader, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&left)).unwrap() > 0
    }

    /// Waits for this many lines.
    pub(crate) fn wait_for(&mut self, lines: usize) {
        let deadline = Instant::now() + LONG;
        let (mut said, mut buffer) = (Vec::new(), [0; 256]);
        while said.iter().filter(|byte| **byte == b'\n').count() < lines {
            assert!(self.poll(deadline), "only {}", String::from_utf8_lossy(&said));
            if let Ok(count) = self.reader.read(&mut buffer) {
                said.extend(&buffer[..count]);
            }
        }
    }

    /// Waits until the last process is gone.
    pub(crate) fn wait_for_end(&mut self) {
        let deadline = Instant::now() + LONG;
        let mut buffer = [0; 256];
        loop {
            assert!(self.poll(deadline), "somebody is left");
            match self.reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }

    /// Returns whether no process holds the pipe now.
    pub(crate) fn is_empty(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Another harness, which starts `script` and reports the pid of its guard (or 0).
pub(crate) struct Harness {
    pub(crate) process: Child,
    pub(crate) guard: u32,
}

impl Harness {
    pub(crate) fn start(kind: &str, script: &str, records: &Path) -> Harness {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([kind, script])
            .arg(records)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = process.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).unwrap();
        Harness { process, guard: said.trim().parse().unwrap() }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn be_harness() -> ExitCode {
    let mut args = std::env::args().skip(2);
    let script = args.next().unwrap();
    let records = args.next().map(PathBuf::from);
    within(async {
        let mut job = Job::start(Spec { records, ..spec(&script) }).await.unwrap();
        assert_eq!(job.take_warning().is_some(), job.guard().is_none());
        let mut second = Job::start(spec("true")).await.unwrap();
        assert_eq!(second.take_warning(), None, "it is said once");
        second.wait_for_end().await;
        println!("{}", job.guard().unwrap_or(0));
        job.wait_for_end().await;
    });
    ExitCode::SUCCESS
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
