//! The machine of a gate, tested as a list of inputs and the expected steps.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use harness_core::{
    Command, Refusal, Reply, RunId, Timestamp,
    check::Verdict,
    command::{Note, RunStep},
    ledger::{self, Phase},
    machine::{
        Input, Machine, Next,
        gate::{Effect, Ended, Gate, GateEnd, Waiting},
    },
};

fn described(next: &Next<Effect, GateEnd>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::PassGate(pass) => format!("pass {}", pass.phase),
            Command::Note(Note::Problem { task: None, category, message }) => {
                format!("problem [{category}] {message}")
            }
            Command::Run(of_run) => match of_run.step {
                RunStep::AskHuman(true) => "waiting for human".into(),
                RunStep::AskHuman(false) => "running".into(),
                ref other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        },
        Next::Start(Effect::Check(gate)) => format!("check {}", gate.command),
        Next::Start(Effect::Approve { phase }) => format!("approve {phase}"),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(GateEnd::Closed { why, output }) => format!("closed: {why} | {output}"),
        Next::Done(outcome) => format!("{outcome:?}").to_lowercase(),
    }
}

fn phase(gate: bool, approve: bool) -> Phase {
    let command = || ledger::Gate { command: "make plan".into(), timeout_seconds: None };
    Phase { name: "plan".into(), gate: gate.then(command), approve, passed_at: None, held: None }
}

#[track_caller]
fn check(phase: Phase, in_run: bool, story: &[(Input<Ended>, &str)]) {
    let waiting = in_run.then(|| Waiting { run: RunId::of_bits(1), by: None });
    let mut gate = Gate::new(phase, waiting);
    for (n, (input, expected)) in story.iter().enumerate() {
        let next = gate.step(Timestamp::from_seconds(0), input.clone());
        assert_eq!(described(&next), *expected, "step {n}, told {input:?}");
    }
}

fn checked(verdict: Verdict) -> Input<Ended> {
    Input::Ended(Ended::Checked { verdict, output: "out".into() })
}

fn answered(approved: bool) -> Input<Ended> {
    Input::Ended(Ended::Answered {
        approved,
        words: "more tests".into(),
        by: Some("operator (pid=7)".into()),
    })
}

fn ok() -> Input<Ended> {
    Input::Committed(Reply::Noted)
}

#[test]
fn a_phase_passes_by_its_check_and_that_is_recorded() {
    let story = [
        (Input::Begin, "check make plan"),
        (checked(Verdict::Passed), "pass plan"),
        (ok(), "passed"),
    ];
    check(phase(true, false), true, &story);
    // A gate without check and approval passes at once.
    check(phase(false, false), true, &[(Input::Begin, "pass plan"), (ok(), "passed")]);
}

#[test]
fn one_that_does_not_pass_is_in_the_log() {
    for (verdict, why) in [
        (Verdict::Red { why: "exit code 1".into() }, "exit code 1"),
        (Verdict::TimedOut, "it took too long"),
        (Verdict::Missing, "it cannot be run here"),
    ] {
        check(
            phase(true, true),
            true,
            &[
                (Input::Begin, "check make plan"),
                (checked(verdict), &format!("problem [TEST_FAIL] gate plan: {why}")),
                (ok(), &format!("closed: {why} | out")),
            ],
        );
    }
}

#[test]
fn a_person_is_asked_after_the_check_and_the_row_says_so() {
    let asked = |answer: Input<Ended>, then: &[(Input<Ended>, &str)]| {
        let mut story = vec![
            (Input::Begin, "check make plan"),
            (checked(Verdict::Passed), "waiting for human"),
            (ok(), "approve plan"),
            (Input::Tick, "wait"),
            (answer, "running"),
        ];
        story.extend_from_slice(then);
        check(phase(true, true), true, &story);
    };
    asked(answered(true), &[(ok(), "pass plan"), (ok(), "passed")]);
    let no = "problem [TEST_FAIL] gate plan: not approved by operator (pid=7)";
    let closed = "closed: not approved by operator (pid=7) | more tests";
    asked(answered(false), &[(ok(), no), (ok(), closed)]);
    asked(Input::Ended(Ended::Unanswered), &[(ok(), "interrupted")]);
    // Without a waiting run, there is no row.
    check(
        phase(false, true),
        false,
        &[(Input::Begin, "approve plan"), (answered(true), "pass plan"), (ok(), "passed")],
    );
}

#[test]
fn an_interrupt_stops_the_check_or_takes_the_question_back() {
    let story = [
        (Input::Begin, "check make plan"),
        (Input::Interrupt, "cancel User"),
        (checked(Verdict::Cancelled), "interrupted"),
    ];
    check(phase(true, false), true, &story);
    let story = [
        (Input::Begin, "waiting for human"),
        (ok(), "approve plan"),
        (Input::Interrupt, "cancel User"),
        (Input::Ended(Ended::Unanswered), "running"),
        (ok(), "interrupted"),
    ];
    check(phase(false, true), true, &story);
}

#[test]
fn a_phase_that_is_gone_is_closed() {
    let gone = || Input::Refused(Refusal::BadValue("there is no phase plan".into()));
    let story = [(Input::Begin, "pass plan"), (gone(), "closed: there is no phase plan | ")];
    check(phase(false, false), true, &story);
}
