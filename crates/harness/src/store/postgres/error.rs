//! The reasons why a database could not be used, in the words of a person who has to fix it.

use harness_core::database::UrlError;
use tokio_postgres::error::SqlState;

use super::DatabaseAccess;

/// The reason why a database could not be used. No variant contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The address is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// There is no connection.
    #[error("cannot reach the database {server}: {why}")]
    Unreachable {
        /// The server and the database.
        server: String,
        /// The cause.
        why: String,
    },
    /// TLS failed, or the certificate is not accepted.
    #[error("TLS with {server} failed: {why}")]
    Tls {
        /// The server and the database.
        server: String,
        /// The cause.
        why: String,
    },
    /// The server does not accept the user or the password.
    #[error("{server} does not accept the user {user}: {why}")]
    Login {
        /// The server and the database.
        server: String,
        /// The user.
        user: String,
        /// The words of the server.
        why: String,
    },
    /// The database does not exist.
    #[error("there is no database {server}: create it with `createdb`, or correct its name")]
    NoDatabase {
        /// The server and the database.
        server: String,
    },
    /// The user may not do this.
    #[error(
        "the user of {server} lacks a right: {why} — the owner can grant it with `harness store grant`"
    )]
    NoRights {
        /// The server and the database.
        server: String,
        /// The words of the server.
        why: String,
    },
    /// The schema was never created.
    #[error("{server} has no ledgers yet: create one with `harness init --database`")]
    NoSchema {
        /// The server and the database.
        server: String,
    },
    /// A schema of this name belongs to another program.
    #[error("{server} has a schema `harness` of another program; use another database")]
    NotOurs {
        /// The server and the database.
        server: String,
    },
    /// The schema is older than this program.
    #[error(
        "{server} has schema version {found}, and this harness needs version {known}: run \
         `harness store migrate`"
    )]
    OlderSchema {
        /// The server and the database.
        server: String,
        /// The version of the schema.
        found: i32,
        /// The version of this program.
        known: i32,
    },
    /// The schema is newer than this program.
    #[error(
        "{server} has schema version {found}, and this harness knows version {known}: upgrade harness"
    )]
    NewerSchema {
        /// The server and the database.
        server: String,
        /// The version of the schema.
        found: i32,
        /// The version of this program.
        known: i32,
    },
    /// There is no such ledger.
    #[error("{server} has no ledger {ledger:?}")]
    NoLedger {
        /// The server and the database.
        server: String,
        /// The name.
        ledger: String,
    },
    /// The name of a new ledger is taken.
    #[error("{server} already has a ledger {ledger:?}")]
    LedgerTaken {
        /// The server and the database.
        server: String,
        /// The name.
        ledger: String,
    },
    /// The server is a replica.
    #[error("{server} is a replica and cannot be written; use the primary")]
    Replica {
        /// The server and the database.
        server: String,
    },
    /// The server is too old.
    #[error("{server} runs PostgreSQL {found}; version 14 or later is needed")]
    TooOld {
        /// The server and the database.
        server: String,
        /// The version.
        found: String,
    },
    /// The server could lose what it has confirmed.
    #[error(
        "{server} has {setting} = {found}, so a crash could lose confirmed changes; set it to on, or use \
         --unsafe-durability"
    )]
    Unsafe {
        /// The server and the database.
        server: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: String,
    },
    /// Another host holds the ledger.
    #[error(
        "{server}: another host held the ledger for more than {seconds} s; nothing was changed"
    )]
    Busy {
        /// The server and the database.
        server: String,
        /// The time that was waited.
        seconds: u64,
    },
    /// The connection was lost around the end of a change and did not return.
    #[error(
        "the connection to {server} was lost while a change was confirmed; it is not known whether the \
         change was made ({why})"
    )]
    OutcomeUnknown {
        /// The server and the database.
        server: String,
        /// The cause.
        why: String,
    },
    /// The stored rows contradict each other.
    #[error("the ledger {ledger:?} in {server} is damaged: {what}")]
    Damaged {
        /// The server and the database.
        server: String,
        /// The name.
        ledger: String,
        /// The contradiction.
        what: String,
    },
    /// The two sides of a copy differ.
    #[error("the copy of the ledger differs from its original; the original was not touched")]
    CopyDiffers,
    /// The server refused a statement.
    #[error("{server}: {why}")]
    Refused {
        /// The server and the database.
        server: String,
        /// The words of the server.
        why: String,
    },
}

impl DatabaseError {
    /// Returns whether the database cannot be used at this moment, and nothing was done. The same call
    /// may succeed later, also during a failover, in which a server first answers as a replica.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Replica { .. } | Self::Busy { .. })
    }
}

/// The failure of a statement.
#[derive(Debug)]
pub enum Trouble {
    /// The connection is gone. Whether a commit that was under way took effect is not known.
    Lost(String),
    /// The server answered, or something was decided here.
    Said(DatabaseError),
}

impl Trouble {
    /// Returns the reason as text. As long as the outcome of a commit is not known, every failure counts
    /// as a lost connection: during a failover, servers answer that they are replicas, or refuse a login.
    /// A caller that got such an error would repeat a change that may have been made.
    pub(super) fn in_doubt(self) -> String {
        match self {
            Self::Lost(why) => why,
            Self::Said(error) => error.to_string(),
        }
    }
}

/// Adds where it happened to an error about damaged rows.
pub(super) fn placed(access: &DatabaseAccess, error: DatabaseError) -> DatabaseError {
    match error {
        DatabaseError::Damaged { what, .. } => {
            let (server, ledger) = (access.server(), access.ledger.to_string());
            DatabaseError::Damaged { server, ledger, what }
        }
        error => error,
    }
}

impl From<DatabaseError> for Trouble {
    fn from(error: DatabaseError) -> Self {
        Self::Said(error)
    }
}

/// Returns the kind of a failure. The text of a server contains no password.
pub(super) fn trouble(
    server: &str,
    user: &str,
    seconds: u64,
    error: &tokio_postgres::Error,
) -> Trouble {
    let server = server.to_owned();
    let Some(said) = error.as_db_error() else { return Trouble::Lost(plain(error)) };
    let why = said.message().to_owned();
    let code = said.code();
    let closed = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::CONNECTION_EXCEPTION,
        SqlState::CONNECTION_FAILURE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    // A pooling proxy reports a server that is away with other codes of the class of connections.
    if closed.contains(code) || code.code().starts_with("08") {
        return Trouble::Lost(why);
    }
    Trouble::Said(match code {
        code if *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            DatabaseError::Login { server, user: user.to_owned(), why }
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => DatabaseError::NoDatabase { server },
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            DatabaseError::NoRights { server, why }
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => DatabaseError::Busy { server, seconds },
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => DatabaseError::Replica { server },
        _ => DatabaseError::Refused { server, why },
    })
}

/// Returns the text of an error with its causes, each once.
pub(super) fn plain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
