//! The loop that drives machines.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Commit, Committing, Cx, Harness, Hub, Ports, Result,
    core::{
        Command, Refusal, Reply, TaskId, Timestamp,
        agent::{AgentEvent, StoppedBy, Usage},
        machine::{Input, Machine, Next},
    },
};

/// Records its inputs and follows its script.
struct Scripted {
    script: std::vec::IntoIter<Next<&'static str, &'static str>>,
    heard: Heard,
}

impl Machine for Scripted {
    type Effect = &'static str;
    type Ended = String;
    type Outcome = &'static str;

    fn step(&mut self, _: Timestamp, input: Input<String>) -> Next<&'static str, &'static str> {
        let heard = match input {
            Input::Allowed(_) => "allowed".to_owned(),
            Input::Begin => "begin".to_owned(),
            Input::Committed(_) => "committed".to_owned(),
            Input::Refused(why) => format!("refused: {why}"),
            Input::Ended(what) => format!("ended: {what}"),
            Input::Told(AgentEvent::Usage(usage)) => format!("usage {}", usage.input_tokens),
            Input::Told(other) => format!("told {other:?}"),
            Input::Tick => "tick".to_owned(),
            Input::Interrupt => "interrupt".to_owned(),
        };
        self.heard.lock().unwrap().push(heard);
        self.script.next().unwrap_or(Next::Done("out of script"))
    }
}

/// Refuses resets, and accepts everything else.
struct Store;

impl Commit for Store {
    fn commit(
        &self,
        command: Command,
    ) -> std::pin::Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let id = TaskId::numbered(1);
        Box::pin(async move {
            Ok(match command {
                Command::Reset => Err(Refusal::NotFound { task: id }),
                _ => Ok(Reply::Task(id)),
            })
        })
    }
}

fn ports() -> Ports {
    Ports {
        commit: Arc::new(Store),
        clock: Arc::new(harness::clock::SystemClock),
        tick: Duration::from_secs(10),
    }
}

type Agents = ();

async fn drive(
    script: Vec<Next<&'static str, &'static str>>,
    hub: Hub,
) -> (Result<&'static str>, Vec<String>) {
    drive_into(script, hub, Heard::default()).await
}

type Heard = Arc<Mutex<Vec<String>>>;

/// Drives a script, and records the inputs of the machine.
async fn drive_into(
    script: Vec<Next<&'static str, &'static str>>,
    hub: Hub,
    heard: Heard,
) -> (Result<&'static str>, Vec<String>) {
    let into = Arc::clone(&heard);
    let flow = Harness::define("driven").state(|(): &()| ()).run(
        async move |cx: &mut Cx<'_, (), Agents>| {
            let machine = Scripted { script: script.clone().into_iter(), heard: Arc::clone(&into) };
            cx.drive(&ports(), machine, |branch, effect| async move {
                match effect {
                    "quick" => Ok("done".to_owned()),
                    "fails" => Err("broken".into()),
                    _ => {
                        branch.cancelled().cancelled().await;
                        Ok("stopped".to_owned())
                    }
                }
            })
            .await
        },
    );
    let done = flow.create_in(hub, ()).start_session().run().await;
    let done = done.map(|done| done.result).map_err(Into::into);
    let heard = heard.lock().unwrap().clone();
    (done, heard)
}

#[tokio::test]
async fn commits_then_acts_then_is_done() {
    let commit = |c| Next::Commit(Box::new(c));
    let end = harness::core::command::EndSession { pid: 1 };
    let script = vec![
        commit(Command::EndSession(end)),
        commit(Command::Reset),
        Next::Start("quick"),
        Next::Done("fine"),
    ];
    let (outcome, heard) = drive(script, Hub::new("s")).await;
    assert_eq!(outcome.unwrap(), "fine");
    assert_eq!(heard, ["begin", "committed", "refused: Task task-001 not found", "ended: done"]);
}

#[tokio::test(start_paused = true)]
async fn time_passes_while_it_waits_and_a_cancelled_effect_still_ends() {
    let script =
        vec![Next::Start("slow"), Next::Wait, Next::Cancel(StoppedBy::User), Next::Done("over")];
    let (outcome, heard) = drive(script, Hub::new("s")).await;
    assert_eq!(outcome.unwrap(), "over");
    assert_eq!(heard, ["begin", "tick", "tick", "ended: stopped"]);
}

