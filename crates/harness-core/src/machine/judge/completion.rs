//! The completion of a task: its receipt, then the command.

use super::{Effect, Ending, Judge, JudgeEnd, Next, State, Step};
use crate::{
    Command, Receipt,
    command::{Complete, Proof, Unchecked},
    receipt,
};

impl Judge {
    /// Records the worker's report if that is allowed. Otherwise the ledger refuses the completion.
    pub(super) fn without_check(&mut self) -> Step {
        match self.unchecked {
            Unchecked::Allowed => self.record(),
            Unchecked::Forbidden => self.complete(),
        }
    }

    pub(super) fn record(&mut self) -> Step {
        let receipt = self.receipt();
        if self.ending == Ending::Land {
            return Next::Done(JudgeEnd::Green(Box::new(receipt)));
        }
        self.start(State::Recording, Effect::Record(Box::new(receipt)))
    }

    pub(super) fn receipt(&self) -> Receipt {
        Receipt {
            version: receipt::VERSION,
            task: self.task.id.clone(),
            epoch: self.epoch,
            worker: self.holder.worker.clone(),
            attempt: self.task.attempts + 1,
            base: self.task.started_at_commit.clone(),
            commit: self.commit.clone(),
            tree: self.tree.clone(),
            check: self.check.clone(),
            baseline: self.baseline,
            protected: self.touched.clone().unwrap_or_default(),
            tests: self.tests.clone(),
            uncommitted: Vec::new(),
            flags: self.flags.clone(),
            agent: None,
            iterations: None,
            tokens: None,
            cost_usd: None,
            time: self.now,
        }
    }

    pub(super) fn complete(&mut self) -> Step {
        let proof = match (&self.check, self.task.check()) {
            (Some(check), _) => Proof::Passed { command: check.command.clone() },
            (None, _) => Proof::Word,
        };
        let command = Command::Complete(Complete {
            holder: self.holder.clone(),
            authority: self.authority,
            proof,
            unchecked: self.unchecked,
            commit: self.commit.clone(),
        });
        self.commit(State::Completing, command)
    }
}
