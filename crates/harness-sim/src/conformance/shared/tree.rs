//! The work tree of a worker: created, reset, saved and removed.

use std::collections::BTreeMap;

use harness::workspace::{Sight, shared::InitScript};
use harness_core::CommitId;

use super::{SharedFixture, begin, head, is_clean, main_tree, task, worker};
use crate::conformance::workspace::AGENT;

/// Returns the files of every rescue.
fn rescued(f: &dyn SharedFixture) -> Vec<BTreeMap<String, String>> {
    let rescues = f.workspace().rescues(None).unwrap();
    rescues.iter().map(|rescue| f.committed(&rescue.commit)).collect()
}

#[track_caller]
fn is_saved(f: &dyn SharedFixture, path: &str, text: &str) {
    let saved = rescued(f);
    let held = |files: &BTreeMap<String, String>| files.get(path).is_some_and(|t| t == text);
    assert!(saved.iter().any(held), "{path} with {text:?} is in none of {saved:#?}");
}

pub fn a_tree_starts_at_the_commit(f: &dyn SharedFixture) {
    let before = main_tree(f);
    let shared = f.shared();
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    assert_ne!(tree.top_level(), f.workspace().top_level());
    let agent = f.at(tree.top_level());
    assert_eq!(agent.files(), f.committed(&head(f)));
    assert_eq!(agent.current_branch(), None);
    assert_eq!(tree.head().unwrap(), head(f));
    let base = tree.base(&task(), Sight::Anew).unwrap();
    assert_eq!((base.commit, base.untracked), (head(f), None));
    assert_eq!(base.worktree, tree.top_level());
    assert_eq!(main_tree(f), before);
    assert!(is_clean(&*f.workspace()));
}

pub fn a_tree_is_used_again(f: &dyn SharedFixture) {
    let shared = f.shared();
    let first = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    let commit = f.foreign_file("new.txt", "new", "mine");
    let second = shared.reset(&worker("w"), &commit).unwrap().workspace;
    assert_eq!(first.top_level(), second.top_level());
    assert_eq!(second.head().unwrap(), commit);
    assert_eq!(f.at(second.top_level()).read("new.txt").as_deref(), Some("new"));
}

pub fn two_workers_have_two_trees(f: &dyn SharedFixture) {
    let shared = f.shared();
    let [one, two] = ["w.1", "w.2"].map(|w| shared.reset(&worker(w), &head(f)).unwrap().workspace);
    assert_ne!(one.top_level(), two.top_level());
    f.at(one.top_level()).write("a.txt", "changed");
    assert!(!is_clean(&*one));
    assert!(is_clean(&*two));
    assert!(is_clean(&*f.workspace()));
}

pub fn a_reset_saves_what_it_would_lose(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    agent.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("staged.txt", "staged")]);
    agent.stage("staged.txt");
    agent.remove("b.txt");
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    assert_eq!(f.at(tree.top_level()).files(), f.committed(&head(f)));
    assert_eq!(f.at(tree.top_level()).current_branch(), None);
    assert!(is_clean(&*tree));
    for (path, text) in [("a.txt", "changed"), ("new.txt", "new"), ("staged.txt", "staged")] {
        is_saved(f, path, text);
    }
    let count = rescued(f).len();
    shared.reset(&worker("w"), &head(f)).unwrap();
    assert_eq!(rescued(f).len(), count, "there is nothing more to save");
}

pub fn a_reset_saves_commits_on_no_branch(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    let commit = f.at(tree.top_level()).commit_file("done.txt", "done", "on no branch");
    shared.reset(&worker("w"), &head(f)).unwrap();
    is_saved(f, "done.txt", "done");
    let rescues = f.workspace().rescues(None).unwrap();
    let reachable = |tip: &CommitId| {
        *tip == commit || f.log(&head(f), tip).iter().any(|logged| logged.commit == commit)
    };
    assert!(rescues.iter().any(|rescue| reachable(&rescue.commit)), "the commit itself is kept");
}

