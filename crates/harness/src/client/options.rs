//! What a client gets from the program that it is part of.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use harness_core::{
    Holder, Task,
    command::{Code, Unchecked},
    machine::judge::Rules,
    protect::{OnTouch, Protected},
    role::{Author, Operation, Role},
};

use crate::{
    host::{ClaimRules, Settings, socket::Places},
    process::Redactor,
    protocol::{Refused, Request},
    shell::Cancel,
    store::lock::Wait,
    workspace::Bring,
};

/// How long the lock of the files is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long a daemon may take until it answers.
const START_WITHIN: Duration = Duration::from_secs(5);
/// A daemon that a client started ends after this long without a request.
const IDLE: Duration = Duration::from_secs(1800);

/// How a client finds a host, and how it works without one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Whether hosts are asked at all.
    pub hosts: Hosts,
    /// Where a host listens.
    pub places: Places,
    /// How to start a daemon for a request that [needs one](Request::starts_host); without it, none is
    /// started.
    pub launch: Option<Launch>,
    /// The role that the client speaks in, if that is less than the one of its process.
    pub speaks_as: Option<Role>,
    /// Ends a wait for an answer.
    pub stop: Option<Cancel>,
    /// How long the lock of the files is waited for.
    pub lock_wait: Wait,
    /// How long a claim of a session lasts.
    pub lease_seconds: u64,
    /// Where checks run; by default the work tree that the root is in.
    pub worktree: Option<PathBuf>,
    /// The user's state directory, where a store keeps what belongs beside no ledger.
    pub state_home: Option<PathBuf>,
    /// Where the rules of claims are kept.
    pub claims: Option<ClaimRules>,
    /// Where git's settings at claims are recorded.
    pub records: Option<PathBuf>,
    /// Whether this process may change the files where no host can be reached.
    pub files: FileAccess,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            hosts: Hosts::default(),
            places: Places::default(),
            launch: None,
            speaks_as: None,
            stop: None,
            lock_wait: Wait::For(LOCK_WAIT),
            lease_seconds: harness_core::lease::SESSION_LEASE_SECONDS,
            worktree: None,
            state_home: None,
            claims: None,
            records: None,
            files: FileAccess::default(),
        }
    }
}

/// Whether hosts are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hosts {
    /// The host that answers, and the files where none does.
    #[default]
    Asked,
    /// The files alone.
    Ignored,
}

/// Whether the files may be changed where a sandbox forbids to connect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// They may.
    #[default]
    Allowed,
    /// This process belongs to a run, which has the files for itself.
    OfARun,
}

/// How to start a daemon: a harness program.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// How long it may take until it answers.
    pub within: Duration,
    /// After how long without a request it ends; `None`: it stays until it is stopped.
    pub idle: Option<Duration>,
}

impl Launch {
    /// `program` is the `harness` command. The daemon ends after half an hour without a request.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), within: START_WITHIN, idle: Some(IDLE) }
    }

    /// The command line that `harness daemon` takes from clients.
    pub(super) fn arguments(&self, root: &Path, socket: &Path, worktree: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["daemon".into(), "--detached".into()];
        if let Some(idle) = self.idle {
            arguments.extend(["--idle-seconds".into(), idle.as_secs().to_string().into()]);
        }
        arguments.extend(["--root".into(), root.into(), "--".into()]);
        arguments.extend([socket.into(), worktree.into()]);
        arguments
    }
}

/// What only the program around a client knows. It is asked when it matters, and not before: a client
/// whose host answers needs the secrets and nothing else.
pub trait Caller: Sync {
    /// What is taken out of every text before it is sent or stored.
    fn secrets(&self) -> Redactor {
        Redactor::default()
    }

    /// An answer takes its time.
    fn waiting(&self, _: &Request) {}

    /// Something that people should know although the request goes on.
    fn warn(&self, _: &str) {}

    /// Whether the role of this process allows it to do this to the files. Hosts decide by themselves.
    fn permit(&self, _: Operation, _: Option<&Holder>) -> Result<(), Refused> {
        Ok(())
    }

    /// Who changes the files, for the log.
    fn author(&self) -> Option<Author> {
        None
    }

    /// A ledger was made where there was none.
    fn made(&self) {}

    /// How strictly work is judged by this process.
    fn settings(&self) -> Result<Settings, Refused> {
        let protected = Protected::new(&[], OnTouch::Flag).map_err(|why| why.to_string())?;
        let rules = Rules { protected, ..Rules::default() };
        Ok(Settings { rules, unchecked: Unchecked::Allowed, bring: Bring::default() })
    }

    /// Whether the check of this task may be run by this process, which is about to do so. A ledger may
    /// have come from somebody else: unless the program decides otherwise, nothing of it is run.
    fn may_check(&self, _: &Task) -> Result<(), Refused> {
        Err(Refused::new(Code::Config, "this program runs no checks of a ledger"))
    }

    /// Whether the programs that the repository names as content filters may be run.
    fn trusts_filters(&self) -> Result<bool, Refused> {
        Ok(false)
    }

    /// A request to stop a check that this process runs.
    fn interrupt(&self) -> io::Result<Cancel> {
        Cancel::new()
    }
}

/// A program that knows nothing in particular.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainCaller;

impl Caller for PlainCaller {}
