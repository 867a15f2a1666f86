//! The loop of an attempt at a task: scripts, and the time limit of an attempt.

use harness_core::{
    TaskId,
    agent::{End, FailureKind, StoppedBy},
    machine::Input,
    machine::iterate::Brief,
};

use crate::story::*;

fn attempt(change: impl FnOnce(&mut Brief)) -> Brief {
    brief_with(|b| {
        b.by = None;
        b.run.task = Some(TaskId::numbered(1));
        b.run.objective = None;
        change(b);
    })
}

fn until() -> Brief {
    attempt(|b| b.rules.until = Some(at(START + 60)))
}

const LATE: &str = "done crashed: The attempt took longer than it may (timed out)";

#[test]
fn a_script_that_fails_is_not_started_again() {
    let script = || attempt(|b| b.rules.restarts = false);
    for (end, recorded, why) in [
        (failed(FailureKind::Crashed), "crashed: boom", "boom"),
        (stopped(StoppedBy::Stall), "silent: silent for too long", "silent for too long"),
        (End::Refused, "refused", ""),
    ] {
        Loop::at_work(script())
            .ends(end, recorded)
            .tell(ok(), "stop crashed")
            .ends_as("crashed", why);
    }
    Loop::at_work(script()).ends(finished("DONE"), "finished").tell(ok(), "stop complete");
}

#[test]
fn any_other_agent_is_started_again_in_the_same_attempt() {
    Loop::at_work(attempt(|_| {}))
        .restarts(1)
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .goes_on(2, "failed: boom");
}

#[test]
fn the_time_of_an_attempt_ends_it() {
    let at_work =
        || Loop::new(until()).tell(Input::Begin, "look").begins(0, "first until 1060").after(60);
    at_work().tell(worked(stopped(StoppedBy::Timeout)), "stop crashed").tell(ok(), LATE);
    // A wait for a limit does not continue beyond it.
    Loop::new(until())
        .tell(Input::Begin, "look")
        .begins(0, "first until 1060")
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), "warn: usage limit: waiting until 1970-01-01T01:23:20Z")
        .tell(ok(), "sleep until 1060")
        .after(60)
        .tell(woke(false), "wake")
        .tell(ok(), "stop crashed")
        .tell(ok(), LATE);
}

#[test]
fn the_earlier_of_the_two_times_counts() {
    let both = attempt(|b| {
        b.rules.until = Some(at(START + 60));
        b.purse.deadline = Some(at(START + 30));
    });
    Loop::new(both)
        .tell(Input::Begin, "look")
        .begins(0, "first until 1030")
        .after(30)
        .tell(worked(stopped(StoppedBy::Timeout)), "stop budget");
}

#[test]
fn a_context_is_not_begun_when_the_time_of_the_attempt_is_up() {
    Loop::new(until())
        .tell(Input::Begin, "look")
        .begins(0, "first until 1060")
        .after(70)
        .ends(finished("not yet"), "finished")
        .tell(ok(), "stop crashed")
        .tell(ok(), LATE);
}
