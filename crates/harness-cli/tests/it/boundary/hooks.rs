//! Hooks in a repository that brings a ledger.

use serde_json::json;

use crate::{
    environment::TestEnvironment,
    hooks::{blocked, call, silent, task, world},
};

const SAYING: [&str; 6] =
    ["stop", "session-start", "teammate-idle", "subagent-stop", "self-reflect", "pre-compact"];

/// Returns a world with ledger and markers from a repository.
fn cloned() -> TestEnvironment {
    let env = world("exclusive", &[task("a", "pending", None)]);
    env.write(".harness-reflect", "");
    env.git(["init", "--quiet"]);
    env.git(["add", "--force", "."]);
    env.git(["commit", "--quiet", "--message", "from somebody else"]);
    env
}

#[test]
fn x_m4_hooks_say_nothing_of_a_ledger_that_came_with_the_repository() {
    let env = cloned();
    for hook in SAYING {
        silent(call(&env, hook, &json!({ "session_id": "s" })));
    }
    let claimed = call(&env, "claim", &json!({ "session_id": "s" })).code(0).json();
    assert_eq!(claimed["claimed"], false);
    assert!(!claimed.to_string().contains("Title"), "{claimed}");
    assert_eq!(call(&env, "renew", &json!({ "task_id": "a" })).code(0).json()["renewed"], false);
    assert_eq!(env.task(0)["status"], "pending");
    assert!(!env.exists(".harness-stop-counter"));

    env.run(["trust", "--yes"]).success();
    blocked(call(&env, "stop", &json!({})), &["next=a: Title a"]);
    assert_eq!(call(&env, "claim", &json!({ "session_id": "s" })).json()["claimed"], true);
}

#[test]
fn x_m4_hooks_act_where_git_tracks_neither_ledger_nor_marker() {
    let env = world("exclusive", &[task("a", "pending", None)]);
    env.git(["init", "--quiet"]);
    blocked(call(&env, "stop", &json!({})), &["next=a: Title a"]);
    // A tracked marker alone is enough for doubt, because a repository can bring that too.
    env.git(["add", "--force", ".harness-active"]);
    silent(call(&env, "stop", &json!({})));
}
