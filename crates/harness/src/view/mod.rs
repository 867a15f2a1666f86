//! The state of a project: one model for every surface that shows it.
//!
//! [`View`] is the whole project on one page, [`TaskDetail`] one task, [`ProjectReport`] the
//! summary that a person reads in the morning. All three are built from values that the caller has
//! read: a snapshot of the ledger, the rows of runs ([`RunHistory`]), the open questions of the
//! host. Building one reads no file and no clock. A surface chooses words and colours and adds no
//! rule of its own.

mod need;
mod overview;
mod page;
mod question;
mod record;
mod report;
mod run;
mod spending;
mod step;
mod task;
#[cfg(test)]
mod tests;

pub use need::{Need, NeedKind};
pub use overview::{AlertCard, TaskCounts, View, ViewInputs};
pub use page::TaskPage;
pub use question::QuestionCard;
pub use record::RunHistory;
pub use report::{FailedEntry, LandedEntry, ProjectReport, ReportInputs, WaitingEntry};
pub use run::{RunCondition, RunSummary};
pub use spending::Spending;
pub use step::{NextStep, SpentLimit};
pub use task::{AttemptSummary, TaskDetail, TaskSurroundings};
