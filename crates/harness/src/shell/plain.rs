//! Runs a script as a direct child, ended with its process group, for programs without guards.

use std::{
    fs, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use super::{
    Cancel, Exit, Ran, Script,
    output::{Output, Woken, wait},
    system::Given,
};
use crate::process::group::Group;

/// The interval of looks at leftovers, because there is no notice when the last process of a group
/// ends.
const LEFTOVER_POLL: Duration = Duration::from_millis(5);
/// The time that the kernel gets to end killed processes. A process that hangs in a dead file
/// server takes longer, and is not waited for.
const KILLED: Duration = Duration::from_secs(1);

/// The progress of the leader's end.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Running { deadline: Option<Instant> },
    Terminating { cause: Exit, kill_at: Instant },
    Killed { cause: Exit },
}

impl Phase {
    /// Returns the time at which something must be done although nothing happens.
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

pub(super) fn run(script: &Script, given: Given, cancel: Option<&Cancel>) -> io::Result<Ran> {
    Plain { grace: given.grace }.supervise(script, given, cancel)
}

struct Plain {
    /// The time between TERM and KILL.
    grace: Duration,
}

impl Plain {
    fn supervise(&self, script: &Script, given: Given, cancel: Option<&Cancel>) -> io::Result<Ran> {
        let started = Instant::now();
        let (mut group, mut output) = start(script, given)?;
        let mut phase = Phase::Running { deadline: started.checked_add(script.timeout) };
        loop {
            let asked = match phase {
                Phase::Running { .. } => cancel,
                Phase::Terminating { .. } | Phase::Killed { .. } => None,
            };
            let woken = wait(group.exited(), &output, asked, phase.timer())?;
            output.pump()?;
            if woken.told {
                break;
            }
            phase = self.advance(phase, &group, woken)?;
        }
        let status = group.reap()?;
        self.end_leftovers(&group, &mut output, phase)?;
        group.has_ended();
        output.drain()?;
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

    /// Ends the processes that the leader left in its group, in the rest of the grace if TERM was
    /// sent already. Their output is read meanwhile, so that none of them hangs on a full pipe.
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
        output.drain()?;
    }
    Ok(true)
}

fn start(script: &Script, given: Given) -> io::Result<(Group, Output)> {
    let Given { environment, stdin, grace: _, secrets } = given;
    // `spawn` does not report whether the directory or the shell is missing.
    let directory = script.directory.display();
    let named = |e: io::Error| {
        io::Error::new(e.kind(), format!("cannot run a command in {directory}: {e}"))
    };
    if !fs::metadata(&script.directory).map_err(named)?.is_dir() {
        return Err(named(io::ErrorKind::NotADirectory.into()));
    }
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", &script.command])
        .current_dir(&script.directory)
        .env_clear()
        .envs(environment)
        .stdin(stdin)
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let output = Output::from(reader, &secrets)?;
    let group = Group::start(&mut command)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot start sh in {directory}: {e}")))?;
    // `command` is dropped here. It holds our copies of the pipe's other end.
    Ok((group, output))
}
