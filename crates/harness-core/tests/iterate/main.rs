//! The machine of the loop over contexts, told and answered line by line: the rows of the decision
//! table, their order, and what is taken up after a crash.

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
