//! Resuming a run: without an iteration, with one that did not end, and with one that did.

use harness_core::{
    Iteration,
    agent::FailureKind,
    check::Verdict,
    machine::{Input, iterate::Brief},
    run::Ending,
};

use crate::story::*;

fn with(iterations: Vec<Iteration>, change: impl FnOnce(&mut Brief)) -> Brief {
    brief_with(|b| {
        b.run.iteration_count = iterations.last().map_or(0, |last| last.number);
        b.iterations = iterations;
        change(b);
    })
}

fn open(number: u32) -> Iteration {
    Iteration { mark_before: Some("before".into()), ..Iteration::begun(number, at(START)) }
}

#[test]
fn no_row_starts_with_iteration_0() {
    Loop::new(brief()).tell(Input::Begin, "look").begins(0, "first");
}

#[test]
fn an_iteration_that_did_not_end_starts_again_under_its_number() {
    Loop::new(with(vec![open(0)], |_| {})).tell(Input::Begin, "look").begins(0, "first");
    let second = vec![past(0, Ending::Finished, "not yet"), open(1)];
    Loop::new(with(second, |_| {})).tell(Input::Begin, "look").begins(1, "no promise").restarts(2);
    let failed = vec![past(0, Ending::Network, "no route"), open(1)];
    Loop::new(with(failed, |_| {})).tell(Input::Begin, "look").begins(1, "failed: no route");
    let full = vec![past(0, Ending::OutOfContext, ""), open(1)];
    Loop::new(with(full, |_| {})).tell(Input::Begin, "look").begins(1, "out of context");
    // The limit is not checked, because this context was allowed before.
    let last = vec![past(0, Ending::Finished, "not yet"), open(1)];
    Loop::new(with(last, |b| b.run.limits.max_iterations = 1))
        .tell(Input::Begin, "look")
        .begins(1, "no promise")
        .ends(finished("not yet"), "finished")
        .tell(ok(), "stop max_iterations");
}

#[test]
fn x_m8_three_starts_without_an_end_are_a_failed_end() {
    let started = |times| Iteration { starts: times, ..open(0) };
    Loop::new(with(vec![started(2)], |_| {})).tell(Input::Begin, "look").begins(0, "first");
    let end = "end crashed: started 3 times without an end";
    Loop::new(with(vec![started(3)], |_| {}))
        .tell(Input::Begin, end)
        .tell(ok(), "look")
        .begins(1, "failed: started 3 times without an end");
    Loop::new(with(vec![started(3)], |b| b.run.limits.max_iterations = 0))
        .tell(Input::Begin, end)
        .tell(ok(), "stop max_iterations");
}

#[test]
fn it_is_measured_by_what_was_there_when_it_first_began() {
    let ends_with = |mark: &str, next: &str| {
        let idle = vec![idle(0), idle(1), open(2)];
        Loop::new(with(idle, |_| {}))
            .tell(Input::Begin, "look")
            .tell(looked("half done"), "begin 2")
            .tell(ok(), "work 2 no promise")
            .after(60)
            .tell(worked(finished("not yet")), "look")
            .tell(looked(mark), "end finished")
            .tell(ok(), next);
    };
    // The work was done before the crash, and nothing was added after it.
    ends_with("half done", "begin 3");
    ends_with("before", "stop stalled");
}

#[test]
fn one_that_ended_is_judged_again_with_the_limits_as_they_are_now() {
    let ended = |words: &str| vec![past(0, Ending::Finished, words)];
    Loop::new(with(ended("not yet"), |_| {})).tell(Input::Begin, "look").begins(1, "no promise");
    Loop::new(with(ended("not yet"), |b| b.run.limits.max_iterations = 0))
        .tell(Input::Begin, "stop max_iterations");
    Loop::new(with(ended("not yet"), |b| {
        b.purse.limits.max_tokens = Some(5);
        b.purse.spent = usage(5, None);
    }))
    .tell(Input::Begin, "stop budget");
    // The promise may have been kept just before the crash, or it may be another one now.
    Loop::new(with(ended("DONE"), |_| {})).tell(Input::Begin, "stop complete");
    Loop::new(with(ended("not yet"), |b| b.run.completion_promise = "yet".into()))
        .tell(Input::Begin, "stop complete");
    Loop::new(with(ended("DONE"), |b| b.run.verify = Some("make check".into())))
        .tell(Input::Begin, "verify make check")
        .tell(verified(Verdict::Red { why: "exit code 1".into() }, "no"), "look")
        .begins(1, "verify: exit code 1\nno");
    let crashed = vec![past(0, Ending::Crashed, "boom")];
    Loop::new(with(crashed, |_| {})).tell(Input::Begin, "look").begins(1, "failed: boom");
}

#[test]
fn what_came_in_a_row_is_counted_over_a_crash() {
    let failed_twice = vec![past(0, Ending::Crashed, "x"), past(1, Ending::Network, "x")];
    Loop::new(with(failed_twice, |_| {}))
        .tell(Input::Begin, "look")
        .begins(2, "failed: x")
        .ends(failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "stop crashed");
    let idle_thrice = || vec![idle(0), idle(1), idle(2)];
    Loop::new(with(idle_thrice(), |_| {})).tell(Input::Begin, "stop stalled");
}

#[test]
fn a_person_who_takes_it_up_again_starts_the_count_afresh() {
    let failed: Vec<_> = (0..3).map(|n| past(n, Ending::Crashed, "x")).collect();
    Loop::new(with(failed.clone(), |_| {})).tell(Input::Begin, "stop crashed");
    Loop::new(with(failed, |b| b.afresh = true))
        .tell(Input::Begin, "look")
        .begins(3, "failed: x")
        .ends(crate::story::failed(FailureKind::Crashed), "crashed: boom")
        .tell(ok(), "begin 4");
    let idle_thrice = vec![idle(0), idle(1), idle(2)];
    Loop::new(with(idle_thrice, |b| b.afresh = true))
        .tell(Input::Begin, "look")
        .begins(3, "no promise");
    // A kept promise and the used budget still count.
    let kept = vec![past(0, Ending::Finished, "DONE")];
    Loop::new(with(kept, |b| b.afresh = true)).tell(Input::Begin, "stop complete");
}
