//! Tests in which harness is killed.

use std::path::Path;

use harness::process::leftovers::{self, Swept};
use rustix::process::Signal;

use crate::stage::{Harness, Roll, signal};

fn family(roll: &Roll) -> String {
    format!("{}(linger child) &\n{}linger agent", roll.prelude(), roll.detached("far"))
}

fn records(roll: &Roll) -> std::path::PathBuf {
    roll.folder.path().join("records")
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

pub(crate) fn nothing_survives_a_killed_harness() {
    for _ in 0..5 {
        let mut roll = Roll::new();
        let script = format!("{}{}", roll.nameless("nobody"), family(&roll));
        let mut harness = Harness::start("__harness", &script, &records(&roll));
        assert_ne!(harness.guard, 0);
        roll.wait_for(4);
        harness.kill();
        roll.wait_for_end();
        // Only the record is left to be removed.
        assert_eq!(leftovers::sweep(&records(&roll)).unwrap(), Swept::default());
        assert_eq!(count(&records(&roll)), 0);
    }
}

pub(crate) fn a_sweep_ends_what_a_killed_guard_left() {
    let mut roll = Roll::new();
    let mut harness = Harness::start("__harness", &family(&roll), &records(&roll));
    roll.wait_for(3);
    // Harness must not do it itself.
    signal(harness.process.id(), Signal::STOP);
    signal(harness.guard, Signal::KILL);
    harness.kill();
    let swept = leftovers::sweep(&records(&roll)).unwrap();
    assert_eq!(swept.left, []);
    assert!(swept.ended.iter().all(|leftover| leftover.run_id == "run-of-a-test"));
    assert!(roll.is_empty());
    assert_eq!(count(&records(&roll)), 0);
}

pub(crate) fn a_sweep_ends_what_ran_without_a_guard() {
    let mut roll = Roll::new();
    let mut harness = Harness::start("__unguarded", &family(&roll), &records(&roll));
    assert_eq!(harness.guard, 0);
    roll.wait_for(3);
    harness.kill();
    assert!(!roll.is_empty(), "the one far away is out of reach of a parent-death signal");
    let swept = leftovers::sweep(&records(&roll)).unwrap();
    assert!(!swept.ended.is_empty());
    assert_eq!(swept.left, []);
    assert!(roll.is_empty());
}

pub(crate) fn a_sweep_leaves_the_living_alone() {
    let mut roll = Roll::new();
    let mut harness = Harness::start("__harness", &family(&roll), &records(&roll));
    roll.wait_for(3);
    std::fs::write(records(&roll).join("odd.json"), "{").unwrap();
    let swept = leftovers::sweep(&records(&roll)).unwrap();
    assert_eq!((swept.ended, swept.left), (Vec::new(), Vec::new()));
    assert_eq!(swept.unreadable, [records(&roll).join("odd.json")]);
    assert!(!roll.is_empty());
    assert_eq!(count(&records(&roll)), 2);
    harness.kill();
    roll.wait_for_end();
}
