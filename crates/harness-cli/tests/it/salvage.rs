//! Work that a rollback saved, restored beside the work that came after it.

use std::fs;

use crate::environment::TestEnvironment;

/// Returns a rescue of a change to the end of `calc`, and a later commit that changed its
/// beginning.
fn rescued(later: &str) -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.write("calc", "one\n2\n3\n4\n5\n6\nseven\n");
    env.git(["add", "calc"]);
    env.git(["commit", "-qm", "calc"]);
    let script = "sed -i s/seven/SEVEN/ calc; touch extra";
    let args = ["add", "x", "--instructions", script, "--validate", "false", "--max-attempts", "1"];
    env.run(args).success();
    env.run(["run", "--agent", "shell"]).code(4);
    assert!(env.read("calc").contains("seven"));
    env.write("calc", env.read("calc").replace(later.split(' ').next().unwrap(), later));
    env.git(["commit", "-qam", "later"]);
    env
}

#[test]
fn a_rescue_is_merged_with_what_was_committed_later() {
    let env = rescued("one more");
    env.run(["rescue", "restore"]).success().stdout_contains("calc");
    assert_eq!(env.read("calc"), "one more\n2\n3\n4\n5\n6\nSEVEN\n");
    assert!(env.exists("extra"));
}

#[test]
fn a_conflict_is_named_and_the_hints_are_true() {
    let env = rescued("seven times");
    let before = env.read("calc");
    let ran = env.run(["rescue", "restore"]).code(1);
    ran.stderr_contains("later commits changed the same lines: calc").stderr_contains("--branch");
    assert_eq!(env.read("calc"), before);
    assert!(!env.exists("extra"));
    env.run(["rescue", "restore", "--branch", "salvage"]).success().stdout_contains("salvage");
    assert!(env.git(["show", "salvage:calc"]).contains("SEVEN"));
    env.run(["rescue", "restore", "--branch", "salvage"]).code(5).stderr_contains("exists already");
    env.run(["rescue", "restore", "--branch", "no..name"]).code(5);
    let place = env.home().join("salvage");
    env.run(["rescue", "restore", "--to", place.to_str().unwrap()]).success();
    assert!(fs::read_to_string(place.join("calc")).unwrap().contains("SEVEN"));
    assert!(place.join("extra").exists());
    env.run(["rescue", "restore", "--to", place.to_str().unwrap()]).code(5);
    assert_eq!(env.read("calc"), before);
}

#[test]
fn a_change_of_the_user_is_not_overwritten_by_a_merge() {
    let env = rescued("one more");
    env.write("calc", "mine\n");
    env.run(["rescue", "restore"]).code(1).stderr_contains("in no commit");
    assert_eq!(env.read("calc"), "mine\n");
}
