//! A rollback restores the tree.

use harness::workspace::{Base, WorkspaceError};
use harness_core::CommitId;

use super::{Fixture, after_rollback, before_claim, busy_attempt, claim, rescued, roll_back, task};

pub fn rollback_makes_the_tree_what_it_was_and_loses_nothing(f: &dyn Fixture) {
    before_claim(f);
    let before = f.files();
    let base = claim(f);
    busy_attempt(f);
    let done = roll_back(f, &base);
    assert_eq!(f.files(), after_rollback(&before));
    assert_eq!(done.rescue.as_deref(), Some("refs/harness/rescue/task-1/1"));
    assert_eq!(done.put_back, ["notes.txt"]);
    assert_eq!(f.workspace().head().unwrap(), base.commit);
    let saved = &rescued(f)[0];
    let expected = [
        ("done.txt", "committed"),
        ("a.txt", "changed"),
        ("staged.txt", "staged"),
        ("new.txt", "new"),
        ("notes.txt", "the agent was here"),
    ];
    for (path, text) in expected {
        assert_eq!(saved.get(path).map(String::as_str), Some(text), "{path}");
    }
    assert!(!saved.contains_key("b.txt"), "a deletion is work, too");
    assert!(!saved.keys().any(|path| path.contains("harness") || path.contains("handoff")));
    assert!(!saved.contains_key("x.log"));
    let status = f.workspace().status().unwrap();
    assert!(status.changed.is_empty(), "{status:?}");
}

pub fn a_repeated_rollback_changes_nothing(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    busy_attempt(f);
    roll_back(f, &base);
    let after = f.files();
    let again = roll_back(f, &base);
    assert_eq!(f.files(), after);
    assert!(again.put_back.is_empty());
    assert_eq!(f.workspace().rescues(None).unwrap().len(), 1);
}

pub fn deleted_untracked_files_come_back(f: &dyn Fixture) {
    before_claim(f);
    let before = f.files();
    let base = claim(f);
    f.remove("notes.txt");
    f.remove("deep/er/todo.txt");
    let done = roll_back(f, &base);
    assert_eq!(f.files(), before);
    assert_eq!(done.put_back, ["deep/er/todo.txt", "notes.txt"]);
}

pub fn untracked_files_that_the_agent_committed_come_back(f: &dyn Fixture) {
    before_claim(f);
    let before = f.files();
    let base = claim(f);
    f.commit_file("notes.txt", "taken over", "mine now");
    f.remove("deep/er/todo.txt");
    roll_back(f, &base);
    assert_eq!(f.files(), before);
    assert_eq!(rescued(f)[0]["notes.txt"], "taken over");
}

pub fn ignored_files_stay(f: &dyn Fixture) {
    let base = claim(f);
    f.write_all(&[("cache.log", "slow to make"), ("new.txt", "new")]);
    roll_back(f, &base);
    assert_eq!(f.read("cache.log").as_deref(), Some("slow to make"));
    assert_eq!(f.read("new.txt"), None);
}

pub fn what_the_agents_ignore_rules_hid_is_saved(f: &dyn Fixture) {
    let base = claim(f);
    f.write_all(&[(".gitignore", "*.log\n*.out\n"), ("hidden.out", "hidden")]);
    let done = roll_back(f, &base);
    assert_eq!(f.read("hidden.out"), None);
    assert_eq!(f.read(".gitignore").as_deref(), Some("*.log\n"));
    let saved = rescued(f);
    assert!(saved.iter().any(|files| files.get("hidden.out").is_some_and(|text| text == "hidden")));
    assert_eq!(done.rescue.as_deref(), Some("refs/harness/rescue/task-1/1-2"));
}

pub fn what_an_ignore_file_of_the_user_protects_survives_its_removal(f: &dyn Fixture) {
    f.unstage(".gitignore");
    f.commit("ignore rules are private");
    f.write_all(&[(".gitignore", "secret.txt\n"), ("secret.txt", "only copy")]);
    let base = claim(f);
    f.remove(".gitignore");
    roll_back(f, &base);
    assert_eq!(f.read("secret.txt").as_deref(), Some("only copy"));
    assert_eq!(f.read(".gitignore").as_deref(), Some("secret.txt\n"));
}

