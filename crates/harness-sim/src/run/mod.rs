//! The second world: `harness run` itself. The library's own flow over simulated ports, in a
//! process that is interrupted and killed, between any two effects and inside every step of git and
//! of the disk, and started again on what it left.
//!
//! A kill is an error of every port from that moment on; the runtime and the machines are thrown
//! away, git and the disk stay.

mod acts;
mod agent;
mod books;
mod character;
pub mod checkers;
mod client;
mod commit;
mod fate;
mod flaw;
mod lies;
mod loops;
mod objective;
mod process;
mod record;
mod shell;
mod stage;
mod world;

pub use flaw::Flaw;
pub use lies::LiarWorld;
pub use objective::ObjectiveWorld;
pub use world::RunWorld;
