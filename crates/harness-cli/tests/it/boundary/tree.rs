//! The judged tree is the tree that is committed.

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
    // This is a formatter, which changes a file once and then has nothing to do.
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
    // The second check began with the result of the first one.
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

#[test]
fn s7_commits_on_a_detached_head_are_kept_by_refs() {
    let env = world();
    env.git(["checkout", "--quiet", "--detach"]);
    add(&env, "echo one > one", "test -f one", &[]);
    env.run(RUN).success();
    let commit = env.git(["rev-parse", "HEAD"]);
    assert!(log(&env).contains("WARN HEAD is on no branch"), "{}", log(&env));
    let kept =
        "WARN [task-001] HEAD is on no branch: refs/harness/landed/task-001 keeps the commit";
    assert!(log(&env).contains(kept), "{}", log(&env));
    env.git(["checkout", "--quiet", "main"]);
    assert_eq!(env.git(["rev-parse", "refs/harness/landed/task-001"]), commit);
    assert_eq!(env.git(["show", "refs/harness/landed/task-001:one"]), "one");
    env.run(["report"]).success().stdout_contains("kept by refs/harness/landed/task-001");
}

#[test]
fn s7_nothing_is_said_on_a_branch() {
    let env = world();
    add(&env, "echo one > one", "test -f one", &[]);
    env.run(RUN).success();
    assert!(!log(&env).contains("WARN"), "{}", log(&env));
    assert_eq!(env.git(["for-each-ref", "refs/harness"]), "");
}

#[test]
fn x_l2_what_killed_processes_left_is_swept() {
    let env = world();
    let temporary = env.home().join("tmp");
    let (dead, old) =
        (temporary.join("harness-checkout-dead"), temporary.join("harness-checkout-old"));
    let held = temporary.join("harness-checkout-held");
    env.write(dead.join("lock"), "").write(dead.join("tree/file"), "");
    env.write(held.join("lock"), "").write(held.join("tree/file"), "");
    // Earlier versions made it like this: a linked work tree without a lock.
    env.write(old.join("x"), "");
    env.git(["worktree", "add", "--quiet", "--detach", old.join("tree").to_str().unwrap()]);
    env.write(".git/harness-tmp-dead/index", "").write(".git/harness-tmp-young/index", "");
    let lock = std::fs::File::open(held.join("lock")).unwrap();
    lock.lock().unwrap();
    for place in [&dead, &old, &held, &env.root().join(".git/harness-tmp-dead")] {
        let touch = env.program("touch").args(["-d", "3 days ago"]).arg(place).status();
        assert!(touch.unwrap().success());
    }
    add(&env, "echo one > one", "test -f one", &[]);
    env.run(RUN).success();
    assert!(!dead.exists() && !old.exists() && held.exists());
    assert!(!env.exists(".git/harness-tmp-dead") && env.exists(".git/harness-tmp-young"));
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn x_h6_a_clean_checkout_has_a_repository_of_its_own_and_what_is_brought_in() {
    let env = world();
    env.write(
        "harness.toml",
        "[validation]\nclean = true\nlink = ['deps', '../up']\ncopy = ['.env']\n",
    );
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "clean"]);
    env.write("deps/lib", "lib").write(".env", "SECRET=1").write("other", "not brought");
    env.git(["remote", "add", "origin", "https://example.org/x.git"]);
    env.git(["config", "alias.mine", "status"]);
    env.git(["tag", "v1"]);
    let check = "test -f one && test ! -e other && test -h deps && test -f deps/lib && test ! -h .env \
                 && grep -q SECRET .env && git rev-parse --verify --quiet v1 && git log -1 --format=%s \
                 && test \"$(git config remote.origin.url)\" = https://example.org/x.git \
                 && test -z \"$(git config alias.mine)\" && test -z \"$(git status --porcelain -uno)\" \
                 && git config core.worktree /nowhere";
    add(&env, "echo one > one", check, &[]);
    env.run(RUN).success();
    env.run(["verify"]).success();
    let kept = env.program("git").args(["config", "core.worktree"]).output().unwrap();
    assert!(!kept.status.success(), "what the check configures stays in its checkout");
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(std::fs::read_dir(env.home().join("tmp")).unwrap().count(), 0);
}
