//! Errors of our files. Each names the file.

use std::{fmt, io};

use rustix::fs::FileType;

/// The object in the place of a regular file of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intruder {
    /// A symbolic link, whatever its target.
    Symlink,
    /// A directory where a file belongs.
    Directory,
    /// A file where a directory belongs.
    RegularFile,
    /// A named pipe, which could block its reader.
    Fifo,
    /// A socket.
    Socket,
    /// A device, which acts when it is opened.
    Device,
}

impl fmt::Display for Intruder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Intruder::Symlink => "a symbolic link; harness never follows one",
            Intruder::Directory => "a directory; harness needs a file there",
            Intruder::RegularFile => "a file; harness needs a directory there",
            Intruder::Fifo => "a named pipe; harness never opens one",
            Intruder::Socket => "a socket; harness never opens one",
            Intruder::Device => "a device; harness never opens one",
        })
    }
}

/// The content of every [`io::Error`] of this module. It names the file.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// An object that is not a file of ours has its name.
    #[error("{name} is {what} — remove it")]
    Intruder {
        /// The path relative to the root.
        name: String,
        /// The kind of object.
        what: Intruder,
    },
    /// The system refused.
    #[error("cannot {doing} {name}: {source}")]
    Failed {
        /// The path relative to the root.
        name: String,
        /// The verb of the message.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl DiskError {
    /// Returns the error inside of `error`, if it came from here.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&DiskError> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<DiskError> for io::Error {
    /// Keeps the kind, so that a full disk can be distinguished from a read-only one.
    fn from(error: DiskError) -> io::Error {
        let kind = match &error {
            DiskError::Intruder { .. } => io::ErrorKind::InvalidInput,
            DiskError::Failed { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// Returns the kind of object that is there instead of the `wanted` one.
pub(crate) fn intruder(mode: rustix::fs::RawMode, wanted: FileType) -> Option<Intruder> {
    let found = FileType::from_raw_mode(mode);
    match found {
        _ if found == wanted => None,
        FileType::Symlink => Some(Intruder::Symlink),
        FileType::Directory => Some(Intruder::Directory),
        FileType::RegularFile => Some(Intruder::RegularFile),
        FileType::Fifo => Some(Intruder::Fifo),
        FileType::Socket => Some(Intruder::Socket),
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Some(Intruder::Device)
        }
    }
}

pub(crate) fn failed(name: &str, doing: &'static str, source: io::Error) -> io::Error {
    DiskError::Failed { name: name.to_owned(), doing, source }.into()
}

pub(crate) fn intruded(name: &str, what: Intruder) -> io::Error {
    DiskError::Intruder { name: name.to_owned(), what }.into()
}
