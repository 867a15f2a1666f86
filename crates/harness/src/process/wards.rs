//! Scripts under way, and a process that ends them when the harness is gone.
//!
//! A script needs no guard of its own: it lives no longer than the call that started it. But a
//! harness that is killed can not end that call. So one process stands by for all scripts of a
//! program; it is this same program, started with the first script. The harness names each script
//! to it before it starts, and again when nothing is left of it. When the socket between them ends,
//! everything that carries a name which is still open in its environment is killed, and all that
//! came of it.

use std::{
    collections::HashSet,
    io::{self, BufReader, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{guard, leftovers, spawner};

/// As first argument it makes this program stand by for scripts.
pub(super) const ARGUMENT: &str = "__stand-by";
/// Unique to one script and inherited by all that it starts. Not [`super::JOB_VARIABLE`]: a script
/// may be started on behalf of an agent, and is part of its tree too.
const VARIABLE: &str = "HARNESS_SCRIPT";

/// One script, from before its start until nothing of it is left.
#[derive(Debug)]
pub(crate) struct Ward {
    name: String,
}

impl Ward {
    pub(crate) fn begin() -> Ward {
        let ward = Ward { name: uuid::Uuid::now_v7().to_string() };
        tell('+', &ward.name);
        ward
    }

    /// For the environment of the script.
    pub(crate) fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.name)
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        tell('-', &self.name);
    }
}

fn tell(what: char, name: &str) {
    static STANDS_BY: OnceLock<Option<Mutex<UnixStream>>> = OnceLock::new();
    let stands_by = STANDS_BY.get_or_init(|| match start() {
        Ok(socket) => socket.map(Mutex::new),
        Err(why) => {
            tracing::warn!(%why, "if this process is killed, the script that it runs goes on");
            None
        }
    });
    if let Some(socket) = stands_by {
        let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was killed leaves us no worse off than a program without one.
        let _ = socket.write_all(format!("{what}{name}\n").as_bytes());
    }
}

/// `None` in a program that did not call [`guard::init`].
fn start() -> io::Result<Option<UnixStream>> {
    if !guard::is_initialised() {
        return Ok(None);
    }
    let (socket, theirs) = UnixStream::pair()?;
    let mut command = Command::new(spawner::program()?);
    command
        .arg0("harness-stand-by")
        .arg(ARGUMENT)
        // A harness that this one starts has one of its own.
        .env_remove(VARIABLE)
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C in our terminal is for us to act on.
        .process_group(0);
    let mut child = command.spawn()?;
    // It outlives us by design; should it end before, somebody has to reap it.
    std::thread::Builder::new().name("stand-by".to_owned()).stack_size(64 * 1024).spawn(
        move || {
            let _ = child.wait();
        },
    )?;
    Ok(Some(socket))
}

/// What the process does: listens until the harness is gone, then ends what it left.
pub(super) fn stand_by() -> io::Result<()> {
    let socket = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
    socket.peer_addr()?;
    for name in left_open(BufReader::new(socket)) {
        leftovers::end(&format!("{VARIABLE}={name}"));
    }
    Ok(())
}

/// The names that were begun and not ended.
fn left_open(told: impl io::BufRead) -> HashSet<String> {
    let mut open = HashSet::new();
    // A line that can not be read is the end.
    for line in told.lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("+", name)) => {
                open.insert(name.to_owned());
            }
            Some(("-", name)) => {
                open.remove(name);
            }
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_and_not_ended_is_left_open() {
        let open = left_open(&b"+a\n+b\n-a\n\xff\n+c\n"[..]);
        assert_eq!(open, HashSet::from(["b".to_owned()]), "nothing is believed after nonsense");
        assert!(left_open(&b"+a\n-a\n\n?\n"[..]).is_empty());
    }
}
