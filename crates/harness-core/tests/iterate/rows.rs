//! Each row of the table by itself, except those that have their own file.

use harness_core::{
    agent::{AgentEvent, End, FailureKind, StoppedBy},
    check::Verdict,
    machine::{Input, iterate::Brief},
    promise::Match,
};

use crate::story::*;

fn with_verify() -> Brief {
    brief_with(|b| b.run.verify = Some("make check".into()))
}

#[test]
fn a_promise_in_the_final_text_of_a_proper_end_completes() {
    Loop::at_work(brief())
        .ends(finished("All is well. DONE"), "finished")
        .tell(ok(), "stop complete")
        .ends_as("complete", "the promise was kept");
}

#[test]
fn only_a_whole_token_in_a_proper_end_is_a_promise() {
    for text in ["done", "DONE_", "UNDONE", "I did nothing"] {
        Loop::at_work(brief()).ends(finished(text), "finished").tell(ok(), "begin 1");
    }
    let tag = || brief_with(|b| b.rules.promise_match = Match::Tag);
    Loop::at_work(tag()).ends(finished("DONE"), "finished").tell(ok(), "begin 1");
    Loop::at_work(tag())
        .ends(finished("<promise>DONE</promise>"), "finished")
        .tell(ok(), "stop complete");
    // A text before a failure is not a final text.
    let crash = End::Failed { kind: FailureKind::Crashed, detail: "DONE".into() };
    Loop::at_work(brief()).ends(crash, "crashed: DONE").goes_on(1, "failed: DONE");
}

#[test]
fn a_mention_is_answered_once_in_the_same_context() {
    let session = || Input::Told(AgentEvent::Session("s".into()));
    let mention = "I will say DONE when it is finished";
    Loop::at_work(brief())
        .tell(session(), "session s")
        .tell(ok(), "wait")
        .tell(worked(finished(mention)), "work 0 first in s after 0 for a mention")
        .ends(finished("All of it.\nDONE"), "finished")
        .tell(ok(), "stop complete");
    // The second mention ends the iteration, and the next one may be asked again.
    Loop::at_work(brief())
        .tell(session(), "session s")
        .tell(ok(), "wait")
        .tell(worked(finished(mention)), "work 0 first in s after 0 for a mention")
        .ends(finished(mention), "finished")
        .goes_on(1, "only mentioned")
        .tell(session(), "session s")
        .tell(ok(), "wait")
        .tell(worked(finished(mention)), "work 1 only mentioned in s after 0 for a mention");
    // Without a context to go on in there is nothing to answer.
    Loop::at_work(brief()).ends(finished(mention), "finished").goes_on(1, "only mentioned");
    // The older rule takes it.
    let token = brief_with(|b| b.rules.promise_match = Match::Token);
    Loop::at_work(token).ends(finished(mention), "finished").tell(ok(), "stop complete");
    // A promise by another road needs no words.
    Loop::at_work(brief())
        .tell(session(), "session s")
        .tell(ok(), "wait")
        .tell(Input::Told(AgentEvent::Promised), "wait")
        .ends(finished(mention), "finished")
        .tell(ok(), "stop complete");
}

#[test]
fn a_promise_by_another_road_counts_as_well() {
    Loop::at_work(brief())
        .tell(Input::Told(AgentEvent::Promised), "wait")
        .ends(finished("that was it"), "finished")
        .tell(ok(), "stop complete");
    // A turn without further text does not cancel it.
    Loop::at_work(brief())
        .tell(Input::Told(AgentEvent::Promised), "wait")
        .ends(finished(" "), "finished")
        .tell(ok(), "stop complete");
    // The promise belongs to its turn. The next turn must give it again.
    Loop::at_work(with_verify())
        .tell(Input::Told(AgentEvent::Promised), "wait")
        .ends(finished("that was it"), "finished")
        .tell(ok(), "verify make check")
        .tell(verified(Verdict::Red { why: "exit code 1".into() }, "no"), "look")
        .begins(1, "verify: exit code 1\nno")
        .ends(finished("not yet"), "finished")
        .tell(ok(), "begin 2");
}

