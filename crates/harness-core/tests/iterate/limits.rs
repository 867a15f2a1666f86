//! The row of the usage limit: waits, other agents, `--no-wait`, `kick`.

use harness_core::{Iteration, agent::FailureKind, machine::Input};

use crate::story::*;

const WARNING: &str = "warn: usage limit: waiting until 1970-01-01T01:23:20Z";

/// The first context was limited until 5000, and the run waits.
#[track_caller]
fn waiting(brief: harness_core::machine::iterate::Brief) -> Loop {
    Loop::at_work(brief)
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), WARNING)
        .tell(ok(), "sleep until 5000")
}

#[test]
fn a_limit_is_waited_out_in_the_same_iteration() {
    waiting(brief())
        .tell(Input::Tick, "beat 300")
        .tell(ok(), "wait")
        .after(4000)
        .tell(woke(false), "wake")
        .tell(ok(), "work 0 first")
        .ends(finished("DONE"), "finished")
        .tell(ok(), "stop complete");
    // This holds for later iterations too, with the same cause.
    Loop::at_work(brief())
        .restarts(1)
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), WARNING)
        .tell(ok(), "sleep until 5000")
        .after(4000)
        .tell(woke(false), "wake")
        .tell(ok(), "work 1 no promise");
}

#[test]
fn without_a_reset_time_the_waits_grow_from_at_most_a_minute() {
    let mut story = Loop::at_work(brief());
    let mut waits = Vec::new();
    for _ in 0..8 {
        let now = story.now();
        let next = story.next(worked(limited(None)));
        let until: i64 = said(&next).strip_prefix("wait until ").unwrap().parse().unwrap();
        waits.push(until - now);
        let warn = said(&story.next(ok()));
        assert!(warn.starts_with("warn: usage limit"), "{warn}");
        story = story
            .tell(ok(), &format!("sleep until {until}"))
            .after(until - now)
            .tell(woke(false), "wake")
            .tell(ok(), "work 0 first");
    }
    assert!(waits[0] >= 30 && waits[0] <= 60, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 1800), "{waits:?}");
    assert!(waits[7] >= 900, "{waits:?}");
    // A time in the past is ignored.
    let now = story.now();
    let next = story.next(worked(limited(Some(now - 1))));
    let until: i64 = said(&next).strip_prefix("wait until ").unwrap().parse().unwrap();
    assert!(until > now);
}

#[test]
fn a_run_that_may_not_wait_is_stopped_by_a_limit() {
    let no_wait = || brief_with(|b| b.rules.waits = false);
    let holds = "a usage limit holds until 1970-01-01T01:23:20Z";
    Loop::at_work(no_wait())
        .tell(worked(limited(Some(5000))), "stop limit")
        .ends_as("limit", holds);
    // This holds for a run that is resumed in the middle of a wait as well.
    let resumed = brief_with(|b| {
        b.rules.waits = false;
        b.run.wake_at = Some(at(5000));
        b.iterations = vec![Iteration::begun(0, at(START))];
    });
    Loop::new(resumed).tell(Input::Begin, "stop limit").ends_as("limit", holds);
}

#[test]
fn another_agent_takes_over_while_the_first_is_limited() {
    let two = || brief_with(|b| b.rules.prices = vec![None, None]);
    Loop::at_work(two())
        .tell(
            worked(limited(Some(5000))),
            "warn: usage limit of claude until 1970-01-01T01:23:20Z: codex takes over",
        )
        .tell(ok(), "work 0 first agent 1")
        .ends(finished("not yet"), "finished")
        .goes_on(1, "no promise agent 1")
        // Both agents are limited: the run waits for the earlier end.
        .tell(worked(limited(Some(3000))), "wait until 3000")
        .tell(ok(), "warn: usage limit: waiting until 1970-01-01T00:50:00Z")
        .tell(ok(), "sleep until 3000")
        .after(1990)
        .tell(woke(false), "wake")
        .tell(ok(), "work 1 no promise agent 1")
        // The preferred agent is free again.
        .after(2000)
        .ends(finished("not yet"), "finished")
        .goes_on(2, "no promise");
    // `--no-wait` stops the run only when no agent is left.
    let hurried = brief_with(|b| {
        b.rules.prices = vec![None, None];
        b.rules.waits = false;
    });
    Loop::at_work(hurried)
        .tell(
            worked(limited(Some(5000))),
            "warn: usage limit of claude until 1970-01-01T01:23:20Z: codex takes over",
        )
        .tell(ok(), "work 0 first agent 1")
        .tell(worked(limited(Some(5000))), "stop limit");
}

#[test]
fn a_kick_ends_the_wait_and_no_limit_is_believed() {
    let two = brief_with(|b| b.rules.prices = vec![None, None]);
    Loop::at_work(two)
        .tell(
            worked(limited(Some(9000))),
            "warn: usage limit of claude until 1970-01-01T02:30:00Z: codex takes over",
        )
        .tell(ok(), "work 0 first agent 1")
        .tell(worked(limited(Some(5000))), "wait until 5000")
        .tell(ok(), WARNING)
        .tell(ok(), "sleep until 5000")
        .tell(woke(true), "wake")
        .tell(ok(), "work 0 first");
    // The agent may still be limited.
    waiting(brief())
        .tell(woke(true), "wake")
        .tell(ok(), "work 0 first")
        .tell(worked(limited(Some(5000))), "wait until 5000");
}

#[test]
fn a_clock_that_was_set_back_does_not_wait_twice() {
    waiting(brief()).after(-500).tell(woke(false), "wake").tell(ok(), "work 0 first");
}

#[test]
fn a_wait_that_was_stored_is_gone_on_with() {
    let resumed = || {
        brief_with(|b| {
            b.run.wake_at = Some(at(5000));
            b.run.iteration_count = 1;
            b.iterations = vec![
                past(0, harness_core::run::Ending::Finished, "not yet"),
                Iteration::begun(1, at(START)),
            ];
        })
    };
    Loop::new(resumed())
        .tell(Input::Begin, WARNING)
        .tell(ok(), "sleep until 5000")
        .after(4000)
        .tell(woke(false), "wake")
        .tell(ok(), "look")
        .begins(1, "no promise");
    Loop::new(resumed())
        .tell(Input::Begin, WARNING)
        .tell(ok(), "sleep until 5000")
        .tell(woke(true), "wake");
    // The limit has ended in the meantime.
    Loop::new(resumed())
        .after(4000)
        .tell(Input::Begin, "wake")
        .tell(ok(), "look")
        .begins(1, "no promise");
}

#[test]
fn a_limit_goes_before_a_promise_and_after_an_agent_that_could_not_run() {
    // Only the end of the agent counts. The earlier state of the run does not change it.
    let last = brief_with(|b| b.run.limits.max_iterations = 0);
    Loop::at_work(last).tell(worked(limited(Some(5000))), "wait until 5000");
    waiting(brief())
        .after(4000)
        .tell(woke(false), "wake")
        .tell(ok(), "work 0 first")
        .tell(worked(failed(FailureKind::NotFound)), "stop env_setup");
}
