//! The branch on which results land, and what can be asked of branches.

use harness::workspace::{WorkspaceError, shared::LANDED_BRANCH};

use super::{SharedFixture, head, main_tree};

pub fn a_repository_without_a_commit_is_refused(f: &dyn SharedFixture) {
    f.orphan("fresh");
    let error = f.shared().check().unwrap_err();
    assert!(matches!(error, WorkspaceError::NoCommits), "{error}");
}

pub fn a_branch_called_harness_is_refused(f: &dyn SharedFixture) {
    f.shared().check().unwrap();
    f.move_branch("harness", &head(f));
    let error = f.shared().check().unwrap_err();
    assert!(matches!(error, WorkspaceError::Unsafe { .. }), "{error}");
}

pub fn the_target_is_the_branch_of_the_main_tree(f: &dyn SharedFixture) {
    assert_eq!(f.shared().target(None).unwrap(), "main");
    f.create_branch("feature");
    assert_eq!(f.shared().target(None).unwrap(), "feature");
    assert_eq!(f.shared().target(Some("main")).unwrap(), "main");
}

pub fn a_wanted_target_is_created_at_head(f: &dyn SharedFixture) {
    let before = main_tree(f);
    assert_eq!(f.shared().target(Some("results")).unwrap(), "results");
    assert_eq!(f.tip("results"), Some(head(f)));
    assert_eq!(main_tree(f), before);
    let old = head(f);
    f.foreign_file("new.txt", "new", "mine");
    assert_eq!(f.shared().target(Some("results")).unwrap(), "results");
    assert_eq!(f.tip("results"), Some(old), "a branch that exists stays");
}

pub fn a_detached_head_gives_the_landed_branch(f: &dyn SharedFixture) {
    f.detach();
    assert_eq!(f.shared().target(None).unwrap(), LANDED_BRANCH);
    assert_eq!(f.tip(LANDED_BRANCH), Some(head(f)));
    assert_eq!(f.current_branch(), None);
}

pub fn a_tip_is_the_commit_of_a_branch(f: &dyn SharedFixture) {
    assert_eq!(f.shared().tip("main").unwrap(), Some(head(f)));
    assert_eq!(f.shared().tip("nowhere").unwrap(), None);
}

pub fn a_branch_contains_its_history(f: &dyn SharedFixture) {
    let first = head(f);
    f.create_branch("feature");
    let second = f.foreign_file("new.txt", "new", "second");
    let shared = f.shared();
    assert!(shared.contains("feature", &first).unwrap());
    assert!(shared.contains("feature", &second).unwrap());
    assert!(!shared.contains("main", &second).unwrap());
    assert!(!shared.contains("nowhere", &first).unwrap());
}

pub fn files_between_two_commits_are_sorted(f: &dyn SharedFixture) {
    let first = head(f);
    f.write_all(&[("z.txt", "z"), ("a.txt", "changed")]);
    f.remove("b.txt");
    for path in ["z.txt", "a.txt", "b.txt"] {
        f.stage(path);
    }
    let second = f.commit("second");
    let shared = f.shared();
    let expected = ["a.txt", "b.txt", "z.txt"];
    assert_eq!(shared.files_between(&first, &second).unwrap(), expected);
    assert!(shared.files_between(&second, &second).unwrap().is_empty());
}
