//! Commits of others between the claim and its rollback.

use harness::workspace::{RolledBack, Undone, WorkspaceError};

use super::{AGENT, Fixture, LONG_AGO, before_claim, claim, rescued, roll_back, task};

pub fn commits_of_others_stay_and_the_attempts_are_reverted(f: &dyn Fixture) {
    before_claim(f);
    let before = f.files();
    let base = claim(f);
    f.commit_file("1.txt", "1", "some work");
    let mine = f.foreign_file("mine.txt", "mine", "my own work");
    f.commit_file("a.txt", "changed", "task-1: more work");
    f.write_all(&[("b.txt", "uncommitted"), ("new.txt", "new"), ("notes.txt", "scribble")]);
    let done = roll_back(f, &base);
    let mut expected = before;
    expected.insert("mine.txt".to_owned(), "mine".to_owned());
    assert_eq!(f.files(), expected);
    let head = f.workspace().head().unwrap();
    assert_eq!(f.tip("main").as_ref(), Some(&head));
    assert_eq!(done.undone, Undone::Kept { head: head.clone(), reverts: true });
    assert_eq!(done.put_back, ["notes.txt"]);
    assert_eq!(f.committed(&head)["a.txt"], "a");
    assert_eq!(f.committed(&head)["mine.txt"], "mine");
    assert!(!f.committed(&head).contains_key("1.txt"));
    let saved = &rescued(f)[0];
    for (path, text) in [("1.txt", "1"), ("a.txt", "changed"), ("b.txt", "uncommitted")] {
        assert_eq!(saved.get(path).map(String::as_str), Some(text), "{path}");
    }
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert_eq!(evidence.foreign_commits, [mine]);
    assert!(!evidence.uncommitted);
    assert_eq!(roll_back(f, &base), RolledBack::default(), "it is not made twice");
    assert_eq!(f.workspace().head().unwrap(), head);
    assert_eq!(rescued(f).len(), 1);
}

pub fn commits_of_others_stay_when_there_is_nothing_to_revert(f: &dyn Fixture) {
    let base = claim(f);
    let mine = f.foreign_file("mine.txt", "mine", "my own work");
    f.write_all(&[("mine.txt", "the agent was here"), ("new.txt", "new")]);
    let done = roll_back(f, &base);
    assert_eq!(done.undone, Undone::Kept { head: mine.clone(), reverts: false });
    assert_eq!(f.workspace().head().unwrap(), mine);
    assert_eq!(f.read("mine.txt").as_deref(), Some("mine"));
    assert_eq!(f.read("new.txt"), None);
    assert_eq!(rescued(f)[0]["mine.txt"], "the agent was here");
}

pub fn nothing_to_undo_touches_nothing(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let mine = f.foreign_file("mine.txt", "mine", "my own work");
    let before = f.files();
    assert_eq!(roll_back(f, &base), RolledBack::default());
    assert_eq!((f.files(), f.workspace().head().unwrap()), (before, mine));
    assert!(rescued(f).is_empty());
}

pub fn a_revert_that_conflicts_touches_nothing(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    f.commit_file("a.txt", "by the agent", "some work");
    let mine = f.foreign_file("a.txt", "by me", "on top of it");
    f.write_all(&[("b.txt", "uncommitted"), ("new.txt", "new")]);
    let (before, staged) = (f.files(), f.staged());
    for _ in 0..2 {
        let error = f.workspace().rollback(&task(), 1, &base).unwrap_err();
        assert!(matches!(error, WorkspaceError::CannotUndo { .. }), "{error}");
        assert!(error.to_string().contains("a.txt"), "{error}");
    }
    assert_eq!((f.files(), f.staged()), (before, staged));
    assert_eq!(f.workspace().head().unwrap(), mine);
    assert!(rescued(f).is_empty());
}

pub fn an_undo_made_by_hand_is_found(f: &dyn Fixture) {
    let base = claim(f);
    f.commit_file("a.txt", "by the agent", "some work");
    f.foreign_file("a.txt", "by me", "on top of it");
    let kept = f.commit("task-1: keep\n\nHarness-Reverts: task-1.1");
    f.write("b.txt", "uncommitted");
    let done = roll_back(f, &base);
    assert_eq!(done.undone, Undone::Kept { head: kept.clone(), reverts: false });
    assert_eq!(f.workspace().head().unwrap(), kept);
    assert_eq!(f.read("a.txt").as_deref(), Some("by me"));
    assert_eq!(f.read("b.txt").as_deref(), Some("b"));
}

pub fn commits_of_others_stay_on_the_claimed_branch_that_was_left(f: &dyn Fixture) {
    let base = claim(f);
    let mine = f.foreign_file("mine.txt", "mine", "my own work");
    f.create_branch("feature");
    let agents = f.commit_file("new.txt", "new", "on feature");
    roll_back(f, &base);
    assert_eq!(f.current_branch().as_deref(), Some("main"));
    assert_eq!(f.tip("main"), Some(mine));
    assert_eq!(f.tip("feature"), Some(agents));
    assert_eq!(f.read("mine.txt").as_deref(), Some("mine"));
    assert_eq!(f.read("new.txt"), None);
}

pub fn evidence_tells_the_attempts_commits_by_their_mark(f: &dyn Fixture) {
    let base = claim(f);
    let marked = f.commit_file("1.txt", "1", "no name in it");
    let mine = f.foreign_file("2.txt", "2", "my own work");
    let later = f.commit_as("User (harness task-1.2)", "of another claim");
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert_eq!(evidence.task_commits, [marked]);
    assert_eq!(evidence.foreign_commits, [later, mine]);
    assert!(AGENT.ends_with("(harness task-1.1)"));
}
