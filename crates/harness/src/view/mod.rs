//! The state of a project: one model for every surface that shows it.
//!
//! [`View`] is the whole project on one page, [`TaskDetail`] one task, [`ProjectReport`] the
//! summary that a person reads in the morning. [`Board`] is the project at work, in the order in which
//! a person looks: what needs them, what works, what waits and what is done. [`TaskStory`],
//! [`RunStory`] and [`MoneyView`] are the pages behind it. All of them are built from values that the caller has
//! read: a snapshot of the ledger, the rows of runs ([`RunHistory`]), the open questions of the
//! host. Building one reads no file and no clock. A surface chooses words and colours and adds no
//! rule of its own.

mod activity;
mod board;
mod iteration;
mod money;
mod need;
mod outcome;
mod overview;
mod page;
mod question;
mod record;
mod report;
mod run;
mod share;
mod spending;
mod step;
mod story;
mod target;
mod task;
#[cfg(test)]
mod tests;
mod tool;
mod waiting;
mod worker;
mod working;

pub use activity::{Activity, ActivityLog};
pub use board::{Board, BoardInputs, DoneEntry, LeftOut, Trusted, recently_completed};
pub use iteration::{IterationCard, RunStory};
pub use money::{
    AgentSpending, AttemptSpan, BudgetCard, DaySpending, MoneyView, SpendingPoint, TaskSpending,
};
pub use need::{Need, NeedKind};
pub use outcome::{AttemptOutcome, AttemptPlace};
pub use overview::{AlertCard, TaskCounts, View, ViewInputs};
pub use page::TaskPage;
pub use question::QuestionCard;
pub use record::RunHistory;
pub use report::{FailedEntry, LandedEntry, ProjectReport, ReportInputs, WaitingEntry};
pub use run::{RunCondition, RunSummary};
pub use share::WorkerShare;
pub use spending::Spending;
pub use step::{NextStep, SpentLimit};
pub use story::{AttemptStory, RescueCard, TaskStory};
pub use target::{TargetCard, TargetHint};
pub use task::{AttemptSummary, TaskDetail, TaskSurroundings};
pub use tool::tool_text;
pub use waiting::{WaitEntry, WaitKind};
pub use worker::{WorkerCard, WorkerCondition};
pub use working::{Progress, WorkingEntry};
