//! `harness demo` shows only what is true, because people see it first.

use regex::Regex;

use crate::{
    environment::{Ran, TestEnvironment},
    page::Page,
};

#[track_caller]
fn assert_shows(shown: &Ran, lines: &[&str]) {
    for line in lines {
        assert!(shown.output().contains(line), "no {line:?} in\n{shown}");
    }
}

/// Checks that the lines of `docs/demo.txt` are lines of the demo, in this order.
#[track_caller]
fn assert_recorded(shown: &Ran) {
    let hash = Regex::new(r"(base=|commit |--hard |^|  )[0-9a-f]{7}\b").unwrap();
    let steady = |line: &str| hash.replace_all(line, "${1}HASH").replace("  [TIME]", "");
    let mut lines = shown.output().lines().map(|line| steady(line.trim()));
    let recording = Page::open("docs/demo.txt").text;
    for line in recording.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let recorded = steady(line.trim());
        assert!(lines.any(|line| line.ends_with(&recorded)), "no {line:?} after that in\n{shown}");
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
            "[TASK_EXEC] Conflict with ",
            "It says hello.",
            "Il dit bonjour.",
            "9 tasks: 7 completed, 0 in progress, 0 pending, 2 failed",
            "a file of yours that no commit holds",
        ],
    );
    assert_recorded(&shown);
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
