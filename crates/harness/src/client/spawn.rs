//! Starts a daemon that outlives its client, and asks one to make way.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use harness_core::{command::Code, variables};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fstatvfs,
};
use serde_json::Value;

use super::{ClientError, Connection};
use crate::{
    home::{Home, file_name, folder::Folder},
    host::{
        self,
        socket::{Places, SocketError},
    },
    process::JOB_VARIABLE,
    protocol::{Call, Refused, Request},
};

/// The limit of its last output in an error.
const LAST_WORDS: u64 = 4096;
/// A larger log is started again.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// The interval of looks for a daemon that another process has just started.
const LOOK: Duration = Duration::from_millis(10);
/// The limit of requests to make way to a daemon that others start again.
const YIELDS: usize = 5;
/// The time limit for its answer.
const YIELDS_WITHIN: Duration = Duration::from_secs(3);

/// Variables that describe the work of the starting process, and do not apply to the daemon.
const NOT_INHERITED: [&str; 9] = [
    variables::TASK,
    variables::EPOCH,
    variables::ATTEMPT,
    variables::SESSION,
    variables::ITERATION,
    variables::WORKER,
    "HARNESS_PROMPT_FILE",
    variables::RUN,
    JOB_VARIABLE,
];

/// The reason why there is no daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It ended before it listened. The text is its last output.
    #[error("Daemon crashed on startup: {0}")]
    Crashed(String),
    /// It neither listens nor ends.
    #[error("the daemon did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// It could not be started.
    #[error("cannot start the daemon: {0}")]
    Io(#[from] io::Error),
}

/// Starts `program` with `arguments` as the daemon of `root`, with its output in
/// `.harness/daemon.log`. It waits until a host answers: that one, or another that was faster.
/// `.harness` must exist.
pub(super) fn start(
    program: &Path,
    arguments: &[&OsStr],
    root: &Path,
    places: &Places,
    within: Duration,
) -> Result<Connection, StartError> {
    let deadline = Instant::now() + within;
    let mut log = open_log(root)?;
    let from = log.seek(SeekFrom::End(0))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).stdin(Stdio::null()).stderr(log.try_clone()?);
    command.stdout(Stdio::piped());
    NOT_INHERITED.iter().for_each(|name| _ = command.env_remove(name));
    let mut child = command.spawn()?;
    let mut said = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let ready = is_ready(&mut said, deadline)?;
    while Instant::now() < deadline || ready == Some(true) {
        if let Some(connection) = Connection::find(root, places) {
            return Ok(connection);
        }
        match ready {
            Some(true) => return Err(StartError::Crashed("nothing is listening".to_owned())),
            // Another daemon may exist that is about to listen.
            Some(false) if child.try_wait()?.is_some() && !says_another(&mut log, from) => {
                return Err(StartError::Crashed(last_words(&mut log, from)));
            }
            Some(false) | None => thread::sleep(LOOK),
        }
    }
    match child.try_wait()? {
        Some(_) => Err(StartError::Crashed(last_words(&mut log, from))),
        None => Err(StartError::Late(within)),
    }
}

fn open_log(root: &Path) -> io::Result<File> {
    let log =
        Folder::ours(&Home::of(root).folder())?.open_to_append(file_name(Home::DAEMON_LOG))?;
    if log.metadata()?.len() > LOG_BYTES_MAX {
        log.set_len(0)?;
    }
    Ok(log)
}

/// Returns whether it reported that it listens; `None` if it reported nothing by then.
fn is_ready(said: &mut ChildStdout, deadline: Instant) -> io::Result<Option<bool>> {
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut waited = [PollFd::new(said, PollFlags::IN)];
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut waited, Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        }
        let mut bytes = [0; 64];
        let count = said.read(&mut bytes)?;
        line.extend_from_slice(&bytes[..count]);
        if count == 0 || line.contains(&b'\n') {
            return Ok(Some(line.starts_with(host::READY.as_bytes())));
        }
    }
}

/// Returns its last output, or why there is none.
fn last_words(log: &mut File, from: u64) -> String {
    let words = output(log, from);
    if words.is_empty() { why_silent(log) } else { words }
}

fn output(log: &mut File, from: u64) -> String {
    let mut words = Vec::new();
    let start = log.metadata().map_or(from, |log| from.max(log.len().saturating_sub(LAST_WORDS)));
    if log.seek(SeekFrom::Start(start)).is_ok() {
        _ = log.take(LAST_WORDS).read_to_end(&mut words);
    }
    let words = String::from_utf8_lossy(&words);
    let words = words.trim();
    words.strip_prefix("Error: ").unwrap_or(words).to_owned()
}

/// Returns why a daemon may have printed nothing: its log could not be written.
fn why_silent(log: &mut File) -> String {
    let is_full = fstatvfs(&*log).is_ok_and(|disk| disk.f_bavail == 0);
    let written = log.write_all(b"the daemon ended and printed nothing\n");
    match (is_full, written) {
        (true, _) => "it printed nothing, because the disk is full".to_owned(),
        (false, Err(why)) => {
            format!("it printed nothing, because its log cannot be written: {why}")
        }
        (false, Ok(())) => "it printed nothing".to_owned(),
    }
}

fn says_another(log: &mut File, from: u64) -> bool {
    let running = SocketError::Running { pid: None }.to_string();
    output(log, from).contains(&running)
}

/// The result of asking a daemon to make way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// There is no daemon any more, or the host is not a daemon but another run, which holds the
    /// lock.
    Free,
    /// A process is there that does not answer. It may be stopped, and nothing waits for it.
    Silent,
}

/// Asks a daemon to make way before a run binds the socket. It does, unless a worker holds a task
/// that it gave out. `within` is the time that a daemon which has answered may take to end.
pub fn make_way(root: &Path, places: &Places, within: Duration) -> Result<Way, Refused> {
    let request = Value::Object(Call::line(&Request::Yield, root, None));
    for _ in 0..YIELDS {
        let Some(mut connection) = Connection::find(root, places) else { return Ok(Way::Free) };
        match connection.ask(&request, Some(YIELDS_WITHIN)) {
            Ok(_) => {}
            Err(ClientError::Silent) => return Ok(Way::Silent),
            Err(ClientError::Refused(refused)) if is_no_daemon(&refused) => return Ok(Way::Free),
            Err(ClientError::Refused(refused)) => return Err(refused),
            // It was about to end.
            Err(_) => {}
        }
        host::wait_until_gone(root, within)?;
    }
    Ok(Way::Free)
}

fn is_no_daemon(refused: &Refused) -> bool {
    matches!(refused.code, Code::AnotherRoot | Code::Busy)
}
