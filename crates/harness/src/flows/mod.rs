//! The flows that the binary runs. They perform the effects that the machines request, and decide
//! nothing. They are ordinary users of this library: a test compiles them from outside.

#[doc(hidden)]
pub mod attempt;
mod backup;
mod bench;
#[doc(hidden)]
pub mod client_tree;
mod closed_gate;
#[doc(hidden)]
pub mod completion;
mod court;
mod cut_off;
mod failure;
mod fence;
#[doc(hidden)]
pub mod gate;
mod handoff;
pub mod iterate;
#[doc(hidden)]
pub mod judge;
mod land;
mod loop_settings;
mod objective;
pub mod session;
mod settle;
mod shared;
mod site;
mod team;
mod tools;
mod with_tree;
mod words;
pub mod worker;

pub use bench::Bench;
pub use closed_gate::ClosedGate;
pub use failure::{failed_output, failed_output_of};
pub use handoff::HandoffPlace;
#[doc(hidden)]
pub use judge::{Judging, ReadReceipt, Record};
pub use loop_settings::LoopSettings;
#[doc(hidden)]
pub use shared::{OwnPlace, ReportedChanges, SharedWork};
#[doc(hidden)]
pub use site::Site;
pub use team::Team;
pub use tools::Tools;
