//! The rules and the places of judging, and the output of a run that did not succeed.

use serde_json::{Value, json};

use crate::{
    daemon,
    environment::TestEnvironment,
    evidence::{add, task},
};

const RUN: [&str; 3] = ["run", "--agent", "shell"];

fn world() -> TestEnvironment {
    TestEnvironment::of_worker()
}

/// Edits one task in the file, as a person or an agent without harness would.
fn edit(env: &TestEnvironment, n: usize, fields: &Value) {
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        ledger["tasks"][n][name] = value.clone();
    }
    env.write("harness-tasks.json", serde_json::to_string_pretty(&ledger).unwrap());
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

#[test]
fn r1_a_task_in_progress_without_an_epoch_is_recovered_by_the_first_run() {
    let env = world();
    add(&env, "true", "test -f w", &[]);
    let head = env.git(["rev-parse", "HEAD"]);
    edit(&env, 0, &json!({ "status": "in_progress", "started_at_commit": head }));
    env.write("w", "").git(["add", "w"]);
    env.git(["commit", "--quiet", "--message", "task-001: x"]);
    let said = env.run([&RUN[..], &["--json"]].concat()).success().json();
    assert_eq!((&said["exit_code"], &said["counts"]["completed"]), (&json!(0), &json!(1)));
    let done = task(&env, 0);
    assert_eq!((&done["status"], &done["attempts"]), (&json!("completed"), &json!(1)));
    assert!(log(&env).contains("RECOVERY [task-001] action=\"validate\""), "{}", log(&env));
    assert!(!env.exists(".harness-active"));
}

#[test]
fn r1_a_second_task_is_not_in_the_way_of_such_a_recovery() {
    let env = world();
    add(&env, "touch one", "test -f one", &[]);
    add(&env, "touch two", "test -f two", &[]);
    edit(&env, 0, &json!({ "status": "in_progress" }));
    env.run(RUN).success();
    assert_eq!(
        (&task(&env, 0)["status"], &task(&env, 1)["status"]),
        (&json!("completed"), &json!("completed"))
    );
}

#[test]
fn r7_without_a_base_and_without_progress_one_attempt_is_counted() {
    for base in [Value::Null, json!("0123456789012345678901234567890123456789")] {
        let env = world();
        add(&env, "touch one", "test -f one", &["--max-attempts", "3"]);
        edit(&env, 0, &json!({ "status": "in_progress", "started_at_commit": base }));
        env.run(RUN).success();
        let done = task(&env, 0);
        assert_eq!(
            (&done["status"], &done["attempts"]),
            (&json!("completed"), &json!(2)),
            "{base}"
        );
        assert_eq!(done["error_log"], json!(["[SESSION_TIMEOUT] No progress detected"]));
        assert!(!log(&env).contains("ROLLBACK"), "{}", log(&env));
    }
}

#[test]
fn r3_a_run_restores_a_broken_ledger() {
    let env = world();
    add(&env, "touch one", "test -f one", &[]);
    add(&env, "touch two", "test -f two", &[]);
    env.write("harness-tasks.json", "{x");
    env.run(RUN).success().stderr_contains("was restored from the journal");
    assert_eq!(task(&env, 0)["status"], "completed");
    assert!(
        log(&env).contains("action=\"restore harness-tasks.json from the journal\""),
        "{}",
        log(&env)
    );
}

const STRICT: &str = "protected = ['tests/']\nprotect = 'refuse'\n";

