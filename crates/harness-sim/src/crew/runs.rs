//! The record of runs of one process. A step is durable at once, or the process dies before it or
//! before the answer.

use std::sync::Arc;

use harness::store::{RunStoreError, Runs};
use harness_core::{
    Epoch, Iteration, Refusal, Reply, Run, RunId, TaskId, Timestamp,
    agent::Usage,
    command::OfRun,
    notify::{OutboxStep, Outgoing},
};

use super::{fate::Moment, floor::Floor};

pub(super) struct CrewRuns {
    pub(super) floor: Floor,
    pub(super) pid: u32,
}

impl CrewRuns {
    fn rows(&self) -> Arc<dyn Runs> {
        self.floor.state().runs.clone()
    }
}

impl Runs for CrewRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        self.floor.state().moment(self.pid, Moment::Effect)?;
        self.rows().open_run(run)
    }

    fn apply(&self, now: Timestamp, step: &OfRun) -> Result<Result<Reply, Refusal>, RunStoreError> {
        let pid = self.pid;
        self.floor.state().moment(pid, Moment::Effect)?;
        let decided = self.rows().apply(now, step)?;
        let mut state = self.floor.state();
        state.tally.run_steps += 1;
        state.moment(pid, Moment::Answer)?;
        Ok(decided)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>, RunStoreError> {
        self.rows().run(id)
    }

    fn iterations(&self, id: &RunId) -> Result<Vec<Iteration>, RunStoreError> {
        self.rows().iterations(id)
    }

    fn attempt(&self, task: &TaskId, epoch: Epoch) -> Result<Option<Run>, RunStoreError> {
        self.rows().attempt(task, epoch)
    }

    fn runs(&self) -> Result<Vec<Run>, RunStoreError> {
        self.rows().runs()
    }

    fn at_least(&self, id: &RunId, usage: Usage) -> Result<(), RunStoreError> {
        self.rows().at_least(id, usage)
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        self.rows().outbox()
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        self.rows().post(now, step)
    }
}
