//! The tree that would be committed, before and after a check.

use harness::workspace::{Settled, Sight, WorkspaceError};

use super::{Fixture, before_claim, claim};

fn names(f: &dyn Fixture, commit: &harness_core::CommitId) -> Vec<String> {
    f.committed(commit).into_keys().collect()
}

pub fn a_candidate_is_the_tree_that_is_committed(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let git = f.workspace();
    let clean = git.candidate(&base, Sight::Anew).unwrap();
    assert_eq!(clean.tree, git.tree_of(&base.commit).unwrap());
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("y.log", "ignored")]);
    f.remove("b.txt");
    let candidate = git.candidate(&base, Sight::Anew).unwrap();
    assert_ne!(candidate.tree, clean.tree);
    let settled = Settled { tree: candidate.tree.clone(), changed: Vec::new(), moved: false };
    assert_eq!(git.settle(&base, &candidate.tree).unwrap(), settled, "nothing happened");
    let commit = git.commit_tree(&base, &candidate.tree, "task-1: title").unwrap();
    assert_eq!(git.tree_of(&commit).unwrap(), candidate.tree);
    assert_eq!(names(f, &commit), [".gitignore", "a.txt", "new.txt"]);
    assert!(git.status().unwrap().changed.is_empty());
    assert_eq!(git.commit_tree(&base, &candidate.tree, "again").unwrap(), commit);
}

pub fn changes_of_a_check_are_reported_and_its_new_files_removed(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    f.write("new.txt", "new");
    let git = f.workspace();
    let before = git.candidate(&base, Sight::Anew).unwrap().tree;
    f.write_all(&[("report/out.xml", "made by the check"), ("z.log", "ignored")]);
    let settled = git.settle(&base, &before).unwrap();
    assert_eq!(settled, Settled { tree: before.clone(), changed: Vec::new(), moved: false });
    assert_eq!(f.read("report/out.xml"), None);
    assert_eq!(f.read("z.log").as_deref(), Some("ignored"));
    assert_eq!(f.read("notes.txt").as_deref(), Some("mine"));
    f.write_all(&[("a.txt", "formatted"), ("new.txt", "formatted"), ("other.txt", "x")]);
    f.remove("b.txt");
    let settled = git.settle(&base, &before).unwrap();
    assert_eq!(settled.changed, ["a.txt", "b.txt", "new.txt"]);
    assert_ne!(settled.tree, before);
    assert_eq!(f.read("other.txt"), None);
    let commit = git.commit_tree(&base, &settled.tree, "task-1: title").unwrap();
    assert_eq!(f.committed(&commit)["new.txt"], "formatted");
    assert_eq!(names(f, &commit), [".gitignore", "a.txt", "new.txt"]);
}

pub fn what_was_judged_can_be_put_back(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    f.write("new.txt", "new");
    let git = f.workspace();
    let before = git.candidate(&base, Sight::Anew).unwrap().tree;
    let files = f.files();
    assert!(git.put_back(&base, &before).unwrap().is_empty());
    f.write_all(&[("a.txt", "changed"), ("new.txt", "changed"), ("deep/other.txt", "x")]);
    f.remove("b.txt");
    let put_back = git.put_back(&base, &before).unwrap();
    assert_eq!(put_back, ["a.txt", "b.txt", "deep/other.txt", "new.txt"]);
    assert_eq!(f.files(), files);
    let commit = git.commit_tree(&base, &before, "task-1: title").unwrap();
    assert_eq!(git.tree_of(&commit).unwrap(), before);
    assert!(git.status().unwrap().changed.is_empty());
}

pub fn a_commit_of_somebody_during_the_check_is_noticed(f: &dyn Fixture) {
    let base = claim(f);
    f.write("new.txt", "new");
    let git = f.workspace();
    let before = git.candidate(&base, Sight::Anew).unwrap().tree;
    f.foreign_file("mine.txt", "mine", "my own work");
    let error = git.commit_tree(&base, &before, "task-1: title").unwrap_err();
    assert!(matches!(error, WorkspaceError::HeadMoved { .. }), "{error}");
    let settled = git.settle(&base, &before).unwrap();
    assert!(settled.moved);
    assert_eq!(settled.changed, ["mine.txt"]);
    assert_eq!(f.read("mine.txt").as_deref(), Some("mine"), "it is not the check's");
    let commit = git.commit_tree(&base, &settled.tree, "task-1: title").unwrap();
    assert_eq!(f.committed(&commit)["mine.txt"], "mine");
    assert_eq!(f.committed(&commit)["new.txt"], "new");
}

pub fn work_that_no_commit_can_hold_is_reported(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let git = f.workspace();
    let hidden = || git.candidate(&base, Sight::Anew).unwrap().hidden;
    f.write("new.txt", "so that there is work");
    assert_eq!(hidden(), [""; 0]);
    f.write("notes.txt", "the work");
    assert_eq!(hidden(), ["notes.txt"]);
    f.remove("deep/er/todo.txt");
    assert_eq!(hidden(), ["deep/er/todo.txt", "notes.txt"]);
}
