//! The ledger in PostgreSQL, for several machines.
//!
//! One row for each ledger is the point of order. A change locks that row, reads in statements of their
//! own what it has not seen, brings its copy of the ledger up to date, decides as everywhere else, and
//! writes the change, the touched rows and the new version. It answers when that is committed. SQL
//! orders and stores; it never judges.
//!
//! The change is a line of the journal, so there is one format and one replay. Renewals of leases are
//! no history and are kept in rows of their own, which are laid over the rows of the tasks.
//!
//! A [`Database`] has at most three connections however many workers use it: one for the ledger, one
//! for everything else, and one that follows other hosts.

mod access;
mod change;
mod clock;
mod compact;
mod copy;
mod decide;
mod entries;
mod error;
mod fleet;
mod follow;
mod forget;
mod handle;
mod hosts;
mod known;
mod look;
mod memory;
mod messages;
mod once;
mod outbox;
mod park;
#[doc(hidden)]
pub mod port;
mod rows;
mod run_change;
mod runs;
mod schema;
mod seed;
mod statements;
mod store;
mod tls;
mod together;
mod wire;

pub use access::{DatabaseAccess, Durability, Waiting};
pub use clock::ClockOffset;
pub use compact::Compacted;
pub use copy::{Pulled, Pushed};
pub use error::DatabaseError;
pub use fleet::{FleetWorker, WorkerState};
pub use follow::{FleetNews, Follower};
pub use handle::{Database, LedgerStatus};
pub use hosts::{FleetHost, Reported};
pub use messages::{FleetAnswer, FleetMessage, FleetQuestion, NewMessage};
pub use runs::PostgresRuns;
pub use schema::{Grants, Migrated, SCHEMA_VERSION};
pub use statements::PostgresRows;
pub use store::{FleetStore, PostgresStore};
