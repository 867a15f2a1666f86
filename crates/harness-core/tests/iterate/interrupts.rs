//! The first row: one or two interrupts in each state, and a run that another process took.

use harness_core::{
    agent::StoppedBy,
    check::Verdict,
    machine::{Input, gate, iterate::Brief},
};

use crate::story::*;

const WHY: &str = "stopped by a person";

fn with_verify() -> Brief {
    brief_with(|b| b.run.verify = Some("make check".into()))
}

fn with_gate() -> Brief {
    brief_with(|b| b.phases = vec![crate::phases::phase("plan")])
}

fn verifying() -> Loop {
    let promised = Loop::at_work(with_verify()).ends(finished("DONE"), "finished");
    promised.tell(ok(), "verify make check")
}

fn gating() -> Loop {
    Loop::at_work(with_gate()).ends(finished("DONE"), "finished").tell(ok(), "gate plan")
}

fn sleeping() -> Loop {
    Loop::at_work(brief())
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), "warn: usage limit: waiting until 1970-01-01T01:23:20Z")
        .tell(ok(), "sleep until 5000")
}

fn resting() -> Loop {
    Loop::new(brief())
        .tell(Input::Begin, "look")
        .tell(looked("same"), "begin 0")
        .tell(ok(), "work 0 first")
        .tell(worked(finished("not yet")), "look")
        .tell(looked("same"), "end finished")
        .tell(ok(), "sleep until 1001")
}

#[test]
fn one_interrupt_stops_the_agent_and_then_the_run() {
    for end in [stopped(StoppedBy::User), finished("DONE"), limited(None)] {
        Loop::at_work(brief())
            .tell(Input::Interrupt, "cancel User")
            .tell(worked(end), "stop cancelled")
            .ends_as("cancelled", WHY);
    }
}

#[test]
fn one_interrupt_in_every_other_state() {
    // No agent is started after it.
    Loop::new(brief())
        .tell(Input::Begin, "look")
        .tell(Input::Interrupt, "wait")
        .tell(looked("a"), "stop cancelled")
        .ends_as("cancelled", WHY);
    // The end of the context is recorded first.
    Loop::at_work(brief())
        .tell(worked(finished("DONE")), "look")
        .tell(Input::Interrupt, "wait")
        .tell(looked("a"), "end finished")
        .tell(ok(), "stop cancelled")
        .ends_as("cancelled", WHY);
    verifying()
        .tell(Input::Interrupt, "cancel User")
        .tell(verified(Verdict::Cancelled, ""), "stop cancelled")
        .ends_as("cancelled", WHY);
    verifying()
        .tell(Input::Interrupt, "cancel User")
        .tell(verified(Verdict::Red { why: "x".into() }, ""), "stop cancelled")
        .ends_as("cancelled", WHY);
    gating()
        .tell(Input::Interrupt, "cancel User")
        .tell(gated(gate::GateEnd::Interrupted), "stop cancelled")
        .ends_as("cancelled", WHY);
    sleeping()
        .tell(Input::Interrupt, "cancel User")
        .tell(woke(false), "wake")
        .tell(ok(), "stop cancelled")
        .ends_as("cancelled", WHY);
    resting()
        .tell(Input::Interrupt, "cancel User")
        .tell(woke(false), "stop cancelled")
        .ends_as("cancelled", WHY);
    // The next iteration of a loop is no exception.
    verifying()
        .tell(verified(Verdict::Red { why: "x".into() }, ""), "look")
        .tell(Input::Interrupt, "wait")
        .tell(looked("a"), "stop cancelled");
}

#[test]
fn whatever_ended_in_the_meantime_leads_no_further() {
    verifying()
        .tell(Input::Interrupt, "cancel User")
        .tell(verified(Verdict::Passed, ""), "stop cancelled");
    // It leads neither to the next phase nor to the check.
    gating()
        .tell(Input::Interrupt, "cancel User")
        .tell(gated(gate::GateEnd::Passed), "stop cancelled");
}

#[test]
fn two_interrupts_wait_for_nothing() {
    let looking = || Loop::new(brief()).tell(Input::Begin, "look");
    let after = || Loop::at_work(brief()).tell(worked(finished("DONE")), "look");
    for (story, first) in [
        (looking(), "wait"),
        (after(), "wait"),
        (Loop::at_work(brief()), "cancel User"),
        (verifying(), "cancel User"),
        (gating(), "cancel User"),
        (sleeping(), "cancel User"),
        (resting(), "cancel User"),
    ] {
        story
            .tell(Input::Interrupt, first)
            .tell(Input::Interrupt, "stop cancelled")
            .ends_as("cancelled", WHY);
    }
}

#[test]
fn a_run_that_somebody_else_has_taken_is_left_alone() {
    let taken_at = |mut story: Loop| {
        let next = said(&story.next(taken()));
        assert!(next.starts_with("done cancelled: "), "{next}");
    };
    // This holds for each commit that the loop waits for.
    taken_at(Loop::new(brief()).tell(Input::Begin, "look").tell(looked("a"), "begin 0"));
    taken_at(Loop::at_work(brief()).ends(finished("DONE"), "finished"));
    taken_at(Loop::at_work(brief()).ends(finished("DONE"), "finished").tell(ok(), "stop complete"));
    taken_at(Loop::at_work(brief()).tell(worked(limited(Some(5000))), "wait until 5000"));
    taken_at(sleeping().tell(woke(false), "wake"));
}

#[test]
fn an_agent_at_work_for_a_run_that_was_taken_is_stopped() {
    for (input, said) in [(Input::Tick, "beat 300"), (used(1, None), "spend 1")] {
        Loop::at_work(brief())
            .tell(input, said)
            .tell(taken(), "cancel Fenced")
            .tell(worked(stopped(StoppedBy::Fenced)), "stop cancelled");
    }
    // Nothing of it is stored, because the store refuses that too.
    let mut story = Loop::at_work(brief())
        .tell(Input::Tick, "beat 300")
        .tell(taken(), "cancel Fenced")
        .tell(worked(stopped(StoppedBy::Fenced)), "stop cancelled");
    let next = said(&story.next(taken()));
    assert!(next.starts_with("done cancelled: "), "{next}");
}

#[test]
fn any_other_refusal_is_for_a_person() {
    let gone = harness_core::Refusal::BadValue("the row is gone".into());
    Loop::at_work(brief())
        .ends(finished("DONE"), "finished")
        .tell(Input::Refused(gone), "done config: the row is gone");
}
