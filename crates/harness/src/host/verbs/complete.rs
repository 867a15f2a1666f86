//! Who says that a task is done is believed when its check passes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harness_core::{
    Command, CommitId, Holder, Reply, Task, TaskId, TreeId,
    command::{Authority, Complete, Proof, Unchecked},
};
use serde_json::json;

use super::{
    super::{
        Daemon,
        request::{Answer, Request},
        server::{Duty, Host},
        wire::{self, Refused},
    },
    apply,
    attempt::run_task,
};
use crate::{
    completion::{Clerk, Completion, Standing},
    shell::Cancel,
    store::Writer,
    workspace::{GitWorkspace, Workspace as _},
};

/// The word of an agent of a run is its promise: check, commit and completion follow its end. That of
/// any other worker is put to the test now.
pub(super) async fn complete(host: &Host, request: &Request) -> Answer {
    let holder = request.holder()?;
    let authority = if request.flag("force")? { Authority::Force } else { Authority::Holder };
    if run_task(host, &holder).await?.is_some() {
        host.desk.promise(&holder);
        return Ok(json!({ "task_id": holder.task, "requested": true }));
    }
    match (&host.duty, authority) {
        (Duty::Daemon(daemon), _) => judged(host, daemon, holder, authority).await,
        // Its check would run in the tree that an agent is working in.
        (Duty::Run, Authority::Force) => Err(wire::busy()),
        (Duty::Run, Authority::Holder) => {
            let (proof, unchecked) = (Proof::Word, Unchecked::Forbidden);
            let complete = Complete { holder, authority, proof, unchecked, commit: None };
            apply(host, Command::Complete(complete)).await
        }
    }
}

async fn judged(host: &Host, daemon: &Arc<Daemon>, holder: Holder, authority: Authority) -> Answer {
    let _turn = daemon.turn(&holder.task).await;
    let settings = (daemon.surroundings.settings)()?;
    let cancel = Cancel::new()?;
    // Also when nobody waits for the answer any more.
    let _stop = StopOnDrop(cancel.clone());
    let clerk = ByWriter {
        writer: Arc::clone(&host.writer),
        daemon: Arc::clone(daemon),
        root: host.root.clone(),
        cancel: cancel.clone(),
    };
    let lease_seconds = host.lease_seconds;
    let working = tokio::task::spawn_blocking(move || {
        let worktree = || clerk.daemon.worktree.clone();
        let completion = Completion {
            clerk: &clerk,
            root: &clerk.root,
            worktree: &worktree,
            rules: &settings.rules,
            unchecked: settings.unchecked,
            lease_seconds,
            holder,
            authority,
        };
        completion.run()
    });
    tokio::pin!(working);
    let done = tokio::select! {
        done = &mut working => done,
        () = daemon.leaving.cancelled() => {
            cancel.cancel();
            working.await
        }
    };
    let task = done.map_err(|why| why.to_string())??;
    Ok(json!({ "task_id": task }))
}

struct StopOnDrop(Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

struct ByWriter {
    writer: Arc<Writer>,
    daemon: Arc<Daemon>,
    root: PathBuf,
    cancel: Cancel,
}

impl Clerk for ByWriter {
    type Error = Refused;

    fn standing(&self, task: &TaskId) -> Result<Standing, Refused> {
        let id = task.clone();
        Ok(self.writer.look(move |ledger| Standing {
            task: ledger.task(&id).cloned(),
            next_epoch: ledger.next_epoch(),
            session: ledger.head().session_count,
        })?)
    }

    fn apply(&self, command: Command) -> Result<Reply, Refused> {
        Ok(self.writer.apply(command)?)
    }

    fn may_run(&self) -> Result<(), Refused> {
        (self.daemon.surroundings.may_run)()
    }

    fn checking(&self, _: &Task) -> Result<Cancel, Refused> {
        Ok(self.cancel.clone())
    }

    fn workspace(&self, directory: &Path) -> Result<GitWorkspace, Refused> {
        Ok(GitWorkspace::discover(directory, &self.root, self.daemon.filters())?)
    }

    fn warn(&self, text: &str) {
        (self.daemon.surroundings.warn)(text);
    }

    fn tree_of(&self, directory: &Path, commit: &CommitId) -> Option<TreeId> {
        self.daemon.tree_of(commit, || self.workspace(directory).ok()?.tree_of(commit).ok())
    }
}
