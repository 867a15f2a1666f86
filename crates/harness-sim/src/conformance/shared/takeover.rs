//! The tree of a dead worker, in the tree of another one.

use harness::workspace::{Base, Sight, Workspace, shared::Dead};
use harness_core::{CommitId, Epoch};

use super::{SharedFixture, begin, done, head, main_tree, task, work, worker};
use crate::conformance::workspace::AGENT;

fn claimed(tree: &dyn Workspace) -> Base {
    Base { epoch: Some(Epoch(1)), ..tree.base(&task(), Sight::Anew).unwrap() }
}

/// Plays an attempt that leaves changes of every kind.
fn busy(f: &dyn SharedFixture, tree: &dyn Workspace) {
    let agent = f.at(tree.top_level());
    agent.commit_file("done.txt", "done", "some work");
    agent.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("staged.txt", "staged")]);
    agent.stage("staged.txt");
    agent.remove("b.txt");
}

pub fn a_dead_workers_tree_is_taken_over(f: &dyn SharedFixture) {
    let before = main_tree(f);
    let first = f.shared();
    let tree = begin(f, &*first, "w.1");
    let base = claimed(&*tree);
    busy(f, &*tree);
    let (left, staged) = (f.at(tree.top_level()).files(), f.at(tree.top_level()).staged());
    drop(first);
    let shared = f.shared();
    let task = task();
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    for _ in 0..2 {
        let taken = shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().unwrap().workspace;
        let agent = f.at(taken.top_level());
        assert_eq!(agent.files(), left);
        assert_eq!(agent.current_branch().as_deref(), Some("harness/task-1.2"));
        assert_eq!(taken.head().unwrap(), tree.head().unwrap());
        assert_eq!(f.tip("harness/task-1.2"), f.tip("harness/task-1.1"));
    }
    let dead = f.at(tree.top_level());
    assert_eq!((dead.files(), dead.staged()), (left, staged), "it stays as it was");
    assert_eq!(dead.current_branch().as_deref(), Some("harness/task-1.1"));
    let rescues = f.workspace().rescues(Some(&task)).unwrap();
    let named = rescues.iter().find(|r| r.reference == "refs/harness/rescue/task-1/1").unwrap();
    let saved = f.committed(&named.commit);
    for (path, text) in [("done.txt", "done"), ("a.txt", "changed"), ("new.txt", "new")] {
        assert_eq!(saved.get(path).map(String::as_str), Some(text), "{path}");
    }
    assert_eq!(main_tree(f), before);
}

pub fn a_dead_worker_that_did_nothing_leaves_nothing_to_save(f: &dyn SharedFixture) {
    let first = f.shared();
    let tree = begin(f, &*first, "w.1");
    let base = claimed(&*tree);
    drop(first);
    let (shared, task) = (f.shared(), task());
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    let taken = shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().unwrap().workspace;
    assert_eq!(f.at(taken.top_level()).files(), f.committed(&head(f)));
    assert!(f.workspace().rescues(None).unwrap().is_empty());
}

pub fn a_worker_takes_over_its_own_tree(f: &dyn SharedFixture) {
    let first = f.shared();
    let tree = begin(f, &*first, "w");
    let base = claimed(&*tree);
    busy(f, &*tree);
    let left = f.at(tree.top_level()).files();
    drop(first);
    let (shared, task) = (f.shared(), task());
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    let taken = shared.transplant(&worker("w"), &dead, Epoch(2)).unwrap().unwrap().workspace;
    let agent = f.at(taken.top_level());
    assert_eq!(agent.files(), left);
    assert_eq!(agent.current_branch().as_deref(), Some("harness/task-1.2"));
}

pub fn a_tree_that_is_gone_cannot_be_taken_over(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w.1");
    let base = claimed(&*tree);
    shared.close(&worker("w.1")).unwrap();
    let task = task();
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    assert!(shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().is_none());
}

pub fn a_tree_that_does_not_descend_is_only_saved(f: &dyn SharedFixture) {
    let old = head(f);
    let late = f.foreign_file("late.txt", "late", "later");
    let first = f.shared();
    let tree = begin(f, &*first, "w.1");
    let base = claimed(&*tree);
    assert_eq!(base.commit, late);
    first.reset(&worker("w.1"), &old).unwrap();
    let agent = f.at(tree.top_level());
    agent.write("new.txt", "new");
    agent.stage("new.txt");
    agent.commit_as(AGENT, "elsewhere");
    drop(first);
    let (shared, task) = (f.shared(), task());
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    assert!(shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().is_none());
    let rescues = f.workspace().rescues(Some(&task)).unwrap();
    let saved = rescues.iter().any(|r| f.committed(&r.commit).contains_key("new.txt"));
    assert!(saved, "{rescues:?}");
}

/// Leaves a dead worker whose result was put on top of what landed meanwhile. Returns its tree, its
/// base and its original work.
fn dead_on_its_way(f: &dyn SharedFixture) -> (std::path::PathBuf, Base, CommitId) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w.1");
    let base = claimed(&*tree);
    let original = f.at(tree.top_level()).commit_file("done.txt", "done", "some work");
    let onto = f.foreign_file("landed.txt", "landed", "landed");
    let rebase = work(&base.commit, &original, &onto);
    done(shared.rebase(&worker("w.1"), &rebase).unwrap());
    (tree.top_level().to_owned(), base, original)
}

pub fn a_rebase_keeps_the_original_work(f: &dyn SharedFixture) {
    let (_, _, original) = dead_on_its_way(f);
    assert_eq!(f.original_work(&task(), Epoch(1)), Some(original));
    f.move_branch("elsewhere", &f.tip("harness/task-1.1").unwrap());
    f.shared().end_branch(&worker("w.1"), &task(), Epoch(1), "elsewhere").unwrap();
    assert_eq!(f.original_work(&task(), Epoch(1)), None);
}

pub fn a_result_on_its_way_is_taken_over_as_it_was(f: &dyn SharedFixture) {
    let (tree, base, original) = dead_on_its_way(f);
    let (shared, task) = (f.shared(), task());
    let dead = Dead { tree: &tree, task: &task, attempt: 1, base: &base };
    for (name, epoch) in [("w.2", Epoch(2)), ("w.2", Epoch(2)), ("w.1", Epoch(3))] {
        let taken = shared.transplant(&worker(name), &dead, epoch).unwrap().unwrap().workspace;
        assert_eq!(taken.head().unwrap(), original, "{name}");
        assert_eq!(f.at(taken.top_level()).files(), f.committed(&original), "{name}");
    }
}

pub fn an_attempt_that_never_began_is_not_taken_over(f: &dyn SharedFixture) {
    let first = f.shared();
    let tree = first.reset(&worker("w.1"), &head(f)).unwrap().workspace;
    let base = claimed(&*tree);
    drop(first);
    let (shared, task) = (f.shared(), task());
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    assert!(shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().is_none());
}
