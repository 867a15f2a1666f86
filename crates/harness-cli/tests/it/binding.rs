//! The requests of `/harness` to a session. Hooks after `--bound` leave all other sessions alone.

use serde_json::{Value, json};

use crate::{
    environment::{Ran, TestEnvironment},
    hooks::{blocked, call, silent, task, world},
};

fn typed(env: &TestEnvironment, session: &str, prompt: &str) -> Ran {
    call(env, "prompt", &json!({ "session_id": session, "prompt": prompt }))
}

/// Ends a turn of the session with this text.
fn bound(env: &TestEnvironment, hook: &str, session: &str, said: &str) -> Ran {
    let payload = json!({ "session_id": session, "last_assistant_message": said });
    env.run_with_input(&payload.to_string(), ["hook", "--bound", hook])
}

fn context(ran: Ran) -> String {
    let said = ran.code(0).json();
    said["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

#[test]
fn only_a_session_that_was_put_to_work_is_kept_from_stopping() {
    let env = world("exclusive", &[task("a", "in_progress", None), task("b", "pending", None)]);
    for prompt in ["What is a monad?", "/harness status", "/harness", "/harness add One"] {
        silent(typed(&env, "chat", prompt));
        silent(bound(&env, "stop", "chat", "It is a monoid."));
        silent(bound(&env, "subagent-stop", "chat", "It is a monoid."));
    }
    silent(typed(&env, "work", "/harness run"));
    blocked(bound(&env, "stop", "work", "Enough."), &["next=b"]);
    blocked(bound(&env, "subagent-stop", "work", "Enough."), &["Title a"]);
    // The marker names no session, so a hook without `--bound` still applies to all.
    blocked(call(&env, "stop", &json!({ "session_id": "chat" })), &["next=b"]);
    silent(typed(&env, "work", "/harness stop"));
    silent(bound(&env, "stop", "work", "Enough."));
}

#[test]
fn a_session_is_bound_by_its_environment_and_by_the_marker_too() {
    let env = world("exclusive", &[task("b", "pending", None)]);
    env.write(".harness-active", "named\n");
    blocked(bound(&env, "stop", "named", "Enough."), &["next=b"]);
    silent(bound(&env, "stop", "other", "Enough."));
    let env = env.variable("HARNESS_BIND", "1");
    blocked(bound(&env, "stop", "other", "Enough."), &["next=b"]);
}

#[test]
fn a_bound_session_reviews_its_work_when_all_is_done() {
    let env = world("exclusive", &[task("a", "completed", None)]);
    silent(typed(&env, "work", "$harness run"));
    silent(bound(&env, "stop", "work", "Done."));
    assert!(env.exists(".harness-reflect"));
    silent(bound(&env, "self-reflect", "chat", "Hello."));
    blocked(bound(&env, "self-reflect", "work", "Done."), &["Review the work once more, 1/5"]);
}

#[test]
fn an_objective_begins_at_once_and_is_restarted_ten_times_at_most() {
    let env = TestEnvironment::new();
    let told = context(typed(&env, "s", "/harness write a report"));
    assert!(
        told.contains("work on this objective now") && told.contains("at most 10 times"),
        "{told}"
    );
    silent(bound(&env, "stop", "other", "No."));
    for restart in 1..=10 {
        // The promise inside another word is no promise.
        let said = "NOT_TASK_COMPLETE yet";
        let number = format!("Restart {restart} of 10.");
        blocked(bound(&env, "stop", "s", said), &[&number, "write a report", "long-running task"]);
    }
    let end = bound(&env, "stop", "s", "No.").code(0).json();
    assert_eq!(end.get("decision"), None);
    assert!(end["systemMessage"].as_str().unwrap().contains("10 times"), "{end}");
    silent(bound(&env, "stop", "s", "No."));
}

#[test]
fn the_promise_ends_an_objective_whatever_the_ledger_holds() {
    let env = world("exclusive", &[task("b", "pending", None)]);
    typed(&env, "s", "/harness write a report").code(0);
    blocked(bound(&env, "stop", "s", "Half of it."), &["Restart 1 of 10."]);
    silent(bound(&env, "stop", "s", "All of it.\n\nTASK_COMPLETE"));
    silent(bound(&env, "stop", "s", "Bye."));
    assert!(env.exists(".harness-active"));
}

#[test]
fn a_turn_without_a_word_counts_for_no_restart() {
    let env = TestEnvironment::new();
    typed(&env, "s", "/harness write a report").code(0);
    for _ in 0..10 {
        blocked(bound(&env, "stop", "s", ""), &["Restart 0 of 10."]);
    }
    blocked(bound(&env, "stop", "s", "Half of it."), &["Restart 1 of 10."]);
    let end = bound(&env, "stop", "s", "").code(0).json();
    assert!(end["systemMessage"].is_string(), "{end}");
}

#[test]
fn an_objective_is_told_again_to_a_new_context() {
    let env = TestEnvironment::new();
    typed(&env, "s", "/harness write a report").code(0);
    let handoff = json!({ "phase": "research", "next_step": "draft it" });
    env.write("state/handoff.json", handoff.to_string());
    let start = context(call(&env, "session-start", &json!({ "session_id": "s" })));
    let kept = call(&env, "pre-compact", &json!({ "session_id": "s" })).code(0);
    let kept = kept.output();
    for text in [start.as_str(), kept] {
        for words in ["write a report", "TASK_COMPLETE", "draft it"] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
    assert!(kept.starts_with("HARNESS: keep all of this"), "{kept}");
    silent(call(&env, "session-start", &json!({ "session_id": "other" })));
}

#[test]
fn a_session_of_harness_itself_or_without_hooks_is_never_bound() {
    for (name, value) in [("HARNESS_RUN_ID", "r"), ("HARNESS_HOOKS", "off")] {
        let env = TestEnvironment::new().variable(name, value);
        silent(typed(&env, "s", "/harness write a report"));
        let env = env.without_variable(name);
        silent(bound(&env, "stop", "s", "No."));
        assert!(!env.exists(".harness"), "{name}");
    }
}

#[test]
fn a_prompt_without_a_session_is_bound_to_nothing() {
    let env = TestEnvironment::new();
    for payload in [json!({}), json!({ "prompt": "/harness do it" }), Value::Null] {
        silent(call(&env, "prompt", &payload));
    }
    assert!(!env.exists(".harness"));
}
