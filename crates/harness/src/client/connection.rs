//! A connection to the host of a root. It blocks and needs no runtime: one line out, one line in.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Access, access},
    io::Errno,
};
use serde_json::Value;

use super::ClientError;
use crate::{
    host::socket::{self, Places},
    protocol::{LINE_BYTES_MAX, Refused},
    shell::Cancel,
};

/// The time limit of an answer that waits for nothing.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A connection to a host.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

/// Whether the host of a root can be reached.
#[derive(Debug)]
pub enum Reach {
    /// The host listens.
    Host(Connection),
    /// No process of this user listens.
    Nobody,
    /// A sandbox forbids this process to connect. Processes that it starts may not connect either.
    Forbidden,
}

impl Reach {
    /// Searches all places.
    pub fn of(root: &Path, places: &Places) -> Self {
        let mut found = Self::Nobody;
        for path in socket::candidates(root, places) {
            match Connection::connect(&path) {
                Ok(connection) => return Self::Host(connection),
                Err(why) if is_forbidden(&path, &why) => found = Self::Forbidden,
                Err(_) => {}
            }
        }
        found
    }
}

/// Returns whether the listener belongs to this user. In a container, a listener outside has no
/// process id, which rustix treats as an error. The owner of the socket counts then.
#[cfg(target_os = "linux")]
fn is_ours(stream: &UnixStream, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::getuid();
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => peer.uid == us,
        Err(_) => path.symlink_metadata().is_ok_and(|socket| socket.uid() == us.as_raw()),
    }
}

/// Returns whether a rule about processes forbids it, and not the permissions of the file. The
/// former shows as EPERM, for which connecting has no other reason, or as EACCES on a file that we
/// may use.
fn is_forbidden(path: &Path, why: &io::Error) -> bool {
    match Errno::from_io_error(why) {
        Some(Errno::PERM) => true,
        Some(Errno::ACCESS) => access(path, Access::READ_OK | Access::WRITE_OK).is_ok(),
        _ => false,
    }
}

impl Connection {
    /// Connects to the listener on `path`, if it is a process of this user.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        #[cfg(target_os = "linux")]
        if !is_ours(&stream, path) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user is listening",
            ));
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Connects to the host of `root`, if there is one.
    pub fn find(root: &Path, places: &Places) -> Option<Self> {
        match Reach::of(root, places) {
            Reach::Host(connection) => Some(connection),
            Reach::Nobody | Reach::Forbidden => None,
        }
    }

    /// Returns the socket of the listener.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let address = self.stream.get_ref().peer_addr().ok()?;
        address.as_pathname().map(Path::to_owned)
    }

    /// Returns whether another request can be sent. The host closes unused connections.
    pub(super) fn is_open(&self) -> bool {
        let mut polled = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)) == Ok(0)
    }

    /// Sends a request whose answer is a stream of lines.
    pub(super) fn begin(&mut self, request: &Value) -> Result<(), ClientError> {
        self.send(request)
    }

    /// Returns the next line of a stream; `None` at its end. It waits as long as the host is there.
    pub(super) fn next_line(
        &mut self,
        stop: Option<&Cancel>,
    ) -> Result<Option<Value>, ClientError> {
        if let Some(stop) = stop.filter(|_| self.stream.buffer().is_empty()) {
            self.wait(stop)?;
        }
        let mut line = Vec::new();
        match self.receive(&mut line, None) {
            Err(ClientError::Gone) if line.is_empty() => Ok(None),
            Err(why) => Err(why),
            Ok(()) => serde_json::from_slice(&line).map(Some).map_err(|_| ClientError::Strange),
        }
    }

    /// Sends one request and returns the `data` of its answer. `None` waits without a limit.
    pub fn ask(&mut self, request: &Value, within: Option<Duration>) -> Result<Value, ClientError> {
        self.send(request)?;
        let mut answer = Vec::new();
        self.receive(&mut answer, within)?;
        read(&answer)
    }

    /// Does the same for a request that may take any time. It waits as long as the host holds the
    /// connection, and calls `tell` once after `patience`.
    pub fn ask_patiently(
        &mut self,
        request: &Value,
        patience: Duration,
        tell: impl FnOnce(),
    ) -> Result<Value, ClientError> {
        self.send(request)?;
        let mut answer = Vec::new();
        match self.receive(&mut answer, Some(patience)) {
            Err(ClientError::Silent) => {
                tell();
                self.receive(&mut answer, None)?;
            }
            other => other?,
        }
        read(&answer)
    }

    /// Does the same until a stop is requested. If the client is dropped then, the host cancels
    /// requests that only wait.
    pub fn ask_until(&mut self, request: &Value, stop: &Cancel) -> Result<Value, ClientError> {
        self.send(request)?;
        self.wait(stop)?;
        let mut answer = Vec::new();
        // The answer comes in one piece.
        self.receive(&mut answer, Some(ANSWER_WITHIN))?;
        read(&answer)
    }

    /// Waits until something arrives.
    fn wait(&self, stop: &Cancel) -> Result<(), ClientError> {
        loop {
            let mut polled = [
                PollFd::new(self.stream.get_ref(), PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(why) => return Err(ClientError::Io(why.into())),
            }
            let [answer, stopped] = polled.map(|fd| !fd.revents().is_empty());
            match (answer, stopped) {
                (true, _) => return Ok(()),
                (false, true) => return Err(ClientError::Cancelled),
                (false, false) => {}
            }
        }
    }

    fn send(&mut self, request: &Value) -> Result<(), ClientError> {
        let mut line = request.to_string();
        if line.len() > LINE_BYTES_MAX {
            return Err(ClientError::TooLong { length: line.len() });
        }
        line.push('\n');
        let stream = self.stream.get_mut();
        stream.set_write_timeout(Some(ANSWER_WITHIN)).map_err(ClientError::Io)?;
        stream.write_all(line.as_bytes()).map_err(broken)
    }

    /// Appends to the received part of the line. The part before an error is kept.
    fn receive(
        &mut self,
        answer: &mut Vec<u8>,
        within: Option<Duration>,
    ) -> Result<(), ClientError> {
        self.stream.get_mut().set_read_timeout(within).map_err(ClientError::Io)?;
        self.stream.read_until(b'\n', answer).map_err(broken)?;
        if answer.last() == Some(&b'\n') { Ok(()) } else { Err(ClientError::Gone) }
    }
}

fn read(answer: &[u8]) -> Result<Value, ClientError> {
    let mut answer: Value = serde_json::from_slice(answer).map_err(|_| ClientError::Strange)?;
    if answer["status"] == "ok" {
        return Ok(answer["data"].take());
    }
    Err(Refused::read(&answer).map_or(ClientError::Strange, ClientError::Refused))
}

fn broken(why: io::Error) -> ClientError {
    match why.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::Gone,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Silent,
        _ => ClientError::Io(why),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_sandbox_is_distinguished_from_a_file_of_another_user() {
        let ours = tempfile::NamedTempFile::new().unwrap();
        let gone = Path::new("/gone/harness.sock");
        let is = |path: &Path, why: Errno| is_forbidden(path, &why.into());
        assert!(is(gone, Errno::PERM) && is(ours.path(), Errno::PERM));
        assert!(is(ours.path(), Errno::ACCESS));
        assert!(!is(gone, Errno::ACCESS) && !is(gone, Errno::NOENT));
        assert!(!is(ours.path(), Errno::CONNREFUSED));
        let another = io::Error::new(io::ErrorKind::PermissionDenied, "another user is listening");
        assert!(!is_forbidden(ours.path(), &another));
    }
}
