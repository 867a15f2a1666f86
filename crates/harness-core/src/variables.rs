//! The `HARNESS_*` variables of agents, checks, gates, cleanups and init scripts.

use crate::{
    Epoch, Holder, Receipt, RunId, Task, TaskId,
    trace::{SpanId, TRACEPARENT, TraceId, traceparent},
};

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
/// The address of the database of a ledger. It may hold a password, so no agent and no check gets it.
pub const DATABASE_URL: &str = "HARNESS_DATABASE_URL";
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

    /// Returns the pairs of name and value, with the trace that the process continues.
    pub fn list(self) -> Vec<(String, String)> {
        let parent = self.traceparent();
        let mut list = self.list;
        list.extend(parent.map(|parent| (TRACEPARENT.to_owned(), parent)));
        list
    }

    /// Returns the span that the process belongs to: a context, an attempt, or else the whole run.
    fn traceparent(&self) -> Option<String> {
        let run = self.get(RUN).and_then(|run| RunId::parse(run).ok());
        let trace = match run {
            Some(run) => TraceId::of_run(&run),
            None => TraceId::of_root(self.get(ROOT)?),
        };
        let task = self.get(TASK).and_then(|task| TaskId::parse(task).ok());
        let epoch = self.get(EPOCH).and_then(|epoch| epoch.parse().ok()).map(Epoch);
        let mut span = match (task, epoch) {
            (Some(task), Some(epoch)) => SpanId::of_attempt(trace, &task, epoch),
            _ => SpanId::of_run(trace),
        };
        if let Some(number) = self.get(ITERATION).and_then(|number| number.parse().ok()) {
            span = SpanId::of_iteration(trace, span, number);
        }
        Some(traceparent(trace, span))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.list.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkerId;

    #[test]
    fn every_process_continues_the_trace_of_its_run() {
        let run = RunId::of_bits(7);
        let trace = TraceId::of_run(&run);
        let of = |variables: Variables| {
            let list = variables.list();
            let found = list.into_iter().filter(|(name, _)| name == TRACEPARENT);
            found.map(|(_, value)| value).collect::<Vec<_>>()
        };
        let root = || Variables::of_root("/work");
        let whole = SpanId::of_run(trace);
        assert_eq!(of(root().run(&run)), [traceparent(trace, whole)]);
        let objective = SpanId::of_iteration(trace, whole, 2);
        assert_eq!(of(root().run(&run).iteration(Some(2))), [traceparent(trace, objective)]);
        let task = TaskId::numbered(3);
        let attempt = SpanId::of_attempt(trace, &task, Epoch(4));
        let worker = WorkerId::recorded("w");
        let variables = || root().run(&run).attempt(&task, Epoch(4), 1, &worker);
        assert_eq!(of(variables()), [traceparent(trace, attempt)]);
        let context = SpanId::of_iteration(trace, attempt, 0);
        assert_eq!(of(variables().iteration(Some(0))), [traceparent(trace, context)]);
        let alone = TraceId::of_root("/work");
        assert_eq!(of(root()), [traceparent(alone, SpanId::of_run(alone))]);
        assert!(of(Variables::default()).is_empty());
    }
}
