//! The flows that the binary runs. They perform what the machines ask for and decide nothing, and
//! they are ordinary users of this library: a test compiles them from outside.

pub mod attempt;
mod judge;
mod tools;
pub mod work;

pub use judge::{Judging, Record};
pub use tools::{Team, Tools};
