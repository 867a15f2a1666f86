//! The simulated agent, shell and clock follow their scripts.

use std::{sync::Arc, time::Duration};

use harness::{
    Cx, Harness, Named,
    clock::Clock,
    named,
    shell::{Exit, Script, Shell},
};
use harness_core::{
    Timestamp,
    agent::{AgentEvent, End, FailureKind, Usage},
};
use harness_sim::{
    agent::{Ends, SimAgent, Turn},
    clock::SimClock,
    shell::SimShell,
};

struct Team {
    agent: Named<SimAgent>,
}

#[tokio::test]
async fn an_agent_keeps_its_promise_crashes_and_hangs_in_turn() {
    let finished = End::Finished { final_text: "TASK_COMPLETE".into(), usage: Usage::default() };
    let crashed = End::Failed { kind: FailureKind::Crashed, detail: "exit 1".into() };
    let turn = |end: &End| Turn {
        tells: vec![AgentEvent::Text("hm".into())],
        ends: Ends::With(end.clone()),
    };
    let agent = SimAgent::new([turn(&finished), turn(&crashed)]);
    let flow = Harness::define("three turns")
        .agents(Team { agent: named("sim", agent) })
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), Team>| {
            let prompt = || "go on".to_owned();
            let one = cx.execute(|t| &t.agent, prompt()).await?;
            let two = cx.execute(|t| &t.agent, prompt()).await?;
            Ok((one, two))
        });
    let done = flow.create(()).run().await.unwrap();
    assert_eq!(done.result, (finished, crashed));
    let texts = done.events.iter().filter(|e| e.event.kind() == "agent:text").count();
    assert_eq!(texts, 2);
}

#[test]
fn a_shell_follows_its_script_and_lacks_forgotten_programs() {
    let shell = SimShell::new([(Exit::Code(1), "red".to_owned()), (Exit::TimedOut, String::new())]);
    shell.forget("cargo");
    let script = Script {
        command: "make".into(),
        directory: "/".into(),
        timeout: Duration::from_secs(1),
        environment: Vec::new(),
    };
    let exits = [0, 1, 2].map(|_| shell.run(&script).unwrap().exit);
    assert_eq!(exits, [Exit::Code(1), Exit::TimedOut, Exit::Code(0)]);
    assert_eq!(shell.ran().len(), 3);
    assert!(shell.lacks("cargo test", "/".as_ref()) && !shell.lacks("make", "/".as_ref()));
}

#[test]
fn a_clock_goes_where_it_is_set() {
    let clock = Arc::new(SimClock::at(Timestamp::from_seconds(100)));
    clock.step(5);
    clock.step(-10);
    assert_eq!(clock.now(), Timestamp::from_seconds(95));
}
