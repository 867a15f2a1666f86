//! The line between the agent and the operator: one test or more for every attack that was once seen to
//! work.

mod budgets;
mod commits;
mod floods;
mod hooks;
mod hosts;
mod judging;
mod links;
mod processes;
mod roles;
mod settings;
mod tree;
mod trust;
mod users;
