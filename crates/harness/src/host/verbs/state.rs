//! The requests that only read.

use harness_core::Ledger;

use super::{super::server::Host, Handled};
use crate::{
    protocol::{Answer, Refused, StateView, StatusView},
    store::{StoreError, WriterError},
    trajectory,
};

/// Returns the result of `look` on the current ledger; `None` if there is none.
pub(super) async fn seen<T: Send + 'static>(
    host: &Host,
    look: impl FnOnce(&Ledger) -> T + Send + 'static,
) -> Result<Option<T>, Refused> {
    match host.writer.look_async(look).await {
        Ok(seen) => Ok(Some(seen)),
        Err(WriterError::Store(why)) if matches!(*why, StoreError::NoLedger { .. }) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

pub(super) async fn get_state(host: &Host) -> Handled {
    Ok(Answer::State(seen(host, |ledger| StateView::from(ledger)).await?))
}

pub(super) async fn status(host: &Host, event_count: Option<u64>) -> Handled {
    let count = StatusView::events_wanted(event_count);
    let root = host.root.clone();
    let events = tokio::task::spawn_blocking(move || trajectory::last(&root, count)).await;
    let events = events.map_err(|why| why.to_string())?.unwrap_or_default();
    let status = seen(host, |ledger| StatusView::from(ledger)).await?.unwrap_or_default();
    Ok(Answer::Status(StatusView { events, ..status }))
}
