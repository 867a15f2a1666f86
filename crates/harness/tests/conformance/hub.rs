//! Seven scenarios of the hub alone.

use harness::{Event, Hub, HubStatus, Scope, hub::StreamItem};
use serde_json::{Value, json};

use crate::seen::{S, Seen, events_are, outside};

fn start() -> Event {
    Event::HarnessStart { name: "test".into() }
}

fn start_json() -> Value {
    json!({ "type": "harness:start", "name": "test" })
}

fn complete() -> Event {
    Event::HarnessComplete { success: true, duration_ms: 100 }
}

fn complete_json() -> Value {
    json!({ "type": "harness:complete", "success": true, "durationMs": 100 })
}

#[test]
fn conformance_hub_subscribe_basic() {
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    hub.emit(start());
    seen.exactly(&[(outside(), start_json())]);
}

#[test]
fn conformance_hub_subscribe_filter() {
    let hub = Hub::new(S);
    let agents = Seen::only(&hub, "agent:*");
    let both = Seen::only(&hub, ["agent:*", "harness:*"]);
    let exact = Seen::only(&hub, "agent:start");
    let bare = Seen::only(&hub, "agent:");
    let agent =
        Event::AgentStart { agent_name: "test".into(), run_id: harness::event::ExecutionId(1) };
    let agent_json =
        (outside(), json!({ "type": "agent:start", "agentName": "test", "runId": "run-1" }));
    hub.emit(agent);
    hub.emit(start());
    agents.exactly(std::slice::from_ref(&agent_json));
    let tool = Event::AgentToolStart { tool_name: "t".into(), input: None, run_id: None };
    hub.emit(tool);
    let tool_json = (outside(), json!({ "type": "agent:tool:start", "toolName": "t" }));
    agents.exactly(&[agent_json.clone(), tool_json.clone()]);
    both.exactly(&[agent_json.clone(), (outside(), start_json()), tool_json]);
    exact.exactly(&[agent_json]);
    bare.exactly(&[]);
}

#[tokio::test]
async fn conformance_hub_scoped_context() {
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let phase = || Event::PhaseStart { name: "Planning".into(), phase_number: None };
    let inside = hub.scoped(Scope::phase("Planning"));
    inside.emit(phase());
    hub.emit_with(phase(), Scope::phase("Planning"));
    let nested = inside.scoped(Scope::task("t"));
    nested.emit(start());
    tokio::task::yield_now().await;
    nested.emit(start());
    let branch = nested.clone();
    tokio::spawn(async move { branch.emit(start()) }).await.unwrap();
    assert_eq!(serde_json::to_value(hub.current()).unwrap(), outside());
    let planning = json!({ "sessionId": S, "phase": { "name": "Planning" } });
    let both = json!({ "sessionId": S, "phase": { "name": "Planning" }, "task": { "id": "t" } });
    let phase_json = json!({ "type": "phase:start", "name": "Planning" });
    seen.exactly(&[
        (planning.clone(), phase_json.clone()),
        (planning, phase_json),
        (both.clone(), start_json()),
        (both.clone(), start_json()),
        (both, start_json()),
    ]);
}

#[test]
fn conformance_hub_unsubscribe() {
    let hub = Hub::new(S);
    let (ended, subscription) = Seen::until_ended(&hub);
    let other = Seen::on(&hub);
    hub.emit(start());
    subscription.end();
    subscription.end();
    hub.emit(complete());
    ended.exactly(&[(outside(), start_json())]);
    other.exactly(&[(outside(), start_json()), (outside(), complete_json())]);
}

#[tokio::test]
async fn conformance_hub_stream() {
    let hub = Hub::new(S);
    let (mut one, mut two) = (hub.events(), hub.events());
    drop(hub.events());
    hub.emit(start());
    hub.emit(complete());
    for stream in [&mut one, &mut two] {
        let mut events = Vec::new();
        for _ in 0..2 {
            let Some(StreamItem::Event(envelope)) = stream.next().await else { panic!() };
            events.push(envelope);
        }
        events_are(&events, &[(outside(), start_json()), (outside(), complete_json())]);
    }
    drop(one);
    hub.emit(start());
    assert!(matches!(two.next().await, Some(StreamItem::Event(_))));
}

#[test]
fn conformance_hub_commands() {
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let say = || {
        hub.send("message");
        hub.send_to("agent", "message");
        hub.send_to_run("runId", "message");
    };
    say();
    seen.exactly(&[]);
    hub.start_session();
    say();
    seen.exactly(&[
        (outside(), json!({ "type": "session:message", "content": "message" })),
        (
            outside(),
            json!({ "type": "session:message", "content": "message", "agentName": "agent" }),
        ),
        (outside(), json!({ "type": "session:message", "content": "message", "runId": "runId" })),
    ]);
}

#[test]
fn conformance_hub_status() {
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    assert_eq!((hub.status(), hub.session_active()), (HubStatus::Idle, false));
    hub.start_session();
    assert!(hub.session_active());
    hub.set_status(HubStatus::Running);
    assert_eq!((hub.status(), hub.session_active()), (HubStatus::Running, true));
    seen.exactly(&[]);
}
