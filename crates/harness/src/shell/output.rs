//! The output of a command: all of it is counted and hashed, and its end is kept.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, Read as _},
    os::fd::BorrowedFd,
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::Cancel;
use crate::process::{RedactedStream, Redactor};

/// The size of the end that is kept for the next attempt's prompt and the receipt.
const TAIL_BYTES: usize = 64 * 1024;
/// A limit above the size of a pipe. It matters only if a process that outlives the command
/// continues to write.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Reads the output of a command through a pipe that never blocks.
#[derive(Debug)]
pub(super) struct Output {
    /// The pipe; `None` once it has ended.
    pipe: Option<PipeReader>,
    buffer: Vec<u8>,
    tail: VecDeque<u8>,
    /// Keeps secrets out of the tail, even if they arrive in two pieces.
    redacted: RedactedStream,
    bytes: u64,
    sha256: Sha256,
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pumped {
    Some(usize),
    NothingNow,
    Ended,
}

impl Output {
    pub(super) fn from(pipe: PipeReader, secrets: &Redactor) -> io::Result<Output> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        rustix::fs::fcntl_setfl(&pipe, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Output {
            pipe: Some(pipe),
            buffer: vec![0; TAIL_BYTES],
            tail: VecDeque::with_capacity(TAIL_BYTES),
            redacted: secrets.stream(),
            bytes: 0,
            sha256: Sha256::new(),
        })
    }

    /// Returns the pipe to poll, while there may be more.
    pub(super) fn pipe(&self) -> Option<&PipeReader> {
        self.pipe.as_ref()
    }

    /// Reads once, so that a flood does not keep the caller from its timers.
    pub(super) fn pump(&mut self) -> io::Result<Pumped> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(Pumped::Ended);
        };
        match pipe.read(&mut self.buffer) {
            Ok(0) => {
                self.pipe = None;
                Ok(Pumped::Ended)
            }
            Ok(count) => {
                self.take(count);
                Ok(Pumped::Some(count))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Pumped::NothingNow),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Pumped::Some(0)),
            Err(e) => Err(e),
        }
    }

    /// Reads what is in the pipe now. Its end may never come, because a process that outlives the
    /// command can keep it open.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let mut drained = 0;
        while drained < DRAIN_BYTES_MAX {
            match self.pump()? {
                Pumped::Some(count) => drained += count,
                Pumped::NothingNow | Pumped::Ended => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) {
        let chunk = &self.buffer[..count];
        self.sha256.update(chunk);
        self.bytes += count as u64;
        let shown = self.redacted.push(chunk);
        keep(&mut self.tail, &shown);
    }

    /// Returns the tail, the count and the hash in hexadecimal.
    pub(super) fn finish(mut self) -> (Vec<u8>, u64, String) {
        keep(&mut self.tail, &self.redacted.finish());
        let digest = self.sha256.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        (self.tail.into(), self.bytes, sha256)
    }
}

/// Appends to the kept end.
fn keep(tail: &mut VecDeque<u8>, shown: &[u8]) {
    let shown = &shown[shown.len().saturating_sub(TAIL_BYTES)..];
    let surplus = (tail.len() + shown.len()).saturating_sub(TAIL_BYTES);
    tail.drain(..surplus);
    tail.extend(shown);
}

/// The result of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken {
    /// `true` if there is news about the command.
    pub(super) told: bool,
    pub(super) cancelled: bool,
}

/// Waits until something happens or the timer ends.
pub(super) fn wait(
    command: BorrowedFd<'_>,
    output: &Output,
    cancel: Option<&Cancel>,
    timer: Option<Instant>,
) -> io::Result<Woken> {
    let mut polled = vec![PollFd::from_borrowed_fd(command, PollFlags::IN)];
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
    Ok(Woken { told: happened(0), cancelled: cancel.is_some() && happened(1) })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_in_the_tail() {
        let (reader, mut writer) = io::pipe().unwrap();
        let secrets = Redactor::from_environment([("A_KEY".into(), "very-secret-1".into())]);
        let mut output = Output::from(reader, &secrets).unwrap();
        for piece in ["say very-se", "cret-1 and", " very-secret-1"] {
            writer.write_all(piece.as_bytes()).unwrap();
            output.pump().unwrap();
        }
        drop(writer);
        let (tail, bytes, _) = output.finish();
        assert_eq!(String::from_utf8(tail).unwrap(), "say [redacted:A_KEY] and [redacted:A_KEY]");
        assert_eq!(bytes, 35);
    }

    #[test]
    fn the_tail_is_the_end_of_what_came() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut output = Output::from(reader, &Redactor::default()).unwrap();
        assert_eq!(output.pump().unwrap(), Pumped::NothingNow);
        let mut all = Vec::new();
        for round in 0_u8..40 {
            let chunk = vec![round; 5000];
            writer.write_all(&chunk).unwrap();
            all.extend(chunk);
            assert_eq!(output.pump().unwrap(), Pumped::Some(5000));
        }
        drop(writer);
        assert_eq!(output.pump().unwrap(), Pumped::Ended);
        assert!(output.pipe().is_none());
        let (tail, bytes, sha256) = output.finish();
        assert_eq!(bytes, 200_000);
        assert_eq!(tail, all[all.len() - TAIL_BYTES..]);
        let digest = Sha256::digest(&all);
        let expected: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sha256, expected);
    }
}
