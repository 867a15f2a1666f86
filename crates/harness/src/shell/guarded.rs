//! Runs a script under a guard. It is over when nothing that it started is left.

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
    script::{GuardReport, KILLED_WITH_GUARD, Script as Guarded},
};

/// The time that a guard may take, beyond the grace, to end everything and report it. Then it is
/// killed too.
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
    /// The time between TERM and KILL.
    grace: Duration,
    /// The time by which it must have ended by itself.
    deadline: Option<Instant>,
    /// Its exit, or the reason why it is being ended.
    exit: Option<Exit>,
    /// The time by which the guard should have reported that nothing is left.
    overdue_at: Option<Instant>,
}

impl Watch {
    /// Handles one event. Returns whether it was the last.
    fn turn(&mut self, output: &mut Output, cancel: Option<&Cancel>) -> io::Result<bool> {
        let is_running = self.exit.is_none();
        let (asked, timer) =
            if is_running { (cancel, self.deadline) } else { (None, self.overdue_at) };
        let woken = wait(self.guarded.as_fd(), output, asked, timer)?;
        output.pump()?;
        if woken.told && self.take_reports() {
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

    /// Processes the reports of the guard. Returns whether everything is over.
    fn take_reports(&mut self) -> bool {
        loop {
            match self.guarded.next_report() {
                GuardReport::Nothing => return false,
                GuardReport::Over => return true,
                GuardReport::GuardLost => {
                    self.distrust();
                    return true;
                }
                GuardReport::Exited(ended) => {
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

    /// Records that the guard was killed or stopped. The process that did it may still exist, so
    /// the exit of the script does not count.
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
