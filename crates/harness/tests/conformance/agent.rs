//! Two scenarios of agents and their inboxes.

use std::time::Duration;

use harness::{Agent, Cx, Execution, Harness, Hub, Named, Result, named};
use serde_json::{Value, json};

use crate::seen::{S, Seen, complete, events_are, on_start, outside};

/// The messages that it read, by the way in which it read them.
#[derive(Debug, PartialEq)]
struct Read {
    popped: String,
    drained: Vec<String>,
    streamed: String,
}

struct Receiver;

impl Agent for Receiver {
    type Input = ();
    type Output = Read;

    async fn execute(&self, (): (), execution: &mut Execution) -> Result<Read> {
        let popped = execution.inbox().pop().await.ok_or("no first")?.content;
        let drained = execution.inbox().drain().into_iter().map(|m| m.content).collect();
        let streamed = execution.inbox().stream().next().await.ok_or("no third")?.content;
        Ok(Read { popped, drained, streamed })
    }
}

struct One {
    receiver: Named<Receiver>,
}

/// The clock stands still until everything waits, so the third message is sent after the drain.
#[tokio::test(start_paused = true)]
async fn conformance_agent_inbox_basic() {
    const LATER: Duration = Duration::from_millis(10);
    let flow = Harness::define("test-harness")
        .agents(One { receiver: named("receiver", Receiver) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), One>| cx.execute(|a| &a.receiver, ()).await);
    let hub = Hub::new(S);
    let seen = Seen::on(&hub);
    on_start(&hub, |hub, run| {
        hub.send_to_run(run, "first");
        hub.send_to_run(run, "second");
        let (hub, run) = (hub.clone(), run.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(LATER).await;
            hub.send_to_run(run, "third");
        });
    });
    let done = flow.create_in(hub, ()).run().await.unwrap();
    let expected =
        Read { popped: "first".into(), drained: vec!["second".into()], streamed: "third".into() };
    assert_eq!(done.result, expected);
    assert_eq!(done.duration, LATER);
    let (context, mut end) = complete();
    end["durationMs"] = json!(10);
    let expected = [
        (outside(), json!({ "type": "harness:start", "name": "test-harness" })),
        (outside(), json!({ "type": "agent:start", "agentName": "receiver", "runId": "run-0" })),
        (
            outside(),
            json!({ "type": "agent:complete", "agentName": "receiver", "success": true, "runId": "run-0" }),
        ),
        (context, end),
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

#[tokio::test(start_paused = true)]
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
        on_start(&hub, |hub, run| _ = hub.send_to_run(run, format!("message:{run}")));
        let done = flow.create_in(hub, ()).run().await.unwrap();
        let expected = ["run-0", "run-1"].map(|id| (id.to_owned(), format!("message:{id}")));
        assert_eq!(done.result, expected);
        let start =
            |run: &str| json!({ "type": "agent:start", "agentName": "receiver", "runId": run });
        let end = |run: &str| json!({ "type": "agent:complete", "agentName": "receiver", "success": true, "runId": run });
        let around = |event: Value| (outside(), event);
        let expected = [
            around(json!({ "type": "harness:start", "name": "test-harness" })),
            around(start("run-0")),
            around(start("run-1")),
            around(end("run-0")),
            around(end("run-1")),
            complete(),
        ];
        seen.exactly(&expected);
        events_are(&done.events, &expected);
    }
}
