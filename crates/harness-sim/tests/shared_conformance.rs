//! Every case of the suite of shared repositories. The simulated one also crashes before each step,
//! and stops there until others have acted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod simulated;
#[path = "simulated/shared.rs"]
mod simulated_shared;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::workspace::{
    Base, Sight, WorkspaceError,
    shared::{Dead, LANDED_BRANCH, Landed, SharedRepository, Swap, TakenIn, Token},
};
use harness_core::Epoch;
use harness_sim::{
    conformance::{
        shared::{
            self as suite, SharedFixture, head, is_clean, main_files, main_tree, task, worker,
        },
        workspace::Fixture,
    },
    for_each_shared_case,
    git::{Crash, Hook, SimRepository},
};
use simulated::Simulated;

macro_rules! instantiate {
    ($($case:ident,)*) => {
        mod over_the_model {
            $(#[test] fn $case() {
                super::suite::$case(&super::Simulated::new());
            })*
        }
    };
}
for_each_shared_case!(instantiate);

fn place(name: &str, f: &Simulated) -> std::path::PathBuf {
    SimRepository::open(&f.0, after(0)).place(&worker(name))
}

/// Returns a hook that allows `steps` steps and then crashes permanently.
fn after(steps: usize) -> Hook {
    let left = AtomicUsize::new(steps);
    Arc::new(move |step| {
        let passed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        passed.map(drop).map_err(|_| Crash::before(step))
    })
}

/// Crashes `work` before its first, second … step, and `again` too; then calls `again` without a
/// crash.
fn crash_everywhere<P, T: std::fmt::Debug>(
    prepare: impl Fn(&Simulated) -> P,
    work: impl Fn(&SimRepository, &P) -> Result<T, WorkspaceError>,
    again: impl Fn(&SimRepository, &P) -> Result<T, WorkspaceError>,
    check: impl Fn(&Simulated, &P, T),
) {
    for steps in 0.. {
        assert!(steps < 1000, "it never ends");
        let simulated = Simulated::new();
        let prepared = prepare(&simulated);
        let open = |hook| SimRepository::open(&simulated.0, hook);
        let crashed = match work(&open(after(steps)), &prepared) {
            Ok(_) => false,
            Err(error) => Crash::behind(&error).map(|_| true).unwrap_or_else(|| panic!("{error}")),
        };
        // Recovery crashes too, half as far.
        let _ = again(&open(after(steps / 2)), &prepared);
        let last = again(&open(after(1000)), &prepared).unwrap();
        check(&simulated, &prepared, last);
        if !crashed {
            assert!(steps > 0, "there was nothing to crash");
            return;
        }
    }
}

/// Plays an attempt in the tree of `w` that leaves changes of every kind, and returns its base.
fn busy(f: &Simulated) -> Base {
    let tree = suite::begin(f, &*f.shared(), "w");
    let base = Base { epoch: Some(Epoch(1)), ..tree.base(&task(), Sight::Anew).unwrap() };
    let agent = f.at(tree.top_level());
    agent.commit_file("done.txt", "done", "some work");
    agent.write_all(&[("a.txt", "changed"), ("new.txt", "new")]);
    base
}

#[test]
fn a_reset_that_crashed_anywhere_is_finished_by_the_next() {
    crash_everywhere(
        busy,
        |git, base| git.reset(&worker("w"), &base.commit).map(|tree| tree.workspace.head().ok()),
        |git, base| git.reset(&worker("w"), &base.commit).map(|tree| tree.workspace.head().ok()),
        |f, base, _| {
            assert_eq!(f.at(&base.worktree).files(), f.committed(&base.commit));
            let rescues = f.workspace().rescues(None).unwrap();
            let saved: Vec<_> = rescues.iter().map(|r| f.committed(&r.commit)).collect();
            assert!(saved.iter().any(|files| files.get("new.txt").is_some_and(|t| t == "new")));
            let done = f.tip("harness/task-1.1").unwrap();
            assert_eq!(f.committed(&done)["done.txt"], "done");
        },
    );
}

#[test]
fn a_tree_that_was_closed_halfway_is_closed_by_the_next() {
    crash_everywhere(
        busy,
        |git, _| git.close(&worker("w")),
        |git, _| git.close(&worker("w")),
        |f, base, ()| {
            assert!(f.at(&base.worktree).files().is_empty());
            let rescues = f.workspace().rescues(None).unwrap();
            assert!(rescues.iter().any(|r| f.committed(&r.commit).contains_key("new.txt")));
        },
    );
}

