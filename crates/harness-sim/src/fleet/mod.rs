//! The world of a fleet: several hosts over one simulated database.
//!
//! The hosts run the store that ships, from the decision to the chain of changes, over the port
//! [`LedgerRows`](harness::store::postgres::port::LedgerRows). Connections die before, within and after
//! a commit, clocks differ, hosts freeze, restart and lose the network, the server crashes, and a
//! replica that lacks the last changes takes over. Workers of runs land their results on a branch that
//! forgets nothing.

mod annals;
mod database;
mod flaw;
mod host;
mod rows;
mod runner;
mod target;
mod world;

pub use flaw::FleetFlaw;
pub use world::FleetWorld;
