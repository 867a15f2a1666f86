//! Ctrl-C, a closed terminal and a request to end: the first stops the run in order, the second at
//! once.

use std::sync::Arc;

use harness::{Hub, project::Backing, store::postgres::Waiting};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

use super::view::View;

/// Ends the listening when it is dropped.
pub(super) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn interrupt(
    hub: &Hub,
    view: Arc<View>,
    backing: Backing,
) -> std::io::Result<Listening> {
    let mut ctrl_c = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hub = hub.clone();
    Ok(Listening(tokio::spawn(async move {
        let mut interrupts = hub.interrupts();
        for times in 1.. {
            let is_signal = tokio::select! {
                _ = ctrl_c.recv() => true,
                _ = hang_up.recv() => true,
                _ = terminate.recv() => true,
                // An abort that came over the socket or from another machine.
                changed = interrupts.changed() => changed.is_err(),
            };
            // First the waits end, so that nothing begins another one.
            backing.wait(Waiting::NoLonger);
            if is_signal {
                hub.interrupt();
                interrupts.mark_unchanged();
            }
            view.change(|progress| progress.stops());
            match times {
                1 => view.say(
                    "stopping: the agent is asked to end, and the work so far stays; \
                     press Ctrl-C again to end it at once",
                ),
                2 => view.say("ending everything at once"),
                _ => {}
            }
        }
    })))
}
