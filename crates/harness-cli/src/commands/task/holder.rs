//! The holder and the task: the arguments of every command that needs a claim.

use harness_core::{
    Epoch, Holder, TaskId,
    variables::{EPOCH, TASK},
};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
    store::task_id,
    worker,
};

/// The task as an argument of its own.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Named {
    /// The task [default: HARNESS_TASK_ID]
    #[arg(value_name = "ID", value_parser = task_id, conflicts_with = "id")]
    task: Option<TaskId>,
    #[command(flatten)]
    claimed: Claimed,
}

impl Named {
    pub(crate) fn claimed(self) -> Claimed {
        Claimed { id: self.task.or(self.claimed.id), ..self.claimed }
    }
}

/// A text, after the task or alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Told {
    /// The text; before it, the task [default: --id, or HARNESS_TASK_ID]
    #[arg(value_names = ["[ID] TEXT"], num_args = 1..=2, required = true)]
    words: Vec<String>,
}

impl Told {
    /// Returns the text, and the claim that it is about.
    pub(crate) fn of(self, claimed: Claimed) -> Result<(String, Claimed)> {
        let mut words = self.words.into_iter();
        match (words.next(), words.next(), &claimed.id) {
            (Some(_), Some(_), Some(id)) => {
                Err(Failure::usage(format!("the task is named twice: --id {id}")))
            }
            (Some(id), Some(text), None) => {
                let id = task_id(&id).map_err(Failure::usage)?;
                Ok((text, Claimed { id: Some(id), ..claimed }))
            }
            (Some(text), None, _) => Ok((text, claimed)),
            (None, _, _) => Err(Failure::usage("a text is needed")),
        }
    }
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Claimed {
    /// The task [default: HARNESS_TASK_ID]
    #[arg(long, value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
    #[command(flatten)]
    worker: worker::Choice,
    /// Refuse if the claim has another epoch by now [default: HARNESS_EPOCH]
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

impl Claimed {
    /// Returns a claim with this task. The environment supplies the rest.
    pub(crate) fn of(id: Option<TaskId>) -> Self {
        Self { id, ..Self::default() }
    }

    /// Returns the task alone.
    pub(crate) fn task(&self, env: &Environment) -> Result<TaskId> {
        match (&self.id, env.text(TASK)?) {
            (Some(id), _) => Ok(id.clone()),
            (None, Some(named)) => {
                TaskId::parse(named).map_err(|bad| Failure::config(format!("{TASK}: {bad}")))
            }
            (None, None) => Err(Failure::usage("no task was named")
                .hint("name it (its id, or `task_id` of the tool), or set HARNESS_TASK_ID")),
        }
    }

    pub(super) fn holder(&self, invocation: &Invocation, root: &StateRoot) -> Result<Holder> {
        let env = &invocation.env;
        let task = self.task(env)?;
        let epoch = match (self.epoch, env.text(EPOCH)?) {
            (Some(epoch), _) => Some(epoch),
            // `HARNESS_EPOCH` applies only to the task in `HARNESS_TASK_ID`.
            (None, Some(text)) if env.text(TASK)? == Some(task.as_str()) => {
                let bad = || Failure::config(format!("HARNESS_EPOCH: {text:?} is not a number"));
                Some(text.parse().map_err(|_| bad())?)
            }
            (None, _) => None,
        };
        let worker = self.worker.id(env, || Ok(root.clone()))?;
        Ok(Holder { task, worker, epoch: epoch.map(Epoch) })
    }
}
