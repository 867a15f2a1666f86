//! `harness demo`: what people see first has to be true.

use crate::environment::TestEnvironment;

#[test]
fn the_demo_ends_well_and_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    let shown = env.run(["demo"]).success();
    for line in [
        "killed by signal 9, after harness-tasks.json.tmp was written and before it was renamed",
        "WARN: Removed stale lock from pid=[PID]",
        "killed by signal 9, after the ledger was durable and before the log line was written",
        "6 tasks: 6 completed",
    ] {
        assert!(shown.output().contains(line), "no {line:?} in\n{shown}");
    }
    let left: Vec<_> = std::fs::read_dir(env.home().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!env.home().join(".local").exists(), "the demo trusted something in the user's name");
}
