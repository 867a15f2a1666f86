//! The shell of the system: `sh -c`, one pipe for both outputs, one poll loop.

use std::{
    fs, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};

use super::{
    Cancel, Exit, Ran, Script, Shell,
    group::Group,
    output::{Output, Pumped},
};
use crate::process::wards::Ward;

/// How long `command -v` may take; it looks into a few directories.
const LOOK_UP: Duration = Duration::from_secs(10);
/// How often leftovers are looked at: nothing tells us when the last of a group ends.
const LEFTOVER_POLL: Duration = Duration::from_millis(5);
/// How long the kernel gets to end what was killed. What hangs in a dead file server takes longer,
/// and we do not wait for it.
const KILLED: Duration = Duration::from_secs(1);
/// No pipe holds more, unless somebody who left the group goes on writing.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Runs commands with `sh`.
#[derive(Debug, Clone)]
pub struct SystemShell {
    /// Between TERM and KILL.
    pub grace: Duration,
}

impl Default for SystemShell {
    fn default() -> SystemShell {
        SystemShell { grace: Duration::from_secs(5) }
    }
}

impl Shell for SystemShell {
    fn run(&self, script: &Script) -> io::Result<Ran> {
        self.supervise(script, None)
    }

    fn run_until(&self, script: &Script, cancel: &Cancel) -> io::Result<Ran> {
        self.supervise(script, Some(cancel))
    }

    fn lacks(&self, command: &str, directory: &Path) -> bool {
        let Some(word) = plain_first_word(command) else {
            return false;
        };
        let looked = self.run(&Script {
            command: format!("command -v {word}"),
            directory: directory.to_owned(),
            timeout: LOOK_UP,
            environment: Vec::new(),
        });
        // What could not be looked up is not known to be missing.
        looked.is_ok_and(|ran| matches!(ran.exit, Exit::Code(code) if code != 0))
    }
}

/// How far the end of the leader has come.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Running { deadline: Option<Instant> },
    Terminating { cause: Exit, kill_at: Instant },
    Killed { cause: Exit },
}

impl Phase {
    /// When something is to be done although nothing happens.
    fn timer(self) -> Option<Instant> {
        match self {
            Phase::Running { deadline } => deadline,
            Phase::Terminating { kill_at, .. } => Some(kill_at),
            Phase::Killed { .. } => None,
        }
    }

    fn exit(self, status: ExitStatus) -> Exit {
        match self {
            Phase::Running { .. } => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            },
            Phase::Terminating { cause, .. } | Phase::Killed { cause } => cause,
        }
    }
}

impl SystemShell {
    fn supervise(&self, script: &Script, cancel: Option<&Cancel>) -> io::Result<Ran> {
        let started = Instant::now();
        // Dropped after the group: it is ours to end as long as we live.
        let ward = Ward::begin();
        let (mut group, mut output) = start(script, &ward)?;
        let mut phase = Phase::Running { deadline: started.checked_add(script.timeout) };
        loop {
            let asked = match phase {
                Phase::Running { .. } => cancel,
                Phase::Terminating { .. } | Phase::Killed { .. } => None,
            };
            let woken = wait(&group, &output, asked, phase.timer())?;
            output.pump()?;
            if woken.exited {
                break;
            }
            phase = self.advance(phase, &group, woken)?;
        }
        let status = group.reap()?;
        self.end_leftovers(&group, &mut output, phase)?;
        group.has_ended();
        drain(&mut output)?;
        let (tail, output_bytes, output_sha256) = output.finish();
        let (exit, duration) = (phase.exit(status), started.elapsed());
        Ok(Ran { exit, duration, tail, output_bytes, output_sha256 })
    }

    fn advance(&self, phase: Phase, group: &Group, woken: Woken) -> io::Result<Phase> {
        let now = Instant::now();
        let due = phase.timer().is_some_and(|at| now >= at);
        Ok(match phase {
            Phase::Running { .. } if due || woken.cancelled => {
                group.terminate()?;
                let cause = if woken.cancelled { Exit::Cancelled } else { Exit::TimedOut };
                Phase::Terminating { cause, kill_at: now + self.grace }
            }
            Phase::Terminating { cause, .. } if due => {
                group.kill()?;
                Phase::Killed { cause }
            }
            Phase::Running { .. } | Phase::Terminating { .. } | Phase::Killed { .. } => phase,
        })
    }

