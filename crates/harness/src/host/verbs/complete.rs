//! Completes a task if its check passes.

use std::{path::Path, sync::Arc, time::Duration};

use harness_core::{
    Command, Task, TaskId,
    command::{Authority, Complete, Proof, Unchecked},
    ledger::ConcurrencyMode,
    machine::judge::{self, Standing},
    trust::Kind,
};

use super::{
    super::{
        Daemon, Settings,
        refused::busy,
        server::{Duty, Host},
    },
    Handled, apply,
    attempt::run_task,
};
use crate::{
    drive::Ports,
    flows::{
        Site,
        completion::{Clerk, Completion},
    },
    hub::Hub,
    process::Redactor,
    protocol::{Answer, CompletedTask, Refused, TaskComplete},
    store::{Commit, Writer},
    workspace::Bring,
};

/// Handles a completion. For an agent of a run it is the promise: check, commit and completion
/// follow its end. The work of any other worker is checked now.
pub(super) async fn complete(host: &Host, request: TaskComplete) -> Handled {
    let TaskComplete { holder, authority, work } = request;
    if run_task(host, &holder).await?.is_some() {
        host.desk.promise(&holder);
        return Ok(Answer::Completed(CompletedTask { task_id: holder.task, requested: true }));
    }
    match (&host.duty, authority) {
        (Duty::Daemon(daemon) | Duty::Shared(daemon), _) => {
            judged(host, daemon, TaskComplete { holder, authority, work }).await
        }
        // Its check would run in the tree that an agent is working in.
        (Duty::Run, Authority::Force) => Err(busy()),
        // The client runs the check in its own work tree.
        (Duty::Run, Authority::Holder) if is_concurrent(host).await? => Err(busy()),
        (Duty::Run, Authority::Holder) => {
            let (proof, unchecked) = (Proof::Word, Unchecked::Forbidden);
            let complete = Complete { holder, authority, proof, unchecked, commit: None };
            apply(host, Command::Complete(complete)).await
        }
    }
}

pub(super) async fn is_concurrent(host: &Host) -> Result<bool, Refused> {
    let mode = host.writer.look_async(|ledger| ledger.head().session_config.concurrency_mode);
    Ok(mode.await? == ConcurrencyMode::Concurrent)
}

async fn judged(host: &Host, daemon: &Arc<Daemon>, complete: TaskComplete) -> Handled {
    let TaskComplete { holder, authority, work } = complete;
    let _turn = daemon.turn(&holder.task).await;
    let standing = standing(&host.writer, &holder.task).await?;
    let Settings { rules, unchecked, bring } = daemon.rules_for(&holder, standing.task.as_ref())?;
    let clerk = ByWriter { writer: &host.writer, daemon, root: &host.root, bring };
    let (root, workshop) = (host.root.clone(), Arc::clone(&daemon.workshop));
    let completion = Completion {
        clerk: &clerk,
        ports: Ports {
            commit: Arc::clone(&host.writer) as Arc<dyn Commit>,
            clock: Arc::clone(&daemon.clock),
            tick: Duration::from_secs(host.lease_seconds),
        },
        root: root.clone(),
        shell: daemon.workshop.shell(),
        redactor: Redactor::default(),
        record: Arc::new(move |receipt| workshop.keep_receipt(&root, receipt)),
        hub: Hub::new("complete"),
    };
    let lease_seconds = host.lease_seconds;
    let request = judge::Request { holder, authority, unchecked, lease_seconds, rules, work };
    // When nobody waits for the answer any more, the check ends with this future.
    let task = completion.run_from(standing, request, daemon.leaving.cancelled()).await?;
    Ok(Answer::Completed(CompletedTask { task_id: task, requested: false }))
}

struct ByWriter<'a> {
    writer: &'a Writer,
    daemon: &'a Arc<Daemon>,
    root: &'a Path,
    bring: Bring,
}

async fn standing(writer: &Writer, task: &TaskId) -> Result<Standing, Refused> {
    let id = task.clone();
    Ok(writer.look_async(move |ledger| Standing::of(ledger, &id)).await?)
}

impl Clerk for ByWriter<'_> {
    type Error = Refused;

    async fn standing(&self, task: &TaskId) -> Result<Standing, Refused> {
        standing(self.writer, task).await
    }

    fn may_check(&self, task: &Task) -> Result<(), Refused> {
        (self.daemon.surroundings.may_run)(Kind::Check, task.check().unwrap_or_default())
    }

    async fn site(&self, claimed: Option<&Path>) -> Result<Arc<dyn Site>, Refused> {
        let (workshop, root) = (Arc::clone(&self.daemon.workshop), self.root.to_owned());
        let (filters, bring) = ((self.daemon.surroundings.filters)(), self.bring.clone());
        match claimed.map(Path::to_owned) {
            // Git must be asked whether that is a work tree of this repository.
            Some(claimed) => {
                let found = tokio::task::spawn_blocking(move || {
                    workshop.site(&root, Some(&claimed), filters, bring)
                });
                Ok(found.await.map_err(|why| why.to_string())??)
            }
            None => Ok(workshop.site(&root, None, filters, bring)?),
        }
    }
}
