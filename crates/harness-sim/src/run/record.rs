//! The record of runs on the stage. A step is durable at once, or the process dies before the step
//! or before it receives the answer.

use std::{io, sync::Arc};

use harness::{
    project::{RunDriver, RunRecord},
    store::{RunStoreError, Runs},
};
use harness_core::{
    Epoch, Iteration, Refusal, Reply, Run, RunId, TaskId, Timestamp,
    agent::Usage,
    command::OfRun,
    notify::{OutboxStep, Outgoing},
    run::Owner,
};

use super::{
    flaw::flawed_step,
    stage::{Moment, Stage},
};

#[derive(Clone)]
pub(super) struct SimRuns(pub(super) Stage);

impl SimRuns {
    fn rows(&self) -> Arc<dyn Runs> {
        self.0.state().runs.clone()
    }
}

impl Runs for SimRuns {
    fn open_run(&self, run: &Run) -> Result<Run, RunStoreError> {
        self.rows().open_run(run)
    }

    fn apply(
        &self,
        now: Timestamp,
        of_run: &OfRun,
    ) -> Result<Result<Reply, Refusal>, RunStoreError> {
        let mut state = self.0.state();
        state.story.tell(|| format!("   of a run {of_run:?}"));
        state.moment(Moment::Effect)?;
        let before = state.rows(&of_run.run);
        let decided = flawed_step(&state, now, of_run)?;
        match &decided {
            Ok(_) => {
                state.tally.run_steps += 1;
                state.step_is_durable(of_run, before);
            }
            Err(refusal) => {
                state.story.tell(|| format!("      refused: {refusal}"));
                state.tally.refused += 1;
            }
        }
        state.moment(Moment::Answer)?;
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
        if self.0.state().dead {
            return Err(io::Error::other("the process is dead").into());
        }
        self.rows().at_least(id, usage)
    }

    fn outbox(&self) -> Result<Vec<Outgoing>, RunStoreError> {
        self.rows().outbox()
    }

    fn post(&self, now: Timestamp, step: &OutboxStep) -> Result<Vec<Outgoing>, RunStoreError> {
        if self.0.state().dead {
            return Err(io::Error::other("the process is dead").into());
        }
        self.rows().post(now, step)
    }
}

/// Returns the record for a process of this owner. All others are gone, because one process follows
/// the other.
pub(super) fn record(stage: &Stage, owner: &Owner) -> RunRecord {
    let stages = stage.clone();
    RunRecord {
        runs: Arc::new(SimRuns(stage.clone())),
        terms: None,
        driver: RunDriver {
            owner: owner.clone(),
            is_gone: Arc::new(|_| true),
            new_id: Arc::new(move || {
                let mut state = stages.state();
                state.runs_opened += 1;
                RunId::of_bits(state.runs_opened)
            }),
        },
        clock: Arc::<crate::clock::SimClock>::clone(&stage.state().clock),
    }
}
