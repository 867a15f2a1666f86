//! The `HARNESS_*` variables of agents, checks, gates, cleanups and init scripts.

use crate::{Holder, Receipt, Task};

/// The state root.
pub const ROOT: &str = "HARNESS_STATE_ROOT";
/// The run that a process was started for.
pub const RUN: &str = "HARNESS_RUN_ID";
/// The N of `SESSION-N`.
pub const SESSION: &str = "HARNESS_SESSION";
/// The path of the socket on which the host of the root listens.
pub const SOCKET: &str = "HARNESS_SOCKET";
/// The task of an attempt.
pub const TASK: &str = "HARNESS_TASK_ID";
/// The epoch of an attempt's claim. It applies only to the task in [`TASK`].
pub const EPOCH: &str = "HARNESS_EPOCH";
/// The number of the attempt at the task, from 1.
pub const ATTEMPT: &str = "HARNESS_ATTEMPT";
/// The worker id of a process.
pub const WORKER: &str = "HARNESS_WORKER_ID";
/// The number of the current context, from 1; 0 before the first.
pub const ITERATION: &str = "HARNESS_ITERATION";
/// The variables that identify the task of a process. A process that is started for no task, or for
/// another one, does not inherit them.
pub const OF_A_TASK: [&str; 3] = [TASK, EPOCH, ATTEMPT];

/// The variables of a process that is about to be started. Unknown values are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    list: Vec<(String, String)>,
}

impl Variables {
    /// Starts with the variables of a process in this state root.
    pub fn of_root(root: impl ToString) -> Self {
        Self::default().with(ROOT, root)
    }

    /// Sets the run.
    #[must_use]
    pub fn run(self, id: impl ToString) -> Self {
        self.with(RUN, id)
    }

    /// Sets the N of `SESSION-N`.
    #[must_use]
    pub fn session(self, number: u64) -> Self {
        self.with(SESSION, number)
    }

    /// Sets the path of the host's socket, if there is one.
    #[must_use]
    pub fn socket(self, path: Option<impl ToString>) -> Self {
        match path {
            Some(path) => self.with(SOCKET, path),
            None => self,
        }
    }

    /// Sets the variables of an attempt at `task`.
    #[must_use]
    pub fn task(self, task: &Task, holder: &Holder) -> Self {
        let epoch = task.epoch.unwrap_or_default();
        self.attempt(&task.id, epoch, task.attempts + 1, &holder.worker)
    }

    /// Sets the variables that the check of a receipt had.
    #[must_use]
    pub fn receipt(self, receipt: &Receipt) -> Self {
        self.attempt(&receipt.task, receipt.epoch, receipt.attempt, &receipt.worker)
    }

    /// Sets the committer name, which marks commits as made by an attempt.
    #[must_use]
    pub fn committer(self, name: Option<String>) -> Self {
        match name {
            Some(name) => self.with("GIT_COMMITTER_NAME", name),
            None => self,
        }
    }

    /// Sets the number of the current context, from 1; 0 before the first.
    #[must_use]
    pub fn iteration(self, number: Option<u32>) -> Self {
        match number {
            Some(number) => self.with(ITERATION, number),
            None => self,
        }
    }

    /// Returns the pairs of name and value.
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
