//! The start of the agent itself. This is the only module here with `unsafe` code.
#![allow(unsafe_code)]

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd, RawFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use rustix::io::FdFlags;

use super::wire::{Launch, Report, What};

/// Starts the agent in its own session. It dies as soon as the calling thread does. Returns the
/// process id, or the report of a failure.
pub(super) fn start(launch: &Launch, streams: [OwnedFd; 3]) -> Result<u32, Report> {
    let refused =
        |what| move |e: io::Error| Report::Refused { what, errno: e.raw_os_error().unwrap_or(0) };
    // `spawn` does not report whether the directory or the program is missing.
    let directory = Path::new(&launch.directory);
    let is_directory = std::fs::metadata(directory).map_err(refused(What::Directory))?.is_dir();
    if !is_directory {
        let errno = rustix::io::Errno::NOTDIR.raw_os_error();
        return Err(Report::Refused { what: What::Directory, errno });
    }
    let [stdin, stdout, stderr] = streams;
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .current_dir(directory)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only calls that are safe in a signal handler are allowed, since
    // another thread may have held any lock. These are plain system calls; nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            die_with_parent(parent)
        });
    }
    let child = command.spawn().map_err(refused(What::Program))?;
    Ok(child.id())
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: rustix::process::Pid) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the signal was requested.
    if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}

/// Sets close-on-exec for descriptors that the program that started us left open without the flag
/// (a lock, a socket).
pub(super) fn keep_descriptors_to_ourselves() -> io::Result<()> {
    let numbers: Vec<RawFd> = std::fs::read_dir("/dev/fd")?
        .flatten()
        .filter_map(|entry| OsStr::to_str(&entry.file_name())?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // SAFETY: it is only borrowed for this one call, and its owner in this process keeps
        // it open: there is no other thread yet. The listing's own is closed; that is an error
        // which we ignore.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
    Ok(())
}
