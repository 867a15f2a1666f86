//! The machine of the loop over contexts, where the simulator once saw it go wrong.

use harness_core::{
    Command, Reply, Run, RunId, Timestamp,
    agent::Usage,
    command::RunStep,
    machine::{
        Input, Machine, Next,
        iterate::{Brief, Effect, Ended, Iterate, Outcome, Purse, Rules},
    },
    promise,
    run::{RunLimits, RunStatus, StopReason},
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn machine(wake_at: Option<Timestamp>) -> Iterate {
    let run = Run {
        id: RunId::of_bits(1),
        created_at: at(0),
        updated_at: at(0),
        status: RunStatus::Running,
        objective: Some("make it so".into()),
        task: None,
        epoch: None,
        agent: "simulated".into(),
        agent_command: None,
        verify: None,
        workspace: "/".into(),
        iteration_count: 0,
        completion_promise: "TASK_COMPLETE".into(),
        limits: RunLimits::default(),
        stop_reason: None,
        provider_session_id: None,
        parent: None,
        usage: Usage::default(),
        deadline: None,
        wake_at,
        lease: None,
    };
    let rules = Rules {
        promise_match: promise::Match::Token,
        stall_limit: 3,
        waits: true,
        restarts: true,
        prices: vec![None],
        lease_seconds: 300,
        until: None,
        transcripts: "t".into(),
    };
    Iterate::new(Brief {
        run,
        iterations: Vec::new(),
        by: None,
        purse: Purse::default(),
        rules,
        phases: Vec::new(),
        afresh: false,
    })
}

fn step_of(next: Next<Effect, Outcome>) -> RunStep {
    match next {
        Next::Commit(command) => match *command {
            Command::Run(of_run) => of_run.step,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A look can not be stopped; what would follow it can.
#[test]
fn an_interrupt_while_it_looks_begins_nothing() {
    let mut machine = machine(None);
    assert_eq!(machine.step(at(1), Input::Begin), Next::Start(Effect::Look));
    assert_eq!(machine.step(at(1), Input::Interrupt), Next::Wait);
    let looked = Input::Ended(Ended::Looked { head: None, mark: None });
    let step = step_of(machine.step(at(1), looked));
    assert_eq!(step, RunStep::Stop(StopReason::Cancelled));
    let done = machine.step(at(1), Input::Committed(Reply::Noted));
    assert!(matches!(done, Next::Done(Outcome { reason: StopReason::Cancelled, .. })), "{done:?}");
}

/// Taken up after its time: the row must not say that it waits while its agent works.
#[test]
fn a_wait_that_is_over_is_over_in_the_row_too() {
    let mut machine = machine(Some(at(100)));
    let step = step_of(machine.step(at(200), Input::Begin));
    assert_eq!(step, RunStep::WaitUntil(None));
    let next = machine.step(at(200), Input::Committed(Reply::Noted));
    assert_eq!(next, Next::Start(Effect::Look));
}
