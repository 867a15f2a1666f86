//! The gates of phases, at each stop of the agent.

use harness_core::{
    agent::End,
    check::Verdict,
    ledger::{Gate, Phase},
    machine::{Input, gate::GateEnd, iterate::Brief},
};

use crate::story::*;

pub(crate) fn phase(name: &str) -> Phase {
    let gate = Gate { command: format!("check {name}"), timeout_seconds: None };
    Phase { name: name.into(), gate: Some(gate), approve: false, passed_at: None, held: None }
}

fn phases() -> Brief {
    brief_with(|b| b.phases = vec![phase("plan"), phase("build")])
}

fn closed() -> Input<harness_core::machine::iterate::Ended> {
    gated(GateEnd::Closed { why: "exit code 1".into(), output: "no plan".into() })
}

#[test]
fn a_gate_that_passes_leads_to_the_next_phase_and_the_last_to_the_promise() {
    Loop::at_work(phases())
        // The promise comes too early: it counts only after the last gate.
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate plan")
        .tell(gated(GateEnd::Passed), "look")
        .begins(1, "phase build")
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate build")
        .tell(gated(GateEnd::Passed), "stop complete");
    Loop::at_work(phases())
        .ends(finished("x"), "finished")
        .tell(ok(), "gate plan")
        .tell(gated(GateEnd::Passed), "look")
        .begins(1, "phase build")
        .ends(finished("not yet"), "finished")
        .tell(ok(), "gate build")
        .tell(gated(GateEnd::Passed), "look")
        .begins(2, "no promise")
        // A gate that passed is not tried again.
        .ends(finished("DONE"), "finished")
        .tell(ok(), "stop complete");
}

#[test]
fn a_closed_gate_is_reported_to_the_next_context_and_tried_again() {
    Loop::at_work(phases())
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate plan")
        .tell(closed(), "look")
        .begins(1, "gate plan: exit code 1\nno plan")
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate plan")
        .tell(gated(GateEnd::Passed), "look")
        .begins(2, "phase build");
}

#[test]
fn gates_are_bounded_like_everything_else() {
    let one = brief_with(|b| {
        b.phases = vec![phase("plan")];
        b.run.limits.max_iterations = 0;
    });
    Loop::at_work(one)
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate plan")
        .tell(closed(), "stop max_iterations");
}

#[test]
fn a_context_that_failed_asks_no_gate() {
    Loop::at_work(phases()).ends(End::OutOfContext, "out_of_context").tell(ok(), "begin 1");
}

#[test]
fn phases_that_have_passed_are_not_asked_and_the_check_comes_last() {
    let last = brief_with(|b| {
        let passed = Phase { passed_at: Some(at(START)), ..phase("plan") };
        b.phases = vec![passed, phase("build")];
        b.run.verify = Some("make check".into());
    });
    Loop::at_work(last)
        .ends(finished("DONE"), "finished")
        .tell(ok(), "gate build")
        .tell(gated(GateEnd::Passed), "verify make check")
        .tell(verified(Verdict::Passed, ""), "stop complete");
}