#[tokio::test]
async fn an_interrupt_is_told() {
    let (hub, heard) = (Hub::new("s"), Heard::default());
    let (speaker, looked_at) = (hub.clone(), Arc::clone(&heard));
    let until = async |count| {
        while looked_at.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let speak = async {
        until(1).await;
        speaker.interrupt();
    };
    let script = vec![Next::Start("slow"), Next::Cancel(StoppedBy::User), Next::Done("over")];
    let ((outcome, heard), ()) = tokio::join!(drive_into(script, hub, heard), speak);
    assert_eq!(outcome.unwrap(), "over");
    assert_eq!(heard, ["begin", "interrupt", "ended: stopped"]);
}

#[tokio::test]
async fn an_effect_that_fails_fails_the_flow() {
    let (outcome, _) = drive(vec![Next::Start("fails")], Hub::new("s")).await;
    assert_eq!(outcome.unwrap_err().to_string(), "broken");
}

#[tokio::test]
async fn what_an_agent_tells_reaches_the_machine_before_its_end() {
    struct Spender;
    impl harness::Agent for Spender {
        type Input = ();
        type Output = String;
        async fn execute(&self, (): (), execution: &mut harness::Execution) -> Result<String> {
            execution.tell(AgentEvent::Text("only for the eye".into()));
            for input_tokens in [1, 2] {
                let usage = Usage { input_tokens, ..Usage::default() };
                execution.tell(AgentEvent::Usage(usage));
            }
            Ok("spent".to_owned())
        }
    }
    struct Team {
        spender: harness::Named<Spender>,
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    let flow = Harness::define("told")
        .agents(Team { spender: harness::named("spender", Spender) })
        .state(|(): &()| ())
        .run(async move |cx: &mut Cx<'_, (), Team>| {
            let script = vec![Next::Start(""), Next::Wait, Next::Wait, Next::Done("fine")];
            let machine = Scripted { script: script.into_iter(), heard: Arc::clone(&into) };
            cx.drive(&ports(), machine, |branch, _| async move {
                branch.execute(|t: &Team| &t.spender, ()).await
            })
            .await
        });
    assert_eq!(flow.create(()).run().await.unwrap().result, "fine");
    assert_eq!(*heard.lock().unwrap(), ["begin", "usage 1", "usage 2", "ended: spent"]);
}

#[tokio::test]
async fn of_a_helper_the_machine_hears_only_what_it_used_at_its_own_price() {
    struct Helper;
    impl harness::Agent for Helper {
        type Input = ();
        type Output = String;
        async fn execute(&self, (): (), execution: &mut harness::Execution) -> Result<String> {
            execution.tell(AgentEvent::Session("of the helper".into()));
            execution.tell(AgentEvent::ToolStart { name: "read".into(), input: None });
            execution.tell(AgentEvent::Limit { until: None });
            execution.tell(AgentEvent::Usage(Usage { input_tokens: 500_000, ..Usage::default() }));
            Ok("helped".to_owned())
        }
    }
    struct Team {
        helper: harness::Named<Helper>,
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    let flow = Harness::define("helped")
        .agents(Team { helper: harness::named("helper", Helper) })
        .state(|(): &()| ())
        .run(async move |cx: &mut Cx<'_, (), Team>| {
            let script = vec![Next::Start(""), Next::Wait, Next::Done("fine")];
            let machine = Scripted { script: script.into_iter(), heard: Arc::clone(&into) };
            cx.drive(&ports(), machine, |branch, _| async move {
                let price = harness::core::run::Price { input: 2.0, output: 2.0 };
                branch.helper(Some(price)).execute(|t: &Team| &t.helper, ()).await
            })
            .await
        });
    assert_eq!(flow.create(()).run().await.unwrap().result, "fine");
    let used = Usage { input_tokens: 500_000, output_tokens: 0, cost_usd: Some(1.0) };
    let used = format!("told {:?}", AgentEvent::Helped(used));
    assert_eq!(*heard.lock().unwrap(), ["begin", used.as_str(), "ended: helped"]);
}
