//! Who acts, on which task: the arguments of every command that needs a claim.

use harness_core::{Epoch, Holder, TaskId};

use super::Invocation;
use crate::{
    failure::{Failure, Result},
    root::StateRoot,
    store::task_id,
    worker,
};

#[derive(Debug, clap::Args)]
pub(super) struct Claimed {
    /// The task [default: HARNESS_TASK_ID]
    #[arg(long, value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
    #[command(flatten)]
    worker: worker::Choice,
    /// Only if this is still the claim's epoch [default: HARNESS_EPOCH]
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

impl Claimed {
    pub(super) fn holder(&self, invocation: &Invocation, root: &StateRoot) -> Result<Holder> {
        let env = &invocation.env;
        let named = env.text("HARNESS_TASK_ID")?;
        let task = match (&self.id, named) {
            (Some(id), _) => id.clone(),
            (None, Some(named)) => TaskId::parse(named)
                .map_err(|bad| Failure::config(format!("HARNESS_TASK_ID: {bad}")))?,
            (None, None) => {
                return Err(Failure::usage("no task named")
                    .hint("name it with --id, or set HARNESS_TASK_ID"));
            }
        };
        let epoch = match (self.epoch, env.text("HARNESS_EPOCH")?) {
            (Some(epoch), _) => Some(epoch),
            // The variable is about the task of the variable.
            (None, Some(text)) if named == Some(task.as_str()) => {
                let bad = || Failure::config(format!("HARNESS_EPOCH: {text:?} is not a number"));
                Some(text.parse().map_err(|_| bad())?)
            }
            (None, _) => None,
        };
        let worker = self.worker.id(env, || Ok(root.clone()))?;
        Ok(Holder { task, worker, epoch: epoch.map(Epoch) })
    }
}