#[test]
fn a_promise_completes_however_short_the_turn_was() {
    Loop::at_work(brief())
        .tell(worked(finished("DONE")), "look")
        .tell(looked("look 1"), "end finished")
        .tell(ok(), "stop complete");
}

#[test]
fn the_runs_own_check_has_to_agree() {
    let promised = || {
        Loop::at_work(with_verify())
            .ends(finished("DONE"), "finished")
            .tell(ok(), "verify make check")
    };
    promised()
        .tell(verified(Verdict::Passed, "ok"), "stop complete")
        .ends_as("complete", "verified");
    promised()
        .tell(verified(Verdict::Red { why: "exit code 1".into() }, "2 failed"), "look")
        .begins(1, "verify: exit code 1\n2 failed");
    promised()
        .tell(verified(Verdict::TimedOut, "half"), "look")
        .begins(1, "verify: it took too long\nhalf");
    promised()
        .tell(verified(Verdict::Missing, ""), "stop env_setup")
        .ends_as("env_setup", "the command of --verify cannot be run here: make check");
    promised()
        .tell(verified(Verdict::Cancelled, ""), "stop cancelled")
        .ends_as("cancelled", "stopped by a person");
    // Without a promise there is nothing to check.
    Loop::at_work(with_verify()).ends(finished("not yet"), "finished").tell(ok(), "begin 1");
}

#[test]
fn an_agent_that_could_not_run_burns_no_iteration() {
    for (kind, reason) in [
        (FailureKind::NotFound, "env_setup"),
        (FailureKind::Auth, "env_setup"),
        (FailureKind::Config, "config"),
    ] {
        // Only the stop is stored. The iteration stays open under its number.
        Loop::at_work(brief())
            .tell(worked(failed(kind)), &format!("stop {reason}"))
            .ends_as(reason, "boom");
        Loop::at_work(brief())
            .restarts(1)
            .tell(worked(failed(kind)), &format!("stop {reason}"))
            .ends_as(reason, "boom");
    }
}

#[test]
fn a_stop_request_cancels_the_run() {
    for by in [StoppedBy::User, StoppedBy::Fenced] {
        Loop::at_work(brief())
            .tell(worked(stopped(by)), "stop cancelled")
            .ends_as("cancelled", "stopped by a person");
    }
}

#[test]
fn each_cause_of_a_restart_is_reported_to_the_next_context() {
    for (end, recorded, cause) in [
        (finished("not yet"), "finished", "no promise"),
        (End::OutOfContext, "out_of_context", "out of context"),
        (End::Refused, "refused", "failed: the agent refused"),
        (failed(FailureKind::Crashed), "crashed: boom", "failed: boom"),
        (failed(FailureKind::Network), "network: boom", "failed: boom"),
        (failed(FailureKind::Protocol), "protocol: boom", "failed: boom"),
        (stopped(StoppedBy::Stall), "silent: silent for too long", "failed: silent for too long"),
        (stopped(StoppedBy::Timeout), "silent: silent for too long", "failed: silent for too long"),
    ] {
        Loop::at_work(brief()).ends(end, recorded).goes_on(1, cause);
    }
}

#[test]
fn the_next_context_hears_the_end_of_what_the_last_one_said() {
    let mut at_work =
        Loop::at_work(brief()).ends(finished("half of it"), "finished").tell(ok(), "begin 1");
    let next = at_work.next(ok());
    let harness_core::machine::Next::Start(harness_core::machine::iterate::Effect::Work(turn)) =
        next
    else {
        panic!("{next:?}")
    };
    assert_eq!(turn.last_text.as_deref(), Some("half of it"));
}

