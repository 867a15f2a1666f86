//! The line between the agent and the operator: one test or more for every attack that was once seen to
//! work.

mod commits;
mod hooks;
mod journal;
mod links;
mod processes;
mod roles;
mod trust;
mod users;
