//! Answers, messages and refusals that suggest what was probably meant.

use crate::{
    daemon::world,
    environment::TestEnvironment,
    gates::with_approval,
    objective::stage::{Going, Held, beside, go, stage},
};

#[test]
fn an_answer_that_is_none_of_the_choices_is_refused_and_the_choices_are_listed() {
    let env = world();
    with_approval(&env);
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "plan"]).success();
    env.run(["task", "claim"]).success();
    let asked = env.run(["questions", "--json"]).success().json();
    let id = asked["questions"][0]["prompt_id"].as_str().unwrap();
    env.run(["reply", id, "banana"]).code(1).stderr_contains("approve, reject");
    env.run(["reply", id, "yes"]).code(1).stderr_contains("approve, reject");
    // The question is still open.
    env.run(["reply", id, "approve"]).success();
    let claimed = env.run(["task", "claim", "--wait", "30s"]).success().json();
    assert_eq!(claimed["task"]["id"], "build");
    env.run(["questions"]).success().stderr_contains("no question waits for an answer");
}

#[test]
fn a_message_that_nobody_received_is_an_error_to_its_sender() {
    let env = stage();
    let held = Held::new(&env);
    let run = Going::start(&env, &["run", "write it", "--agent-command", &held.command]);
    held.is_at_work();
    for args in [&["send", "hello"][..], &["send", "hello", "--agent", "nobody"]] {
        let sent = env.harness(args).env_remove("HARNESS_DAEMON").output().unwrap();
        let said = String::from_utf8(sent.stderr).unwrap();
        assert_eq!(sent.status.code(), Some(1), "{said}");
        assert!(said.contains("no agent received it"), "{said}");
    }
    assert!(beside(&env, &["questions"]).is_empty());
    held.release();
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn an_unknown_task_is_answered_with_a_similar_one() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "multiply", "--id", "t-mul", "--validate", "true"]).success();
    for args in [
        &["task", "show", "t-nul"][..],
        &["task", "edit", "t-nul", "--priority", "P0"],
        &["task", "retry", "t-nul"],
        &["task", "release", "t-nul"],
        &["task", "remove", "t-nul"],
        &["task", "complete", "t-nul"],
        &["task", "fail", "t-nul", "no"],
        &["task", "renew", "t-nul"],
        &["why", "t-nul"],
        &["verify", "t-nul"],
    ] {
        env.run(args).code(1).stderr_contains("t-nul").stderr_contains("did you mean `t-mul`?");
    }
    env.run(["log", "t-nul"]).success().stderr_contains("did you mean `t-mul`?");
    env.run(["rescue", "list", "t-nul"]).success().stderr_contains("nothing was rescued of t-nul");
}

#[test]
fn a_title_is_one_line_of_a_length_that_lists_can_show() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "two\nlines"]).code(1).stderr_contains("title: must be one line");
    let long = "x".repeat(501);
    env.run(["add", &long]).code(1).stderr_contains("title: has 501 characters");
    env.run(["add", &long[1..]]).success();
    env.run(["task", "edit", "task-001", "--title", "a\nb"]).code(1).stderr_contains("one line");
}

#[test]
fn a_variable_that_names_no_setting_is_named() {
    let env = TestEnvironment::of_worker().variable("HARNESS_LIMIT_MAX_COST", "5");
    let words = "HARNESS_LIMIT_MAX_COST names no setting; did you mean HARNESS_LIMITS_MAX_COST?";
    env.run(["config"]).success().stderr_contains(words);
}

#[test]
fn variables_are_passed_to_a_command_on_request_and_a_key_that_is_kept_back_is_named() {
    let script = "echo \"$SOME_API_KEY $MINE\" > seen; echo TASK_COMPLETE";
    let of = |more: &[&str], toml: &str| {
        let env = stage().variable("SOME_API_KEY", "k-1").variable("MINE", "m");
        env.write("harness.toml", toml);
        let ran = go(&env, script, more).success();
        (env.read("seen"), ran.errors().contains("--agent-env SOME_API_KEY passes it"))
    };
    assert_eq!(of(&[], ""), (" \n".to_owned(), true));
    let both = ["--agent-env", "SOME_API_KEY,MINE"];
    assert_eq!(of(&both, ""), ("k-1 m\n".to_owned(), false));
    let table = "[agents.command]\nenv = [\"SOME_*\"]\n";
    assert_eq!(of(&["--agent-env", "MINE"], table), ("k-1 m\n".to_owned(), false));
    let env = stage();
    env.run(["run", "x", "--agent", "shell", "--agent-env", "MINE"]).code(2);
}

#[test]
fn shell_syntax_in_a_command_of_an_agent_is_refused_before_anything_runs() {
    let env = stage();
    let line = "echo x > f; echo TASK_COMPLETE";
    let ran = env.run(["run", "write it", "--agent-command", line]).code(2);
    ran.stderr_contains("is shell syntax").stderr_contains("sh -c");
    assert!(!env.exists(".harness/harness.db"));
    let quoted = "sh -c 'echo x > f; echo TASK_COMPLETE'";
    env.run(["run", "write it", "--agent-command", quoted]).success();
    assert_eq!(env.read("f"), "x\n");
}
