//! The ledger of a database that is meant, and how to get there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use harness_core::database::{DatabaseUrl, LedgerName, Password};

use super::ClockOffset;

/// The time for which a lost connection is restored before a caller gets an error.
const PATIENCE: Duration = Duration::from_secs(15);

/// Whether a server that may lose confirmed changes is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It is refused.
    #[default]
    Required,
    /// A person accepted the risk.
    Unsafe,
}

/// How long the callers of a process wait for a database that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Waiting {
    /// For the patience of the access, as a command does.
    #[default]
    Briefly,
    /// A change that was sent is waited for until it is known whether it took effect. So the process may
    /// repeat everything else, and nothing is done twice. It is for runs, which outlast an absence.
    UntilKnown,
    /// Not any more: the process is about to end. Everything is tried once.
    NoLonger,
}

/// The waiting that all clones of an access share.
#[derive(Debug, Clone, Default)]
struct SharedWaiting(Arc<AtomicU8>);

/// A ledger in a database, and how to get there. The password has no [`Debug`] form.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DatabaseAccess {
    /// The address. A password in it counts if there is no other.
    pub url: DatabaseUrl,
    /// The password, if one is needed.
    pub password: Option<Password>,
    /// The name of the ledger.
    pub ledger: LedgerName,
    /// Whether a server that may lose confirmed changes is refused.
    pub durability: Durability,
    /// The name of this machine, for others.
    pub host: String,
    /// The time for which a lost connection is restored before a caller gets an error.
    pub patience: Duration,
    /// The difference between the clocks of the database and of this machine.
    pub clock: ClockOffset,
    waiting: SharedWaiting,
}

impl DatabaseAccess {
    /// Returns the access to a ledger, without a password.
    pub fn new(url: DatabaseUrl, ledger: LedgerName) -> Self {
        Self {
            url,
            password: None,
            ledger,
            durability: Durability::Required,
            host: crate::process::life::here().host.clone(),
            patience: PATIENCE,
            clock: ClockOffset::default(),
            waiting: SharedWaiting::default(),
        }
    }

    /// Sets the password.
    #[must_use]
    pub fn with_password(mut self, password: Option<Password>) -> Self {
        self.password = password;
        self
    }

    /// Sets whether a server that may lose confirmed changes is refused.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the time for which a lost connection is restored.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long all callers wait, from now on and where they wait already. A process that is about
    /// to end does not wait again.
    pub fn wait(&self, waiting: Waiting) {
        let set = |now| (now != Waiting::NoLonger as u8).then_some(waiting as u8);
        _ = self.waiting.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }

    pub(super) fn waiting(&self) -> Waiting {
        match self.waiting.0.load(Ordering::Relaxed) {
            1 => Waiting::UntilKnown,
            2 => Waiting::NoLonger,
            _ => Waiting::Briefly,
        }
    }

    /// Returns the server and the database, without credentials.
    pub fn server(&self) -> String {
        let (host, port) = (self.url.host(), self.url.port());
        format!("{host}:{port}/{}", self.database())
    }

    pub(super) fn user(&self) -> &str {
        self.url.user().unwrap_or("postgres")
    }

    pub(super) fn database(&self) -> &str {
        self.url.database().unwrap_or_else(|| self.user())
    }
}