#[test]
fn a_blank_turn_is_overlooked_twice_in_a_row_and_then_counted() {
    for blank in ["", " \n\t"] {
        Loop::at_work(brief())
            .tell(worked(finished(blank)), "work 0 first")
            .tell(worked(finished(blank)), "work 0 first")
            .ends(finished(blank), "finished")
            .goes_on(1, "no promise")
            // The next context starts the count again.
            .tell(worked(finished(blank)), "work 1 no promise")
            .tell(worked(finished("DONE")), "look");
    }
    // A script produces no text.
    Loop::at_work(brief_with(|b| b.rules.restarts = false))
        .ends(finished(""), "finished")
        .tell(ok(), "begin 1");
}

#[test]
fn a_blank_turn_goes_on_in_its_context_where_that_can_be_taken_up() {
    let session = |id: &str| Input::Told(AgentEvent::Session(id.into()));
    Loop::at_work(brief())
        .tell(session("s-1"), "session s-1")
        .tell(ok(), "wait")
        .tell(used(30, None), "spend 30")
        .tell(spent(30, None), "wait")
        // Agents that count usage by session must know the earlier value.
        .tell(worked(finished("")), "work 0 first in s-1 after 30")
        .tell(session("s-1"), "session s-1")
        .tell(ok(), "wait")
        .tell(used(12, None), "spend 12")
        .tell(spent(42, None), "wait")
        .tell(worked(finished("")), "work 0 first in s-1 after 42")
        // The next iteration is a fresh one.
        .ends(finished("half of it"), "finished")
        .goes_on(1, "no promise");
    // Another agent does not have the context.
    Loop::at_work(brief_with(|b| b.rules.prices = vec![None, None]))
        .tell(session("s-1"), "session s-1")
        .tell(ok(), "wait")
        .tell(
            worked(limited(Some(5000))),
            "warn: usage limit of claude until 1970-01-01T01:23:20Z: codex takes over",
        )
        .tell(ok(), "work 0 first agent 1");
}

#[test]
fn a_context_that_is_gone_is_replaced_in_the_same_row() {
    let session = |id: &str| Input::Told(AgentEvent::Session(id.into()));
    let resumed = || {
        Loop::at_work(brief())
            .tell(session("s-1"), "session s-1")
            .tell(ok(), "wait")
            .tell(worked(finished("")), "work 0 first in s-1 after 0")
    };
    for kind in [FailureKind::Crashed, FailureKind::Protocol, FailureKind::Config] {
        resumed()
            .tell(worked(failed(kind)), "work 0 first")
            // This happens once: a fresh context that fails has failed.
            .tell(worked(failed(FailureKind::Crashed)), "look");
    }
    // A context in which the agent began to work has failed by itself.
    resumed()
        .tell(used(12, None), "spend 12")
        .tell(spent(12, None), "wait")
        .tell(worked(failed(FailureKind::Crashed)), "look");
    let tool = AgentEvent::ToolStart { name: "Write".into(), input: None };
    resumed().tell(Input::Told(tool), "wait").tell(worked(failed(FailureKind::Crashed)), "look");
}

#[test]
fn what_is_stored_of_an_iteration_is_what_was_seen() {
    use harness_core::{CommitId, command::RunStep, machine::iterate::Ended, run::Ending};
    let commit = |text: &str| CommitId::parse(text).ok();
    let seen = |head: &str, mark: &str| {
        Input::Ended(Ended::Looked { head: commit(head), mark: Some(mark.into()) })
    };
    let mut story = Loop::new(brief()).tell(Input::Begin, "look");
    let begun = story.step_of(seen("aaaaaaa", "m1"));
    assert_eq!(begun.by, Some(owner()));
    let transcript = Some("t.0.log".to_owned());
    let step =
        RunStep::Begin { number: 0, head: commit("aaaaaaa"), mark: Some("m1".into()), transcript };
    assert_eq!(begun.step, step);
    let mut story = story.tell(ok(), "work 0 first").tell(worked(finished("so far")), "look");
    let step = RunStep::End {
        ending: Ending::Finished,
        detail: None,
        final_text: Some("so far".into()),
        head: commit("bbbbbbb"),
        mark: Some("m2".into()),
    };
    assert_eq!(story.step_of(seen("bbbbbbb", "m2")).step, step);
}
