//! Starts guards, always from the same thread.
//!
//! The parent-death signal comes when the *thread* that started a process ends, not its process. If
//! any thread of a pool started guards, they would die with an idle worker. This thread lives as
//! long as the program.

use std::{
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::sync::oneshot;

use super::guard::{self, Label};

const A_MOMENT: Duration = Duration::from_secs(1);

/// A guard that waits for its first order.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) control: UnixStream,
    /// The process; `None` if it is a thread of this process.
    pub(super) guard: Option<GuardProcess>,
    /// `true` if the first agent of this process is about to run without a guard.
    pub(super) is_first_unguarded: bool,
}

/// The process of a guard, in case it does not answer any more.
#[derive(Debug)]
pub(super) struct GuardProcess {
    pub(super) pid: u32,
    /// Reserves the process id; `None` on systems without pidfds.
    pidfd: Option<OwnedFd>,
}

impl GuardProcess {
    fn of(child: &Child) -> GuardProcess {
        GuardProcess { pid: child.id(), pidfd: pidfd(Pid::from_child(child)) }
    }

    pub(super) fn kill(&self) {
        #[cfg(target_os = "linux")]
        if let Some(pidfd) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
            return;
        }
        if let Some(pid) = super::table::pid(self.pid) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(target_os = "linux")]
fn pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: Pid) -> Option<OwnedFd> {
    None
}

struct Request {
    control: UnixStream,
    label: Label,
    /// Receives the result, for a task or for a thread that waits.
    answer: Box<dyn FnOnce(io::Result<GuardProcess>) + Send>,
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts guards has ended")
}

/// Returns whether this process can talk to a guard. The sandbox of an agent may forbid what even a
/// pair of sockets needs.
pub(crate) fn is_guard_reachable() -> bool {
    static IS_REACHABLE: OnceLock<bool> = OnceLock::new();
    *IS_REACHABLE.get_or_init(|| {
        let limited = |(one, _): (UnixStream, UnixStream)| one.set_read_timeout(Some(A_MOMENT));
        let tried = UnixStream::pair().and_then(limited);
        !tried.is_err_and(|why| why.kind() == io::ErrorKind::PermissionDenied)
    })
}

/// Starts the guard of an agent.
pub(super) async fn start(label: Label) -> io::Result<Started> {
    static UNGUARDED: AtomicBool = AtomicBool::new(false);
    let (control, theirs) = UnixStream::pair()?;
    if !guard::is_initialised() {
        thread::Builder::new()
            .name("harness-guard".to_owned())
            .spawn(move || guard::watch_on_thread(theirs))?;
        let is_first_unguarded = !UNGUARDED.swap(true, Ordering::Relaxed);
        return Ok(Started { control, guard: None, is_first_unguarded });
    }
    let (sender, answered) = oneshot::channel();
    // If nothing waits for the answer, the guard's socket ends, and so does the guard.
    let answer = Box::new(|started| _ = sender.send(started));
    requests()?.send(Request { control: theirs, label, answer }).map_err(|_| gone())?;
    let guard = answered.await.map_err(|_| gone())??;
    Ok(Started { control, guard: Some(guard), is_first_unguarded: false })
}

/// Starts the guard of a script, for a thread that may block. The program has called
/// [`guard::init`].
pub(super) fn start_blocking(label: Label) -> io::Result<(UnixStream, GuardProcess)> {
    let (control, theirs) = UnixStream::pair()?;
    let (sender, answered) = mpsc::channel();
    let answer = Box::new(move |started| _ = sender.send(started));
    requests()?.send(Request { control: theirs, label, answer }).map_err(|_| gone())?;
    Ok((control, answered.recv().map_err(|_| gone())??))
}

fn requests() -> io::Result<mpsc::Sender<Request>> {
    static REQUESTS: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    if let Some(sender) = REQUESTS.get() {
        return Ok(sender.clone());
    }
    let (sender, receiver) = mpsc::channel::<Request>();
    // If two callers come here at once, one thread has no sender and ends at once.
    thread::Builder::new().name("harness-spawner".to_owned()).spawn(move || {
        while let Ok(Request { control, label, answer }) = receiver.recv() {
            answer(spawn(control, &label));
        }
    })?;
    Ok(REQUESTS.get_or_init(|| sender).clone())
}

fn spawn(control: UnixStream, label: &Label) -> io::Result<GuardProcess> {
    let mut command = Command::new(program()?);
    command
        .arg0(guard::NAME)
        .args(label.arguments())
        .stdin(OwnedFd::from(control))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // We handle a Ctrl-C in our terminal ourselves.
        .process_group(0);
    let mut child = command.spawn()?;
    let guard = GuardProcess::of(&child);
    // Nothing else reaps it. It ends by itself when its agent's tree or this process ends.
    let reaper = thread::Builder::new().name(format!("guard-{}", child.id())).stack_size(64 * 1024);
    reaper.spawn(move || {
        let _ = child.wait();
    })?;
    Ok(guard)
}

/// Returns the path of this program, even if an upgrade has replaced the file meanwhile.
fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}
