//! A commit takes everything that the agent left.

use harness::workspace::{Base, WorkspaceError};
use harness_core::TaskId;

use super::{Fixture, before_claim, claim};

pub fn commit_takes_all_but_ours_and_earlier_untracked_files(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("notes.txt", "touched")]);
    f.remove("b.txt");
    f.stage("deep/er/todo.txt");
    f.stage("harness-tasks.json");
    let commit = f.workspace().commit(&base, "task-1: title").unwrap();
    let committed = f.committed(&commit);
    let names: Vec<_> = committed.keys().map(String::as_str).collect();
    assert_eq!(names, [".gitignore", "a.txt", "new.txt"]);
    assert_eq!(committed["a.txt"], "changed");
    assert_eq!(f.read("notes.txt").as_deref(), Some("touched"));
    assert_eq!(f.read("harness-tasks.json").as_deref(), Some("{}"));
    assert_eq!(f.tip("main"), Some(commit.clone()));
    assert!(f.workspace().status().unwrap().changed.is_empty());
    assert_eq!(f.workspace().commit(&base, "task-1: title").unwrap(), commit, "no second commit");
}

pub fn nothing_to_commit_makes_no_commit(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    assert_eq!(f.workspace().commit(&base, "task-1: title").unwrap(), base.commit);
    let agents = f.commit_file("new.txt", "new", "task-1: done");
    assert_eq!(f.workspace().commit(&base, "task-1: title").unwrap(), agents);
}

pub fn commit_brings_the_claimed_branch_along(f: &dyn Fixture) {
    let base = claim(f);
    f.create_branch("feature");
    let agents = f.commit_file("new.txt", "new", "on a branch");
    f.write("a.txt", "changed");
    let commit = f.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(f.current_branch().as_deref(), Some("main"));
    assert_eq!(f.tip("main"), Some(commit.clone()));
    assert_eq!(f.tip("feature"), Some(agents));
    assert_eq!(f.committed(&commit)["new.txt"], "new");
    assert_eq!(f.workspace().commit(&base, "task-1: title").unwrap(), commit);
}

pub fn commit_refuses_a_head_that_does_not_descend_from_the_base(f: &dyn Fixture) {
    let first = f.workspace().head().unwrap();
    f.create_branch("old");
    f.commit_file("c.txt", "c", "newer");
    let base = Base { commit: f.workspace().head().unwrap(), ..claim(f) };
    // The work continues from before the base.
    let base = Base { branch: Some("old".to_owned()), ..base };
    assert_eq!(f.tip("main"), Some(first));
    f.remove("c.txt");
    switch_to_main(f);
    let error = f.workspace().commit(&base, "task-1: title").unwrap_err();
    assert!(matches!(error, WorkspaceError::NotDescendant { .. }), "{error}");
}

pub fn a_completed_commit_is_kept_reachable(f: &dyn Fixture) {
    f.detach();
    let base = claim(f);
    f.write("a.txt", "changed");
    let commit = f.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(f.landed("task-1"), None);
    for commit in [&base.commit, &commit, &commit] {
        let name = f.workspace().keep_reachable(&super::task(), commit).unwrap();
        assert_eq!(name, "refs/harness/landed/task-1");
        assert_eq!(f.landed("task-1").as_ref(), Some(commit));
    }
}

/// Switches to `main`. The fixture has no `switch`, but a claim on `main` that is rolled back ends
/// there.
fn switch_to_main(f: &dyn Fixture) {
    let base = claim(f);
    let main = Base { commit: f.tip("main").unwrap(), branch: Some("main".to_owned()), ..base };
    f.workspace().rollback(&TaskId::parse("other").unwrap(), 1, &main).unwrap();
    assert_eq!(f.current_branch().as_deref(), Some("main"));
}
