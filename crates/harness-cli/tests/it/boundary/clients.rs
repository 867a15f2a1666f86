//! The work of clients, through a daemon and on the files: git's settings, the tree that is judged,
//! and the extra files of clean checks.

use serde_json::{Value, json};

use crate::{daemon, environment::TestEnvironment, evidence::task};

const COMPLETE: [&str; 4] = ["task", "complete", "--id", "task-001"];

/// Returns the same repository twice, with and without a daemon.
fn worlds(settings: &str) -> [TestEnvironment; 2] {
    [TestEnvironment::of_worker(), daemon::world()].map(|env| {
        env.write("harness.toml", settings).write("work.txt", "todo\n");
        env.write("tests/t.sh", "grep -q done work.txt\n").write(".gitignore", "*.log\n");
        env.git(["add", "harness.toml", "work.txt", "tests", ".gitignore"]);
        env.git(["commit", "--quiet", "--message", "base"]);
        env
    })
}

fn claimed(env: &TestEnvironment, check: &str) {
    env.run(["add", "one", "--validate", check]).success();
    env.run(["task", "claim"]).success();
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

fn receipt(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read(".harness/receipts/task-001.1.json")).unwrap()
}

/// Returns the tree of everything in the work tree, computed by git itself.
fn tree(env: &TestEnvironment) -> String {
    let index = env.home().join("index");
    let git = |args: &[&str]| {
        let mut command = env.program("git");
        let output = command.env("GIT_INDEX_FILE", &index).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["read-tree", "HEAD"]);
    git(&["add", "--all"]);
    git(&["write-tree"])
}

