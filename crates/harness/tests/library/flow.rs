//! Flows: types, state, branches, failures, drops.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, Cx, Envelope, Error, Event, Execution, Harness, Hub, HubStatus, Named, Result,
    RetryPolicy, cleanup, named,
};
use serde_json::Value;

struct Double;

impl Agent for Double {
    type Input = u32;
    type Output = u32;

    fn kind(&self) -> Option<&str> {
        Some("calculator")
    }

    async fn execute(&self, input: u32, execution: &mut Execution) -> Result<u32> {
        execution.hub().emit(Event::custom("inside", Value::Null));
        tokio::task::yield_now().await;
        if input == 13 { Err("unlucky".into()) } else { Ok(input * 2) }
    }
}

/// An agent that works until it is stopped.
struct Forever {
    stopped: Arc<AtomicU32>,
}

impl Agent for Forever {
    type Input = ();
    type Output = ();

    async fn execute(&self, (): (), execution: &mut Execution) -> Result<()> {
        let stopped = Arc::clone(&self.stopped);
        let token = execution.cancelled().clone();
        tokio::spawn(async move {
            token.cancelled().await;
            stopped.fetch_add(1, Ordering::Relaxed);
        });
        execution.hub().emit(Event::custom("at work", Value::Null));
        std::future::pending().await
    }
}

struct Team {
    double: Named<Double>,
    forever: Named<Forever>,
}

fn team() -> (Team, Arc<AtomicU32>) {
    let stopped = Arc::new(AtomicU32::new(0));
    let forever = Forever { stopped: Arc::clone(&stopped) };
    (Team { double: named("double", Double), forever: named("forever", forever) }, stopped)
}

fn kinds(hub: &Hub, filter: &str) -> Arc<Mutex<Vec<Value>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    hub.subscribe(filter, move |e: &Envelope| {
        into.lock().unwrap().push(serde_json::to_value(e).unwrap())
    })
    .forever();
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_can_be_spawned_and_its_branches_run_side_by_side() {
    let flow = Harness::define("sum")
        .agents(team().0)
        .state(|numbers: &Vec<u32>| numbers.clone())
        .run(async |cx: &mut Cx<'_, Vec<u32>, Team>| {
            let numbers = cx.state.clone();
            let branch = cx.fork();
            let doubled = cx.parallel(2, numbers, |n| branch.execute(|t| &t.double, n)).await;
            cx.state.clear();
            doubled.into_iter().sum::<Result<u32>>()
        });
    let hub = Hub::new("s");
    let parallel = kinds(&hub, "parallel:*");
    let run = flow.create_in(hub, vec![1, 2, 3]).run();
    let done = tokio::spawn(run).await.unwrap().unwrap();
    assert_eq!((done.result, done.state.len()), (12, 0));
    assert_eq!(parallel.lock().unwrap().len(), 8);
}

#[tokio::test]
async fn a_failing_agent_fails_its_task_and_phase_and_the_run_returns_to_idle() {
    let flow = Harness::define("unlucky").agents(team().0).state(|(): &()| ()).run(
        async |cx: &mut Cx<'_, (), Team>| {
            cx.phase((2, "Counting"), async |cx| {
                cx.task("thirteen", async |cx| cx.execute(|t| &t.double, 13).await).await
            })
            .await
        },
    );
    let hub = Hub::new("s");
    let seen = kinds(&hub, "*");
    let error = flow.create_in(hub.clone(), ()).run().await.unwrap_err();
    assert_eq!(error.to_string(), "agent double: unlucky");
    assert_eq!(hub.status(), HubStatus::Idle);
    let seen = seen.lock().unwrap();
    let types: Vec<_> = seen.iter().map(|e| e["event"]["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "harness:start",
            "phase:start",
            "task:start",
            "agent:start",
            "inside",
            "agent:complete",
            "agent:failed",
            "task:failed",
            "phase:failed",
            "harness:complete"
        ]
    );
    assert_eq!(seen[1]["event"]["phaseNumber"], 2);
    assert_eq!(
        seen[4]["context"]["agent"],
        serde_json::json!({ "name": "double", "type": "calculator" })
    );
    assert_eq!(seen[4]["context"]["phase"], serde_json::json!({ "name": "Counting", "number": 2 }));
    let of_agent = serde_json::json!({ "agentName": "double", "runId": "run-0" });
    for (at, (kind, field, value)) in [
        ("agent:complete", "success", Value::from(false)),
        ("agent:failed", "error", "unlucky".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let mut event = of_agent.clone();
        event["type"] = kind.into();
        event[field] = value;
        assert_eq!(seen[5 + at]["event"], event);
        assert_eq!(seen[5 + at]["context"].get("agent"), None);
    }
    assert_eq!(seen[9]["event"]["success"], false);
}