#[test]
fn x_m13_a_claim_keeps_the_rules_that_it_was_made_under() {
    let env = world();
    env.write("harness.toml", STRICT);
    env.run(["add", "one", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    env.write("harness.toml", "").write("tests/a", "");
    let complete = ["task", "complete", "--id", "task-001"];
    env.run(complete).code(1).stderr_contains("tests/a");
    assert_eq!(task(&env, 0)["status"], "in_progress");
}

#[test]
fn x_m13_a_daemon_keeps_them_even_when_it_starts_again() {
    let env = daemon::world();
    env.write("harness.toml", STRICT);
    env.run(["add", "one", "--validate", "true"]).success();
    env.run(["task", "claim"]).success();
    env.write("harness.toml", "").write("tests/a", "");
    let complete = ["task", "complete", "--id", "task-001"];
    env.run(complete).code(1).stderr_contains("tests/a");
    env.run(["shutdown"]).success();
    env.run(complete).code(1).stderr_contains("tests/a");
}

#[test]
fn x_m13_a_forged_work_tree_does_not_move_the_check() {
    for env in [world(), daemon::world()] {
        env.run(["add", "one", "--validate", "test -f done"]).success();
        env.run(["task", "claim"]).success();
        let elsewhere = env.home().join("elsewhere");
        env.write(elsewhere.join("done"), "");
        edit(&env, 0, &json!({ "worktree": elsewhere }));
        env.run(["task", "complete", "--id", "task-001"])
            .code(5)
            .stderr_contains("not a work tree of");
        assert_eq!(task(&env, 0)["status"], "in_progress");
        // Another work tree of the same repository is accepted.
        let other = env.home().join("other");
        env.git(["worktree", "add", "--quiet", "--detach", other.to_str().unwrap()]);
        env.write(other.join("done"), "");
        edit(&env, 0, &json!({ "worktree": other }));
        env.run(["task", "complete", "--id", "task-001"]).success();
    }
}

#[test]
fn another_list_of_protected_files_is_logged() {
    for env in [world(), daemon::world()] {
        env.write("harness.toml", "protected = ['tests']\nprotect = 'refuse'\n");
        for title in ["one", "two", "three"] {
            env.run(["add", title, "--validate", "true"]).success();
        }
        env.run(["task", "claim", "--worker", "one"]).success();
        env.write("harness.toml", "protected = []\n");
        env.run(["task", "claim", "--worker", "two"]).success();
        env.run(["task", "claim", "--worker", "three"]).success();
        let line = r#"WARN protected files changed by the configuration: "tests (refuse)" -> """#;
        let log = env.read("harness-progress.txt");
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
}

/// Git sees neither the prompts in harness's own folder nor ignored files.
#[test]
fn own_settings_that_git_does_not_see_are_protected_too() {
    let own = ["harness.toml", "harness-init.sh", ".harness/prompts/task.md"];
    for env in [world(), daemon::world()] {
        env.write(".gitignore", "harness.toml\nharness-init.sh\n");
        env.git(["add", ".gitignore"]);
        env.git(["commit", "--quiet", "--message", "ignore"]);
        for (n, file) in own.iter().enumerate() {
            env.write("harness.toml", "protect = 'refuse'\n").write("harness-init.sh", "true\n");
            env.write(".harness/prompts/task.md", "be good\n");
            env.run(["add", "one", "--validate", "true"]).success();
            let id = format!("task-00{}", n + 1);
            env.run(["task", "claim"]).success();
            let before = env.read(file);
            env.write(file, format!("{before}# and more\n"));
            let complete = ["task", "complete", "--id", &id];
            env.run(complete).code(1).stderr_contains(file);
            env.write(file, before);
            env.run(complete).success();
        }
    }
}

#[test]
fn a_run_flags_a_changed_prompt_that_git_does_not_see() {
    let env = world();
    env.write(".harness/prompts/task.md", "be good\n");
    let add = |title: &str, script: &str| {
        let check = format!("test -f {title}");
        env.run(["add", title, "--validate", &check, "--instructions", script]).success();
    };
    add("one", "echo bad > .harness/prompts/task.md; touch one");
    add("two", "touch two");
    env.run(["run", "--agent", "shell"]).success();
    let log = env.read("harness-progress.txt");
    let line = "WARN [task-001] touched protected files: .harness/prompts/task.md";
    assert!(log.contains(line), "{log}");
    assert!(!log.contains("[task-002] touched"), "{log}");
}
