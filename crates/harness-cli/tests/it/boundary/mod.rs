//! The line between the agent and the operator: one test or more for every attack that was once seen to
//! work.

mod floods;
mod hosts;
mod links;
mod users;
