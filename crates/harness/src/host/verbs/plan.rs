//! Imports plans, whole or not at all.

use harness_core::{Command, Reply, command::Import, plan::Plan};

use super::{
    super::{Daemon, server::Host},
    Handled, state,
};
use crate::{
    process::ancestry::Peer,
    protocol::{Answer, ImportedPlan, PlanText, Refused, ResetPlan},
    store::{Created, FileStore, Locking, StoreError},
};

pub(super) async fn import(host: &Host, daemon: &Daemon, peer: &Peer, plan: PlanText) -> Handled {
    let PlanText { content, mode } = plan;
    let plan = Plan::read(&content)?;
    if state::seen(host, |_| ()).await?.is_none() {
        // A plan that is refused must leave nothing behind.
        plan.check_graph(|_| false)?;
        plan.check_titles()?;
        make(host, daemon).await?;
    }
    let import = Import { plan, mode, by: Some(peer.author()) };
    let written = host.writer.write_async(Command::Import(import)).await?;
    let Reply::Imported { goal, task_count, warnings, tasks } = written.reply else {
        return Err("unexpected answer".into());
    };
    let archive = written.archived.map(|path| host.root.join(path));
    Ok(Answer::Imported(ImportedPlan { goal, task_count, warnings, archive, tasks }))
}

/// Creates ledger, log and marker if there are none.
async fn make(host: &Host, daemon: &Daemon) -> Result<(), Refused> {
    let (root, wait, now) = (host.root.clone(), daemon.lock_wait, daemon.clock.now());
    let home = daemon.surroundings.state_home.clone();
    let create =
        move || FileStore::open_with(&root, Locking::Each(wait), home.as_deref())?.create(now);
    let made: Result<Created, StoreError> =
        tokio::task::spawn_blocking(create).await.map_err(|why| why.to_string())?;
    match made.map_err(|why| why.to_string())? {
        Created::New => (daemon.surroundings.made)(),
        // Another process was faster, and we must not trust its ledger.
        Created::Existed => {}
    }
    Ok(())
}

pub(super) async fn reset(host: &Host) -> Handled {
    let written = host.writer.write_async(Command::Reset).await?;
    let Reply::Reset { task_count } = written.reply else {
        return Err("unexpected answer".into());
    };
    let archive = written.archived.map(|path| host.root.join(path));
    Ok(Answer::Reset(ResetPlan::new(task_count, archive)))
}
