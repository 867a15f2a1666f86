//! Six scenarios of a harness named `test-harness`.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use harness::{Agent, Cx, Event, Execution, Harness, Hub, HubStatus, Named, Result, named};
use serde_json::{Value, json};

use crate::seen::{S, Seen, complete, events_are, on_start, outside};

struct Input {
    value: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct State {
    count: u32,
}

#[test]
fn conformance_harness_factory() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let flow = Harness::define("test-harness")
        .state(move |input: &Input| {
            counted.fetch_add(1, Ordering::Relaxed);
            State { count: input.value }
        })
        .run(async |_: &mut Cx<'_, State, ()>| Ok(()));
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let instance = flow.create_in(hub, Input { value: 42 });
    assert_eq!(instance.state, State { count: 42 });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    seen.exactly(&[]);
    // It can do everything that a hub can.
    assert_eq!(instance.status(), HubStatus::Idle);
    instance.emit(Event::custom("x", Value::Null));
    seen.exactly(&[(outside(), json!({ "type": "x" }))]);
}

#[test]
fn conformance_harness_attachment() {
    let flow = Harness::define("test-harness")
        .state(|(): &()| ())
        .run(async |_: &mut Cx<'_, (), ()>| Ok(()));
    let mut seen = None;
    let instance = flow.create_in(Hub::new(S), ()).attach(|hub| seen = Some(Seen::on(hub)));
    let seen = seen.expect("it was called at once");
    instance.emit(Event::custom("test:event", Value::Null));
    seen.exactly(&[(outside(), json!({ "type": "test:event" }))]);
}

#[test]
fn conformance_harness_session() {
    let flow = Harness::define("test-harness")
        .state(|(): &()| ())
        .run(async |_: &mut Cx<'_, (), ()>| Ok(()));
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let instance = flow.create_in(hub, ()).start_session();
    instance.send("test message");
    assert!(instance.session_active());
    seen.exactly(&[(outside(), json!({ "type": "session:message", "content": "test message" }))]);
}

#[tokio::test(start_paused = true)]
async fn conformance_harness_run_lifecycle() {
    let flow = Harness::define("test-harness")
        .state(|(): &()| json!({ "initialized": true }))
        .run(async |_: &mut Cx<'_, Value, ()>| Ok(json!({ "result": "success" })));
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let done = flow.create_in(hub, ()).run().await.unwrap();
    let expected =
        [(outside(), json!({ "type": "harness:start", "name": "test-harness" })), complete()];
    seen.exactly(&expected);
    events_are(&done.events, &expected);
    assert_eq!(done.result, json!({ "result": "success" }));
    assert_eq!(done.state, json!({ "initialized": true }));
    assert_eq!(done.status, HubStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn conformance_harness_phase_task() {
    let flow =
        Harness::define("test-harness").state(|(): &()| ()).run(async |cx: &mut Cx<'_, (), ()>| {
            cx.phase("Planning", async |cx| {
                cx.task("plan", async |cx| {
                    cx.emit(Event::custom("custom:event", json!({ "data": "test" })));
                    Ok("planned")
                })
                .await
            })
            .await
        });
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let done = flow.create_in(hub, ()).run().await.unwrap();
    let planning = json!({ "sessionId": S, "phase": { "name": "Planning" } });
    let both = json!({ "sessionId": S, "phase": { "name": "Planning" }, "task": { "id": "plan" } });
    let expected = [
        (outside(), json!({ "type": "harness:start", "name": "test-harness" })),
        (outside(), json!({ "type": "phase:start", "name": "Planning" })),
        (planning.clone(), json!({ "type": "task:start", "taskId": "plan" })),
        (both, json!({ "type": "custom:event", "data": "test" })),
        (planning, json!({ "type": "task:complete", "taskId": "plan", "result": "planned" })),
        (outside(), json!({ "type": "phase:complete", "name": "Planning" })),
        complete(),
    ];
    seen.exactly(&expected);
    events_are(&done.events, &expected);
}

struct Echo;

impl Agent for Echo {
    type Input = &'static str;
    type Output = (String, String);

    async fn execute(
        &self,
        input: &'static str,
        execution: &mut Execution,
    ) -> Result<(String, String)> {
        let message = execution.inbox().pop().await.ok_or("no message came")?;
        Ok((execution.id().to_string(), format!("{input}:{}", message.content)))
    }
}

struct Team {
    echo: Named<Echo>,
}

/// The message for an execution exists before the next one starts. Nevertheless both have started
/// before either is complete.
#[tokio::test(start_paused = true)]
async fn conformance_harness_inbox_routing() {
    let flow = Harness::define("test-harness")
        .agents(Team { echo: named("echo", Echo) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Team>| {
            let one = cx.execute(|team| &team.echo, "one");
            let two = cx.execute(|team| &team.echo, "two");
            let (one, two) = tokio::join!(biased; one, two);
            Ok([one?, two?])
        });
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    on_start(&hub, |hub, run| {
        _ = match run {
            "run-0" => hub.send_to_run(run, "first"),
            _ => hub.send_to_run(run, "second"),
        };
    });
    let done = flow.create_in(hub, ()).run().await.unwrap();
    let expected = [("run-0", "one:first"), ("run-1", "two:second")];
    assert_eq!(done.result, expected.map(|(id, answer)| (id.to_owned(), answer.to_owned())));
    let agent = |kind: &str, run: &str| json!({ "type": kind, "agentName": "echo", "runId": run });
    let ended = |run: &str| json!({ "type": "agent:complete", "agentName": "echo", "success": true, "runId": run });
    let expected = [
        (outside(), json!({ "type": "harness:start", "name": "test-harness" })),
        (outside(), agent("agent:start", "run-0")),
        (outside(), agent("agent:start", "run-1")),
        (outside(), ended("run-0")),
        (outside(), ended("run-1")),
        complete(),
    ];
    seen.exactly(&expected);
    events_are(&done.events, &expected);
}
