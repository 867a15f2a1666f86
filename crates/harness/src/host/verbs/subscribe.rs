//! Events as they come.

use std::io;

use serde_json::{Value, json};

use super::super::{
    prompts,
    request::Request,
    server::{Client, Host},
    wire,
};
use crate::{
    event::Envelope,
    hub::{EventStream, Filter, StreamItem},
};

/// Until the client goes or the host ends. There is no line but events, and `lagged` where some are
/// missing.
pub(in super::super) async fn subscribe(
    host: &Host,
    request: &Request,
    client: &mut Client,
) -> io::Result<()> {
    let (filter, since) = match wanted(request) {
        Ok(wanted) => wanted,
        Err(message) => return client.refuse(message).await,
    };
    let mut events = match since {
        None => host.hub.events(),
        Some(last) => {
            let (later, missed, events) = host.hub.events_since(last);
            if missed != Some(0) {
                client.line(&wire::lagged(missed)).await?;
            }
            for envelope in later {
                tell(client, &filter, &envelope).await?;
            }
            events
        }
    };
    stream(client, &filter, &mut events).await
}

fn wanted(request: &Request) -> Result<(Filter, Option<uuid::Uuid>), String> {
    let filter = match request.get("filter") {
        None => Filter::all(),
        Some(Value::String(one)) => Filter::from(one.as_str()),
        Some(_) => Filter::from(&request.texts("filter")?.unwrap_or_default()[..]),
    };
    let since = request.text("since")?.map(|id| uuid::Uuid::parse_str(&id)).transpose();
    Ok((filter, since.map_err(|_| "since must be the id of an event".to_owned())?))
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
            Some(StreamItem::Lagged { missed }) => client.line(&wire::lagged(Some(missed))).await?,
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
