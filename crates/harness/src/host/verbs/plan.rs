//! Plans, taken in whole or not at all.

use harness_core::{
    Command, Reply,
    command::{Import, ImportMode},
    plan::Plan,
};
use serde_json::json;

use super::{
    super::{
        Daemon,
        request::{Answer, Request},
        server::Host,
        wire::Refused,
    },
    state,
};
use crate::{
    process::ancestry::Peer,
    store::{Created, FileStore, Locking, StoreError},
};

pub(super) async fn import(host: &Host, daemon: &Daemon, peer: &Peer, request: &Request) -> Answer {
    let content = request.content()?;
    let mode = match (request.flag("replace")?, request.flag("merge")?) {
        (true, true) => return Err("replace and merge exclude each other".into()),
        (true, false) => ImportMode::Replace,
        (false, true) => ImportMode::Merge,
        (false, false) => ImportMode::IfFinished,
    };
    let plan = Plan::read(&content).map_err(|why| why.to_string())?;
    if state::seen(host, |_| ()).await?.is_none() {
        // A plan that is refused must leave nothing behind.
        plan.check_graph(|_| false).map_err(|why| why.to_string())?;
        make(host, daemon).await?;
    }
    let import = Import { plan, mode, by: Some(peer.author()) };
    let written = host.writer.write_async(Command::Import(import)).await?;
    let Reply::Imported { goal, task_count, warnings } = written.reply else {
        return Err("unexpected answer".into());
    };
    let mut data = json!({ "goal": goal, "task_count": task_count });
    if !warnings.is_empty() {
        data["warnings"] = json!(warnings);
    }
    if let Some(path) = written.archived {
        data["archive"] = host.root.join(path).display().to_string().into();
    }
    Ok(data)
}

/// Ledger, log and marker where there are none.
async fn make(host: &Host, daemon: &Daemon) -> Result<(), Refused> {
    let (root, wait, now) = (host.root.clone(), daemon.lock_wait, daemon.clock.now());
    let home = daemon.surroundings.state_home.clone();
    let create =
        move || FileStore::open_with(&root, Locking::Each(wait), home.as_deref())?.create(now);
    let made: Result<Created, StoreError> =
        tokio::task::spawn_blocking(create).await.map_err(|why| why.to_string())?;
    match made.map_err(|why| why.to_string())? {
        Created::New => (daemon.surroundings.made)(),
        // Somebody else was faster, and theirs is not ours to trust.
        Created::Existed => {}
    }
    Ok(())
}

pub(super) async fn reset(host: &Host, _: &Daemon) -> Answer {
    let written = host.writer.write_async(Command::Reset).await?;
    let Reply::Reset { task_count } = written.reply else {
        return Err("unexpected answer".into());
    };
    let message = format!("Plan reset ({task_count} tasks)");
    let mut data = json!({ "message": message, "task_count": task_count });
    if let Some(path) = written.archived {
        data["archive"] = host.root.join(path).display().to_string().into();
    }
    Ok(data)
}
