//! Ctrl-C while a command of a task runs, or its equivalent for a waiting client. The command runs
//! in its own process group, which the terminal does not reach. So the process that starts one must
//! end it; otherwise it continues alone and without its time limit.

use std::{
    fs,
    io::{self, Read},
    thread,
};

use harness::shell::Cancel;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    low_level::pipe,
};

use crate::failure::Result;

/// The source of a request to stop a command.
pub(crate) enum Interrupt {
    /// A signal to this process.
    Signals,
    /// The client of this request, one of many that are answered concurrently.
    Request(Cancel),
    /// A person in a browser, or a program that has the token of the web server.
    Page(Cancel),
}

impl Interrupt {
    pub(crate) fn request(&self) -> Result<Cancel> {
        match self {
            Self::Signals => request(),
            Self::Request(cancel) | Self::Page(cancel) => Ok(cancel.clone()),
        }
    }
}

/// Returns a request to stop that is made once this process is asked to end. From now on these
/// signals do nothing else.
pub(crate) fn request() -> Result<Cancel> {
    let cancel = Cancel::new()?;
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let (mut reader, writer) = io::pipe()?;
    for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !ignored(*signal)) {
        pipe::register(signal, writer.try_clone()?)?;
    }
    let request = cancel.clone();
    thread::spawn(move || {
        if reader.read_exact(&mut [0]).is_ok() {
            request.cancel();
        }
    });
    Ok(cancel)
}

/// Returns the signals that the parent set to be ignored (`nohup`, a script's `&`). They stay
/// ignored.
fn ignored(status: &str) -> impl Fn(i32) -> bool + use<> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        let hup_only = ignored("SigBlk:\tffff\nSigIgn:\t0000000000000001\n");
        assert!(hup_only(SIGHUP) && !hup_only(SIGINT) && !hup_only(SIGTERM));
        assert!(!ignored("")(SIGINT));
    }
}
