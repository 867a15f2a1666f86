//! A landing that was cut short while it moved the tree of the user.

use harness::workspace::shared::Swap;
use harness_core::CommitId;

use super::{SharedFixture, head, is_clean, main_files, main_tree, result};

/// Leaves the main tree as a crash in the middle of a landing does: one file is new, the index and
/// another file are not.
fn cut_short(f: &dyn SharedFixture) -> Swap {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("a.txt", "changed"), ("b.txt", "changed"), ("c.txt", "c")]);
    f.write("a.txt", "changed");
    f.write("c.txt", "c");
    f.stage("c.txt");
    f.write("notes.txt", "untracked");
    swap
}

pub fn a_landing_cut_short_before_the_swap_is_taken_back(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    f.shared().finish_main_tree(&swap).unwrap();
    let mut expected = f.committed(&swap.from);
    expected.insert("notes.txt".to_owned(), "untracked".to_owned());
    assert_eq!(main_files(f), expected);
    assert_eq!(head(f), swap.from);
    assert!(f.workspace().status().unwrap().changed.is_empty());
}

pub fn a_landing_cut_short_after_the_swap_is_finished(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    f.move_branch("main", &swap.to);
    f.shared().finish_main_tree(&swap).unwrap();
    let mut expected = f.committed(&swap.to);
    expected.insert("notes.txt".to_owned(), "untracked".to_owned());
    assert_eq!(main_files(f), expected);
    assert_eq!(head(f), swap.to);
    assert!(f.workspace().status().unwrap().changed.is_empty());
}

/// Lets a process die in the middle of a landing, and another one look at the repository. The tree is
/// then at `expected`, and its index is free.
fn is_ended(f: &dyn SharedFixture, swap: &Swap, expected: &CommitId) {
    f.die_in_move(swap);
    f.shared().check().unwrap();
    let mut expected = f.committed(expected);
    expected.insert("notes.txt".to_owned(), "untracked".to_owned());
    assert_eq!(main_files(f), expected);
    assert!(f.workspace().status().unwrap().changed.is_empty());
    f.stage("a.txt");
}

pub fn a_landing_of_a_dead_process_is_taken_back_before_anybody_works(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    is_ended(f, &swap, &swap.from);
}

pub fn a_landing_of_a_dead_process_is_finished_before_anybody_works(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    f.move_branch("main", &swap.to);
    is_ended(f, &swap, &swap.to);
}

pub fn a_tree_that_the_user_changed_is_not_finished(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    f.write("b.txt", "the user's own");
    let before = main_tree(f);
    f.shared().finish_main_tree(&swap).unwrap();
    assert_eq!(main_tree(f), before);
}

pub fn a_clean_tree_needs_no_finish(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("a.txt", "changed"), ("c.txt", "c")]);
    let before = main_tree(f);
    shared.finish_main_tree(&swap).unwrap();
    assert_eq!(main_tree(f), before);
    assert!(is_clean(&*f.workspace()));
}

pub fn a_tree_on_another_branch_is_not_finished(f: &dyn SharedFixture) {
    let swap = cut_short(f);
    f.create_branch("mine");
    let before = main_tree(f);
    f.shared().finish_main_tree(&swap).unwrap();
    assert_eq!(main_tree(f), before);
}
