//! Ends a daemon on request.

use harness_core::task::{Status, Via};

use super::{
    super::{Daemon, server::Host},
    Handled, state,
};
use crate::protocol::{Answer, Refused};

pub(super) fn shutdown(daemon: &Daemon) -> Answer {
    daemon.close();
    daemon.leaving.cancel();
    Answer::Shutdown { shutdown: true }
}

/// Ends the daemon for a run, which needs the ledger exclusively. It is refused while a worker
/// holds one of its tasks.
pub(super) async fn make_way(host: &Host, daemon: &Daemon) -> Handled {
    // This comes first, so that no claim is made between the look and the end.
    daemon.close();
    let (now, given) = (daemon.clock.now(), daemon.given());
    let seen = state::seen(host, move |ledger| {
        let claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
        let mut live = claimed.filter(|task| {
            task.status() == Status::InProgress
                && task.claimed_via() == Via::Client
                && (task.lease_expires_at().is_some_and(|end| end > now)
                    || given.contains(&task.id))
        });
        live.next().map(|task| (task.id.clone(), task.claimed_by().cloned()))
    });
    let refused = match seen.await {
        Ok(None | Some(None)) => {
            daemon.leaving.cancel();
            return Ok(Answer::Nothing {});
        }
        Ok(Some(Some((task, worker)))) => {
            let worker = worker.map_or("nobody".to_owned(), |worker| worker.to_string());
            let hint = format!("wait for it, or take it back: `harness task release {task}`");
            let message = format!("task {task} is claimed by {worker}");
            Refused { hints: vec![hint], ..Refused::from(message) }
        }
        Err(why) => why,
    };
    daemon.open_again();
    Err(refused)
}
