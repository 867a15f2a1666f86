//! The world of several workers: processes with workers in work trees of their own, over one ledger
//! and one repository whose user works in the main tree meanwhile. Processes are killed between any
//! two effects and inside of every step of git and of the disk, and they are frozen: others act, and
//! then they go on.
//!
//! Everything runs in one thread. A freeze is a shift of other processes inside of the step that is
//! frozen. So one seed decides the whole order.

mod agent;
mod checkers;
mod commit;
mod deed;
mod fate;
mod flaw;
mod floor;
mod landings;
mod process;
mod repository;
mod runs;
mod shell;
mod shift;
mod user;
mod world;

pub use flaw::CrewFlaw;
pub use world::CrewWorld;
