//! The line between the agent and the operator: one test or more for every attack that was once seen to
//! work.

mod commits;
mod floods;
mod hooks;
mod hosts;
mod links;
mod processes;
mod roles;
mod secrets;
mod settings;
mod telemetry;
mod tree;
mod trust;
mod users;