    /// Ends what the leader left behind in its group, in the time that is left of the grace if
    /// there was a TERM already. Their last words are taken in meanwhile, so that none of them
    /// hangs on a full pipe.
    fn end_leftovers(&self, group: &Group, output: &mut Output, phase: Phase) -> io::Result<()> {
        if !group.has_leftovers() {
            return Ok(());
        }
        let kill_at = match phase {
            Phase::Running { .. } => {
                group.terminate()?;
                Instant::now() + self.grace
            }
            Phase::Terminating { kill_at, .. } => kill_at,
            Phase::Killed { .. } => Instant::now(),
        };
        if !gone_by(group, output, kill_at)? {
            group.kill()?;
            gone_by(group, output, Instant::now() + KILLED)?;
        }
        Ok(())
    }
}

fn gone_by(group: &Group, output: &mut Output, deadline: Instant) -> io::Result<bool> {
    while group.has_leftovers() {
        let now = Instant::now();
        if now >= deadline {
            return Ok(false);
        }
        std::thread::sleep(LEFTOVER_POLL.min(deadline - now));
        drain(output)?;
    }
    Ok(true)
}

/// Takes what is in the pipe now. Its end may never come: a process that left the group can keep it
/// open as long as it likes.
fn drain(output: &mut Output) -> io::Result<()> {
    let mut drained = 0;
    while drained < DRAIN_BYTES_MAX {
        match output.pump()? {
            Pumped::Some(count) => drained += count,
            Pumped::NothingNow | Pumped::Ended => break,
        }
    }
    Ok(())
}

fn start(script: &Script, ward: &Ward) -> io::Result<(Group, Output)> {
    // `spawn` does not say whether it was the directory or the shell that is missing.
    let directory = script.directory.display();
    let named = |e: io::Error| {
        io::Error::new(e.kind(), format!("can not run a command in {directory}: {e}"))
    };
    if !fs::metadata(&script.directory).map_err(named)?.is_dir() {
        return Err(named(io::ErrorKind::NotADirectory.into()));
    }
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new("sh");
    // A harness may be started by the agent of another one: whose task that is, is not the script's.
    for of_a_task in ["HARNESS_TASK_ID", "HARNESS_EPOCH", "HARNESS_ATTEMPT"] {
        command.env_remove(of_a_task);
    }
    command
        .args(["-c", &script.command])
        .current_dir(&script.directory)
        .envs(script.environment.iter().map(|(name, value)| (name, value)))
        .envs([ward.variable()])
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let output = Output::from(reader)?;
    let group = Group::start(&mut command)
        .map_err(|e| io::Error::new(e.kind(), format!("can not start sh in {directory}: {e}")))?;
    // `command`, dropped here, holds our copies of the pipe's other end.
    Ok((group, output))
}

#[derive(Debug, Clone, Copy)]
struct Woken {
    exited: bool,
    cancelled: bool,
}

/// Until something happens or it is time.
fn wait(
    group: &Group,
    output: &Output,
    cancel: Option<&Cancel>,
    timer: Option<Instant>,
) -> io::Result<Woken> {
    let mut polled = vec![PollFd::from_borrowed_fd(group.exited(), PollFlags::IN)];
    polled.extend(cancel.map(|cancel| PollFd::new(cancel, PollFlags::IN)));
    polled.extend(output.pipe().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    let left = timer.map(|at| at.saturating_duration_since(Instant::now()));
    // A time-out too long for the system is as good as none.
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match rustix::event::poll(&mut polled, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let happened = |index: usize| polled.get(index).is_some_and(|fd| !fd.revents().is_empty());
    Ok(Woken { exited: happened(0), cancelled: cancel.is_some() && happened(1) })
}

/// The first word, if the shell takes it as it stands and looks it up in `PATH`.
fn plain_first_word(command: &str) -> Option<&str> {
    let command = command.trim_start();
    let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    let defines_a_function = rest.trim_start().starts_with('(');
    let is_plain = !word.is_empty() && word.chars().all(plain) && !word.starts_with('-');
    (is_plain && !defines_a_function).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_word_can_be_missing() {
        assert_eq!(plain_first_word("  npm test"), Some("npm"));
        assert_eq!(plain_first_word("g++-12\t-v"), Some("g++-12"));
        assert_eq!(plain_first_word("make"), Some("make"));
        for other in [
            "",
            "A=1 make",
            "./run",
            "/bin/x",
            "$X y",
            "\"x\" y",
            "x;y",
            "(x)",
            "{ x; }",
            "! x",
            "~/x",
            "f() { :; }; f",
            "f () { :; }; f",
            "# x",
            "-x",
            "x|y",
            ">f x",
            "naïve",
        ] {
            assert_eq!(plain_first_word(other), None, "{other}");
        }
    }
}
