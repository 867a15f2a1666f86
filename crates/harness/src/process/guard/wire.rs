//! What harness and guard say to each other: one JSON value a line, either way. Both ends are the
//! same build, so this is no format that anybody else has to read.

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

/// The first order; the agent's standard streams come with its first byte.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::process) struct Launch {
    pub(in crate::process) job: String,
    pub(in crate::process) program: OsString,
    pub(in crate::process) args: Vec<OsString>,
    pub(in crate::process) directory: OsString,
    pub(in crate::process) environment: Vec<(OsString, OsString)>,
    /// Between TERM and KILL, unless an order says otherwise.
    pub(in crate::process) grace_milliseconds: u64,
}

/// Ends the tree. A second one can only shorten the grace.
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
    /// The last word. `left` are those that even KILL did not end in time.
    Cleared {
        left: Vec<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) enum What {
    Directory,
    Program,
}

/// No system takes that much for arguments and environment.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
const STREAMS: usize = 3;

pub(in crate::process) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends the beginning of `line` together with the streams; how much of it went.
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

/// The lines in a stream of bytes that comes in pieces.
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

    /// What to poll; `None` once the harness is gone.
    pub(super) fn socket(&self) -> Option<&UnixStream> {
        self.is_open.then_some(&self.socket)
    }

    /// Takes what has come, without waiting for more.
    pub(super) fn receive(&mut self, flags: RecvFlags) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slice = [IoSliceMut::new(&mut bytes)];
        let flags = flags | cloexec();
        let count = match rustix::net::recvmsg(&self.socket, &mut slice, &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            // The other end went away with something of ours unread.
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

    /// Waits for the first order; `None` if the harness was gone before it came.
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

    /// A harness that is gone is not told, and that is all right.
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

/// The streams are handed to the agent and closed before anything else is started.
#[cfg(not(target_os = "linux"))]
fn cloexec() -> RecvFlags {
    RecvFlags::empty()
}
