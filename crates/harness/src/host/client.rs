//! Asks the host of a root. Blocking, no runtime: one connection, one line out, one line in.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Access, access},
    io::Errno,
};
use serde_json::Value;

use super::{
    socket::{self, Places},
    wire::{LINE_BYTES_MAX, Refused},
};
use crate::shell::Cancel;

/// How long an answer may take that waits for nobody.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A connection to a host.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// What came of looking for the host of a root.
#[derive(Debug)]
pub enum Found {
    /// It listens.
    Host(Client),
    /// Nobody does, or not one of this user.
    Nobody,
    /// This process may not connect to anybody: it is in a sandbox. Who it starts may not either.
    Forbidden,
}

impl Found {
    /// Looks in all places.
    pub fn of(root: &Path, places: &Places) -> Self {
        let mut found = Self::Nobody;
        for path in socket::candidates(root, places) {
            match Client::connect(&path) {
                Ok(client) => return Self::Host(client),
                Err(why) if is_forbidden(&path, &why) => found = Self::Forbidden,
                Err(_) => {}
            }
        }
        found
    }
}

/// In a container whoever listens outside has no number, which rustix takes for an error; then the
/// owner of the socket counts.
#[cfg(target_os = "linux")]
fn is_ours(stream: &UnixStream, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::getuid();
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => peer.uid == us,
        Err(_) => path.symlink_metadata().is_ok_and(|socket| socket.uid() == us.as_raw()),
    }
}

/// Whether a rule about processes forbids it, and not the permissions of the file. The first is told
/// by EPERM, which connecting knows no other reason for, or by EACCES on a file that is ours to use.
fn is_forbidden(path: &Path, why: &io::Error) -> bool {
    match Errno::from_io_error(why) {
        Some(Errno::PERM) => true,
        Some(Errno::ACCESS) => access(path, Access::READ_OK | Access::WRITE_OK).is_ok(),
        _ => false,
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host says no, in these words.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// It ended without an answer: whether it did what was asked is not known.
    #[error("the harness that was asked has ended without an answer")]
    Gone,
    /// It holds the connection and says nothing.
    #[error("the harness that was asked does not answer")]
    Silent,
    /// The asker was told to stop: whether it was done is not known.
    #[error("cancelled before there was an answer")]
    Cancelled,
    /// The request would not be read.
    #[error("the request has {length} bytes, more than {LINE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// What came is no answer.
    #[error("the harness that was asked answers in a way that this one does not understand")]
    Strange,
    /// The connection failed.
    #[error(transparent)]
    Io(io::Error),
}

impl Client {
    /// To whoever listens on `path`, if that is a process of this user.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        #[cfg(target_os = "linux")]
        if !is_ours(&stream, path) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens"));
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// To the host of `root`, if there is one.
    pub fn find(root: &Path, places: &Places) -> Option<Self> {
        match Found::of(root, places) {
            Found::Host(client) => Some(client),
            Found::Nobody | Found::Forbidden => None,
        }
    }

    /// Sends one request and waits for its answer: the `data` of it. `None` waits for ever.
    pub fn ask(&mut self, request: &Value, within: Option<Duration>) -> Result<Value, ClientError> {
        self.send(request)?;
        let mut answer = Vec::new();
        self.receive(&mut answer, within)?;
        read(&answer)
    }

    /// The same for what may take any time: waits for as long as the host holds the connection, and
    /// calls `tell` once, after the time in `patience`.
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

    /// The same until a stop is asked for. Who drops the client then has the host give up what only
    /// waits.
    pub fn ask_until(&mut self, request: &Value, stop: &Cancel) -> Result<Value, ClientError> {
        self.send(request)?;
        self.wait(stop)?;
        let mut answer = Vec::new();
        // It comes in one piece.
        self.receive(&mut answer, Some(ANSWER_WITHIN))?;
        read(&answer)
    }

    /// Until something comes.
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

    /// Adds to what has come of the line; what came before an error is kept.
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
    fn a_sandbox_is_told_from_a_file_of_somebody_else() {
        let ours = tempfile::NamedTempFile::new().unwrap();
        let gone = Path::new("/gone/harness.sock");
        let is = |path: &Path, why: Errno| is_forbidden(path, &why.into());
        assert!(is(gone, Errno::PERM) && is(ours.path(), Errno::PERM));
        assert!(is(ours.path(), Errno::ACCESS));
        assert!(!is(gone, Errno::ACCESS) && !is(gone, Errno::NOENT));
        assert!(!is(ours.path(), Errno::CONNREFUSED));
        let another = io::Error::new(io::ErrorKind::PermissionDenied, "another user listens");
        assert!(!is_forbidden(ours.path(), &another));
    }
}
