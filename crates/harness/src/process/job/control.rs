//! The line between a job and its guard.

use std::{io, os::fd::OwnedFd, time::Duration};

use tokio::io::{AsyncWriteExt as _, Interest};

use super::{Job, JobExit, JobStartError};
use crate::process::{
    guard::wire::{self, Launch, Report, Stop},
    leftovers,
};

impl Job {
    /// Orders the guard to start the program, and waits for its report.
    pub(super) async fn launch(
        &mut self,
        launch: &Launch,
        streams: [OwnedFd; 3],
    ) -> Result<u32, JobStartError> {
        let line = wire::line(launch).map_err(JobStartError::Io)?;
        let send = || wire::send_with_streams(&self.control, &line, &streams);
        let sent = self.control.async_io(Interest::WRITABLE, send).await;
        let sent = sent.map_err(JobStartError::Guard)?;
        // From here on, only the agent has its ends: our pipes end when its side does.
        drop(streams);
        self.control.write_all(&line[sent..]).await.map_err(JobStartError::Guard)?;
        loop {
            if let Some(report) = self.reports.pop().map_err(JobStartError::Guard)? {
                return match report {
                    Report::Started { pid } => Ok(pid),
                    Report::Refused { what, errno } => {
                        self.forget();
                        Err(JobStartError::refused(what, errno, launch))
                    }
                    Report::Exited { .. } | Report::Cleared { .. } => {
                        Err(JobStartError::Guard(io::ErrorKind::InvalidData.into()))
                    }
                };
            }
            self.control.readable().await.map_err(JobStartError::Guard)?;
            if self.receive().map_err(JobStartError::Guard)? == Line::Ended {
                return Err(JobStartError::Guard(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Asks the guard to end the tree.
    pub(super) fn tell(&self, grace: Duration) {
        let grace_milliseconds = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if let Ok(line) = wire::line(&Stop { grace_milliseconds }) {
            // The socket's buffer holds thousands of these. A guard that is gone needs none.
            let _ = self.control.try_write(&line);
        }
    }

    /// Takes in what the guard has reported.
    pub(super) fn hear(&mut self) {
        let received = self.receive();
        loop {
            match self.reports.pop() {
                Ok(Some(Report::Exited { code, signal })) => {
                    self.exit = Some(JobExit::of(code, signal));
                    self.expect_end();
                }
                Ok(Some(Report::Cleared { left })) => {
                    self.left = Some(left);
                    return;
                }
                Ok(Some(Report::Started { .. } | Report::Refused { .. })) => {}
                Ok(None) => break,
                Err(_) => return self.replace_guard(),
            }
        }
        if !matches!(received, Ok(Line::Open)) {
            self.replace_guard();
        }
    }

    /// Does the work of a guard that is gone or unresponsive, as well as possible.
    pub(super) fn replace_guard(&mut self) {
        if self.sweep.is_some() {
            return;
        }
        if let Some(guard) = &self.guard {
            guard.kill();
        }
        let id = self.id.clone();
        self.sweep = Some(tokio::task::spawn_blocking(move || leftovers::end_job(&id)));
    }

    fn receive(&mut self) -> io::Result<Line> {
        let mut bytes = [0; 4096];
        match self.control.try_read(&mut bytes) {
            Ok(0) => Ok(Line::Ended),
            Ok(count) => self.reports.push(&bytes[..count]).map(|()| Line::Open),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Line::Open),
            Err(e) => Err(e),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Open,
    Ended,
}
