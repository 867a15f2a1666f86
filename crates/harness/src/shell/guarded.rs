//! A script under a guard: it is over when nothing that it started is left.

use std::{
    io,
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use super::{
    Cancel, Exit, Ran, Script,
    output::{Output, wait},
    system::Given,
};
use crate::process::{
    JobExit,
    script::{Heard, KILLED_WITH_GUARD, Script as Guarded},
};

/// How long a guard may take, beyond the grace, to end all and say so. Then it is killed too.
const GUARD_SLACK: Duration = Duration::from_secs(10);

pub(super) fn run(script: &Script, given: Given, cancel: Option<&Cancel>) -> io::Result<Ran> {
    let Given { environment, stdin, grace, secrets } = given;
    let started = Instant::now();
    let (reader, writer) = io::pipe()?;
    let mut output = Output::from(reader, &secrets)?;
    let streams = [stdin.into(), writer.try_clone()?.into(), writer.into()];
    let limits = [script.timeout, grace];
    let guarded = Guarded::start(&script.command, &script.directory, environment, limits, streams)?;
    let mut watch = Watch {
        guarded,
        grace,
        deadline: started.checked_add(script.timeout),
        exit: None,
        overdue_at: None,
    };
    while !watch.turn(&mut output, cancel)? {}
    output.drain()?;
    let exit = watch.exit.unwrap_or(Exit::Signal(KILLED_WITH_GUARD));
    let duration = started.elapsed();
    let (tail, output_bytes, output_sha256) = output.finish();
    Ok(Ran { exit, duration, tail, output_bytes, output_sha256 })
}

struct Watch {
    guarded: Guarded,
    /// Between TERM and KILL.
    grace: Duration,
    /// When it has to have ended by itself.
    deadline: Option<Instant>,
    /// How it ended, or why it is being ended.
    exit: Option<Exit>,
    /// When the guard should have told that nothing is left.
    overdue_at: Option<Instant>,
}

impl Watch {
    /// One event; whether it was the last.
    fn turn(&mut self, output: &mut Output, cancel: Option<&Cancel>) -> io::Result<bool> {
        let is_running = self.exit.is_none();
        let (asked, timer) =
            if is_running { (cancel, self.deadline) } else { (None, self.overdue_at) };
        let woken = wait(self.guarded.as_fd(), output, asked, timer)?;
        output.pump()?;
        if woken.told && self.hear() {
            return Ok(true);
        }
        let due = timer.is_some_and(|at| Instant::now() >= at);
        if !is_running {
            if due {
                self.guarded.replace_guard();
                self.distrust();
            }
            return Ok(due);
        }
        if self.exit.is_none() && (due || woken.cancelled) {
            self.exit = Some(if woken.cancelled { Exit::Cancelled } else { Exit::TimedOut });
            self.guarded.stop(self.grace);
            self.expect_end();
        }
        Ok(false)
    }

    /// Takes in what the guard has said; whether all is over.
    fn hear(&mut self) -> bool {
        loop {
            match self.guarded.hear() {
                Heard::Nothing => return false,
                Heard::Over => return true,
                Heard::GuardLost => {
                    self.distrust();
                    return true;
                }
                Heard::Exited(ended) => {
                    self.exit = self.exit.or(Some(match ended {
                        JobExit::Code(code) => Exit::Code(code),
                        JobExit::Signal(signal) => Exit::Signal(signal),
                        JobExit::Unknown => Exit::Signal(KILLED_WITH_GUARD),
                    }));
                    self.expect_end();
                }
            }
        }
    }

    /// Somebody has killed or stopped the guard, who may still be there: no word of the script's
    /// counts then.
    fn distrust(&mut self) {
        if !matches!(self.exit, Some(Exit::TimedOut | Exit::Cancelled)) {
            self.exit = Some(Exit::Signal(KILLED_WITH_GUARD));
        }
    }

    fn expect_end(&mut self) {
        let at = Instant::now().checked_add(self.grace.saturating_add(GUARD_SLACK));
        self.overdue_at = self.overdue_at.or(at);
    }
}
