//! A seeded simulator of everything beneath the decisions, and the suites that every implementation
//! of a port must pass.
//!
//! A seed decides everything that happens. [`checkers`] contains the invariants. A seed that breaks
//! one is printed as a story, and `cargo xtask sim --seed N` replays it.

pub mod agent;
pub mod checkers;
pub mod clock;
pub mod conformance;
pub mod crew;
pub mod daemon;
pub mod disk;
pub mod fleet;
pub mod git;
mod history;
pub mod model;
mod person;
mod platter;
pub mod postgres;
pub mod random;
pub mod run;
pub mod seeds;
pub mod shell;
pub mod story;
pub mod workers;
pub mod world;
