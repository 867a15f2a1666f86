//! Completions are written back to files, byte for byte.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use super::{complete, openspec};
use crate::environment::TestEnvironment;

/// Imports a file, completes its first task by `true`, and compares the file after `--sync`.
fn check(file: &str, before: &str, after: &str) {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.write(file, before);
    env.git(["add", "."]);
    env.git(["commit", "--quiet", "--message", "tasks"]);
    env.run(["import", file, "--validate", "true", "--sync"])
        .success()
        .stdout_contains("Nothing to mark");
    assert_eq!(env.read(file), before);
    env.run(["trust", "--yes"]).success();
    let id = env.task(0)["id"].as_str().unwrap().to_owned();
    complete(&env, &id);
    let report = env.run(["import", file, "--sync", "--json"]).success().json();
    assert_eq!(report["synced"], json!({ "marked": [id], "files": [file], "problems": [] }));
    assert_eq!(env.read(file), after);
    env.run(["import", file, "--sync"]).success().stdout_contains("Nothing to mark");
    assert_eq!(env.read(file), after, "a second time changes nothing");
}

#[test]
fn only_the_place_of_the_task_changes() {
    check(
        "specs/001-a/tasks.md",
        "\u{feff}## Phase 1: A\r\n- [ ] T001 One\t\r\n- [ ] T002 Two",
        "\u{feff}## Phase 1: A\r\n- [x] T001 One\t\r\n- [ ] T002 Two",
    );
    check("list.md", "* [\t]  One\n\n\n- [ ] Two\n", "* [x]  One\n\n\n- [ ] Two\n");
    check(
        "p.md",
        "### Task 1: A\n- [ ] a\n- [X] b\n```\n- [ ] c\n```\n### Task 2: B\n- [ ] d\n",
        "### Task 1: A\n- [x] a\n- [X] b\n```\n- [ ] c\n```\n### Task 2: B\n- [ ] d\n",
    );
    check(
        "prd.json",
        "{\"userStories\" :[ { \"passes\"\t:false,\"id\":\"a\" ,\"title\":\"\\u00e9\", \"n\":1.50 }\r\n,{\"id\":\"b\",\"title\":\"B\",\"passes\":false}]}",
        "{\"userStories\" :[ { \"passes\"\t:true,\"id\":\"a\" ,\"title\":\"\\u00e9\", \"n\":1.50 }\r\n,{\"id\":\"b\",\"title\":\"B\",\"passes\":false}]}",
    );
    check(
        "feature_list.json",
        "[{\"description\":\"A\",\"passes\":  false},\n\t{\"description\":\"B\",\"passes\":false}]\n",
        "[{\"description\":\"A\",\"passes\":  true},\n\t{\"description\":\"B\",\"passes\":false}]\n",
    );
    check(
        "tasks/tasks.json",
        "{\"tasks\":[{\"id\":1,\"title\":\"A\",\"status\":\"pending\"},{\"id\":2,\"title\":\"B\",\"status\":\"pending\"}]}",
        "{\"tasks\":[{\"id\":1,\"title\":\"A\",\"status\":\"done\"},{\"id\":2,\"title\":\"B\",\"status\":\"pending\"}]}",
    );
}

#[test]
fn nothing_is_called_done_without_a_check_that_passed() {
    let env = openspec();
    env.run(["import"]).success();
    env.run(["trust", "--yes"]).success();
    // 1.1 has no check here, so nothing proves it.
    complete(&env, "add-x-1.1");
    let before = env.read("openspec/changes/add-x/tasks.md");
    env.run(["import", "--sync"]).success().stdout_contains("Nothing to mark");
    assert_eq!(env.read("openspec/changes/add-x/tasks.md"), before);
}

#[test]
fn the_mode_of_a_file_stays_and_a_link_is_not_followed() {
    let env = openspec();
    let file = env.root().join("openspec/changes/add-x/tasks.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    env.run(["import", "--validate", "true"]).success();
    env.run(["trust", "--yes"]).success();
    complete(&env, "add-x-1.1");
    let elsewhere = env.home().join("tasks.md");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    let before = fs::read_to_string(&elsewhere).unwrap();
    env.run(["import", "--from", "openspec", "--sync"])
        .success()
        .stderr_contains("it is not a file");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), before);
    fs::remove_file(&file).unwrap();
    fs::rename(&elsewhere, &file).unwrap();
    env.run(["import", "--sync"]).success().stdout_contains("Marked 1 task");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

/// Writes an agent that creates the file which the task asks for.
fn agent(env: &TestEnvironment) -> String {
    let agent = env.home().join("agent");
    let script = "#!/bin/sh\ncat > /dev/null\ncase $HARNESS_TASK_ID in *1.1) touch one;; *) touch two;; esac\n\
                  echo TASK_COMPLETE\n";
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    agent.display().to_string()
}

#[test]
fn a_run_writes_back_at_its_end_and_commits_that_alone() {
    let env = openspec();
    env.run(["import", "--validate", "test -f one"]).success();
    env.write("harness.toml", "[import]\nsync = true\n");
    env.run(["trust", "--yes"]).success();
    let agent = agent(&env);
    env.write("mine.txt", "mine");
    env.run(["run", "--agent-command", &agent]).success();
    let text = env.read("openspec/changes/add-x/tasks.md");
    assert_eq!(text, super::OPENSPEC.replace("[ ]", "[x]"));
    let subjects = env.git(["log", "--format=%s"]);
    assert!(subjects.starts_with("Mark imported tasks as done\nadd-x-2.1: "), "{subjects}");
    let files = env.git(["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(files, "openspec/changes/add-x/tasks.md");
    let status = env.git(["status", "--porcelain"]);
    assert!(!status.contains("tasks.md") && status.contains("?? mine.txt"), "{status}");
    // The next run finds a clean tree.
    env.run(["run", "--agent-command", &agent]).success();
}

#[test]
fn a_run_does_not_fail_if_a_source_cannot_be_written() {
    let env = openspec();
    env.run(["import", "--validate", "test -f one"]).success();
    env.write("harness.toml", "[import]\nsync = true\n");
    env.run(["trust", "--yes"]).success();
    env.git(["rm", "--quiet", "openspec/changes/add-x/tasks.md"]);
    env.git(["commit", "--quiet", "--message", "gone"]);
    let agent = agent(&env);
    let words = "not marked as done at its source: openspec/changes/add-x/tasks.md";
    env.run(["run", "--agent-command", &agent]).success().stderr_contains(words);
    assert!(env.read("harness-progress.txt").contains(words));
}
