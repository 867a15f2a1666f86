//! The events that a `*` subscriber receives.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use harness::{Envelope, Hub, hub::Subscription};
use serde_json::{Value, json};

pub(crate) const S: &str = "session-under-test";

pub(crate) struct Seen(Arc<Mutex<Vec<Value>>>);

impl Seen {
    /// Subscribes to everything, for as long as the hub lives.
    pub(crate) fn on(hub: &Hub) -> Self {
        Self::only(hub, "*")
    }

    pub(crate) fn only(hub: &Hub, filter: impl Into<harness::hub::Filter>) -> Self {
        let (seen, subscription) = Self::subscribed(hub, filter);
        subscription.forever();
        seen
    }

    /// Subscribes to everything until the subscription ends.
    pub(crate) fn until_ended(hub: &Hub) -> (Self, Subscription) {
        Self::subscribed(hub, "*")
    }

    fn subscribed(hub: &Hub, filter: impl Into<harness::hub::Filter>) -> (Self, Subscription) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&seen);
        let hear = move |e: &Envelope| into.lock().unwrap().push(serde_json::to_value(e).unwrap());
        (Self(seen), hub.subscribe(filter, hear))
    }

    /// Compares context and event of all exactly, and checks ids and times.
    #[track_caller]
    pub(crate) fn exactly(&self, expected: &[(Value, Value)]) {
        check(&self.0.lock().unwrap(), expected);
    }
}

/// Does the same for the events of a result.
#[track_caller]
pub(crate) fn events_are(events: &[Arc<Envelope>], expected: &[(Value, Value)]) {
    let events: Vec<Value> = events.iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    check(&events, expected);
}

#[track_caller]
fn check(seen: &[Value], expected: &[(Value, Value)]) {
    let comparable = |e: &Value| (e["context"].clone(), e["event"].clone());
    assert_eq!(seen.iter().map(comparable).collect::<Vec<_>>(), expected);
    let ids: BTreeSet<&str> = seen.iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), seen.len(), "each event has an id of its own");
    assert!(ids.iter().all(|id| uuid::Uuid::parse_str(id).is_ok()));
    let times: Vec<&str> = seen.iter().map(|e| e["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "time never runs backwards: {times:?}");
}

/// Returns the end of a run on a paused clock, as in all these scenarios.
pub(crate) fn complete() -> (Value, Value) {
    (outside(), json!({ "type": "harness:complete", "success": true, "durationMs": 0 }))
}

/// Returns the context outside of all scopes.
pub(crate) fn outside() -> Value {
    json!({ "sessionId": S })
}

/// Sends messages to an execution from inside the listener of its `agent:start`.
pub(crate) fn on_start(hub: &Hub, send: impl Fn(&Hub, &str) + Send + Sync + 'static) {
    let speaker = hub.clone();
    hub.subscribe("agent:start", move |e: &Envelope| {
        let harness::Event::AgentStart { run_id, .. } = &e.event else { return };
        send(&speaker, &run_id.to_string());
    })
    .forever();
}
