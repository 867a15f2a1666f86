//! The last look is valid until something has run.

use harness::workspace::Sight;

use super::{Fixture, before_claim, claim, task};

pub fn a_mark_changes_when_a_file_does(f: &dyn Fixture) {
    let git = f.workspace();
    let mark = || git.mark(Sight::Anew).unwrap();
    let before = mark();
    assert_eq!(before.0, git.head().unwrap());
    f.write_all(&[("x.log", "ignored"), ("harness-tasks.json", "ours"), (".harness/x", "ours")]);
    assert_eq!(mark(), before, "ignored files and ours do not count");
    f.write("new.txt", "new");
    let new = mark();
    assert_ne!(new, before);
    f.stage("new.txt");
    assert_eq!(mark(), new, "staged or not does not matter");
    f.write("new.txt", "old");
    assert_ne!(mark(), new, "the same size, but other contents");
    f.write("new.txt", "new");
    assert_eq!(mark(), new);
    f.remove("a.txt");
    assert_ne!(mark(), new);
    f.write("a.txt", "a");
    let commit = f.commit("new");
    assert_eq!(mark().0, commit);
}

pub fn the_last_look_counts_until_something_has_run(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let git = f.workspace();
    f.write("new.txt", "new");
    let seen = git.mark(Sight::Anew).unwrap();
    f.write("later.txt", "later");
    assert_eq!(git.mark(Sight::Last).unwrap(), seen);
    assert_eq!(git.touched(&base, Sight::Last).unwrap(), ["new.txt"]);
    let candidate = git.candidate(&base, Sight::Last).unwrap();
    // A look always follows a check: changes that it made are reported or removed.
    f.write("a.txt", "changed");
    let settled = git.settle(&base, &candidate.tree).unwrap();
    assert_eq!((settled.changed, f.read("later.txt")), (vec!["a.txt".to_owned()], None));
    f.write("later.txt", "later");
    git.disturbed();
    assert_ne!(git.mark(Sight::Last).unwrap(), seen);
    assert_eq!(git.touched(&base, Sight::Last).unwrap(), ["a.txt", "later.txt", "new.txt"]);
    f.stage("new.txt");
    f.write("more.txt", "more");
    let touched = git.touched(&base, Sight::Last).unwrap();
    assert_eq!(touched, ["a.txt", "later.txt", "more.txt", "new.txt"], "somebody used git");
}

pub fn what_a_commit_leaves_is_known_without_a_look(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let git = f.workspace();
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new")]);
    f.remove("b.txt");
    let candidate = git.candidate(&base, Sight::Anew).unwrap();
    git.settle(&base, &candidate.tree).unwrap();
    let commit = git.commit_tree(&base, &candidate.tree, "task-1: title").unwrap();
    f.write("later.txt", "later");
    let next = git.base(&task(), Sight::Last).unwrap();
    assert_eq!((&next.commit, &next.untracked), (&commit, &base.untracked));
    assert_eq!(git.touched(&next, Sight::Anew).unwrap(), ["later.txt"]);
    let anew = git.base(&task(), Sight::Anew).unwrap();
    assert_eq!(git.touched(&anew, Sight::Anew).unwrap(), [""; 0]);
}
