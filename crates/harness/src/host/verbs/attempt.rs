//! The requests of workers about their tasks.

use harness_core::{
    Command, Holder, Refusal, Task,
    command::{AddCheckpoint, Attempts, Fail, Renew},
    task::{Intent, Via},
};

use super::{super::server::Host, Handled, apply};
use crate::{
    protocol::{Answer, FailedTask, Refused, TaskCheckpoint, TaskFail, TaskRenew},
    workspace,
};

/// Records a checkpoint. In a run the tree is recorded too, so that a later session can tell
/// whether the work is still there.
pub(super) async fn checkpoint(host: &Host, request: TaskCheckpoint) -> Handled {
    let TaskCheckpoint { holder, step, total, description } = request;
    // A client that sends too many waits, and delays no other client.
    while let Some(wait) = host.desk.checkpoint_waits(&holder.task) {
        tokio::time::sleep(wait).await;
    }
    let tree = match host.desk.tree(&holder).or_else(|| host.workspace.clone()) {
        None => None,
        Some(workspace) => workspace::tree_for_checkpoint(workspace).await,
    };
    let lease_seconds = host.lease_seconds;
    let of = holder.clone();
    let checkpoint = AddCheckpoint { holder, step, total, description, tree, lease_seconds };
    extend(host, Command::Checkpoint(checkpoint), of).await
}

/// Applies the command, and measures the lease that it grants.
async fn extend(host: &Host, command: Command, holder: Holder) -> Handled {
    let answer = apply(host, command).await?;
    if let (Some(daemon), Answer::Lease(lease)) = (host.daemon(), &answer) {
        let end = Some(lease.lease_expires_at);
        daemon.gave(&host.root, &holder.task, &holder.worker, end);
    }
    Ok(answer)
}

pub(super) async fn renew(host: &Host, renewal: TaskRenew) -> Handled {
    let TaskRenew { holder, lease_seconds } = renewal;
    let renew = Renew::new(holder.clone(), host.lease_seconds).for_client(lease_seconds);
    extend(host, Command::Renew(renew), holder).await
}

/// Returns the task, if the run has claimed it for this holder.
pub(super) async fn run_task(host: &Host, holder: &Holder) -> Result<Option<Task>, Refused> {
    let id = holder.task.clone();
    let task = host.writer.look_async(move |ledger| ledger.task(&id).cloned()).await?;
    Ok(task.filter(|task| task.claimed_via() == Via::Run && holder.holds(task)))
}

/// Fails an attempt. For a task of the run, the attempt ends with a rollback and counts.
pub(super) async fn fail(host: &Host, request: TaskFail) -> Handled {
    let TaskFail { holder, category, message } = request;
    if let Some(task) = run_task(host, &holder).await? {
        let retryable = task.attempts + 1 < task.max_attempts;
        // A repeated request arrives while the attempt is being rolled back for the first one.
        let intent = Intent::Rollback { category, message: message.clone() };
        if task.intent() == Some(&intent) || host.desk.give_up(&holder, category, message) {
            return Ok(Answer::Failed(FailedTask { task_id: task.id, retryable }));
        }
        return Err(Refusal::Undecided { task: task.id }.into());
    }
    let attempts = Attempts::One;
    let fail = Fail { holder, category, message, attempts, rolled_back_to: None };
    apply(host, Command::Fail(fail)).await
}