#[tokio::test]
async fn a_failed_run_returns_its_state_its_events_and_its_status() {
    let flow = Harness::define("half done").state(|steps: &u32| vec![*steps]).run(
        async |cx: &mut Cx<'_, Vec<u32>, ()>| {
            cx.state.push(2);
            Err::<(), _>(Error::NoSession)
        },
    );
    let failed = flow.create(1).run().await.unwrap_err();
    assert_eq!(failed.state, [1, 2]);
    assert_eq!((failed.status, failed.events_dropped), (HubStatus::Idle, 0));
    let types: Vec<_> = failed.events.iter().map(|e| e.event.kind()).collect();
    assert_eq!(types, ["harness:start", "harness:complete"]);
    assert_eq!(failed.to_string(), Error::NoSession.to_string());
    // A caller that does not need the rest keeps the error with `?`.
    let by_itself = async || -> Result<()> {
        flow.create(1).run().await?;
        Ok(())
    };
    assert!(matches!(by_itself().await, Err(Error::NoSession)));
}

#[tokio::test]
async fn a_result_holds_the_events_of_its_own_run_and_none_from_before() {
    let flow = Harness::define("short").state(|(): &()| ()).run(async |cx: &mut Cx<'_, (), ()>| {
        cx.emit(Event::custom("inside", Value::Null));
        Ok(())
    });
    let kinds = |events: &[Arc<Envelope>]| -> Vec<String> {
        events.iter().map(|e| e.event.kind().to_owned()).collect()
    };
    let hub = Hub::keeping("s", 5);
    for run in 1..=2 {
        hub.emit(Event::custom("before", Value::Null));
        let done = flow.create_in(hub.clone(), ()).run().await.unwrap();
        assert_eq!(kinds(&done.events), ["harness:start", "inside", "harness:complete"], "{run}");
        assert_eq!(done.events_dropped, 0, "{run}");
    }
    let small = Hub::keeping("s", 2);
    small.emit(Event::custom("before", Value::Null));
    let done = flow.create_in(small, ()).run().await.unwrap();
    assert_eq!(kinds(&done.events), ["inside", "harness:complete"]);
    assert_eq!(done.events_dropped, 1);
}

#[tokio::test]
async fn dropping_the_run_stops_its_agents_and_ends_its_streams() {
    let (team, stopped) = team();
    let flow = Harness::define("endless")
        .agents(team)
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Team>| cx.execute(|t| &t.forever, ()).await);
    let hub = Hub::new("s");
    let mut stream = hub.events();
    let started = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&started);
    // The agent itself begins after `agent:start`.
    hub.subscribe("at work", move |_: &Envelope| tell.notify_one()).forever();
    let run = flow.create_in(hub.clone(), ()).run();
    tokio::select! {
        _ = run => panic!("it never ends"),
        () = started.notified() => {}
    }
    while stream.next().await.is_some() {}
    while stopped.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    hub.send_to_run("run-0", "nobody is there");
}

