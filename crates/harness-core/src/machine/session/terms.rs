//! The start conditions of a session, its effects and their results.

use super::{Alerts, Survey};
use crate::{
    Holder, Task, Timestamp, WorkerId,
    command::OfRun,
    machine::{
        attempt::{self, AttemptEnd},
        scope::TaskScope,
        worker::{WhenIdle, WorkerEnd, WorkerTerms},
    },
};

/// The start conditions of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTerms {
    /// The worker in whose name tasks are claimed and adopted.
    pub worker: WorkerId,
    /// The tasks that it works on. What an earlier session left is recovered all the same.
    pub scope: TaskScope,
    /// The labels of its workers.
    pub labels: Vec<String>,
    /// The pid of the process, for the log.
    pub pid: u32,
    /// The duration of a claim without a renewal.
    pub lease_seconds: u64,
    /// The limit of attempts in one session, without recovered ones; zero or less is no limit.
    pub max_tasks: i64,
    /// The limit of sessions of the ledger, which overrides the ledger's own.
    pub max_sessions: Option<i64>,
    /// The action at `max_tasks`.
    pub when_full: WhenFull,
    /// The end of the run's time. Nothing is begun after that, and no gate continues.
    pub until: Option<Timestamp>,
    /// The command that each tick commits, so that the driver keeps the row of the run.
    pub heartbeat: Option<OfRun>,
    /// Several workers, each in a tree of its own; `None` for one worker in the main tree.
    pub crew: Option<Crew>,
}

/// Several workers of one session. Their results land on a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crew {
    /// The workers, each with its own tree.
    pub members: Vec<CrewMember>,
    /// The branch on which results land; `None` for the one of the main tree.
    pub target: Option<String>,
    /// The action of a worker when no work is left.
    pub when_idle: WhenIdle,
}

/// One of several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrewMember {
    /// Its id.
    pub worker: WorkerId,
    /// Its own tree.
    pub worktree: Option<String>,
}

/// The action when a session has reached its limit of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The next session begins.
    Continue,
    /// The run is over, even if tasks are left.
    Stop,
}

/// The effects of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEffect {
    /// Surveys the tree, the claims of clients and interrupted attempts.
    Survey,
    /// Runs the init script, if there is one.
    Prepare,
    /// Completes an interrupted attempt, by the machine of attempts.
    Recover {
        /// The task as it was adopted.
        task: Box<Task>,
        /// The holder of the claim, which every command of the attempt names.
        holder: Holder,
        /// The step at which it is resumed.
        entry: attempt::Entry,
    },
    /// Determines the branch on which the results of several workers land.
    Target {
        /// The branch that was asked for.
        wanted: Option<String>,
    },
    /// Lets these workers work at the same time, each by the machine of that name.
    Work(Vec<WorkerTerms>),
    /// Brings results that landed on a branch of our own to the target, if that is possible now.
    Gather,
    /// Removes the marker, because nothing is left to do for these tasks, unless other tasks are left.
    Close(TaskScope),
}

/// The result of an effect of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionReport {
    /// The survey before anything was changed.
    Surveyed(Survey),
    /// The result of the init script.
    Prepared(Prepared),
    /// The end of the recovered attempt, which is recorded already.
    Recovered(AttemptEnd),
    /// The branch on which results land.
    Targeted {
        /// Its name.
        branch: String,
        /// The remote that has it; `None` for a branch of this repository.
        remote: Option<String>,
    },
    /// The server that has the branch cannot be reached.
    Unreachable {
        /// A description.
        why: String,
    },
    /// Several workers cannot work in this repository.
    NotTargeted {
        /// A description.
        why: String,
    },
    /// The workers claim nothing more.
    Worked(Vec<WorkerEnd>),
    /// The result of `Gather`.
    Gathered(Gathered),
    /// The marker is gone, or there was none. The alerts are those at the end of the session.
    Closed(Alerts),
}

/// Whether results on a branch of our own were brought to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathered {
    /// There are none, or they stay there.
    Unchanged,
    /// The target has all results.
    Done,
}

/// The result of the init script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// Nothing was run, and nothing is logged.
    NoScript,
    /// The script ended with exit code 0.
    Passed,
    /// The script failed. It is run once more, and a second failure stops the session.
    Failed,
}
