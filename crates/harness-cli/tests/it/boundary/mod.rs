//! The boundary between the agent and the operator: at least one test for every attack that once
//! worked.

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
