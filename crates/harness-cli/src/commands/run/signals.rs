//! Ctrl-C, a closed terminal, a request to end: finish nothing new; asked again, now.

use harness::Hub;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

/// Ends the listening when it is dropped.
pub(super) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn interrupt(hub: &Hub) -> std::io::Result<Listening> {
    let mut ctrl_c = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hub = hub.clone();
    Ok(Listening(tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = ctrl_c.recv() => {}
                _ = hang_up.recv() => {}
                _ = terminate.recv() => {}
            }
            hub.interrupt();
        }
    })))
}
