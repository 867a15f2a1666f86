//! The work that a rollback saves, and its restoration.

use harness::workspace::{RolledBack, WorkspaceError};
use harness_core::TaskId;

use super::{Fixture, before_claim, busy_attempt, claim, rescued, roll_back, task};

pub fn nothing_changed_means_no_rescue(f: &dyn Fixture) {
    before_claim(f);
    let before = f.files();
    let base = claim(f);
    assert_eq!(f.workspace().rescue(&task(), 1, &base).unwrap(), None);
    assert_eq!(roll_back(f, &base), RolledBack::default());
    assert_eq!(f.files(), before);
    assert!(f.workspace().rescues(None).unwrap().is_empty());
}

pub fn a_rescue_changes_neither_tree_nor_index(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    busy_attempt(f);
    let (files, index, head) = (f.files(), f.staged(), f.workspace().head().unwrap());
    let first = f.workspace().rescue(&task(), 1, &base).unwrap().unwrap();
    assert_eq!((f.files(), f.staged(), f.workspace().head().unwrap()), (files, index, head));
    let second = f.workspace().rescue(&task(), 1, &base).unwrap().unwrap();
    assert_eq!(first, second);
}

pub fn a_rescue_never_replaces_another(f: &dyn Fixture) {
    let base = claim(f);
    let mut names = Vec::new();
    for text in ["one", "two", "three"] {
        f.write("a.txt", text);
        names.push(roll_back(f, &base).rescue.unwrap());
    }
    let prefix = "refs/harness/rescue/task-1/1";
    assert_eq!(names, [prefix.to_owned(), format!("{prefix}-2"), format!("{prefix}-3")]);
    let saved: Vec<_> = rescued(f).iter().map(|files| files["a.txt"].clone()).collect();
    assert_eq!(saved, ["one", "two", "three"]);
    f.write("a.txt", "four");
    let other = f.workspace().rollback(&task(), 2, &base).unwrap();
    assert_eq!(other.rescue.as_deref(), Some("refs/harness/rescue/task-1/2"));
}

pub fn a_state_saved_before_is_not_saved_again(f: &dyn Fixture) {
    let base = claim(f);
    for _ in 0..2 {
        f.write("a.txt", "same");
        roll_back(f, &base);
    }
    assert_eq!(f.workspace().rescues(None).unwrap().len(), 1);
}

pub fn staged_contents_that_are_nowhere_else_are_saved(f: &dyn Fixture) {
    let base = claim(f);
    f.write("a.txt", "staged only");
    f.stage("a.txt");
    f.write("a.txt", "b");
    f.write("b.txt", "staged, then deleted");
    f.stage("b.txt");
    f.remove("b.txt");
    let first = f.workspace().rescue(&task(), 1, &base).unwrap();
    let again = f.workspace().rescue(&task(), 1, &base).unwrap();
    assert!(first.is_some());
    assert_eq!(first, again);
    roll_back(f, &base);
    assert_eq!(f.read("a.txt").as_deref(), Some("a"));
    assert_eq!(f.read("b.txt").as_deref(), Some("b"));
}

pub fn restore_brings_a_rescue_back(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    busy_attempt(f);
    f.write("notes.txt", "mine");
    let left = f.files();
    roll_back(f, &base);
    let rescue = f.workspace().rescues(Some(&task())).unwrap().remove(0);
    let shown = f.workspace().show(&rescue).unwrap();
    assert!(shown.contains("new.txt") && !shown.contains("harness-progress.txt"), "{shown}");
    let written = f.workspace().restore(&rescue).unwrap();
    assert_eq!(written, ["a.txt", "done.txt", "new.txt", "staged.txt"]);
    assert_eq!(f.files(), left);
    assert!(f.workspace().restore(&rescue).unwrap().is_empty(), "again: nothing to write");
}

pub fn restore_refuses_to_overwrite(f: &dyn Fixture) {
    let base = claim(f);
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("other.txt", "other")]);
    roll_back(f, &base);
    f.write_all(&[("a.txt", "mine"), ("new.txt", "mine")]);
    let before = f.files();
    let rescue = f.workspace().rescues(None).unwrap().remove(0);
    let error = f.workspace().restore(&rescue).unwrap_err();
    let WorkspaceError::WouldOverwrite { files } = error else { panic!("{error}") };
    assert_eq!(files, ["a.txt", "new.txt"]);
    assert_eq!(f.files(), before);
}

pub fn a_forgotten_base_may_be_forgotten_again(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    assert!(base.untracked.is_some());
    f.workspace().forget(&task()).unwrap();
    f.workspace().forget(&task()).unwrap();
    f.remove("notes.txt");
    f.remove("deep/er/todo.txt");
    assert_eq!(claim(f).untracked, None);
}

pub fn rescues_are_listed_by_task(f: &dyn Fixture) {
    let base = claim(f);
    let other = TaskId::parse("task-10").unwrap();
    f.write("a.txt", "one");
    f.workspace().rollback(&task(), 1, &base).unwrap();
    f.write("a.txt", "two");
    f.workspace().rollback(&other, 1, &base).unwrap();
    let names = |task: Option<&TaskId>| -> Vec<_> {
        f.workspace().rescues(task).unwrap().into_iter().map(|r| r.reference).collect()
    };
    assert_eq!(names(Some(&task())), ["refs/harness/rescue/task-1/1"]);
    assert_eq!(names(Some(&other)), ["refs/harness/rescue/task-10/1"]);
    assert_eq!(names(None).len(), 2);
}