fn setting(env: &TestEnvironment, key: &str) -> String {
    let output = env.program("git").args(["config", "--get", key]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn x_h5_a_client_cannot_hide_protected_files_from_git() {
    for env in worlds("protected = ['tests']\nprotect = 'refuse'\n") {
        claimed(&env, "sh tests/t.sh");
        env.git(["update-index", "--assume-unchanged", "tests/t.sh"]);
        env.write("tests/t.sh", "true\n");
        env.run(COMPLETE).code(1).stderr_contains("touched protected files");
        assert_eq!(env.git(["ls-files", "-v", "tests/t.sh"]), "H tests/t.sh");
        assert!(log(&env).contains("git settings were changed and set back"), "{}", log(&env));
        let done = task(&env, 0);
        assert_eq!((&done["status"], &done["flags"]), (&json!("in_progress"), &json!(["config"])));
        // The files belong to the client, so nothing is rolled back.
        assert_eq!(env.read("tests/t.sh"), "true\n");
    }
}

#[test]
fn x_m12_settings_of_a_client_do_not_outlive_its_completion() {
    for env in worlds("") {
        claimed(&env, "sh tests/t.sh");
        env.git(["config", "core.excludesFile", "/dev/null"]);
        env.git(["config", "branch.main.remote", "elsewhere"]);
        env.write(".git/info/exclude", "hidden.txt\n").write("hidden.txt", "");
        env.write(".git/hooks/pre-commit", "#!/bin/sh\n").write("work.txt", "done\n");
        env.run(COMPLETE).success();
        assert_eq!(setting(&env, "core.excludesFile"), "");
        assert_eq!(setting(&env, "branch.main.remote"), "elsewhere", "it is left alone");
        assert!(!env.exists(".git/hooks/pre-commit"));
        assert!(!env.read(".git/info/exclude").contains("hidden.txt"));
        let again = "to make it again: git config core.excludesfile /dev/null";
        assert!(log(&env).contains(again), "{}", log(&env));
        assert_eq!(task(&env, 0)["flags"], json!(["config", "protected"]));
        assert_eq!(receipt(&env)["flags"], json!(["config", "protected", "no-change"]));
        assert_eq!(receipt(&env)["tree"], tree(&env), "what was hidden is in the judged tree");
    }
}

#[test]
fn x_m12_asking_for_a_claim_again_does_not_forget_what_it_was_made_with() {
    for env in worlds("protected = ['tests']\nprotect = 'refuse'\n") {
        claimed(&env, "sh tests/t.sh");
        env.write("harness.toml", "").write("work.txt", "done\n");
        env.git(["config", "core.ignoreStat", "true"]);
        env.run(["task", "claim"]).success();
        env.write("tests/t.sh", "true\n");
        let refused = "touched protected files: harness.toml, tests/t.sh, git: core.ignorestat";
        env.run(COMPLETE).code(1).stderr_contains(refused);
        assert_eq!(setting(&env, "core.ignoreStat"), "");
    }
}

#[test]
fn x_m12_settings_stay_while_other_tasks_are_claimed() {
    for env in worlds("") {
        claimed(&env, "true");
        env.run(["add", "two", "--validate", "true"]).success();
        env.run(["task", "claim", "--worker", "other"]).success();
        env.git(["config", "core.ignoreStat", "true"]);
        env.run(COMPLETE).success();
        assert_eq!(setting(&env, "core.ignoreStat"), "true");
        assert!(log(&env).contains("WARN [task-001] git settings were changed: core.ignorestat"));
        assert_eq!(task(&env, 0)["flags"], json!(["config", "protected"]));
        // The last claim ends.
        env.run(["task", "complete", "--id", "task-002", "--worker", "other"]).success();
        assert_eq!(setting(&env, "core.ignoreStat"), "");
    }
}

#[test]
fn x_h4_the_receipt_of_a_client_names_the_tree_that_was_judged() {
    for env in worlds("") {
        claimed(&env, "echo x > made.txt; sh tests/t.sh");
        env.write("work.txt", "done\n").write("new.txt", "new\n");
        let judged = tree(&env);
        env.run(COMPLETE).success();
        assert_eq!(receipt(&env)["tree"], judged);
        assert_ne!(judged, env.git(["rev-parse", "HEAD^{tree}"]), "it is in no commit");
        // Another worker may have made it, so new files stay.
        assert!(env.exists("made.txt"));
        assert_eq!(receipt(&env)["flags"], json!(["no-change"]));
    }
}

#[test]
fn x_h4_a_check_that_changes_the_tree_of_a_client_is_run_on_what_it_left() {
    for env in worlds("") {
        // This is a formatter, which changes a file once and then has nothing to do.
        claimed(&env, "echo ran >> runs.log; grep -q formatted one || echo formatted > one");
        env.write("one", "raw\n").git(["add", "one"]);
        env.git(["commit", "--quiet", "--message", "task-001: one"]);
        env.run(COMPLETE).success();
        assert_eq!(env.read("runs.log"), "ran\nran\n");
        assert_eq!(
            (&receipt(&env)["tree"], &receipt(&env)["flags"]),
            (&json!(tree(&env)), &Value::Null)
        );
    }
}

#[test]
fn x_h4_an_unstable_check_of_a_client_is_flagged() {
    for env in worlds("") {
        claimed(&env, "echo again >> work.txt; true");
        env.write("work.txt", "1\n");
        env.run(COMPLETE).success();
        let warning = "WARN [task-001] files change each time the check runs: work.txt";
        assert!(log(&env).contains(warning), "{}", log(&env));
        assert_eq!(receipt(&env)["flags"], json!(["unstable", "no-change"]));
        // Nothing is restored, but the receipt describes what was judged.
        assert_eq!(env.read("work.txt"), "1\nagain\nagain\n");
        env.write("work.txt", "1\nagain\n");
        assert_eq!(receipt(&env)["tree"], tree(&env));
    }
}

#[test]
fn x_h6_clean_checks_of_clients_are_given_what_is_brought_in() {
    let settings = "[validation]\nclean = true\nlink = ['vendor']\ncopy = ['local.log']\n";
    for env in worlds(settings) {
        env.write("vendor.log", "").write("vendor/lib", "1\n").write("local.log", "2\n");
        env.write(".git/info/exclude", "vendor\n");
        claimed(
            &env,
            "test -L vendor && grep -q 1 vendor/lib && test ! -L local.log && grep -q 2 local.log",
        );
        // A claim keeps the configuration that it was made with.
        env.write("harness.toml", "[validation]\nclean = true\n");
        env.run(COMPLETE).success();
        assert_eq!(receipt(&env)["check"]["clean"], true);
    }
}

#[test]
fn a_client_without_a_repository_is_judged_as_before() {
    let env = TestEnvironment::new().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    claimed(&env, "echo again >> work.txt");
    env.run(COMPLETE).success();
    assert_eq!(env.read("work.txt"), "again\n");
    assert_eq!((&receipt(&env)["tree"], &receipt(&env)["commit"]), (&Value::Null, &Value::Null));
}
