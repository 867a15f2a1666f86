//! The `HARNESS_*` variables that agents, checks, gates, cleanups and init scripts are given.

use crate::{Holder, Receipt, Task};

/// What is known where a process is started; what is not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    list: Vec<(String, String)>,
}

impl Variables {
    /// Of a process in this state root.
    pub fn of_root(root: impl ToString) -> Self {
        Self::default().with("HARNESS_STATE_ROOT", root)
    }

    /// In this run.
    #[must_use]
    pub fn run(self, id: impl ToString) -> Self {
        self.with("HARNESS_RUN_ID", id)
    }

    /// N of `SESSION-N`.
    #[must_use]
    pub fn session(self, number: u64) -> Self {
        self.with("HARNESS_SESSION", number)
    }

    /// Where its host answers.
    #[must_use]
    pub fn socket(self, path: Option<impl ToString>) -> Self {
        match path {
            Some(path) => self.with("HARNESS_SOCKET", path),
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
            Some(number) => self.with("HARNESS_ITERATION", number),
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
        self.with("HARNESS_TASK_ID", task.to_string())
            .with("HARNESS_EPOCH", epoch)
            .with("HARNESS_ATTEMPT", attempt)
            .with("HARNESS_WORKER_ID", worker.to_string())
    }

    fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.list.push((name.to_owned(), value.to_string()));
        self
    }
}
