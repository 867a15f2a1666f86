//! Every case of the workspace suite over real git and over the simulated one. The simulated one
//! also crashes before each step.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod simulated;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::workspace::{Base, Sight, Workspace, WorkspaceError};
use harness_core::{TaskId, Timestamp};
use harness_sim::{
    conformance::workspace::{self as suite, Fixture},
    for_each_workspace_case,
    git::{Crash, Hook, SimGit},
};
use simulated::Simulated;

/// Returns a hook that allows `steps` steps and then crashes permanently.
fn after(steps: usize) -> Hook {
    let left = AtomicUsize::new(steps);
    Arc::new(move |step| {
        let passed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        passed.map(drop).map_err(|_| Crash::before(step))
    })
}

macro_rules! instantiate {
    ($($case:ident,)*) => {
        mod over_git {
            $(#[test] fn $case() {
                super::suite::$case(&harness_sim::conformance::repository::Repository::new());
            })*
        }
        mod over_the_model {
            $(#[test] fn $case() {
                super::suite::$case(&super::Simulated::new());
            })*
        }
    };
}
for_each_workspace_case!(instantiate);

fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

/// Crashes `work` before its first, second … step, then calls it again twice without a crash.
fn crash_everywhere<T: std::fmt::Debug>(
    prepare: impl Fn(&Simulated) -> Base,
    work: impl Fn(&SimGit, &Base) -> Result<T, WorkspaceError>,
    check: impl Fn(&Simulated, &Base),
) {
    for steps in 0.. {
        assert!(steps < 1000, "it never ends");
        let simulated = Simulated::new();
        let base = prepare(&simulated);
        let crashed = match work(&simulated.0.with_hook(after(steps)), &base) {
            Ok(_) => false,
            Err(error) => Crash::behind(&error).map(|_| true).unwrap_or_else(|| panic!("{error}")),
        };
        // Recovery crashes too, one step further on.
        let _ = work(&simulated.0.with_hook(after(steps / 2)), &base);
        work(&simulated.0, &base).unwrap();
        check(&simulated, &base);
        if !crashed {
            assert!(steps > 3, "there was nothing to crash");
            return;
        }
    }
}

#[test]
fn a_rollback_that_crashed_anywhere_is_finished_by_the_next() {
    crash_everywhere(
        |f| {
            suite::before_claim(f);
            let base = suite::claim(f);
            suite::busy_attempt(f);
            base
        },
        |git, base| git.rollback(&task(), 1, base),
        |f, base| {
            let fresh = Simulated::new();
            suite::before_claim(&fresh);
            assert_eq!(f.files(), suite::after_rollback(&fresh.files()));
            assert_eq!(f.tip("main").as_ref(), Some(&base.commit));
            let rescues = f.workspace().rescues(None).unwrap();
            assert_eq!(rescues.len(), 1, "{rescues:?}");
            let saved = f.committed(&rescues[0].commit);
            assert_eq!(saved["notes.txt"], "the agent was here");
            assert_eq!(saved["done.txt"], "committed");
            assert!(f.workspace().status().unwrap().changed.is_empty());
        },
    );
}

#[test]
fn a_rollback_from_another_branch_that_crashed_is_finished_by_the_next() {
    crash_everywhere(
        |f| {
            let base = suite::claim(f);
            f.commit_file("main.txt", "main", "on main");
            f.create_branch("feature");
            f.commit_file("new.txt", "new", "on feature");
            f.write(".gitignore", "*.log\n*.out\n");
            f.write("hidden.out", "hidden");
            base
        },
        |git, base| git.rollback(&task(), 1, base),
        |f, base| {
            assert_eq!(f.files(), Simulated::new().files());
            assert_eq!(f.current_branch().as_deref(), Some("main"));
            assert_eq!(f.tip("main").as_ref(), Some(&base.commit));
            assert_eq!(f.committed(&f.tip("feature").unwrap())["new.txt"], "new");
            let rescues = f.workspace().rescues(None).unwrap();
            let saved: Vec<_> = rescues.iter().map(|r| f.committed(&r.commit)).collect();
            assert!(saved.iter().any(|files| files.contains_key("hidden.out")));
            assert!(saved.iter().any(|files| files.contains_key("main.txt")));
        },
    );
}

#[test]
fn a_commit_that_crashed_anywhere_is_made_once() {
    crash_everywhere(
        |f| {
            suite::before_claim(f);
            let base = suite::claim(f);
            f.create_branch("feature");
            f.commit_file("done.txt", "committed", "some work");
            f.write("new.txt", "new");
            base
        },
        |git, base| git.commit(base, "task-1: title"),
        |f, base| {
            let evidence =
                f.workspace().evidence(&task(), base, Timestamp::from_seconds(0)).unwrap();
            assert_eq!(evidence.task_commits.len(), 2, "the agent's, and ours once");
            assert_eq!(f.current_branch().as_deref(), Some("main"));
            assert_eq!(f.tip("main"), evidence.task_commits.first().cloned());
            assert!(!evidence.uncommitted);
        },
    );
}

#[test]
fn a_rollback_beneath_commits_of_others_that_crashed_is_finished_by_the_next() {
    crash_everywhere(
        |f| {
            suite::before_claim(f);
            let base = suite::claim(f);
            f.commit_file("done.txt", "committed", "some work");
            f.foreign_file("mine.txt", "mine", "my own work");
            f.commit_file("a.txt", "changed", "more work");
            f.write("b.txt", "uncommitted");
            f.write("notes.txt", "the agent was here");
            base
        },
        |git, base| git.rollback(&task(), 1, base),
        |f, base| {
            let mut expected = {
                let fresh = Simulated::new();
                suite::before_claim(&fresh);
                fresh.files()
            };
            expected.insert("mine.txt".to_owned(), "mine".to_owned());
            assert_eq!(f.files(), expected);
            let messages = f.0.messages_since(&base.commit);
            let undo = "task-1: undo\n\nHarness-Reverts: task-1.1\n";
            assert_eq!(messages, [undo, "more work", "my own work", "some work"]);
            let rescues = f.workspace().rescues(None).unwrap();
            assert_eq!(rescues.len(), 1, "{rescues:?}");
            assert_eq!(f.committed(&rescues[0].commit)["b.txt"], "uncommitted");
            assert!(f.workspace().status().unwrap().changed.is_empty());
        },
    );
}

#[test]
fn putting_back_what_was_judged_and_committing_it_survives_a_crash_anywhere() {
    crash_everywhere(
        |f| {
            suite::before_claim(f);
            let base = suite::claim(f);
            f.write("new.txt", "new");
            f.commit_file("done.txt", "done", "some work");
            base
        },
        |git, base| {
            // The check starts with the current tree, and changes it each time.
            let judged = git.candidate(base, Sight::Anew)?.tree;
            git.write("a.txt", b"changed by the check");
            git.write("made.txt", b"made by the check");
            git.settle(base, &judged)?;
            git.put_back(base, &judged)?;
            git.commit_tree(base, &judged, "task-1: title")
        },
        |f, _| {
            let head = f.committed(&f.workspace().head().unwrap());
            assert!(!f.files().contains_key("made.txt") || head.contains_key("made.txt"));
            assert_eq!(head["new.txt"], "new");
            assert!(f.workspace().status().unwrap().changed.is_empty());
        },
    );
}