#[tokio::test]
async fn cleanups_run_in_order_after_the_end_whatever_happened() {
    let flow = Harness::define("fails")
        .state(|(): &()| ())
        .run(async |_: &mut Cx<'_, (), ()>| Err::<(), _>(Error::message("on purpose")));
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (first, second, complete) = (note("first"), note("second"), note("complete"));
    let result = flow
        .create(())
        .attach(move |hub| {
            hub.subscribe("harness:complete", move |_: &Envelope| complete()).forever();
            cleanup(first)
        })
        .attach(move |_| cleanup(second))
        .run()
        .await;
    assert_eq!(result.unwrap_err().to_string(), "on purpose");
    assert_eq!(*order.lock().unwrap(), ["complete", "first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn retry_tries_again_and_tells() {
    let flow =
        Harness::define("stubborn").state(|(): &()| 0).run(async |cx: &mut Cx<'_, u32, ()>| {
            let result = cx
                .retry("third time lucky", RetryPolicy::default(), |n| async move {
                    if n < 3 { Err("not yet".into()) } else { Ok(n) }
                })
                .await?;
            let gave_up = cx
                .retry("hopeless", RetryPolicy { tries: 2, ..RetryPolicy::default() }, |_| async {
                    Err::<(), _>(Error::message("never"))
                })
                .await;
            Ok((result, gave_up.unwrap_err().to_string()))
        });
    let hub = Hub::new("s");
    let seen = kinds(&hub, "retry:*");
    let started = tokio::time::Instant::now();
    let done = flow.create_in(hub, ()).run().await.unwrap();
    assert_eq!(done.result, (3, "hopeless failed after 2 tries: never".to_owned()));
    assert!(started.elapsed() >= Duration::from_millis(500 + 1000 + 500));
    let seen = seen.lock().unwrap();
    let types: Vec<_> = seen
        .iter()
        .map(|e| e["event"]["type"].as_str().unwrap().trim_start_matches("retry:"))
        .collect();
    assert_eq!(
        types,
        [
            "start", "attempt", "backoff", "attempt", "backoff", "attempt", "success", "start",
            "attempt", "backoff", "attempt", "failure"
        ]
    );
}

#[tokio::test]
async fn only_the_last_events_are_kept() {
    let flow =
        Harness::define("chatty").state(|(): &()| ()).run(async |cx: &mut Cx<'_, (), ()>| {
            (0..10).for_each(|n| cx.emit(Event::custom(format!("{n}"), Value::Null)));
            Ok(())
        });
    let done = flow.create_in(Hub::keeping("s", 3), ()).run().await.unwrap();
    let kinds: Vec<_> = done.events.iter().map(|e| e.event.kind()).collect();
    assert_eq!(kinds, ["8", "9", "harness:complete"]);
    assert_eq!(done.events_dropped, 9);
}

#[tokio::test]
async fn send_to_an_agent_reaches_it_only_when_it_is_clear_whom() {
    struct Ear;
    impl Agent for Ear {
        type Input = ();
        type Output = String;
        async fn execute(&self, (): (), execution: &mut Execution) -> Result<String> {
            Ok(execution.inbox().pop().await.map(|m| m.content).unwrap_or_default())
        }
    }
    struct Ears {
        ear: Named<Ear>,
    }
    let flow = Harness::define("ears")
        .agents(Ears { ear: named("ear", Ear) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Ears>| {
            let speaker = cx.hub().clone();
            let (one, two, ()) = tokio::join!(biased;
                cx.execute(|e| &e.ear, ()),
                cx.execute(|e| &e.ear, ()),
                async {
                    speaker.send_to("ear", "to whom?");
                    speaker.send_to_run("run-0", "to the first");
                    tokio::task::yield_now().await;
                    speaker.send_to("ear", "to the only one left");
                }
            );
            Ok((one?, two?))
        });
    let done = flow.create(()).start_session().run().await.unwrap();
    assert_eq!(done.result, ("to the first".to_owned(), "to the only one left".to_owned()));
}

#[tokio::test]
async fn a_slow_item_keeps_no_place_but_its_own() {
    let flow = Harness::define("slow and quick").state(|(): &()| ()).run(
        async |cx: &mut Cx<'_, (), ()>| {
            let others = tokio::sync::watch::Sender::new(0);
            let work = |item: &'static str| {
                let others = others.clone();
                async move {
                    match item {
                        // It ends after all items behind it, or never.
                        "slow" => _ = others.subscribe().wait_for(|done| *done == 3).await,
                        _ => others.send_modify(|done| *done += 1),
                    }
                    Ok(item)
                }
            };
            let results = cx.parallel(2, ["slow", "a", "b", "c"], work).await;
            results.into_iter().collect::<Result<Vec<_>>>()
        },
    );
    let done = flow.create(()).run().await.unwrap();
    assert_eq!(done.result, ["slow", "a", "b", "c"]);
}
