//! Streams events.

use std::{collections::BTreeMap, io};

use super::super::{
    prompts,
    server::{Client, Host},
};
use crate::{
    event::Envelope,
    hub::{EventStream, Filter, StreamItem, lagged},
    protocol::Subscribe,
};

/// Streams until the client leaves or the host ends. Every line is an event, or `lagged` if some
/// are missing.
pub(in super::super) async fn subscribe(
    host: &Host,
    Subscribe { filter, since }: Subscribe,
    client: &mut Client,
) -> io::Result<()> {
    let filter = filter.map_or_else(Filter::all, |kinds| Filter::from(&kinds[..]));
    let mut events = match since {
        None => host.hub.events_matching(filter),
        Some(last) => {
            let (later, missed, events) = host.hub.events_since(last, filter);
            if missed != Some(0) {
                client.line(&lagged(missed, &BTreeMap::new())).await?;
            }
            for envelope in later {
                tell(client, &envelope).await?;
            }
            events
        }
    };
    stream(client, &mut events).await
}

async fn stream(client: &mut Client, events: &mut EventStream) -> io::Result<()> {
    loop {
        let item = tokio::select! {
            biased;
            item = events.next() => item,
            () = client.gone() => return Ok(()),
            () = client.stopped() => return Ok(()),
        };
        match item {
            None => return Ok(()),
            Some(StreamItem::Lagged { missed, kinds }) => {
                client.line(&lagged(Some(missed), &kinds)).await?;
            }
            Some(StreamItem::Event(envelope)) => tell(client, &envelope).await?,
        }
    }
}

async fn tell(client: &mut Client, envelope: &Envelope) -> io::Result<()> {
    client.line(&prompts::line(envelope)).await
}