#[test]
fn a_takeover_that_crashed_anywhere_is_finished_by_the_next() {
    let take = |git: &SimRepository, base: &Base| {
        let dead = Dead { tree: &base.worktree, task: &task(), attempt: 1, base };
        git.transplant(&worker("x"), &dead, Epoch(2)).map(|tree| tree.is_some())
    };
    crash_everywhere(busy, take, take, |f, base, taken| {
        assert!(taken);
        let place = place("x", f);
        assert_eq!(f.at(&place).files(), f.at(&base.worktree).files());
        assert_eq!(f.at(&place).current_branch().as_deref(), Some("harness/task-1.2"));
        let rescues = f.workspace().rescues(Some(&task())).unwrap();
        assert_eq!(rescues[0].reference, "refs/harness/rescue/task-1/1");
        assert_eq!(f.committed(&rescues[0].commit)["new.txt"], "new");
    });
}

/// Returns work on the base, and a commit that landed meanwhile.
fn work_to_rebase(f: &Simulated) -> harness::workspace::shared::Rebase {
    let base = head(f);
    let tree = suite::begin(f, &*f.shared(), "w");
    let agent = f.at(tree.top_level());
    agent.commit_file("one.txt", "one", "first");
    let last = agent.commit_file("a.txt", "changed", "second");
    let onto = f.foreign_file("b.txt", "landed", "landed");
    suite::work(&base, &last, &onto)
}

#[test]
fn a_rebase_that_crashed_anywhere_is_finished_by_the_next() {
    crash_everywhere(
        work_to_rebase,
        |git, rebase| git.rebase(&worker("w"), rebase),
        |git, rebase| git.rebase(&worker("w"), rebase),
        |f, rebase, rebased| {
            let commit = suite::done(rebased);
            assert_eq!(f.log(&rebase.onto, &commit).len(), 2);
            let place = place("w", f);
            assert_eq!(f.at(&place).files(), f.committed(&commit));
            assert_eq!(f.tip("harness/task-1.1"), Some(commit));
        },
    );
}

fn ready_to_land(f: &Simulated) -> Swap {
    let shared = f.shared();
    let files = [("a.txt", "changed"), ("b.txt", "changed"), ("new.txt", "new")];
    let swap = suite::result(f, &*shared, &files);
    f.write("notes.txt", "the user's own");
    shared.set_token(&task(), &swap.to).unwrap();
    swap
}

/// Asserts that the main tree is what its branch names, and that the user's file is there.
#[track_caller]
fn main_tree_agrees(f: &Simulated) {
    let mut expected = f.committed(&head(f));
    expected.insert("notes.txt".to_owned(), "the user's own".to_owned());
    assert_eq!(main_files(f), expected);
    assert!(f.workspace().status().unwrap().changed.is_empty());
}

/// Recovers a landing as another worker does.
fn recover(git: &SimRepository, swap: &Swap) -> Result<Token, WorkspaceError> {
    let token = git.void_token(&task(), &swap.to)?;
    git.finish_main_tree(swap)?;
    Ok(token)
}

#[test]
fn a_landing_that_crashed_anywhere_is_recovered() {
    let land = |git: &SimRepository, swap: &Swap| git.land(swap).map(|_| Token::Missing);
    crash_everywhere(ready_to_land, land, recover, |f, swap, _| {
        let landed = f.shared().contains("main", &swap.to).unwrap();
        assert_eq!(head(f), if landed { swap.to.clone() } else { swap.from.clone() });
        assert_eq!(f.token(&task()), None);
        main_tree_agrees(f);
    });
}

#[test]
fn a_landing_that_crashed_anywhere_can_be_made_again() {
    let land = |git: &SimRepository, swap: &Swap| {
        git.finish_main_tree(swap)?;
        git.land(swap)
    };
    crash_everywhere(
        ready_to_land,
        |git, swap| git.land(swap),
        land,
        |f, swap, landed| {
            assert!(matches!(landed, Landed::Done | Landed::Fenced), "{landed:?}");
            assert_eq!(head(f), swap.to);
            main_tree_agrees(f);
        },
    );
}

