//! The `HARNESS_*` variables that agents, checks, gates, cleanups and init scripts are given.

use crate::{Holder, Receipt, Task};

/// The state root.
pub const ROOT: &str = "HARNESS_STATE_ROOT";
/// The run that a process was started for.
pub const RUN: &str = "HARNESS_RUN_ID";
/// N of `SESSION-N`.
pub const SESSION: &str = "HARNESS_SESSION";
/// Where the host of the root answers.
pub const SOCKET: &str = "HARNESS_SOCKET";
/// The task of an attempt.
pub const TASK: &str = "HARNESS_TASK_ID";
/// The claim of an attempt; it applies only to the task in [`TASK`].
pub const EPOCH: &str = "HARNESS_EPOCH";
/// Which attempt at the task it is, from 1.
pub const ATTEMPT: &str = "HARNESS_ATTEMPT";
/// As whom a process works.
pub const WORKER: &str = "HARNESS_WORKER_ID";
/// The context that works, from 1; 0 before the first.
pub const ITERATION: &str = "HARNESS_ITERATION";
/// What says which task a process works on. A process that is started for none of them, or for
/// another one, does not inherit these.
pub const OF_A_TASK: [&str; 3] = [TASK, EPOCH, ATTEMPT];

/// What is known where a process is started; what is not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    list: Vec<(String, String)>,
}

impl Variables {
    /// Of a process in this state root.
    pub fn of_root(root: impl ToString) -> Self {
        Self::default().with(ROOT, root)
    }

    /// In this run.
    #[must_use]
    pub fn run(self, id: impl ToString) -> Self {
        self.with(RUN, id)
    }

    /// N of `SESSION-N`.
    #[must_use]
    pub fn session(self, number: u64) -> Self {
        self.with(SESSION, number)
    }

    /// Where its host answers.
    #[must_use]
    pub fn socket(self, path: Option<impl ToString>) -> Self {
        match path {
            Some(path) => self.with(SOCKET, path),
            None => self,
        }
    }

    /// For an attempt at `task`.
    #[must_use]
    pub fn task(self, task: &Task, holder: &Holder) -> Self {
        let epoch = task.epoch.unwrap_or_default();
        self.attempt(&task.id, epoch, task.attempts + 1, &holder.worker)
    }

    /// As the check of a receipt found them.
    #[must_use]
    pub fn receipt(self, receipt: &Receipt) -> Self {
        self.attempt(&receipt.task, receipt.epoch, receipt.attempt, &receipt.worker)
    }

    /// Whose commits they are: the mark of an attempt.
    #[must_use]
    pub fn committer(self, name: Option<String>) -> Self {
        match name {
            Some(name) => self.with("GIT_COMMITTER_NAME", name),
            None => self,
        }
    }

    /// The context that works, from 1; 0 before the first.
    #[must_use]
    pub fn iteration(self, number: Option<u32>) -> Self {
        match number {
            Some(number) => self.with(ITERATION, number),
            None => self,
        }
    }

    /// By name and value.
    pub fn list(self) -> Vec<(String, String)> {
        self.list
    }

    fn attempt(
        self,
        task: &impl ToString,
        epoch: impl ToString,
        attempt: u32,
        worker: &impl ToString,
    ) -> Self {
        self.with(TASK, task.to_string())
            .with(EPOCH, epoch)
            .with(ATTEMPT, attempt)
            .with(WORKER, worker.to_string())
    }

    fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.list.push((name.to_owned(), value.to_string()));
        self
    }
}
