//! The evidence for recovery.

use harness::workspace::Sight;

use super::{FAR_AHEAD, Fixture, LONG_AGO, before_claim, claim, task};

pub fn own_files_never_make_a_tree_dirty(f: &dyn Fixture) {
    f.write("harness-tasks.json", "old");
    f.stage("harness-tasks.json");
    f.commit("somebody tracks ours");
    let tree = f.workspace().tree().unwrap();
    let base = claim(f);
    f.write_all(&[("harness-tasks.json", "new"), (".harness/x", "x"), (".harness-active", "")]);
    let status = f.workspace().status().unwrap();
    assert!(status.changed.is_empty() && status.untracked.is_empty(), "{status:?}");
    assert_eq!(f.workspace().tree().unwrap(), tree);
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted);
    assert_eq!(f.workspace().commit(&base, "task-1: x").unwrap(), base.commit);
}

pub fn status_tells_tracked_from_untracked(f: &dyn Fixture) {
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new"), ("x.log", "ignored")]);
    f.remove("b.txt");
    let status = f.workspace().status().unwrap();
    assert_eq!(status.changed, ["a.txt", "b.txt"]);
    assert_eq!(status.untracked, ["new.txt"]);
}

pub fn evidence_of_no_work(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted && evidence.untouched);
    assert!(evidence.task_commits.is_empty() && evidence.foreign_commits.is_empty());
    assert_eq!(evidence.head, base.commit);
    assert_eq!(evidence.tree, f.workspace().tree().unwrap());
    f.remove("notes.txt");
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted && !evidence.untouched, "an earlier file is gone");
    f.write("notes.txt", "mine");
    f.create_branch("other");
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted && !evidence.untouched, "HEAD is on another branch");
}

pub fn evidence_of_uncommitted_work(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let uncommitted = || f.workspace().evidence(&task(), &base, LONG_AGO).unwrap().uncommitted;
    f.write("new.txt", "new");
    assert!(uncommitted(), "a new file");
    f.remove("new.txt");
    assert!(!uncommitted());
    f.write("notes.txt", "touched");
    assert!(uncommitted(), "an earlier file that differs");
    f.write("notes.txt", "mine");
    assert!(!uncommitted());
    f.remove("a.txt");
    assert!(uncommitted(), "a deleted file");
    f.write("a.txt", "a");
    f.write("c.log", "ignored");
    assert!(!uncommitted(), "an ignored file is no work");
}

pub fn evidence_of_commits(f: &dyn Fixture) {
    let base = claim(f);
    let first = f.commit_file("1.txt", "1", "task-1: first");
    let other = f.foreign_file("2.txt", "2", "task-10: of another task");
    let last = f.commit_file("3.txt", "3", "more\n\nFor task-1.");
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted && !evidence.untouched);
    assert_eq!(evidence.task_commits, [last.clone(), first]);
    assert_eq!(evidence.foreign_commits, [other]);
    assert_eq!(evidence.head, last);
}

pub fn evidence_names_younger_stashes(f: &dyn Fixture) {
    let base = claim(f);
    f.stash("half an idea");
    let at = |when| f.workspace().evidence(&task(), &base, when).unwrap().stashes;
    assert_eq!(at(LONG_AGO), ["half an idea"]);
    assert!(at(FAR_AHEAD).is_empty());
}

pub fn equal_trees_have_equal_ids(f: &dyn Fixture) {
    let before = f.workspace().tree().unwrap();
    f.write_all(&[("new.txt", "new"), ("x.log", "ignored")]);
    let changed = f.workspace().tree().unwrap();
    assert_ne!(before, changed);
    f.stage("new.txt");
    assert_eq!(f.workspace().tree().unwrap(), changed, "staged or not does not matter");
    f.commit("new");
    assert_eq!(f.workspace().tree().unwrap(), changed, "committed or not does not matter");
    f.remove("new.txt");
    assert_eq!(f.workspace().tree().unwrap(), before);
}

pub fn touched_is_what_differs_from_the_claim(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let touched = || f.workspace().touched(&base, Sight::Anew).unwrap();
    assert_eq!(touched(), [""; 0], "what was there before is not touched");
    f.write("harness-progress.txt", "more log");
    f.commit_file("done.txt", "committed", "some work");
    f.write_all(&[("a.txt", "changed"), ("staged.txt", "x"), ("new.txt", "new"), ("y.log", "y")]);
    f.stage("staged.txt");
    f.remove("b.txt");
    f.write("notes.txt", "the agent was here");
    assert_eq!(touched(), ["a.txt", "b.txt", "done.txt", "new.txt", "notes.txt", "staged.txt"]);
    let missing = harness_core::CommitId::parse(&"1".repeat(40)).unwrap();
    let elsewhere = harness::workspace::Base { commit: missing, ..base };
    assert!(f.workspace().touched(&elsewhere, Sight::Anew).is_err());
}

pub fn a_commit_has_a_tree_and_can_be_checked_out(f: &dyn Fixture) {
    let base = claim(f);
    let (workspace, clean) = (f.workspace(), f.workspace().tree().unwrap());
    assert_eq!(workspace.tree_of(&base.commit).unwrap(), clean);
    f.write_all(&[("a.txt", "changed"), ("new.txt", "new")]);
    assert_eq!(workspace.tree_of(&base.commit).unwrap(), clean);
    let checkout = workspace.checkout(&base.commit).unwrap();
    assert!(!checkout.path().starts_with(workspace.top_level()));
    drop(checkout);
    let missing = harness_core::CommitId::parse(&"1".repeat(40)).unwrap();
    assert!(workspace.tree_of(&missing).is_err() && workspace.checkout(&missing).is_err());
}
