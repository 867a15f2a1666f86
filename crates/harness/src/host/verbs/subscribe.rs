//! Events as they come.

use std::io;

use serde_json::json;

use super::super::{
    prompts,
    server::{Client, Host},
};
use crate::{
    event::Envelope,
    hub::{EventStream, Filter, StreamItem, lagged},
    protocol::Subscribe,
};

/// Until the client goes or the host ends. There is no line but events, and `lagged` where some are
/// missing.
pub(in super::super) async fn subscribe(
    host: &Host,
    Subscribe { filter, since }: Subscribe,
    client: &mut Client,
) -> io::Result<()> {
    let filter = filter.map_or_else(Filter::all, |kinds| Filter::from(&kinds[..]));
    let mut events = match since {
        None => host.hub.events(),
        Some(last) => {
            let (later, missed, events) = host.hub.events_since(last);
            if missed != Some(0) {
                client.line(&lagged(missed)).await?;
            }
            for envelope in later {
                tell(client, &filter, &envelope).await?;
            }
            events
        }
    };
    stream(client, &filter, &mut events).await
}

async fn stream(client: &mut Client, filter: &Filter, events: &mut EventStream) -> io::Result<()> {
    loop {
        let item = tokio::select! {
            biased;
            item = events.next() => item,
            () = client.gone() => return Ok(()),
            () = client.stopped() => return Ok(()),
        };
        match item {
            None => return Ok(()),
            Some(StreamItem::Lagged { missed }) => client.line(&lagged(Some(missed))).await?,
            Some(StreamItem::Event(envelope)) => tell(client, filter, &envelope).await?,
        }
    }
}

async fn tell(client: &mut Client, filter: &Filter, envelope: &Envelope) -> io::Result<()> {
    if !filter.matches(envelope.event.kind()) {
        return Ok(());
    }
    let mut line = json!(envelope);
    prompts::rename(&mut line);
    client.line(&line).await
}
