//! The three standard streams of an agent, seen from harness: two to read, one to write.

use std::{io, os::fd::OwnedFd};

use tokio::net::unix::pipe;

use super::job::Stdin;

/// The limit of one read. Nothing is kept here: as long as the output is not taken, the pipe is
/// full and the agent waits.
const CHUNK_BYTES: usize = 64 * 1024;
/// A limit above the default size of a pipe. It matters only if an escaped process continues to
/// write.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;
/// The limit of input that waits for an agent that does not read.
const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A stream of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputSource {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output as it was read. It may start and end in the middle of a line or a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream that it came from.
    pub source: OutputSource,
    /// The bytes, never empty, and at most 64 KiB.
    pub bytes: Vec<u8>,
}

/// The stream that is ready.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready {
    Output(OutputSource),
    Input,
}

#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    stdin: Option<Feed>,
    buffer: Vec<u8>,
    drained: usize,
}

/// The input that is still to be written.
#[derive(Debug)]
struct Feed {
    pipe: pipe::Sender,
    bytes: Vec<u8>,
    written: usize,
    /// `true` if nothing will be added to `bytes`.
    is_last: bool,
}

impl Pipes {
    /// Opens our ends, and the agent's: standard input, output and error.
    pub(super) fn open(stdin: Stdin) -> io::Result<(Pipes, [OwnedFd; 3])> {
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let (their_stdin, stdin) = match stdin {
            Stdin::Null => (OwnedFd::from(std::fs::File::open("/dev/null")?), None),
            Stdin::Bytes(bytes) => {
                let (theirs, feed) = Feed::open(bytes)?;
                (theirs, Some(feed))
            }
            Stdin::Open(bytes) => {
                let (theirs, feed) = Feed::open(bytes)?;
                (theirs, Some(Feed { is_last: false, ..feed }))
            }
        };
        let pipes = Pipes {
            stdout: Some(pipe::Receiver::from_owned_fd(stdout.into())?),
            stderr: Some(pipe::Receiver::from_owned_fd(stderr.into())?),
            // There is nothing to write, so the agent sees the end at once.
            stdin: stdin.filter(|feed| !feed.is_done()),
            buffer: vec![0; CHUNK_BYTES],
            drained: 0,
        };
        Ok((pipes, [their_stdin, their_stdout.into(), their_stderr.into()]))
    }

    /// Waits until a stream can be read or written, and forever if none is left. Cancelling it
    /// loses nothing.
    pub(super) async fn ready(&self) -> Ready {
        tokio::select! {
            () = readable(self.stdout.as_ref()) => Ready::Output(OutputSource::Stdout),
            () = readable(self.stderr.as_ref()) => Ready::Output(OutputSource::Stderr),
            () = writable(self.stdin.as_ref()) => Ready::Input,
        }
    }

    /// Reads once without waiting. A pipe that ended or failed is closed.
    pub(super) fn read(&mut self, source: OutputSource) -> Option<Chunk> {
        let pipe = match source {
            OutputSource::Stdout => &mut self.stdout,
            OutputSource::Stderr => &mut self.stderr,
        };
        match pipe.as_ref()?.try_read(&mut self.buffer) {
            Ok(count @ 1..) => Some(Chunk { source, bytes: self.buffer[..count].to_vec() }),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Ok(0) | Err(_) => {
                *pipe = None;
                None
            }
        }
    }

    /// Writes once without waiting. It is not an error if the agent does not read its input.
    pub(super) fn feed(&mut self) {
        let Some(feed) = &mut self.stdin else {
            return;
        };
        match feed.pipe.try_write(&feed.bytes[feed.written..]) {
            Ok(count) => feed.written += count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return self.stdin = None,
        }
        self.tidy_input();
    }

    /// Adds to the input.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        let Some(feed) = &mut self.stdin else { return };
        if feed.bytes.len() - feed.written + bytes.len() > UNREAD_BYTES_MAX {
            self.stdin = None;
            return;
        }
        feed.bytes.extend_from_slice(bytes);
    }

    /// Closes the input once everything is written.
    pub(super) fn hang_up(&mut self) {
        if let Some(feed) = &mut self.stdin {
            feed.is_last = true;
        }
        self.tidy_input();
    }

    fn tidy_input(&mut self) {
        let Some(feed) = &mut self.stdin else { return };
        if feed.is_done() {
            self.stdin = None;
        } else if feed.written == feed.bytes.len() {
            feed.bytes.clear();
            feed.written = 0;
        }
    }

    /// Returns what is in the pipes after the tree is gone. Their end may never come, because an
    /// escaped process may hold them open.
    pub(super) fn drain(&mut self) -> Option<Chunk> {
        self.stdin = None;
        if self.drained >= DRAIN_BYTES_MAX {
            return None;
        }
        let chunk = self
            .drain_one(OutputSource::Stdout)
            .or_else(|| self.drain_one(OutputSource::Stderr))?;
        self.drained += chunk.bytes.len();
        Some(chunk)
    }

    /// Reads without asking the runtime, which may not know yet that there is data.
    fn drain_one(&mut self, source: OutputSource) -> Option<Chunk> {
        let pipe = match source {
            OutputSource::Stdout => self.stdout.as_ref()?,
            OutputSource::Stderr => self.stderr.as_ref()?,
        };
        let count = rustix::io::read(pipe, &mut self.buffer).unwrap_or(0);
        (count > 0).then(|| Chunk { source, bytes: self.buffer[..count].to_vec() })
    }
}

impl Feed {
    /// Opens the agent's end, and ours with all bytes to be written.
    fn open(bytes: Vec<u8>) -> io::Result<(OwnedFd, Feed)> {
        let (theirs, ours) = io::pipe()?;
        let pipe = pipe::Sender::from_owned_fd(ours.into())?;
        Ok((theirs.into(), Feed { pipe, bytes, written: 0, is_last: true }))
    }

    fn is_done(&self) -> bool {
        self.is_last && self.written == self.bytes.len()
    }
}

async fn readable(pipe: Option<&pipe::Receiver>) {
    match pipe {
        // The following read shows an error.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

async fn writable(feed: Option<&Feed>) {
    match feed {
        Some(feed) if feed.written < feed.bytes.len() => drop(feed.pipe.writable().await),
        Some(_) | None => std::future::pending().await,
    }
}
