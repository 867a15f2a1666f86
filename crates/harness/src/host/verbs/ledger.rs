//! The requests of the ledger's authors.

use harness_core::{
    Command, TaskId,
    command::{
        Add, ConfigureSession, Edit, EditPhase, Pause, Release, Remove, RemovePhase, Resume, Retry,
    },
};

use super::{super::server::Host, Handled, apply};
use crate::{process::ancestry::Peer, protocol::TaskReason};

pub(super) async fn add(host: &Host, peer: &Peer, add: Add) -> Handled {
    let fields = Edit { by: Some(peer.author()), ..add.fields };
    apply(host, Command::Add(Add { fields, ..add })).await
}

pub(super) async fn edit(host: &Host, peer: &Peer, edit: Edit) -> Handled {
    apply(host, Command::Edit(Edit { by: Some(peer.author()), ..edit })).await
}

pub(super) async fn edit_phase(host: &Host, peer: &Peer, edit: EditPhase) -> Handled {
    apply(host, Command::EditPhase(EditPhase { by: Some(peer.author()), ..edit })).await
}

pub(super) async fn remove_phase(host: &Host, peer: &Peer, name: String) -> Handled {
    apply(host, Command::RemovePhase(RemovePhase { name, by: Some(peer.author()) })).await
}

pub(super) async fn configure(host: &Host, peer: &Peer, of: ConfigureSession) -> Handled {
    let by = Some(peer.author());
    apply(host, Command::ConfigureSession(ConfigureSession { by, ..of })).await
}

pub(super) async fn pause(host: &Host, peer: &Peer) -> Handled {
    apply(host, Command::Pause(Pause { by: Some(peer.author()) })).await
}

pub(super) async fn resume(host: &Host, peer: &Peer) -> Handled {
    apply(host, Command::Resume(Resume { by: Some(peer.author()) })).await
}

pub(super) async fn remove(host: &Host, task: TaskId) -> Handled {
    apply(host, Command::Remove(Remove { task })).await
}

pub(super) async fn retry(host: &Host, TaskReason { task_id, reason }: TaskReason) -> Handled {
    let reason = reason.unwrap_or_else(|| "retried by hand".to_owned());
    apply(host, Command::Retry(Retry { task: task_id, reason })).await
}

/// Releases a claim, but not that of an agent of this process: the next task would begin in a tree
/// full of this one's changes.
pub(super) async fn release(host: &Host, TaskReason { task_id, reason }: TaskReason) -> Handled {
    if host.desk.works_on(&task_id) {
        return Err(format!(
            "Task {task_id} is being worked on by this session: `harness task fail` ends the attempt, \
             `harness abort` the session"
        )
        .into());
    }
    let reason = reason.unwrap_or_else(|| "released by hand".to_owned());
    apply(host, Command::Release(Release { task: task_id, holder: None, reason })).await
}
