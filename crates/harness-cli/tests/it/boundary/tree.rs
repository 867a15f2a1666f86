//! What is judged is what is kept.

use serde_json::Value;

use crate::{environment::TestEnvironment, evidence::add};

const RUN: [&str; 3] = ["run", "--agent", "shell"];

fn world() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.write("base.txt", "base\n").write("tests/t.sh", "grep -q done work.txt\n");
    env.write(".gitignore", "*.log\n");
    env.git(["add", "base.txt", "tests", ".gitignore"]);
    env.git(["commit", "--quiet", "--message", "base"]);
    env
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

fn receipt(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read(".harness/receipts/task-001.1.json")).unwrap()
}

#[test]
fn x_h4_what_a_check_makes_is_neither_committed_nor_kept() {
    let env = world();
    let check = "echo x > made.txt; mkdir -p out; echo x > out/report; echo x > kept.log; true";
    add(&env, "echo one > one", check, &[]);
    env.run(RUN).success();
    assert_eq!(env.git(["show", "--name-only", "--format=", "HEAD"]), "one");
    assert!(!env.exists("made.txt") && !env.exists("out") && env.exists("kept.log"));
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert_eq!(receipt(&env)["flags"], Value::Null, "nothing is wrong with that");
}

#[test]
fn x_h4_a_check_that_changes_the_tree_is_run_on_what_it_left() {
    let env = world();
    // A formatter: it changes a file once, and then has nothing to do.
    let check = "echo ran >> runs.log; grep -q formatted one || echo formatted > one";
    add(&env, "echo raw > one", check, &[]);
    env.run(RUN).success();
    assert_eq!(env.read("runs.log"), "ran\nran\n");
    assert_eq!(env.git(["show", "HEAD:one"]), "formatted");
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn x_h4_what_an_unstable_check_changes_is_put_back_and_flagged() {
    let env = world();
    add(&env, "echo 1 > one", "echo again >> one; echo again >> base.txt; true", &[]);
    env.run(RUN).success();
    // The second check began with what the first one left.
    assert_eq!(env.git(["show", "HEAD:one"]), "1\nagain");
    assert_eq!(env.read("one"), "1\nagain\n");
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert_eq!(receipt(&env)["flags"], serde_json::json!(["unstable"]));
    let warning = "WARN [task-001] the check changes files each time it runs: base.txt, one";
    assert!(log(&env).contains(warning), "{}", log(&env));
}

#[test]
fn x_h4_a_check_that_changes_protected_files_each_time_fails() {
    let env = world();
    env.write("harness.toml", "protected = ['tests']\n");
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "protect the tests"]);
    add(&env, "echo 1 > one", "echo again >> tests/t.sh; true", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    let failed =
        "ERROR [task-001] [TEST_FAIL] The check failed (it changes protected files: tests/t.sh)";
    assert!(log(&env).contains(failed), "{}", log(&env));
    assert_eq!(env.read("tests/t.sh"), "grep -q done work.txt\n");
}

#[test]
fn x_m1_a_completion_without_a_commit_is_flagged() {
    for (setup, instructions, hidden) in [
        ("", "true", None),
        ("echo mine > notes", "echo work > notes", Some("notes")),
        ("", "echo work > work.log", Some("work.log")),
        ("", "git init --quiet nested; echo work > nested/work", Some("nested/")),
    ] {
        let env = world();
        assert!(env.program("sh").args(["-c", setup]).status().unwrap().success());
        let base = env.git(["rev-parse", "HEAD"]);
        add(&env, instructions, "true", &[]);
        env.run(RUN).success();
        assert_eq!(env.git(["rev-parse", "HEAD"]), base);
        let warning = "WARN [task-001] completed without a change";
        assert!(log(&env).contains(warning), "{instructions}: {}", log(&env));
        let expected = match hidden {
            None => serde_json::json!(["no-change"]),
            Some(_) => serde_json::json!(["no-change", "hidden-work"]),
        };
        assert_eq!(receipt(&env)["flags"], expected, "{instructions}");
        if let Some(hidden) = hidden {
            let warning = format!("WARN [task-001] work that the commit does not hold: {hidden}");
            assert!(log(&env).contains(&warning), "{instructions}: {}", log(&env));
        }
    }
}

#[test]
fn x_m1_work_in_a_submodule_is_flagged() {
    let env = world();
    let lib = env.home().join("lib");
    let git = ["-c", "protocol.file.allow=always"];
    assert!(env.program("git").args(["init", "--quiet"]).arg(&lib).status().unwrap().success());
    let commit = ["commit", "--quiet", "--allow-empty", "-m", "lib"];
    assert!(env.program("git").arg("-C").arg(&lib).args(commit).status().unwrap().success());
    let add_module = ["submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"];
    env.git([&git[..], &add_module].concat());
    env.git(["commit", "--quiet", "--message", "a submodule"]);
    add(&env, "echo work > lib/work; echo one > one", "true", &[]);
    env.run(RUN).success();
    assert_eq!(receipt(&env)["flags"], serde_json::json!(["hidden-work"]));
    assert!(log(&env).contains("work that the commit does not hold: lib/"), "{}", log(&env));
}
