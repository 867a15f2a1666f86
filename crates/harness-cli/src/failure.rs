//! The failure of a command, which is reported once, in one form, in one place.

use std::{fmt, io, path::Path, sync::Arc};

use harness::{home::folder::DiskError, protocol::Refused};
use harness_core::{
    command::Code,
    machine::judge::{Fault, NotDone},
};

use crate::{
    exit::ExitCode,
    paint::{Paint, visible},
};

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The problem (a fragment that names the file and the field) and the hints about what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) error: String,
    pub(crate) hints: Vec<String>,
}

/// The kind of a failure, which determines who can fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Usage,
    Config,
    /// A request to end came before it was done.
    Interrupted,
    /// The reader of our standard output is gone (`harness log | head`). That is no problem, and
    /// nothing can read a message.
    OutputClosed,
}

impl Kind {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Error => ExitCode::Error,
            Self::Usage => ExitCode::Usage,
            Self::Config => ExitCode::Config,
            Self::Interrupted => ExitCode::Interrupted,
            Self::OutputClosed => ExitCode::Done,
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, error: impl Into<String>) -> Self {
        Self { kind, error: error.into(), hints: Vec::new() }
    }

    /// Returns a failure of an operation.
    pub(crate) fn error(error: impl Into<String>) -> Self {
        Self::new(Kind::Error, error)
    }

    /// Returns a failure about arguments that contradict each other in a way that clap cannot see.
    pub(crate) fn usage(error: impl Into<String>) -> Self {
        Self::new(Kind::Usage, error)
    }

    /// Returns a failure that a person must fix in a file or a setting.
    pub(crate) fn config(error: impl Into<String>) -> Self {
        Self::new(Kind::Config, error)
    }

    /// Returns a failure of an operation on a file. `verb` is a word such as "read" or "write".
    pub(crate) fn file(verb: &str, path: &Path, why: &io::Error) -> Self {
        Self::error(format!("cannot {verb} {}: {why}", path.display()))
    }

    /// Adds a hint about what to do next. Several are printed in the order in which they were
    /// added.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Prints the failure on standard error. If that fails too, nothing is listening.
    pub(crate) fn report(&self, paint: Paint) -> ExitCode {
        if self.kind != Kind::OutputClosed {
            let mut text = format!("{} {}\n", paint.error("Error:"), visible(&self.error));
            for hint in &self.hints {
                text += &format!("{} {}\n", paint.hint("Hint:"), visible(hint));
            }
            _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
        }
        self.kind.exit_code()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl From<io::Error> for Failure {
    fn from(why: io::Error) -> Self {
        match DiskError::of(&why) {
            // Something else has the place of a file of harness. Only a person knows what it is.
            Some(DiskError::Intruder { .. }) => Self::config(why.to_string()),
            Some(DiskError::Failed { .. }) | None => Self::error(why.to_string()),
        }
    }
}

impl From<harness::store::RunStoreError> for Failure {
    fn from(why: harness::store::RunStoreError) -> Self {
        use harness::store::RunStoreError as E;
        match &why {
            // Only a person can decide what happens to the file.
            E::NotOurs { .. } | E::Newer { .. } | E::Unsafe { .. } | E::BadValue { .. } => {
                Self::config(why.to_string())
            }
            E::File(_)
            | E::Locked { .. }
            | E::Exists { .. }
            | E::NoParent { .. }
            | E::Failed { .. } => Self::error(why.to_string()),
            E::Database(why) => Self::from(why.as_ref().clone()),
            // The library may add variants.
            _ => Self::error(why.to_string()),
        }
    }
}

impl From<harness::project::RunError> for Failure {
    fn from(why: harness::project::RunError) -> Self {
        use harness::project::RunError as E;
        let list = "`harness runs list` shows all runs";
        match why {
            E::Record(why) => why.into(),
            E::Ledger(why) => why.into(),
            E::Leftovers(why) => why.into(),
            E::Refused(refusal) => refusal.into(),
            E::NothingToResume | E::Unknown { .. } => Self::error(why.to_string()).hint(list),
            E::Attempt { ref parent, .. } => Self::error(why.to_string())
                .hint(format!("resume that one: `harness run --resume --run-id {parent}`")),
            E::Succeeded { .. } | E::Gone { .. } => Self::error(why.to_string()),
            // The library may add variants.
            _ => Self::error(why.to_string()),
        }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::error(why)
    }
}

impl From<harness::host::socket::SocketError> for Failure {
    fn from(why: harness::host::socket::SocketError) -> Self {
        use harness::host::socket::SocketError;
        let failure = Self::config(why.to_string());
        match why {
            SocketError::Running { pid } => {
                let running = Self::error(failure.error);
                match pid {
                    Some(pid) => running.hint(format!("it is process {pid}")),
                    None => running,
                }
            }
            SocketError::TooLong { .. } => failure.hint("set HARNESS_SOCKET to a shorter one"),
            SocketError::NotASocket { .. } => {
                failure.hint("remove it, or set HARNESS_SOCKET to another path")
            }
            SocketError::Taken { .. } => {
                failure.hint("unset HARNESS_SOCKET, or set it to another path")
            }
            SocketError::Directory { .. } | SocketError::Io { .. } => {
                failure.hint("set HARNESS_SOCKET to a path in a directory of your own")
            }
        }
    }
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Request => Self::Error,
            Fault::Config => Self::Config,
            Fault::Stopped => Self::Interrupted,
        }
    }
}

impl From<harness::Error> for Failure {
    fn from(error: harness::Error) -> Self {
        match error {
            harness::Error::Store(why) => why.into(),
            harness::Error::Commit(why) => match Arc::try_unwrap(why) {
                Ok(why) => why.into(),
                Err(why) => Self::error(why.to_string()),
            },
            harness::Error::Runs(why) => why.into(),
            harness::Error::Workspace(why) => why.into(),
            harness::Error::Io(why) => why.into(),
            other => Self::error(other.to_string()),
        }
    }
}

impl From<NotDone> for Failure {
    fn from(NotDone { fault, message, hints }: NotDone) -> Self {
        Self { kind: fault.into(), error: message, hints }
    }
}

impl From<Refused> for Failure {
    fn from(Refused { message, fault, hints, .. }: Refused) -> Self {
        // A stop by the host is no interrupt of this process.
        let kind = if fault == Fault::Config { Kind::Config } else { Kind::Error };
        Self { kind, error: message, hints }
    }
}

/// Converts a failure for the wire.
impl From<Failure> for Refused {
    fn from(Failure { kind, error, hints }: Failure) -> Self {
        let (fault, code) = match kind {
            Kind::Config => (Fault::Config, Code::Config),
            Kind::Interrupted => (Fault::Request, Code::Stopped),
            Kind::Error | Kind::Usage | Kind::OutputClosed => (Fault::Request, Code::Failed),
        };
        Self { message: error, code, fault, hints }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(why: serde_json::Error) -> Self {
        Self::error(why.to_string())
    }
}

impl From<harness_core::BadName> for Failure {
    fn from(why: harness_core::BadName) -> Self {
        Self::error(why.to_string())
    }
}
