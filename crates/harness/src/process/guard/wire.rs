//! The messages between harness and guard: one JSON value per line, in both directions. Both ends
//! are the same build, so no other program has to read this format.

use std::{
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The first order. The agent's standard streams come with its first byte.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::process) struct Launch {
    pub(in crate::process) job: String,
    pub(in crate::process) program: OsString,
    pub(in crate::process) args: Vec<OsString>,
    pub(in crate::process) directory: OsString,
    pub(in crate::process) environment: Vec<(OsString, OsString)>,
    /// The time between TERM and KILL, unless an order sets another.
    pub(in crate::process) grace_milliseconds: u64,
}

/// Ends the tree. A second order can only shorten the grace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::process) struct Stop {
    pub(in crate::process) grace_milliseconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) enum Report {
    Started {
        pid: u32,
    },
    Refused {
        what: What,
        errno: i32,
    },
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The last report. `left` lists the processes that even KILL did not end in time.
    Cleared {
        left: Vec<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) enum What {
    Directory,
    Program,
}

/// A limit above what any system accepts for arguments and environment.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
const STREAMS: usize = 3;

pub(in crate::process) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends the start of `line` together with the streams. Returns the number of sent bytes.
pub(in crate::process) fn send_with_streams(
    socket: impl AsFd,
    line: &[u8],
    streams: &[OwnedFd; STREAMS],
) -> io::Result<usize> {
    let borrowed = streams.each_ref().map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    let slice = [IoSlice::new(line)];
    Ok(rustix::net::sendmsg(socket, &slice, &mut ancillary, SendFlags::empty())?)
}

/// Splits a stream of bytes that arrives in pieces into lines.
#[derive(Debug, Default)]
pub(in crate::process) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    pub(in crate::process) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > LINE_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(())
    }

    pub(in crate::process) fn pop<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let message = serde_json::from_slice(&self.bytes[..end])?;
        self.bytes.drain(..=end);
        Ok(Some(message))
    }
}

/// The guard's end of the socket.
#[derive(Debug)]
pub(super) struct Inbox {
    socket: UnixStream,
    lines: LineBuffer,
    streams: Vec<OwnedFd>,
    is_open: bool,
}

impl Inbox {
    pub(super) fn new(socket: UnixStream) -> Inbox {
        Inbox { socket, lines: LineBuffer::default(), streams: Vec::new(), is_open: true }
    }

    /// Returns the socket to poll; `None` once harness is gone.
    pub(super) fn socket(&self) -> Option<&UnixStream> {
        self.is_open.then_some(&self.socket)
    }

    /// Reads what has arrived, without waiting for more.
    pub(super) fn receive(&mut self, flags: RecvFlags) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slice = [IoSliceMut::new(&mut bytes)];
        let flags = flags | cloexec();
        let count = match rustix::net::recvmsg(&self.socket, &mut slice, &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            // The other end closed with unread data of ours.
            Err(Errno::CONNRESET) => 0,
            Err(e) => return Err(e.into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(streams) = message {
                self.streams.extend(streams);
            }
        }
        self.is_open = count > 0;
        self.lines.push(&bytes[..count])
    }

    /// Waits for the first order; `None` if harness was gone before it came.
    pub(super) fn launch(&mut self) -> io::Result<Option<(Launch, [OwnedFd; STREAMS])>> {
        loop {
            if let Some(launch) = self.lines.pop()? {
                let streams = std::mem::take(&mut self.streams);
                let streams = streams.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
                return Ok(Some((launch, streams)));
            }
            if !self.is_open {
                return Ok(None);
            }
            self.receive(RecvFlags::empty())?;
        }
    }

    pub(super) fn stop(&mut self) -> io::Result<Option<Stop>> {
        self.lines.pop()
    }

    /// Sends a report. It is not an error if harness is gone.
    pub(super) fn report(&self, report: &Report) {
        if let Ok(line) = line(report) {
            let _ = (&self.socket).write_all(&line);
        }
    }
}

#[cfg(target_os = "linux")]
fn cloexec() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

/// The streams are passed to the agent and closed before anything else is started.
#[cfg(not(target_os = "linux"))]
fn cloexec() -> RecvFlags {
    RecvFlags::empty()
}
