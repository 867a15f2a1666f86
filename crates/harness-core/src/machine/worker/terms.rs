//! The start conditions of a worker, its effects with their results, and its end.

use crate::{
    Epoch, Holder, Ledger, Stop, Task, TaskId, Timestamp, WorkerId,
    command::{Gone, Place},
    ledger::Phase,
    machine::{
        attempt::{self, AttemptEnd},
        gate::GateEnd,
        recovery,
        scope::TaskScope,
        session::{Alerts, WhenFull},
    },
    run::StopReason,
};

/// The start conditions of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerTerms {
    /// The worker in whose name tasks are claimed.
    pub worker: WorkerId,
    /// The tasks that it works on.
    pub scope: TaskScope,
    /// Its labels. It does not claim a task that requires others.
    pub labels: Vec<String>,
    /// The duration of a claim without a renewal.
    pub lease_seconds: u64,
    /// The limit of attempts that it may begin in this session; zero or less is no limit.
    pub max_tasks: i64,
    /// The end of the run's time. Nothing is begun after that, and no gate continues.
    pub until: Option<Timestamp>,
    /// The alerts when the session began. Later ones are reported at the end.
    pub alerts: Alerts,
    /// The terms of one of several workers, each of which has a tree of its own; `None` for the only
    /// worker, in the main tree.
    pub parallel: Option<ParallelWork>,
}

/// The terms of one of several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParallelWork {
    /// The limit of sessions of the ledger, which overrides the ledger's own.
    pub max_sessions: Option<i64>,
    /// The action at `max_tasks`.
    pub when_full: WhenFull,
    /// The action when no work is left.
    pub when_idle: WhenIdle,
    /// The worker's own tree.
    pub worktree: Option<String>,
}

/// The action of a worker when no work is left and nobody else is at work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenIdle {
    /// It leaves.
    #[default]
    Leave,
    /// It waits for new tasks.
    Wait,
}

/// The effects of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEffect {
    /// Determines the next one of these tasks for a worker with these labels.
    Peek {
        /// The tasks that it works on.
        scope: TaskScope,
        /// Its labels.
        labels: Vec<String>,
    },
    /// Determines the base from which a claim of this task starts.
    Base {
        /// The task that was peeked.
        task: TaskId,
    },
    /// Makes one whole attempt, by the machine of that name.
    Attempt {
        /// The task as it was claimed.
        task: Box<Task>,
        /// The holder of the claim, which every command of the attempt names.
        holder: Holder,
        /// The step at which it begins. A worker only begins attempts.
        entry: attempt::Entry,
    },
    /// Tries the gate that all remaining tasks wait for.
    Gate {
        /// The phase of the gate.
        phase: Phase,
        /// The end of the time. A gate that has not answered by then counts as not tried.
        until: Option<Timestamp>,
    },
    /// Waits until the ledger may have changed, for a second at most.
    Await,
    /// Makes the worker's own tree ready for the claimed task.
    Open {
        /// The task as it was claimed.
        task: Box<Task>,
    },
    /// Determines whether the result of a dead worker has landed. Its token is removed first, so that
    /// it cannot land any more.
    Resolve {
        /// The task as it was found, with the intent to land.
        task: Box<Task>,
        /// The epoch under which it is taken over. Its completion needs a receipt of that claim.
        epoch: Epoch,
    },
    /// Brings the work of a dead worker into the worker's own tree, and collects the evidence.
    Transplant {
        /// The task as it was found.
        found: Box<Task>,
        /// The task as it was taken.
        taken: Box<Task>,
    },
}

