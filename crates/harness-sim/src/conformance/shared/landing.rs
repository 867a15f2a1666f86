//! The fenced swap, and the tree of the user that moves with it.

use harness::workspace::shared::{Landed, Swap, Token};
use harness_core::{Epoch, TaskId, command::LandedResult};

use super::{SharedFixture, begin, head, is_clean, main_files, main_tree, result, task};

#[track_caller]
fn is_in_use(landed: Landed) {
    assert!(matches!(landed, Landed::TreeInUse { .. }), "{landed:?}");
}

pub fn a_landing_moves_the_branch(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.create_branch("mine");
    let before = main_tree(f);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.to));
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.tip("main").as_ref(), Some(&swap.to));
    assert_eq!(f.token(&task()), None);
    assert_eq!(main_tree(f), before, "another branch is checked out");
}

pub fn a_landing_moves_the_main_tree(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new"), ("a.txt", "changed")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(main_files(f), f.committed(&swap.to));
    assert_eq!(f.current_branch().as_deref(), Some("main"));
    assert_eq!(head(f), swap.to);
    assert!(is_clean(&*f.workspace()));
    assert_eq!(f.token(&task()), None);
}

pub fn a_landing_keeps_untracked_files(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.write_all(&[("notes.txt", "mine"), ("x.log", "ignored")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.read("notes.txt").as_deref(), Some("mine"));
    assert_eq!(f.read("x.log").as_deref(), Some("ignored"));
    assert_eq!(f.read("new.txt").as_deref(), Some("new"));
}

pub fn a_landing_keeps_the_files_of_harness(f: &dyn SharedFixture) {
    f.foreign_file("harness-tasks.json", "{}", "the ledger");
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.write("harness-tasks.json", "{ }");
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(f.read("harness-tasks.json").as_deref(), Some("{ }"));
    assert_eq!(f.read("new.txt").as_deref(), Some("new"));
    assert_eq!(head(f), swap.to);
}

pub fn a_changed_main_tree_is_not_touched(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.write("b.txt", "the user works here");
    let before = main_tree(f);
    shared.set_token(&task(), &swap.to).unwrap();
    is_in_use(shared.land(&swap).unwrap());
    assert_eq!(main_tree(f), before);
    assert_eq!(f.tip("main").as_ref(), Some(&swap.from));
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.to), "it can land elsewhere");
}

pub fn a_staged_change_is_not_touched(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.write("b.txt", "staged");
    f.stage("b.txt");
    f.write("b.txt", "b");
    let before = main_tree(f);
    shared.set_token(&task(), &swap.to).unwrap();
    is_in_use(shared.land(&swap).unwrap());
    assert_eq!(main_tree(f), before);
    assert!(!is_clean(&*f.workspace()), "it is still staged");
}

pub fn an_untracked_file_in_the_way_is_not_touched(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new"), ("a.txt", "changed")]);
    f.write("new.txt", "the user's own");
    let before = main_tree(f);
    shared.set_token(&task(), &swap.to).unwrap();
    is_in_use(shared.land(&swap).unwrap());
    assert_eq!(main_tree(f), before);
}

pub fn a_target_in_another_tree_is_not_touched(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let other = begin(f, &*shared, "other");
    f.at(other.top_level()).create_branch("feature");
    let before = f.at(other.top_level()).files();
    shared.set_token(&task(), &swap.to).unwrap();
    is_in_use(shared.land(&Swap { target: "feature".to_owned(), ..swap.clone() }).unwrap());
    assert_eq!(f.tip("feature").as_ref(), Some(&swap.from));
    assert_eq!(f.at(other.top_level()).files(), before);
}

pub fn without_a_token_nothing_lands(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let before = main_tree(f);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Fenced);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.void_token(&task(), &swap.to).unwrap(), Token::Voided);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Fenced);
    assert_eq!(main_tree(f), before);
}

pub fn a_token_of_another_commit_lands_nothing(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let before = main_tree(f);
    shared.set_token(&task(), &swap.from).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Fenced);
    assert_eq!(main_tree(f), before);
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.from));
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done, "a new token replaces an old one");
}

pub fn a_target_that_moved_is_not_moved(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let theirs = f.foreign_file("mine.txt", "mine", "my own work");
    let before = main_tree(f);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::TargetMoved);
    assert_eq!(f.tip("main"), Some(theirs));
    assert_eq!(main_tree(f), before);
    assert!(is_clean(&*f.workspace()));
    assert_eq!(f.token(&task()), Some(swap.to));
}

pub fn a_target_that_is_gone_is_not_created(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.create_branch("mine");
    f.delete_branch("main");
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::TargetMoved);
    assert_eq!(f.tip("main"), None);
}

pub fn a_landing_happens_once(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    let after = main_tree(f);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Fenced, "its token is used up");
    assert_eq!(shared.void_token(&task(), &swap.to).unwrap(), Token::Missing);
    assert!(shared.contains("main", &swap.to).unwrap());
    assert_eq!(main_tree(f), after);
}

pub fn a_token_is_voided_once(f: &dyn SharedFixture) {
    let (shared, to) = (f.shared(), head(f));
    assert_eq!(shared.void_token(&task(), &to).unwrap(), Token::Missing);
    shared.set_token(&task(), &to).unwrap();
    assert_eq!(shared.void_token(&task(), &to).unwrap(), Token::Voided);
    assert_eq!(f.token(&task()), None);
    assert_eq!(shared.void_token(&task(), &to).unwrap(), Token::Missing);
}

pub fn a_token_of_another_commit_is_not_voided(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.void_token(&task(), &swap.from).unwrap(), Token::Missing);
    assert_eq!(f.token(&task()).as_ref(), Some(&swap.to));
}

pub fn results_are_found_by_their_trailers(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let branches = ["main".to_owned(), "no-such-branch".to_owned()];
    assert_eq!(shared.landed_results(&branches, None).unwrap(), []);
    shared.set_token(&task(), &swap.to).unwrap();
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    let landed = LandedResult { task: task(), epoch: Epoch(1), commit: swap.to };
    assert_eq!(shared.landed_results(&branches, None).unwrap(), [landed]);
}

pub fn tokens_are_listed_until_they_are_used(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    let other = TaskId::parse("task-2").unwrap();
    assert_eq!(shared.tokens().unwrap(), []);
    shared.set_token(&task(), &swap.to).unwrap();
    shared.set_token(&other, &swap.from).unwrap();
    let mut tokens = shared.tokens().unwrap();
    tokens.sort();
    assert_eq!(tokens, [(task(), swap.to.clone()), (other.clone(), swap.from.clone())]);
    assert_eq!(shared.void_token(&other, &swap.from).unwrap(), Token::Voided);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(shared.tokens().unwrap(), []);
}
