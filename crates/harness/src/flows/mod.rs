//! The flows that the binary runs. They perform what the machines ask for and decide nothing, and
//! they are ordinary users of this library: a test compiles them from outside.

pub mod attempt;
pub mod client_tree;
pub mod completion;
mod failure;
pub mod gate;
mod handoff;
pub mod judge;
mod looping;
pub mod ralph;
mod site;
mod tools;
mod with_tree;
mod words;
pub mod work;

pub use judge::{Judging, Record};
pub use looping::{Looping, Team};
pub use site::Site;
pub use tools::Tools;