pub fn a_reset_saves_what_ignore_rules_hid(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    agent.write(".gitignore", "*.log\n*.out\n");
    agent.stage(".gitignore");
    agent.commit_as(AGENT, "ignore more");
    agent.write("hidden.out", "hidden");
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    assert_eq!(f.at(tree.top_level()).read("hidden.out"), None);
    is_saved(f, "hidden.out", "hidden");
}

pub fn a_clean_tree_is_not_saved(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let commit = f.at(tree.top_level()).commit_file("done.txt", "done", "on its branch");
    shared.reset(&worker("w"), &head(f)).unwrap();
    assert!(rescued(f).is_empty(), "the branch has it");
    assert_eq!(f.tip("harness/task-1.1"), Some(commit));
}

pub fn a_reset_keeps_ignored_files(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    f.at(tree.top_level()).write("cache.log", "cached");
    let tree = shared.reset(&worker("w"), &head(f)).unwrap().workspace;
    assert_eq!(f.at(tree.top_level()).read("cache.log").as_deref(), Some("cached"));
    assert!(rescued(f).is_empty());
}

pub fn a_reset_to_an_unknown_commit_is_refused(f: &dyn SharedFixture) {
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    f.at(tree.top_level()).write("new.txt", "new");
    let unknown = CommitId::parse(&"1".repeat(40)).unwrap();
    assert!(shared.reset(&worker("w"), &unknown).is_err());
    assert_eq!(f.at(tree.top_level()).read("new.txt").as_deref(), Some("new"));
}

pub fn a_tree_of_another_process_is_refused(f: &dyn SharedFixture) {
    let (one, other) = (f.shared(), f.shared());
    let tree = begin(f, &*one, "w");
    let agent = f.at(tree.top_level());
    agent.write("new.txt", "new");
    assert!(other.reset(&worker("w"), &head(f)).is_err());
    assert!(other.close(&worker("w")).is_err());
    assert_eq!(agent.read("new.txt").as_deref(), Some("new"));
    other.reset(&worker("x"), &head(f)).unwrap();
}

pub fn a_tree_of_a_process_that_ended_is_free(f: &dyn SharedFixture) {
    let (one, other) = (f.shared(), f.shared());
    one.reset(&worker("w"), &head(f)).unwrap();
    drop(one);
    other.reset(&worker("w"), &head(f)).unwrap();
    other.close(&worker("w")).unwrap();
    f.shared().reset(&worker("w"), &head(f)).unwrap();
}

pub fn a_closed_tree_is_saved_and_removed(f: &dyn SharedFixture) {
    let before = main_tree(f);
    let shared = f.shared();
    let tree = begin(f, &*shared, "w");
    let agent = f.at(tree.top_level());
    let commit = agent.commit_file("done.txt", "done", "on its branch");
    agent.write("new.txt", "new");
    shared.close(&worker("w")).unwrap();
    assert!(!agent.files().contains_key("new.txt"));
    is_saved(f, "new.txt", "new");
    assert_eq!(f.tip("harness/task-1.1"), Some(commit));
    assert_eq!(main_tree(f), before);
}

pub fn a_tree_can_be_closed_again_and_created_again(f: &dyn SharedFixture) {
    let shared = f.shared();
    shared.close(&worker("w")).unwrap();
    shared.reset(&worker("w"), &head(f)).unwrap();
    shared.close(&worker("w")).unwrap();
    shared.close(&worker("w")).unwrap();
    let tree = begin(f, &*shared, "w");
    assert_eq!(f.at(tree.top_level()).files(), f.committed(&head(f)));
}

pub fn the_init_script_is_due_until_it_ran(f: &dyn SharedFixture) {
    let shared = f.shared();
    let init = || shared.reset(&worker("w"), &head(f)).unwrap().init;
    assert_eq!(init(), InitScript::Ran, "there is none");
    f.write("harness-init.sh", "true");
    assert_eq!([init(), init()], [InitScript::Due; 2]);
    shared.init_ran(&worker("w")).unwrap();
    assert_eq!(init(), InitScript::Ran);
    f.write("harness-init.sh", "true # changed");
    assert_eq!(init(), InitScript::Due);
    shared.init_ran(&worker("w")).unwrap();
    shared.close(&worker("w")).unwrap();
    assert_eq!(init(), InitScript::Due, "the tree is new");
}
