//! The guard: a process between harness and one agent or script that only waits. It ends the whole
//! tree of the agent if harness is gone.
//!
//! It is this same program, started again with a first argument that no user types. Its standard
//! input is a socket to harness. The socket carries the order to launch, together with the agent's
//! three standard streams, and the reports in return. The end of that socket means that harness is
//! gone, on every Unix. The agent's streams never pass through the guard.
//!
//! If the program did not call [`init`], the same code runs on a thread of harness. Then only the
//! parent-death signal ends the agent of a killed harness, and the processes that the agent started
//! are left to [`super::leftovers`].

mod agent;
mod label;
mod watch;
pub(super) mod wire;

use std::{
    io::{self, PipeReader},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

pub(super) use label::Label;
use watch::Means;

/// The name of a guard in the list of processes.
pub(super) const NAME: &str = "harness-guard";
/// The first argument that makes this program a guard.
const ARGUMENT: &str = "__guard";

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main` by every program that starts agents. In a program that was
/// started as a guard it never returns.
pub fn init() {
    if std::env::args_os().nth(1).is_none_or(|first| first != ARGUMENT) {
        INITIALISED.store(true, Ordering::Relaxed);
        return;
    }
    std::process::exit(match be_guard() {
        Ok(()) => 0,
        // Only a person who typed this by hand can read the message.
        Err(e) => {
            eprintln!("this is how the program guards the agents and scripts that it starts: {e}");
            2
        }
    });
}

/// Returns whether this program, started again, would be a guard.
pub(crate) fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

fn be_guard() -> io::Result<()> {
    let control = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
    control.peer_addr()?;
    // This comes before the parent-death signal is requested, so that the signal is handled and
    // does not kill the guard.
    let children = signal_pipe(&[SIGCHLD])?;
    let asked = signal_pipe(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
    adopt_and_die_with_parent()?;
    agent::keep_descriptors_to_ourselves()?;
    // A guard must not keep a file system from being unmounted, or a folder from being removed.
    std::env::set_current_dir("/")?;
    watch::guard(control, Means::Process { children, asked })
}

/// Runs a guard for a program that did not call [`init`]. It ends when the agent's tree has ended.
pub(super) fn watch_on_thread(control: UnixStream) {
    // The other end of the socket notices an error, because the socket closes.
    let _ = watch::guard(control, Means::Thread);
}

/// Returns a pipe that becomes readable when one of the signals arrives.
fn signal_pipe(signals: &[i32]) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
    }
    watch::never_block(reader.as_fd())?;
    Ok(reader)
}

/// Makes orphans of the agent's tree our children, and requests a signal when our parent dies. If
/// the parent has died already, the end of the socket shows it.
#[cfg(target_os = "linux")]
fn adopt_and_die_with_parent() -> io::Result<()> {
    use rustix::process::{Signal, getpid, set_child_subreaper, set_parent_process_death_signal};
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn adopt_and_die_with_parent() -> io::Result<()> {
    Ok(())
}
