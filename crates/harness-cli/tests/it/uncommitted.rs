//! Work that passed its check and is in no commit.

use crate::environment::TestEnvironment;

const COMPLETE: [&str; 5] = ["task", "complete", "--id", "task-001", "--worker"];

/// Returns a world with a claimed task that is done, in uncommitted files.
fn done_in_files() -> TestEnvironment {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env.run(["add", "greet", "--validate", "sh greet.sh | grep -q hello"]).success();
    env.run(["task", "claim", "--worker", "alice"]).success();
    env.write("greet.sh", "echo hello\n");
    env
}

#[test]
fn what_is_in_no_commit_is_named_and_recorded() {
    let env = done_in_files();
    let ran = env.run([&COMPLETE[..], &["alice"]].concat()).success();
    ran.stderr_contains("the work tree was judged, not the commit").stderr_contains("greet.sh");
    let receipt: serde_json::Value =
        serde_json::from_str(&env.read(".harness/receipts/task-001.1.json")).unwrap();
    assert_eq!(receipt["uncommitted"], serde_json::json!(["greet.sh"]));
    let words = "the work tree was judged, not the commit, which lacks these changes: greet.sh";
    env.run(["why", "task-001"]).success().stdout_contains(words);
    env.run(["report"]).success().stdout_contains(words);
    env.run(["verify"]).code(1).stdout_contains(words);
}

#[test]
fn a_commit_can_be_asked_for_and_is_what_passed() {
    let env = done_in_files();
    let ran = env.run([&COMPLETE[..], &["alice", "--commit"]].concat()).success();
    assert!(!ran.errors().contains("was judged"), "{ran}");
    assert_eq!(env.git(["log", "-1", "--format=%s"]), "task-001: greet");
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert_eq!(env.git(["symbolic-ref", "--short", "HEAD"]), "main");
    env.run(["verify"]).success().stdout_contains("1 of 1 hold");
}

#[test]
fn a_failed_check_commits_nothing() {
    let env = done_in_files();
    env.write("greet.sh", "echo good day\n");
    let before = env.git(["rev-parse", "HEAD"]);
    env.run([&COMPLETE[..], &["alice", "--commit"]].concat()).code(1);
    assert_eq!(env.git(["rev-parse", "HEAD"]), before);
    assert_eq!(env.git(["status", "--porcelain"]), "?? greet.sh");
}

#[test]
fn a_check_of_the_commit_gets_the_commit_first() {
    let env = done_in_files();
    env.write("harness.toml", "[validation]\nclean = true\n");
    env.git(["add", "harness.toml"]);
    env.git(["commit", "-qm", "settings"]);
    env.run(["trust", "--yes"]);
    env.run(["task", "release", "task-001"]).success();
    env.run(["task", "claim", "--worker", "alice"]).success();
    env.run([&COMPLETE[..], &["alice", "--commit"]].concat()).success();
    assert_eq!(env.git(["log", "-1", "--format=%s"]), "task-001: greet");
    env.run(["verify"]).success().stdout_contains("1 of 1 hold");
}

#[test]
fn committed_work_needs_no_words() {
    let env = done_in_files();
    env.git(["add", "greet.sh"]);
    env.git(["commit", "-qm", "task-001: greet"]);
    let ran = env.run([&COMPLETE[..], &["alice"]].concat()).success();
    assert!(!ran.errors().contains("was judged"), "{ran}");
    assert!(!env.read(".harness/receipts/task-001.1.json").contains("uncommitted"));
}
