//! How long a claim is worth something without a word from its holder.

use crate::{
    Category, Timestamp,
    task::{Task, Via},
};

/// The lease of a session's claim, unless the configuration says otherwise.
pub const SESSION_LEASE_SECONDS: u64 = 1800;
/// The lease of a client's claim on a task that names no `timeout_seconds`.
pub const CLIENT_LEASE_SECONDS: u64 = 600;

/// When a lease granted or renewed now ends. A client's is the task's own, since a client does not
/// send heartbeats while it works. It is rounded up: `now` is cut to the second, and what a client was
/// promised it has.
pub(crate) fn end(task: &Task, session_lease_seconds: u64, now: Timestamp) -> Timestamp {
    match task.claimed_via() {
        Via::Run => now.plus(session_lease_seconds.max(1)),
        Via::Client => {
            let seconds = task.timeout_seconds.unwrap_or(CLIENT_LEASE_SECONDS);
            now.plus(seconds.max(1).saturating_add(1))
        }
    }
}

pub(crate) fn expired_message(task: &Task) -> String {
    let by = task.claimed_by.as_ref().map_or("nobody", |w| w.as_str());
    format!("Lease expired (claimed_by={by})")
}

/// Whether the last thing that happened to this task is that its lease ran out.
pub(crate) fn ran_out(task: &Task) -> bool {
    let entry = format!("[{}] Lease expired", Category::SessionTimeout);
    task.error_log.last().is_some_and(|last| last.starts_with(&entry))
}
