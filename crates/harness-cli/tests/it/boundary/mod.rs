//! The line between the agent and the operator: one test or more for every attack that was once seen to
//! work.

mod budgets;
mod clients;
mod commits;
mod edits;
mod floods;
mod hooks;
mod hosts;
mod journal;
mod judging;
mod links;
mod processes;
mod roles;
mod secrets;
mod settings;
mod telemetry;
mod tree;
mod trust;
mod users;
