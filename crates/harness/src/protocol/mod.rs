//! The messages between clients and the host of a root: one JSON object per line.
//!
//! A [`Request`] is sent as a [`Call`], which also names the root. It is answered with an
//! [`Answer`] or with [`Refused`]. All names of the wire are defined only here. The types are
//! closed. Messages of other versions are parsed as far as they are known: unknown fields are
//! ignored, and an unknown verb is refused with its own code. Nothing here opens a socket or a
//! file.

mod answer;
mod call;
mod fields;
mod hint;
mod join;
#[cfg(feature = "postgres")]
mod posted;
mod read;
mod refused;
mod request;
mod task;
mod transaction;
mod verb;

pub use answer::{
    Answer, BudgetView, ClaimedTask, CompletedTask, ExtendedLease, FailedTask, ImportedPlan, Pong,
    QuestionAnswer, QuestionView, ResetPlan, StateView, StatusSummary, StatusView,
};
pub use call::Call;
pub(crate) use call::PASSED_ON;
#[doc(hidden)]
pub use call::hide;
#[cfg(feature = "postgres")]
pub(crate) use posted::PostedCall;
pub use refused::Refused;
pub use request::{
    BudgetRequest, Inquiry, PlanText, QuestionReply, Request, SentMessage, Subscribe,
    TaskCheckpoint, TaskClaim, TaskComplete, TaskFail, TaskReason, TaskRenew,
};
pub use task::TaskView;
#[doc(hidden)]
pub use transaction::TRANSACTION_FORM;
pub use transaction::{TransactionAnswer, WorkerTransaction};
pub use verb::Verb;

/// The version of the protocol, as `ping` reports it.
pub const PROTOCOL: u64 = 1;

/// The limit of a line. A longer one is not read.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
