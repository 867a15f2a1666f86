//! The cost of emitting an event, compared with tokio's broadcast channel.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use harness::{Envelope, Event, Hub};

use crate::{Effort, report::Report};

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let events = effort.rounds(1_000_000);
    let hub = Hub::new("bench");
    let heard = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&heard);
    hub.subscribe("*", move |_: &Envelope| _ = counted.fetch_add(1, Ordering::Relaxed)).forever();
    let mut each = Vec::with_capacity(events);
    for _ in 0..events {
        let event = text();
        let started = Instant::now();
        hub.emit(event);
        each.push(started.elapsed());
    }
    if heard.load(Ordering::Relaxed) != u64::try_from(events)? {
        return Err("events were lost".into());
    }
    let started = Instant::now();
    (0..events).for_each(|_| hub.emit(text()));
    let per_event = started.elapsed() / u32::try_from(events)?;
    report.ratio(
        "hub: an event, one subscriber / tokio broadcast",
        per_event,
        broadcast(events)?,
        10.0,
    );
    report.absolute(
        "hub: an event, one subscriber (1 M events/s)",
        per_event,
        Duration::from_micros(1),
    );
    each.sort_unstable();
    let p99 = each[events * 99 / 100];
    report.absolute("hub: emit, p99", p99, Duration::from_micros(5));
    Ok(())
}

fn text() -> Event {
    Event::AgentText { content: "a line of text".into(), run_id: None }
}

/// Sends the same event through a channel that is made for it.
fn broadcast(events: usize) -> Result<Duration, Box<dyn Error>> {
    let (sender, mut receiver) = tokio::sync::broadcast::channel(1024);
    let started = Instant::now();
    for _ in 0..events {
        sender.send(Arc::new(text()))?;
        receiver.try_recv()?;
    }
    Ok(started.elapsed() / u32::try_from(events)?)
}
