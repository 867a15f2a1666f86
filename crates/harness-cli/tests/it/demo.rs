//! `harness demo` shows only what is true, because people see it first.

use crate::environment::{Ran, TestEnvironment};

#[track_caller]
fn assert_shows(shown: &Ran, lines: &[&str]) {
    for line in lines {
        assert!(shown.output().contains(line), "no {line:?} in\n{shown}");
    }
}

#[test]
fn the_demo_ends_well_and_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    let shown = env.run(["demo"]).success();
    assert_shows(
        &shown,
        &[
            "ERROR [name] [TEST_FAIL] The check failed (exit code 1)",
            "That was kill -9",
            "Processes left over: 0",
            "RECOVERY [docs] action=\"validate, then commit\"",
            "ERROR [announce] [DEPENDENCY] Blocked by failed translate",
            "7 tasks: 5 completed, 0 in progress, 0 pending, 2 failed",
            "a file of yours that no commit holds",
        ],
    );
    let shown = env.run(["demo", "--ledger"]).success();
    assert_shows(
        &shown,
        &[
            "killed by signal 9, after harness-tasks.json.tmp was written and before it was renamed",
            "WARN: Removed stale lock from pid=[PID]",
            "killed by signal 9, after the ledger was durable and before the log line was written",
            "6 tasks: 6 completed",
        ],
    );
    let left: Vec<_> = std::fs::read_dir(env.home().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!env.home().join(".local").exists(), "the demo trusted something in the user's name");
}
