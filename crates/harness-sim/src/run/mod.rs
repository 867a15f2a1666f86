//! The second world: `harness run` itself. It is the library's own flow over simulated ports, in a
//! process that is interrupted and killed between any two effects and inside of every step of git
//! and of the disk. It is then started again on what it left.
//!
//! After a kill, every port returns an error. The runtime and the machines are dropped, but git and
//! the disk stay.

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
mod sessions;
mod shell;
mod stage;
mod world;

pub use flaw::Flaw;
pub use lies::LiarWorld;
pub use objective::ObjectiveWorld;
pub use world::RunWorld;
