//! Two scenarios of agents and their inboxes.

use harness::{Agent, Cx, Envelope, Event, Execution, Harness, Hub, Named, Result, named};
use serde_json::{Value, json};

use crate::seen::{S, Seen, Started, events_are, outside};

struct Receiver;

impl Agent for Receiver {
    type Input = ();
    type Output = Vec<String>;

    async fn execute(&self, (): (), execution: &mut Execution) -> Result<Vec<String>> {
        let first = execution.inbox().pop().await.ok_or("no first")?;
        let rest = execution.inbox().drain();
        let id = execution.id().to_string();
        execution.hub().send_to_run(id, "third");
        let third = execution.inbox().stream().next().await.ok_or("no third")?;
        let all = std::iter::once(first).chain(rest).chain([third]);
        Ok(all.map(|m| m.content).collect())
    }
}

struct One {
    receiver: Named<Receiver>,
}

#[tokio::test]
async fn conformance_agent_inbox_basic() {
    let flow = Harness::define("test-harness")
        .agents(One { receiver: named("receiver", Receiver) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), One>| cx.execute(|a| &a.receiver, ()).await);
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    let speaker = hub.clone();
    hub.subscribe("agent:start", move |e: &Envelope| {
        let Event::AgentStart { run_id, .. } = &e.event else { return };
        // From inside the listener: the inbox is there before the event.
        speaker.send_to_run(run_id.to_string(), "first");
        speaker.send_to_run(run_id.to_string(), "second");
    })
    .forever();
    let done = flow.create_in(hub, ()).run().await.unwrap();
    assert_eq!(done.result, ["first", "second", "third"]);
    let expected = [
        (outside(), json!({ "type": "harness:start", "name": "test-harness" })),
        (outside(), json!({ "type": "agent:start", "agentName": "receiver", "runId": "run-0" })),
        (
            outside(),
            json!({ "type": "agent:complete", "agentName": "receiver", "success": true, "runId": "run-0" }),
        ),
        (outside(), json!({ "type": "harness:complete", "success": true })),
    ];
    seen.exactly(&expected);
    events_are(&done.events, &expected);
}

struct OneMessage;

impl Agent for OneMessage {
    type Input = ();
    type Output = (String, String);

    async fn execute(&self, (): (), execution: &mut Execution) -> Result<(String, String)> {
        let message = execution.inbox().pop().await.ok_or("no message")?;
        assert!(execution.inbox().drain().is_empty(), "it read only its own");
        Ok((execution.id().to_string(), message.content))
    }
}

struct Pair {
    receiver: Named<OneMessage>,
}

#[tokio::test]
async fn conformance_agent_runid_uniqueness() {
    let flow = Harness::define("test-harness")
        .agents(Pair { receiver: named("receiver", OneMessage) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Pair>| {
            let (a, b) =
                tokio::join!(biased; cx.execute(|p| &p.receiver, ()), cx.execute(|p| &p.receiver, ()));
            Ok([a?, b?])
        });
    // A second instance of the same definition counts from run-0 again.
    for _ in 0..2 {
        let hub = Hub::new(S);
        let seen = Seen::on(&hub);
        let (speaker, mut started) = (hub.clone(), Started::on(&hub));
        let speaking = tokio::spawn(async move {
            for id in started.both().await {
                speaker.send_to_run(id.clone(), format!("message:{id}"));
            }
        });
        let done = flow.create_in(hub, ()).run().await.unwrap();
        speaking.await.unwrap();
        let expected = ["run-0", "run-1"].map(|id| (id.to_owned(), format!("message:{id}")));
        assert_eq!(done.result, expected);
        let start =
            |run: &str| json!({ "type": "agent:start", "agentName": "receiver", "runId": run });
        let end = |run: &str| json!({ "type": "agent:complete", "agentName": "receiver", "success": true, "runId": run });
        let around = |event: Value| (outside(), event);
        seen.exactly(&[
            around(json!({ "type": "harness:start", "name": "test-harness" })),
            around(start("run-0")),
            around(start("run-1")),
            around(end("run-0")),
            around(end("run-1")),
            around(json!({ "type": "harness:complete", "success": true })),
        ]);
    }
}
