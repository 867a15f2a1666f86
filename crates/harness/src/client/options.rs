//! The options of a client from the program that it is part of.

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
    project::Backing,
    protocol::{Refused, Request},
    shell::Cancel,
    store::lock::Wait,
    workspace::Bring,
};

/// The default wait for the lock of the files.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The default time limit for a daemon to answer.
const START_WITHIN: Duration = Duration::from_secs(5);
/// The default time without a request after which a daemon that a client started ends.
const IDLE: Duration = Duration::from_secs(1800);

/// The options for finding a host, and for working without one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Whether hosts are asked at all.
    pub hosts: Hosts,
    /// The places where a host listens.
    pub places: Places,
    /// The way to start a daemon for a request that [needs one](Request::starts_host). Without it,
    /// none is started.
    pub launch: Option<Launch>,
    /// The role of the client, if it is less than that of its process.
    pub speaks_as: Option<Role>,
    /// A request to end a wait for an answer.
    pub stop: Option<Cancel>,
    /// The wait for the lock of the files.
    pub lock_wait: Wait,
    /// The lease of a session's claim.
    pub lease_seconds: u64,
    /// The directory in which checks run. The default is the work tree around the root.
    pub worktree: Option<PathBuf>,
    /// The user's state directory, where a store keeps files that do not belong beside a ledger.
    pub state_home: Option<PathBuf>,
    /// The place of the rules of claims.
    pub claims: Option<ClaimRules>,
    /// The place where git's settings at claims are recorded.
    pub records: Option<PathBuf>,
    /// Whether this process may change the files if no host can be reached.
    pub files: FileAccess,
    /// The place of the ledger. Where it is no file, it stands for the files here.
    pub backing: Backing,
    /// The machines that are asked if the ledger is in a database.
    pub machines: Machines,
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
            backing: Backing::default(),
            machines: Machines::default(),
        }
    }
}

/// The machines that get what is for all agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Machines {
    /// All that work on the ledger.
    #[default]
    All,
    /// This one.
    ThisOne,
}

/// Whether hosts are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hosts {
    /// The host is asked, and the files are used if none answers.
    #[default]
    Asked,
    /// Only the files are used.
    Ignored,
}

/// Whether the files may be changed if a sandbox forbids to connect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// They may be changed.
    #[default]
    Allowed,
    /// They may not: this process belongs to a run, which holds the files exclusively.
    OfARun,
}

/// The way to start a daemon: a harness program.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// The time limit until it answers.
    pub within: Duration,
    /// The time without a request after which it ends; `None` if it stays until it is stopped.
    pub idle: Option<Duration>,
    /// Further options of `harness daemon`.
    pub options: Vec<OsString>,
}

impl Launch {
    /// Creates the value for the `harness` command `program`. The daemon ends after half an hour
    /// without a request.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            within: START_WITHIN,
            idle: Some(IDLE),
            options: Vec::new(),
        }
    }

    /// Returns the command line of `harness daemon` for clients.
    pub(super) fn arguments(&self, root: &Path, socket: &Path, worktree: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["daemon".into(), "--detached".into()];
        if let Some(idle) = self.idle {
            arguments.extend(["--idle-seconds".into(), idle.as_secs().to_string().into()]);
        }
        arguments.extend(self.options.iter().cloned());
        arguments.extend(["--root".into(), root.into(), "--".into()]);
        arguments.extend([socket.into(), worktree.into()]);
        arguments
    }
}

/// Provides what only the program around a client knows. It is asked only when needed: a client
/// whose host answers needs only the secrets.
pub trait Caller: Sync {
    /// Returns the secrets that are removed from every text before it is sent or stored.
    fn secrets(&self) -> Redactor {
        Redactor::default()
    }

    /// Called when an answer takes time.
    fn waiting(&self, _: &Request) {}

    /// Receives a warning for people although the request continues.
    fn warn(&self, _: &str) {}

    /// Checks whether the role of this process allows it to do this to the files. Hosts decide by
    /// themselves.
    fn permit(&self, _: Operation, _: Option<&Holder>) -> Result<(), Refused> {
        Ok(())
    }

    /// Returns the author of changes to the files, for the log.
    fn author(&self) -> Option<Author> {
        None
    }

    /// Called when a ledger was created.
    fn made(&self) {}

    /// Returns the strictness of judging by this process.
    fn settings(&self) -> Result<Settings, Refused> {
        let protected = Protected::new(&[], OnTouch::Flag).map_err(|why| why.to_string())?;
        let rules = Rules { protected, ..Rules::default() };
        Ok(Settings { rules, unchecked: Unchecked::Allowed, bring: Bring::default() })
    }

    /// Checks whether this process may run the check of this task. A ledger may come from another
    /// user, so nothing of it is run unless the program decides otherwise.
    fn may_check(&self, _: &Task) -> Result<(), Refused> {
        Err(Refused::new(Code::Config, "this program runs no checks of a ledger"))
    }

    /// Returns whether the programs that the repository names as content filters may run.
    fn trusts_filters(&self) -> Result<bool, Refused> {
        Ok(false)
    }

    /// Returns a request to stop a check that this process runs.
    fn interrupt(&self) -> io::Result<Cancel> {
        Cancel::new()
    }
}

/// A caller with the defaults.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainCaller;

impl Caller for PlainCaller {}
