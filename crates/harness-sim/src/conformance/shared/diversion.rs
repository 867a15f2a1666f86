//! Results on a branch of their own while the tree of the user must not be touched.

use harness::workspace::shared::{LANDED_BRANCH, Landed, SharedRepository, Swap, TakenIn};

use super::{SharedFixture, head, is_clean, main_files, main_tree, result, task};

/// Lands one result beside the main tree.
fn divert(f: &dyn SharedFixture, shared: &dyn SharedRepository) -> Swap {
    let swap = result(f, shared, &[("new.txt", "new"), ("a.txt", "changed")]);
    let swap = Swap { target: LANDED_BRANCH.to_owned(), ..swap };
    assert_eq!(shared.divert("main").unwrap(), swap.from);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    swap
}

#[track_caller]
fn is_kept(taken: TakenIn, expected: u32) {
    let TakenIn::Kept { why, ahead } = taken else { panic!("{taken:?}") };
    assert_eq!(ahead, expected);
    assert!(!why.is_empty());
}

pub fn a_diversion_starts_at_the_target(f: &dyn SharedFixture) {
    let before = main_tree(f);
    assert_eq!(f.shared().divert("main").unwrap(), head(f));
    assert_eq!(f.tip(LANDED_BRANCH), Some(head(f)));
    assert_eq!(main_tree(f), before);
    assert!(f.shared().divert("nowhere").is_ok(), "there is one already");
    f.delete_branch(LANDED_BRANCH);
    assert!(f.shared().divert("nowhere").is_err());
}

pub fn a_diversion_goes_on_where_it_is(f: &dyn SharedFixture) {
    let first = f.shared().divert("main").unwrap();
    f.foreign_file("mine.txt", "mine", "my own work");
    assert_eq!(f.shared().divert("main").unwrap(), first);
}

pub fn results_land_beside_a_changed_tree(f: &dyn SharedFixture) {
    f.write("b.txt", "the user works here");
    let before = main_tree(f);
    let swap = divert(f, &*f.shared());
    assert_eq!(main_tree(f), before);
    assert_eq!(f.tip(LANDED_BRANCH), Some(swap.to));
    assert_eq!(f.tip("main"), Some(swap.from));
}

pub fn nothing_diverted_means_nothing_to_take_in(f: &dyn SharedFixture) {
    assert_eq!(f.shared().take_in("main").unwrap(), TakenIn::Nothing);
}

pub fn diverted_results_are_taken_in(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = divert(f, &*shared);
    f.write("notes.txt", "untracked");
    assert_eq!(shared.take_in("main").unwrap(), TakenIn::Done);
    assert_eq!(f.tip(LANDED_BRANCH), None);
    assert_eq!(f.tip("main").as_ref(), Some(&swap.to));
    let mut expected = f.committed(&swap.to);
    expected.insert("notes.txt".to_owned(), "untracked".to_owned());
    assert_eq!(main_files(f), expected);
    assert!(f.workspace().status().unwrap().changed.is_empty());
    assert_eq!(shared.take_in("main").unwrap(), TakenIn::Nothing);
}

pub fn a_changed_tree_takes_nothing_in(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = divert(f, &*shared);
    f.write("b.txt", "the user works here");
    let before = main_tree(f);
    is_kept(shared.take_in("main").unwrap(), 1);
    assert_eq!(main_tree(f), before);
    assert_eq!(f.tip(LANDED_BRANCH), Some(swap.to));
}

pub fn diverted_results_that_diverged_are_kept(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = divert(f, &*shared);
    f.foreign_file("mine.txt", "mine", "my own work");
    let before = main_tree(f);
    is_kept(shared.take_in("main").unwrap(), 1);
    assert_eq!(main_tree(f), before);
    assert_eq!(f.tip(LANDED_BRANCH), Some(swap.to));
    is_kept(shared.take_in("nowhere").unwrap(), 2);
}

pub fn diverted_results_that_the_user_merged_are_done(f: &dyn SharedFixture) {
    let shared = f.shared();
    divert(f, &*shared);
    f.switch(LANDED_BRANCH);
    f.create_branch("merged");
    let mine = f.foreign_file("mine.txt", "mine", "my own work");
    assert_eq!(shared.take_in("merged").unwrap(), TakenIn::Done);
    assert_eq!(f.tip(LANDED_BRANCH), None);
    assert_eq!(f.tip("merged"), Some(mine));
    assert!(is_clean(&*f.workspace()));
}

pub fn results_for_a_branch_elsewhere_are_taken_in(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = divert(f, &*shared);
    f.create_branch("mine");
    f.write("b.txt", "the user works here");
    let before = main_tree(f);
    assert_eq!(shared.take_in("main").unwrap(), TakenIn::Done);
    assert_eq!(f.tip("main"), Some(swap.to));
    assert_eq!(f.tip(LANDED_BRANCH), None);
    assert_eq!(main_tree(f), before);
}
