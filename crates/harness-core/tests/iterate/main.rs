//! The machine of the loop over contexts, tested as a list of inputs and the expected steps: the
//! rows of the decision table, their order, and the state after a crash.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

mod attempts;
mod bounds;
mod budget;
mod interrupts;
mod limits;
mod phases;
mod property;
mod resume;
mod rows;
mod story;