/// The result of an effect of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// The work that is available.
    Peeked {
        /// The next task of the run, those without a check last; `None` if nothing can be worked
        /// on.
        next: Option<Box<Task>>,
        /// The phase that waits for its gate.
        gate: Option<Phase>,
        /// A task that is in progress although no attempt of this session is.
        in_progress: Option<TaskId>,
        /// What the tasks wait for that are left to this worker: other tasks than the chosen ones, or
        /// a worker with other labels.
        waiting: Option<String>,
        /// The alerts of the ledger.
        alerts: Alerts,
        /// What only concerns one of several workers.
        others: Option<Box<Others>>,
        /// Whether tasks may be claimed.
        claiming: Claiming,
    },
    /// The result of the gate, which is recorded already.
    Gated(GateEnd),
    /// The base, which is recorded with the claim.
    Based(Place),
    /// The branch on which results land is gone.
    NoBase {
        /// A description.
        why: String,
    },
    /// The server that has the branch cannot be reached, which says nothing about the task.
    Unreachable {
        /// A description.
        why: String,
    },
    /// The end of the attempt, which is recorded already.
    Attempted(AttemptEnd),
    /// The result of `Await`.
    Awaited,
    /// The tree is ready.
    Opened,
    /// The tree could not be made ready, which says nothing about the task.
    NotOpened {
        /// A description.
        why: String,
    },
    /// The result of `Resolve`.
    Resolved(LandedAlready),
    /// The result of `Transplant`; `None` if the tree of the dead worker cannot be read.
    Transplanted(Option<Found>),
}

/// Whether tasks of a ledger may be claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Claiming {
    /// They may.
    #[default]
    Open,
    /// A person paused it.
    Paused,
}

impl Claiming {
    /// Returns whether tasks of `ledger` may be claimed.
    pub fn of(ledger: &Ledger) -> Self {
        match ledger.head().paused_at {
            Some(_) => Self::Paused,
            None => Self::Open,
        }
    }
}

/// What one of several workers sees of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// A task whose worker is gone.
    pub abandoned: Option<Abandoned>,
    /// A task that another worker holds, so that its end may free more work.
    pub at_work: Option<TaskId>,
    /// The number of claims of the current session.
    pub session_claims: u64,
    /// The number of completed tasks, if the next task reserves files.
    pub landed: Option<usize>,
    /// The reason why another worker of this process stopped, if nobody may claim any more.
    pub stopped: Option<Stop>,
}

/// A task whose worker is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// The task as it was found.
    pub task: Box<Task>,
    /// How it is known that the worker is gone.
    pub gone: Gone,
}

/// Whether the result of a dead worker has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandedAlready {
    /// It has landed.
    Yes,
    /// It has not landed, and never will by that worker.
    No,
}

/// The work of a dead worker, which is now in the worker's own tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The evidence by which recovery is decided.
    pub evidence: recovery::Evidence,
    /// A further remark for a person.
    pub remark: Option<String>,
}

/// The end of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnd {
    /// The reason why it claims nothing more.
    pub why: WorkerStop,
    /// Whether a person has to look at something: a claim was lost, or an alert was raised
    /// meanwhile.
    pub alerted: bool,
}

/// The reason why a worker claims nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerStop {
    /// It began as many attempts as this session allows. The session decides what follows.
    SessionFull,
    /// Nothing is left, or something stops the run.
    Stopped(Stop),
}

impl WorkerEnd {
    /// Returns the end of all workers of a session. A stop that a person must act on outweighs one
    /// that only says that the work is over.
    pub fn together(ends: Vec<Self>) -> Self {
        let alerted = ends.iter().any(|end| end.alerted);
        let weight = |end: &Self| match &end.why {
            WorkerStop::Stopped(stop) => match stop.reason {
                StopReason::Complete => 0,
                StopReason::Once => 1,
                StopReason::Cancelled => 3,
                _ => 4,
            },
            WorkerStop::SessionFull => 2,
        };
        let complete =
            Self { why: WorkerStop::Stopped(Stop::because(StopReason::Complete)), alerted };
        let worst = ends.into_iter().rev().max_by_key(weight).unwrap_or(complete);
        Self { alerted, ..worst }
    }
}
