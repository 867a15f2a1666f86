//! The limits that end a loop without progress, and the pauses before that.

use harness_core::{
    agent::{AgentEvent, End, FailureKind},
    check::Verdict,
    command::RunStep,
    machine::{Input, iterate::Brief},
};

use crate::story::*;

fn at_most(max_iterations: u32) -> Brief {
    brief_with(|b| b.run.limits.max_iterations = max_iterations)
}

#[test]
fn max_iterations_bounds_restarts_so_that_there_is_one_context_more() {
    for most in 0..4 {
        let mut story = Loop::at_work(at_most(most));
        for number in 1..=most {
            story = story.restarts(number);
        }
        story
            .ends(finished("not yet"), "finished")
            .tell(ok(), "stop max_iterations")
            .ends_as("max_iterations", &format!("the promise was not kept after {most} restarts"));
    }
    // The promise takes precedence over the limit.
    Loop::at_work(at_most(0)).ends(finished("DONE"), "finished").tell(ok(), "stop complete");
}

#[test]
fn the_third_failed_end_in_a_row_is_a_crash() {
    let fails = |story: Loop, number: u32| {
        story.ends(failed(FailureKind::Network), "network: boom").goes_on(number, "failed: boom")
    };
    let twice = |brief| fails(fails(Loop::at_work(brief), 1), 2);
    twice(brief())
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "stop crashed")
        .ends_as("crashed", "the agent failed 3 times in a row: boom");
    twice(brief()).ends(End::Refused, "refused").tell(ok(), "stop crashed");
    // Any other end between them resets the count.
    for (end, recorded, cause) in [
        (finished("not yet"), "finished", "no promise"),
        (End::OutOfContext, "out_of_context", "out of context"),
    ] {
        let story = twice(brief()).ends(end, recorded).goes_on(3, cause);
        fails(fails(story, 4), 5);
    }
    // It takes precedence over max_iterations. A second failure does not.
    twice(at_most(2))
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "stop crashed");
    fails(Loop::at_work(at_most(1)), 1)
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "stop max_iterations");
}

impl Loop {
    /// Ends after a while, without a change of the files since the last such end.
    #[track_caller]
    fn stands_still(self, number: u32, next: &str) -> Self {
        let story = if number == 0 {
            self.tell(looked("same"), "begin 0").tell(ok(), "work 0 first")
        } else {
            self.tell(ok(), &format!("work {number} no promise"))
        };
        story
            .after(60)
            .tell(worked(finished("not yet")), "look")
            .tell(looked("same"), "end finished")
            .tell(ok(), next)
    }
}

#[test]
fn three_iterations_without_progress_are_a_standstill() {
    Loop::new(brief())
        .tell(Input::Begin, "look")
        .stands_still(0, "begin 1")
        .stands_still(1, "begin 2")
        .stands_still(2, "stop stalled")
        .ends_as("stalled", "nothing changed for 3 iterations");
    // Progress in between resets the count.
    Loop::new(brief())
        .tell(Input::Begin, "look")
        .stands_still(0, "begin 1")
        .stands_still(1, "begin 2")
        .tell(ok(), "work 2 no promise")
        .restarts(3)
        .ends(finished("not yet"), "finished")
        .tell(ok(), "begin 4")
        // This iteration still changes something.
        .stands_still(4, "begin 5")
        .stands_still(5, "begin 6")
        .stands_still(6, "begin 7")
        .stands_still(7, "stop stalled");
    // max_iterations takes precedence.
    Loop::new(at_most(2))
        .tell(Input::Begin, "look")
        .stands_still(0, "begin 1")
        .stands_still(1, "begin 2")
        .stands_still(2, "stop max_iterations");
}

#[test]
fn a_stall_is_not_detected_if_the_limit_is_0_or_without_git() {
    let mut story = Loop::new(brief_with(|b| b.rules.stall_limit = 0)).tell(Input::Begin, "look");
    for number in 0..10 {
        story = story.stands_still(number, &format!("begin {}", number + 1));
    }
    story.stands_still(10, "stop max_iterations");
    let blind = || {
        let ended = harness_core::machine::iterate::Ended::Looked { head: None, mark: None };
        Input::Ended(ended)
    };
    let mut story = Loop::new(brief()).tell(Input::Begin, "look");
    for (number, cause) in [(0, "first"), (1, "no promise"), (2, "no promise"), (3, "no promise")] {
        story = story
            .tell(blind(), &format!("begin {number}"))
            .tell(ok(), &format!("work {number} {cause}"))
            .tell(worked(finished("not yet")), "look")
            .tell(blind(), "end finished")
            .tell(ok(), "look");
    }
}

#[test]
fn hasty_turns_are_followed_by_pauses_that_double_up_to_half_a_minute() {
    let mut story = Loop::new(brief_with(|b| b.rules.stall_limit = 0)).tell(Input::Begin, "look");
    let mut now = START;
    for (number, pause) in [1, 2, 4, 8, 16, 30, 30].into_iter().enumerate() {
        let cause = if number == 0 { "first" } else { "no promise" };
        now += 1 + pause;
        story = story
            .tell(looked("same"), &format!("begin {number}"))
            .tell(ok(), &format!("work {number} {cause}"))
            .after(1)
            .tell(worked(finished("not yet")), "look")
            .tell(looked("same"), "end finished")
            .tell(ok(), &format!("sleep until {now}"))
            .after(pause)
            .tell(woke(false), "look");
    }
    // One turn that did something resets everything.
    story
        .begins(7, "no promise")
        .restarts(8)
        .tell(worked(finished("not yet")), "look")
        .tell(looked("look 2"), "end finished")
        .tell(ok(), &format!("sleep until {}", now + 11));
}

#[test]
fn a_turn_that_took_time_or_used_a_tool_or_changed_something_is_not_hasty() {
    let tool = Input::Told(AgentEvent::ToolStart { name: "ls".into(), input: None });
    let begun = || {
        Loop::new(brief())
            .tell(Input::Begin, "look")
            .tell(looked("same"), "begin 0")
            .tell(ok(), "work 0 first")
    };
    let ends = |story: Loop, mark: &str| {
        story
            .tell(worked(finished("not yet")), "look")
            .tell(looked(mark), "end finished")
            .tell(ok(), "begin 1");
    };
    ends(begun().after(2), "same");
    ends(begun().tell(tool, "wait"), "same");
    ends(begun(), "other");
}

#[test]
fn one_look_is_the_end_of_one_iteration_and_the_beginning_of_the_next() {
    let mut story = Loop::at_work(brief())
        .tell(worked(finished("not yet")), "look")
        .tell(looked("now"), "end finished");
    let begun = story.step_of(ok());
    let RunStep::Begin { number: 1, mark, .. } = begun.step else { panic!("{begun:?}") };
    assert_eq!(mark.as_deref(), Some("now"));
    // The check of the run may have changed files since.
    let verified_by = brief_with(|b| b.run.verify = Some("make check".into()));
    Loop::at_work(verified_by)
        .ends(finished("DONE"), "finished")
        .tell(ok(), "verify make check")
        .tell(verified(Verdict::Red { why: "x".into() }, ""), "look");
}
