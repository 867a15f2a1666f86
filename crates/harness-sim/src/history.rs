//! The replies that workers received, and the changes that were seen to be stored. This model uses
//! nothing else of the product, so that the checkers do not ask the store whether the store is
//! right.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{
    Command, Epoch, Ledger, Refusal, Reply, TaskId, WorkerId,
    command::ImportMode,
    task::{Status, Task},
};

/// The state of a task according to an acknowledged reply, until the task changes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    Waiting,
    Held { worker: WorkerId, epoch: Epoch, intends: bool, step: Option<String> },
    Done { worker: WorkerId },
    Failed,
    Gone,
}

/// A field that another program put into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The task; `None` for the root object.
    pub task: Option<TaskId>,
    pub key: String,
}

#[derive(Debug, Clone, Default)]
pub struct History {
    pub marks: BTreeMap<TaskId, Mark>,
    /// Epochs of attempts that ended.
    pub ended: BTreeSet<u64>,
    pub highest_epoch: u64,
    /// Tasks whose completion was stored.
    pub completed: BTreeSet<TaskId>,
    pub sessions: u64,
    /// The log lines of everything that was stored, in order.
    pub lines: Vec<String>,
    /// Lines of a version that was destroyed before the log had them.
    pub forgotten: Vec<String>,
    pub notes: Vec<Note>,
}

impl History {
    /// Records a stored change by comparing the ledgers before and after it.
    pub fn stored(&mut self, before: &Ledger, after: &Ledger, commands: &[Command]) {
        for task in before.tasks() {
            let now = after.task(&task.id);
            if let Some(epoch) = live(task)
                && now.and_then(live) != Some(epoch)
            {
                self.ended.insert(epoch);
            }
            if now.is_none_or(|n| n != task) {
                self.marks.remove(&task.id);
            }
            if now.is_none() || drops(commands, &task.id) {
                self.completed.remove(&task.id);
                self.notes.retain(|n| n.task.as_ref() != Some(&task.id));
            }
        }
        for task in after.tasks() {
            if before.task(&task.id).is_none() {
                self.marks.remove(&task.id);
            }
            self.highest_epoch = self.highest_epoch.max(task.epoch.unwrap_or_default().0);
            if task.status() == Status::Completed {
                self.completed.insert(task.id.clone());
            }
        }
    }

    /// Records the answers to the commands of a transaction.
    pub fn acknowledged(&mut self, commands: &[Command], replies: &[Result<Reply, Refusal>]) {
        let mut waiting = Vec::new();
        for (command, reply) in commands.iter().zip(replies) {
            let Ok(reply) = reply else { continue };
            match (command, reply) {
                // A claim fails tasks that can never run, possibly including one that was just
                // restored.
                (Command::Claim(_), _) => {
                    for id in waiting.drain(..) {
                        self.marks.remove(&id);
                    }
                }
                (_, Reply::Task(id)) => waiting.push(id.clone()),
                _ => {}
            }
            self.answered(command, reply);
        }
    }

    fn answered(&mut self, command: &Command, reply: &Reply) {
        let mark = |of: &mut Self, id: &TaskId, mark| of.marks.insert(id.clone(), mark);
        match (command, reply) {
            (Command::Claim(c), Reply::Claimed(claimed)) => {
                let held = Mark::Held {
                    worker: c.worker.clone(),
                    epoch: claimed.epoch,
                    intends: claimed.task.intent().is_some(),
                    step: None,
                };
                mark(self, &claimed.task.id, held);
            }
            (Command::Checkpoint(c), Reply::Lease { task, .. }) => {
                if let Some(Mark::Held { step, .. }) = self.marks.get_mut(task) {
                    *step = Some(c.description.clone());
                }
            }
            (Command::Intend(_), Reply::Task(id)) => {
                if let Some(Mark::Held { intends, .. }) = self.marks.get_mut(id) {
                    *intends = true;
                }
            }
            (Command::VoidIntent(_), Reply::Task(id)) => {
                if let Some(Mark::Held { intends, .. }) = self.marks.get_mut(id) {
                    *intends = false;
                }
            }
            (Command::Complete(c), Reply::Task(id)) => {
                // A completion by force may concern the task of another worker, or one that was
                // done before.
                match c.authority {
                    harness_core::command::Authority::Holder => {
                        mark(self, id, Mark::Done { worker: c.holder.worker.clone() });
                    }
                    harness_core::command::Authority::Force => {
                        self.marks.remove(id);
                    }
                }
            }
            (Command::Fail(_), Reply::Failed { task, .. }) => {
                mark(self, task, Mark::Failed);
            }
            (Command::Retry(_) | Command::Release(_) | Command::Add(_), Reply::Task(id)) => {
                mark(self, id, Mark::Waiting);
            }
            (Command::Remove(_), Reply::Task(id)) => {
                mark(self, id, Mark::Gone);
            }
            (Command::Import(import), Reply::Imported { .. }) => match import.mode {
                ImportMode::Merge | ImportMode::Update => {
                    for id in import.plan.tasks.keys() {
                        if matches!(self.marks.get(id), Some(Mark::Gone)) {
                            self.marks.remove(id);
                        }
                    }
                }
                ImportMode::Replace | ImportMode::IfFinished => self.marks.clear(),
            },
            (Command::Reset, Reply::Reset { .. }) => self.marks.clear(),
            (Command::BeginSession(_), Reply::Session { number }) => {
                self.sessions = self.sessions.max(*number);
            }
            // The others set no state that outlasts the next change of the task.
            _ => {}
        }
    }

    /// Records that the newest version was destroyed; `ledger` is the version before it.
    pub fn rewound(&mut self, ledger: &Ledger) {
        self.marks.clear();
        self.notes.clear();
        self.sessions = 0;
        for epoch in ledger.tasks().filter_map(live) {
            self.ended.remove(&epoch);
        }
        let done = |id: &TaskId| ledger.task(id).is_some_and(|t| t.status() == Status::Completed);
        self.completed.retain(done);
    }
}

/// Returns the epoch of an active claim.
pub(crate) fn live(task: &Task) -> Option<u64> {
    (task.status() == Status::InProgress).then(|| task.epoch.unwrap_or_default().0)
}

/// Returns whether one of the commands may remove the task, even if a task of the same name
/// follows.
pub(crate) fn drops(commands: &[Command], id: &TaskId) -> bool {
    commands.iter().any(|command| match command {
        Command::Remove(c) => c.task == *id,
        Command::Import(c) => match c.mode {
            ImportMode::Merge | ImportMode::Update => false,
            ImportMode::Replace | ImportMode::IfFinished => true,
        },
        Command::Reset => true,
        Command::Add(_)
        | Command::Edit(_)
        | Command::Claim(_)
        | Command::Checkpoint(_)
        | Command::Renew(_)
        | Command::Intend(_)
        | Command::VoidIntent(_)
        | Command::Landing(_)
        | Command::Evict(_)
        | Command::TakeOver(_)
        | Command::SetMode(_)
        | Command::SetTarget(_)
        | Command::Divert(_)
        | Command::Settle(_)
        | Command::HoldGate(_)
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Retry(_)
        | Command::Reopen(_)
        | Command::Release(_)
        | Command::Upkeep
        | Command::Adopt(_)
        | Command::BeginSession(_)
        | Command::EndSession(_)
        | Command::Note(_)
        | Command::Raise(_)
        | Command::Acknowledge
        | Command::PassGate(_)
        | Command::EditPhase(_)
        | Command::RemovePhase(_)
        | Command::ConfigureSession(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Run(_) => false,
    })
}