pub fn a_file_that_the_agent_untracked_and_ignored_is_saved(f: &dyn Fixture) {
    let base = claim(f);
    f.unstage("a.txt");
    f.write_all(&[(".gitignore", "a.txt\n"), ("a.txt", "private now")]);
    roll_back(f, &base);
    assert_eq!(f.read("a.txt").as_deref(), Some("a"));
    assert_eq!(rescued(f)[0]["a.txt"], "private now");
}

pub fn own_files_survive_even_when_tracked(f: &dyn Fixture) {
    f.write_all(&[("harness-tasks.json", "old"), (".harness/kept", "old")]);
    f.stage("harness-tasks.json");
    f.stage(".harness/kept");
    f.commit("somebody tracks ours");
    f.write("harness-progress.txt", "log");
    let base = claim(f);
    f.write_all(&[("harness-tasks.json", "new"), (".harness/kept", "new"), ("a.txt", "changed")]);
    f.stage("harness-progress.txt");
    f.stage("harness-tasks.json");
    f.commit("the agent commits ours too");
    f.write("harness-progress.txt", "longer log");
    for _ in 0..2 {
        roll_back(f, &base);
        assert_eq!(f.read("harness-tasks.json").as_deref(), Some("new"));
        assert_eq!(f.read(".harness/kept").as_deref(), Some("new"));
        assert_eq!(f.read("harness-progress.txt").as_deref(), Some("longer log"));
        assert_eq!(f.read("a.txt").as_deref(), Some("a"));
    }
    assert!(f.workspace().status().unwrap().changed.is_empty());
}

pub fn rollback_leaves_other_branches_alone(f: &dyn Fixture) {
    let base = claim(f);
    let on_main = f.commit_file("main.txt", "main", "on main");
    f.create_branch("feature");
    let on_feature = f.commit_file("new.txt", "new", "on feature");
    roll_back(f, &base);
    assert_eq!(f.current_branch().as_deref(), Some("main"));
    assert_eq!(f.tip("main"), Some(base.commit.clone()));
    assert_eq!(f.tip("feature"), Some(on_feature));
    assert_ne!(on_main, base.commit);
    let saved = rescued(f);
    assert_eq!(saved.len(), 1);
    assert_eq!(saved[0]["main.txt"], "main");
    assert_eq!(f.read("new.txt"), None);
    roll_back(f, &base);
    assert_eq!(rescued(f).len(), 1);
}

pub fn a_detached_head_stays_detached(f: &dyn Fixture) {
    f.detach();
    let base = claim(f);
    assert_eq!(base.branch, None);
    f.create_branch("feature");
    let tip = f.commit_file("new.txt", "new", "on a branch");
    roll_back(f, &base);
    assert_eq!(f.current_branch(), None);
    assert_eq!(f.workspace().head().unwrap(), base.commit);
    assert_eq!(f.tip("feature"), Some(tip));
    f.write("a.txt", "changed");
    let commit = f.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(f.current_branch(), None);
    assert_eq!(f.workspace().head().unwrap(), commit);
}

pub fn a_missing_base_is_refused_before_anything_is_touched(f: &dyn Fixture) {
    let base = claim(f);
    f.write("a.txt", "changed");
    let missing = CommitId::parse(&"1234567890".repeat(4)).unwrap();
    let error = f
        .workspace()
        .rollback(&task(), 1, &Base { commit: missing.clone(), ..base.clone() })
        .unwrap_err();
    assert!(matches!(error, WorkspaceError::NoSuchCommit { commit } if commit == missing));
    let elsewhere = Base { worktree: "/elsewhere".into(), ..base };
    let error = f.workspace().rollback(&task(), 1, &elsewhere).unwrap_err();
    assert!(matches!(error, WorkspaceError::WrongWorktree { .. }), "{error}");
    assert_eq!(f.read("a.txt").as_deref(), Some("changed"));
    assert!(f.workspace().rescues(None).unwrap().is_empty());
}