#[test]
fn taking_in_that_crashed_anywhere_is_finished_by_the_next() {
    let prepare = |f: &Simulated| {
        let shared = f.shared();
        let swap = suite::result(f, &*shared, &[("a.txt", "changed"), ("new.txt", "new")]);
        f.write("notes.txt", "the user's own");
        f.move_branch(LANDED_BRANCH, &swap.to);
        swap
    };
    let take = |git: &SimRepository, _: &Swap| git.take_in("main");
    crash_everywhere(prepare, take, take, |f, swap, taken| {
        assert!(matches!(taken, TakenIn::Done | TakenIn::Nothing), "{taken:?}");
        assert_eq!((head(f), f.tip(LANDED_BRANCH)), (swap.to.clone(), None));
        main_tree_agrees(f);
    });
}

/// Stops `land` before each of its steps until `meanwhile` has run, and lets it go on then.
fn freeze_everywhere(meanwhile: fn(&Simulated, &Swap), check: impl Fn(&Simulated, &Swap, &Landed)) {
    for steps in 0.. {
        assert!(steps < 1000, "it never ends");
        let f = Arc::new(Simulated::new());
        let swap = ready_to_land(&f);
        let left = Mutex::new(Some(steps));
        let (seen, what) = (Arc::clone(&f), swap.clone());
        let hook: Hook = Arc::new(move |_| {
            let mut left = left.lock().unwrap();
            match *left {
                Some(0) => {
                    *left = None;
                    meanwhile(&seen, &what);
                }
                Some(more) => *left = Some(more - 1),
                None => {}
            }
            Ok(())
        });
        let before = f.0.clone();
        let landed = SimRepository::open(&before, hook).land(&swap).unwrap();
        check(&f, &swap, &landed);
        if landed == Landed::Done && f.token(&task()).is_none() && steps > 20 {
            return;
        }
    }
}

#[test]
fn a_frozen_landing_that_was_recovered_lands_nothing() {
    let meanwhile = |f: &Simulated, swap: &Swap| {
        let other = SimRepository::open(&f.0, Arc::new(|_| Ok(())));
        recover(&other, swap).unwrap();
    };
    freeze_everywhere(meanwhile, |f, swap, landed| {
        let there = f.shared().contains("main", &swap.to).unwrap();
        assert_eq!(*landed == Landed::Done, there, "{landed:?}");
        main_tree_agrees(f);
        assert_eq!(f.token(&task()), None);
    });
}

#[test]
fn a_frozen_landing_keeps_a_commit_of_the_user() {
    let meanwhile = |f: &Simulated, _: &Swap| drop(f.foreign_file("mine.txt", "mine", "my work"));
    freeze_everywhere(meanwhile, |f, swap, landed| {
        let tip = f.tip("main").unwrap();
        if *landed == Landed::TargetMoved {
            assert!(!f.shared().contains("main", &swap.to).unwrap());
        }
        assert_eq!(tip, head(f));
        assert!(*landed == Landed::Done || f.committed(&tip).contains_key("mine.txt"));
        let files = main_files(f);
        for (path, text) in f.committed(&tip) {
            assert_eq!(files.get(&path), Some(&text), "{path} after {landed:?}");
        }
    });
}

#[test]
fn a_frozen_landing_keeps_an_edit_of_the_user() {
    let meanwhile = |f: &Simulated, _: &Swap| f.write("b.txt", "the user works here");
    freeze_everywhere(meanwhile, |f, _, landed| {
        let kept = f.read("b.txt").as_deref() == Some("the user works here");
        assert!(kept || *landed == Landed::Done, "{landed:?}");
    });
}

#[test]
fn a_frozen_landing_leaves_another_branch_of_the_user_alone() {
    let meanwhile = |f: &Simulated, swap: &Swap| {
        f.move_branch("mine", &swap.from);
        // Git refuses this in the middle of a move, when files are changed.
        let _ = f.0.switch("mine");
    };
    freeze_everywhere(meanwhile, |f, _, _| main_tree_agrees(f));
}

#[test]
fn a_frozen_worker_does_not_lose_a_token_to_an_old_commit() {
    let f = Simulated::new();
    let swap = ready_to_land(&f);
    let before = main_tree(&f);
    let other = f.shared();
    assert_eq!(other.void_token(&task(), &swap.from).unwrap(), Token::Missing);
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.to));
    assert_eq!(main_tree(&f), before);
    assert!(!is_clean(&*f.workspace()), "the user's file is untracked");
}
