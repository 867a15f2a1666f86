//! A ledger in a database that several machines share: where it is, how its changes are chained, and
//! how a database that has forgotten changes is recognized.
//!
//! Nothing here connects. The library has the store over PostgreSQL.

mod chain;
mod equal;
mod name;
mod passfile;
mod renewal;
mod url;

pub use chain::{ChangeHash, Forgotten, Recall, Remembered};
pub use equal::same_ledger;
pub use name::LedgerName;
pub use passfile::password_in;
pub use renewal::renewals;
pub use url::{DatabaseUrl, Password, SslMode, UrlError};
