//! A command line under its own guard, for a thread that may block. When it is over, nothing that
//! it started is left, inside of its group or outside.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

use rustix::process::Signal;

use super::{
    JOB_VARIABLE,
    guard::{
        Label,
        wire::{self, Launch, LineBuffer, Report, Stop, What},
    },
    job::JobExit,
    leftovers,
    spawner::{self, GuardProcess},
};

/// The longest wait for an answer of a guard.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A running script. If it is dropped before its end, all of it is killed.
#[derive(Debug)]
pub(crate) struct Script {
    job: String,
    control: UnixStream,
    reports: LineBuffer,
    guard: GuardProcess,
    is_over: bool,
}

/// A report of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardReport {
    Nothing,
    /// The shell itself has ended. Other processes may be left.
    Exited(JobExit),
    /// Nothing of it is left.
    Over,
    /// The guard was killed. The processes that it guarded were ended as well as possible without
    /// it.
    GuardLost,
}

impl Script {
    /// Runs `sh -c command` with these streams and only this environment. Returns when it runs, or
    /// after the shorter of `timeout` and [`ANSWER_WITHIN`], because the script may have stopped
    /// its guard.
    pub(crate) fn start(
        command: &str,
        directory: &Path,
        environment: Vec<(OsString, OsString)>,
        [timeout, grace]: [Duration; 2],
        streams: [OwnedFd; 3],
    ) -> io::Result<Script> {
        let label = Label::of(environment.iter().map(|(name, value)| (name, value)));
        let job = label.new_job();
        let mut environment = environment;
        environment.retain(|(name, _)| name != JOB_VARIABLE);
        environment.push((JOB_VARIABLE.into(), job.clone().into()));
        let launch = Launch {
            job: job.clone(),
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            directory: directory.into(),
            environment,
            grace_milliseconds: milliseconds(grace),
        };
        let (control, guard) = spawner::start_blocking(label)?;
        let reports = LineBuffer::default();
        let mut script = Script { job, control, reports, guard, is_over: false };
        script.launch(&launch, &streams, timeout.min(ANSWER_WITHIN))?;
        Ok(script)
    }

    fn launch(
        &mut self,
        launch: &Launch,
        streams: &[OwnedFd; 3],
        within: Duration,
    ) -> io::Result<()> {
        let line = wire::line(launch)?;
        // Zero would mean no limit.
        let within = Some(within.max(Duration::from_millis(1)));
        self.control.set_write_timeout(within)?;
        self.control.set_read_timeout(within)?;
        let sent = wire::send_with_streams(&self.control, &line, streams)?;
        self.control.write_all(&line[sent..])?;
        loop {
            match self.reports.pop()? {
                Some(Report::Started { .. }) => break,
                Some(Report::Refused { what, errno }) => {
                    self.is_over = true;
                    return Err(refused(what, errno, launch));
                }
                Some(Report::Exited { .. } | Report::Cleared { .. }) => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                None => {}
            }
            match self.receive() {
                Ok(1..) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The script killed or stopped the guard at once. That is noticed as at any later
                // time.
                Ok(0) | Err(_) => break,
            }
        }
        self.control.set_nonblocking(true)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let count = self.control.read(&mut bytes)?;
        self.reports.push(&bytes[..count])?;
        Ok(count)
    }

    /// Returns one report of the guard, without waiting.
    pub(crate) fn next_report(&mut self) -> GuardReport {
        loop {
            match self.reports.pop() {
                Ok(Some(Report::Exited { code, signal })) => {
                    return GuardReport::Exited(JobExit::of(code, signal));
                }
                Ok(Some(Report::Cleared { .. })) => {
                    self.is_over = true;
                    return GuardReport::Over;
                }
                Ok(Some(Report::Started { .. } | Report::Refused { .. })) => continue,
                Ok(None) => {}
                Err(_) => return self.replace_guard(),
            }
            match self.receive() {
                Ok(1..) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return GuardReport::Nothing,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return self.replace_guard(),
            }
        }
    }

    /// Requests the end: TERM to all of it, the grace, KILL.
    pub(crate) fn stop(&mut self, grace: Duration) {
        if let Ok(line) = wire::line(&Stop { grace_milliseconds: milliseconds(grace) }) {
            // A guard that is gone needs no order, and its silence is noticed.
            let _ = self.control.write_all(&line);
        }
    }

    /// Does the work of a guard that is gone or unresponsive, as well as possible.
    pub(crate) fn replace_guard(&mut self) -> GuardReport {
        self.guard.kill();
        leftovers::end_job(&self.job);
        self.is_over = true;
        GuardReport::GuardLost
    }
}

impl AsFd for Script {
    /// Returns a descriptor that is readable when there may be a [report](Script::next_report).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.stop(Duration::ZERO);
        let waits = self.control.set_nonblocking(false);
        if waits.and_then(|()| self.control.set_read_timeout(Some(ANSWER_WITHIN))).is_err() {
            return;
        }
        // A guard that is gone has closed the socket. Its leftovers are searched for.
        while self.receive().is_ok_and(|count| count > 0) {
            while let Ok(Some(report)) = self.reports.pop::<Report>() {
                if let Report::Cleared { .. } = report {
                    return;
                }
            }
        }
        self.replace_guard();
    }
}

fn milliseconds(grace: Duration) -> u64 {
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

fn refused(what: What, errno: i32, launch: &Launch) -> io::Error {
    let why = io::Error::from_raw_os_error(errno);
    let directory = launch.directory.display();
    let doing = match what {
        What::Directory => "run a command",
        What::Program => "start sh",
    };
    io::Error::new(why.kind(), format!("cannot {doing} in {directory}: {why}"))
}

/// The signal of a script that was killed with its guard.
pub(crate) const KILLED_WITH_GUARD: i32 = Signal::KILL.as_raw();
