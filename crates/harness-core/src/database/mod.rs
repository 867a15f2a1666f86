//! A ledger in a database that several machines share: where it is, how its changes are chained, how a
//! database that has forgotten changes is recognized, and the messages between its hosts.
//!
//! Nothing here connects. The library has the store over PostgreSQL.

mod chain;
mod equal;
mod mail;
mod name;
mod passfile;
mod renewal;
mod url;

pub use chain::{ChangeHash, Forgotten, Recall, Remembered};
pub use equal::same_ledger;
pub use mail::{
    Addressee, HostPlace, HostPresence, MESSAGE_SECONDS_MAX, MailHandling, SEEN_SECONDS,
};
pub use name::LedgerName;
pub use passfile::password_in;
pub use renewal::renewals;
pub use url::{DatabaseUrl, Password, SslMode, UrlError};
