//! What clients and the host of a root say to each other: one JSON object per line.
//!
//! A [`Request`] is sent as a [`Call`], which also names the root. It is answered with an [`Answer`] or
//! with [`Refused`]. All names of the wire stand here and nowhere else. The types are closed; what other
//! versions send is read as far as it is known: unknown fields are ignored, and an unknown verb is
//! refused with a code of its own. Nothing here opens a socket or a file.

mod answer;
mod call;
mod fields;
mod hint;
mod read;
mod refused;
mod request;
mod task;
mod verb;

pub use answer::{
    Answer, ClaimedTask, CompletedTask, ExtendedLease, FailedTask, ImportedPlan, Pong,
    QuestionAnswer, QuestionView, ResetPlan, StateView, StatusSummary, StatusView,
};
pub use call::Call;
#[doc(hidden)]
pub use call::hide;
pub use refused::Refused;
pub use request::{
    Inquiry, PlanText, QuestionReply, Request, SentMessage, Subscribe, TaskCheckpoint, TaskClaim,
    TaskComplete, TaskFail, TaskReason,
};
pub use task::TaskView;
pub use verb::Verb;

/// The version of the protocol, as `ping` reports it.
pub const PROTOCOL: u64 = 1;

/// A longer line is not read.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
