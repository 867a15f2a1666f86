//! What a `*` subscriber sees.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use harness::{Envelope, Hub};
use serde_json::{Value, json};

pub(crate) const S: &str = "session-under-test";

pub(crate) struct Seen(Arc<Mutex<Vec<Value>>>);

impl Seen {
    /// Listens to everything, for as long as the hub lives.
    pub(crate) fn on(hub: &Hub) -> Self {
        Self::only(hub, "*")
    }

    pub(crate) fn only(hub: &Hub, filter: impl Into<harness::hub::Filter>) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&seen);
        let hear = move |e: &Envelope| into.lock().unwrap().push(serde_json::to_value(e).unwrap());
        hub.subscribe(filter, hear).forever();
        Self(seen)
    }

    /// Compares context and event of all, exactly; checks identities and times.
    #[track_caller]
    pub(crate) fn exactly(&self, expected: &[(Value, Value)]) {
        check(&self.0.lock().unwrap(), expected);
    }
}

/// The same for the events that a result holds.
#[track_caller]
pub(crate) fn events_are(events: &[Arc<Envelope>], expected: &[(Value, Value)]) {
    let events: Vec<Value> = events.iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    check(&events, expected);
}

#[track_caller]
fn check(seen: &[Value], expected: &[(Value, Value)]) {
    let comparable = |e: &Value| {
        let mut event = e["event"].clone();
        if let Some(took) = event.get_mut("durationMs")
            && event_type(e) == "harness:complete"
        {
            assert!(took.as_f64().is_some_and(|ms| ms >= 0.0));
            *took = Value::Null;
        }
        (e["context"].clone(), event)
    };
    let wanted = expected.iter().map(|(context, event)| {
        let mut event = event.clone();
        if event["type"] == "harness:complete" {
            event["durationMs"] = Value::Null;
        }
        (context.clone(), event)
    });
    let seen_events: Vec<_> = seen.iter().map(comparable).collect();
    assert_eq!(seen_events, wanted.collect::<Vec<_>>());
    let ids: BTreeSet<&str> = seen.iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), seen.len(), "each event has an id of its own");
    assert!(ids.iter().all(|id| uuid::Uuid::parse_str(id).is_ok()));
    let times: Vec<&str> = seen.iter().map(|e| e["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "time never runs backwards: {times:?}");
}

fn event_type(envelope: &Value) -> &str {
    envelope["event"]["type"].as_str().unwrap()
}

/// The context outside of all scopes.
pub(crate) fn outside() -> Value {
    json!({ "sessionId": S })
}

/// Hears which executions have started.
pub(crate) struct Started(tokio::sync::mpsc::UnboundedReceiver<String>);

impl Started {
    pub(crate) fn on(hub: &Hub) -> Self {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        hub.subscribe("agent:start", move |e: &Envelope| {
            let harness::Event::AgentStart { run_id, .. } = &e.event else { return };
            sender.send(run_id.to_string()).unwrap();
        })
        .forever();
        Self(receiver)
    }

    pub(crate) async fn both(&mut self) -> [String; 2] {
        [self.0.recv().await.unwrap(), self.0.recv().await.unwrap()]
    }
}
