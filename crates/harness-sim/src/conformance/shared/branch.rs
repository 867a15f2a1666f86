//! The branch of an attempt, from its start to its end.

use harness_core::Epoch;

use super::{SharedFixture, begin, head, result, task, worker};

const BRANCH: &str = "harness/task-1.1";

pub fn a_branch_starts_at_the_tree(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    assert_eq!(f.at(tree.top_level()).current_branch().as_deref(), Some(BRANCH));
    assert_eq!(f.tip(BRANCH), Some(head(f)));
    shared.start_branch(&worker("w"), &task(), Epoch(1)).unwrap();
    assert_eq!(f.tip(BRANCH), Some(head(f)), "again: nothing changes");
    shared.start_branch(&worker("w"), &task(), Epoch(2)).unwrap();
    assert_eq!(f.at(tree.top_level()).current_branch().as_deref(), Some("harness/task-1.2"));
    assert_eq!(f.tip(BRANCH), Some(head(f)), "that of the last attempt stays");
}

pub fn a_branch_with_landed_work_is_deleted(f: &dyn SharedFixture) {
    let shared = f.shared();
    let swap = result(f, &*shared, &[("new.txt", "new")]);
    f.move_branch("elsewhere", &swap.to);
    shared.end_branch(&worker("w"), &task(), Epoch(1), "elsewhere").unwrap();
    assert_eq!(f.tip(BRANCH), None);
    let tree = shared.reset(&worker("w"), &swap.to).unwrap().workspace;
    assert_eq!(f.at(tree.top_level()).current_branch(), None);
    assert!(f.workspace().rescues(None).unwrap().is_empty());
}

pub fn a_branch_with_saved_work_is_deleted(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let base = tree.base(&task(), harness::workspace::Sight::Anew).unwrap();
    f.at(tree.top_level()).commit_file("done.txt", "done", "some work");
    tree.rescue(&task(), 1, &base).unwrap().unwrap();
    shared.end_branch(&worker("w"), &task(), Epoch(1), "main").unwrap();
    assert_eq!(f.tip(BRANCH), None);
    assert_eq!(f.at(tree.top_level()).current_branch(), None);
}

pub fn a_branch_with_the_only_copy_is_saved_before_it_is_deleted(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let commit = f.at(tree.top_level()).commit_file("done.txt", "done", "some work");
    shared.end_branch(&worker("w"), &task(), Epoch(1), "main").unwrap();
    assert_eq!(f.tip(BRANCH), None);
    let rescues = f.workspace().rescues(Some(&task())).unwrap();
    assert_eq!(rescues.iter().map(|rescue| &rescue.commit).collect::<Vec<_>>(), [&commit]);
}

pub fn a_branch_that_is_gone_may_end_again(f: &dyn SharedFixture) {
    let shared = f.shared();
    begin(f, &*shared, "w");
    for _ in 0..2 {
        shared.end_branch(&worker("w"), &task(), Epoch(1), "main").unwrap();
        assert_eq!(f.tip(BRANCH), None);
    }
}
