//! `harness run OBJECTIVE`: the loop over contexts, through the binary, with scripts as agents.

mod attempts;
mod bad;
mod budget;
mod limits;
mod overview;
mod phases;
mod promise;
mod prompts;
mod resume;
mod rows;
mod secrets;
pub(crate) mod stage;
