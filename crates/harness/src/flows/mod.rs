//! The flows that the binary runs. They perform what the machines ask for and decide nothing, and
//! they are ordinary users of this library: a test compiles them from outside.

#[doc(hidden)]
pub mod attempt;
#[doc(hidden)]
pub mod client_tree;
mod closed_gate;
#[doc(hidden)]
pub mod completion;
mod failure;
#[doc(hidden)]
pub mod gate;
mod handoff;
#[doc(hidden)]
pub mod judge;
mod looping;
pub mod ralph;
mod site;
mod tools;
mod with_tree;
mod words;
pub mod work;

pub use closed_gate::ClosedGate;
pub use gate::APPROVE;
#[doc(hidden)]
pub use judge::{Judging, Record};
pub use looping::{Looping, Team};
#[doc(hidden)]
pub use site::Site;
pub use tools::Tools;
