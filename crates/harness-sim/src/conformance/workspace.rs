//! The conformance suite of [`Workspace`]: real git and the simulated one do the same.
//!
//! A fixture starts as a repository on `main` with one commit that holds `a.txt` ("a"), `b.txt`
//! ("b") and a `.gitignore` that ignores `*.log`.

use std::collections::BTreeMap;

use harness::workspace::{Base, RolledBack, Workspace, WorkspaceError};
use harness_core::{CommitId, TaskId, Timestamp};

/// What people and agents do to a repository, and how a case looks at it.
pub trait Fixture {
    fn workspace(&self) -> Box<dyn Workspace>;
    fn write(&self, path: &str, text: &str);
    fn remove(&self, path: &str);
    /// All files of the work tree, links aside.
    fn files(&self) -> BTreeMap<String, String>;
    /// Stages a file or its deletion, ignored or not.
    fn stage(&self, path: &str);
    /// Takes a file out of the index, not out of the work tree.
    fn unstage(&self, path: &str);
    /// Commits what is staged.
    fn commit(&self, message: &str) -> CommitId;
    /// Creates a branch at HEAD and switches to it.
    fn create_branch(&self, name: &str);
    fn detach(&self);
    fn current_branch(&self) -> Option<String>;
    fn tip(&self, branch: &str) -> Option<CommitId>;
    /// All files of a commit.
    fn committed(&self, commit: &CommitId) -> BTreeMap<String, String>;
    /// Makes a stash entry and leaves the work tree alone.
    fn stash(&self, subject: &str);
    /// The names of the files in the index.
    fn staged(&self) -> Vec<String>;

    fn read(&self, path: &str) -> Option<String> {
        self.files().remove(path)
    }

    fn write_all(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
    }

    /// An agent that commits a file itself.
    fn commit_file(&self, path: &str, text: &str, message: &str) -> CommitId {
        self.write(path, text);
        self.stage(path);
        self.commit(message)
    }
}

fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

const LONG_AGO: Timestamp = Timestamp::from_seconds(0);
const FAR_AHEAD: Timestamp = Timestamp::from_seconds(100_000_000_000);

fn claim(f: &dyn Fixture) -> Base {
    f.workspace().preflight().unwrap();
    f.workspace().base(&task()).unwrap()
}

fn roll_back(f: &dyn Fixture, base: &Base) -> RolledBack {
    f.workspace().rollback(&task(), 1, base).unwrap()
}

fn rescued(f: &dyn Fixture) -> Vec<BTreeMap<String, String>> {
    let rescues = f.workspace().rescues(Some(&task())).unwrap();
    rescues.iter().map(|rescue| f.committed(&rescue.commit)).collect()
}

/// An attempt that leaves a bit of everything.
pub fn busy_attempt(f: &dyn Fixture) {
    f.commit_file("done.txt", "committed", "some work");
    f.write_all(&[("a.txt", "changed"), ("staged.txt", "staged"), ("new.txt", "new")]);
    f.stage("staged.txt");
    f.remove("b.txt");
    f.write("notes.txt", "the agent was here");
    f.write("harness-progress.txt", "more log");
}

/// What is there before a claim beside the commit.
pub fn before_claim(f: &dyn Fixture) {
    f.write_all(&[("notes.txt", "mine"), ("deep/er/todo.txt", "mine too"), ("x.log", "ignored")]);
    f.write_all(&[("harness-tasks.json", "{}"), ("harness-progress.txt", "log")]);
    f.write_all(&[(".harness/harness.db", "db"), ("state/handoff.json", "handoff")]);
}

/// The work tree after the rollback of a [`busy_attempt`].
pub fn after_rollback(before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut expected = before.clone();
    expected.insert("harness-progress.txt".to_owned(), "more log".to_owned());
    expected
}

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
    // The work goes on from before the base.
    let base = Base { branch: Some("old".to_owned()), ..base };
    assert_eq!(f.tip("main"), Some(first));
    f.remove("c.txt");
    switch_to_main(f);
    let error = f.workspace().commit(&base, "task-1: title").unwrap_err();
    assert!(matches!(error, WorkspaceError::NotDescendant { .. }), "{error}");
}

/// The fixture has no `switch`: a claim on `main` that is rolled back ends there.
fn switch_to_main(f: &dyn Fixture) {
    let base = claim(f);
    let main = Base { commit: f.tip("main").unwrap(), branch: Some("main".to_owned()), ..base };
    f.workspace().rollback(&TaskId::parse("other").unwrap(), 1, &main).unwrap();
    assert_eq!(f.current_branch().as_deref(), Some("main"));
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

pub fn evidence_of_no_work(f: &dyn Fixture) {
    before_claim(f);
    let base = claim(f);
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted);
    assert!(evidence.task_commits.is_empty() && evidence.foreign_commits.is_empty());
    assert_eq!(evidence.head, base.commit);
    assert_eq!(evidence.tree, f.workspace().tree().unwrap());
    f.remove("notes.txt");
    assert!(!f.workspace().evidence(&task(), &base, LONG_AGO).unwrap().uncommitted);
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
    let other = f.commit_file("2.txt", "2", "task-10: of another task");
    let last = f.commit_file("3.txt", "3", "more\n\nFor task-1.");
    let evidence = f.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
    assert!(!evidence.uncommitted);
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

/// Calls a macro with the name of every case, so that each becomes a test of its own.
#[macro_export]
macro_rules! for_each_workspace_case {
    ($instantiate:ident) => {
        $instantiate! {
            rollback_makes_the_tree_what_it_was_and_loses_nothing,
            a_repeated_rollback_changes_nothing,
            nothing_changed_means_no_rescue,
            a_rescue_changes_neither_tree_nor_index,
            a_rescue_never_replaces_another,
            a_state_saved_before_is_not_saved_again,
            staged_contents_that_are_nowhere_else_are_saved,
            deleted_untracked_files_come_back,
            untracked_files_that_the_agent_committed_come_back,
            ignored_files_stay,
            what_the_agents_ignore_rules_hid_is_saved,
            what_an_ignore_file_of_the_user_protects_survives_its_removal,
            a_file_that_the_agent_untracked_and_ignored_is_saved,
            own_files_survive_even_when_tracked,
            own_files_never_make_a_tree_dirty,
            status_tells_tracked_from_untracked,
            commit_takes_all_but_ours_and_earlier_untracked_files,
            nothing_to_commit_makes_no_commit,
            commit_brings_the_claimed_branch_along,
            commit_refuses_a_head_that_does_not_descend_from_the_base,
            rollback_leaves_other_branches_alone,
            a_detached_head_stays_detached,
            a_missing_base_is_refused_before_anything_is_touched,
            evidence_of_no_work,
            evidence_of_uncommitted_work,
            evidence_of_commits,
            evidence_names_younger_stashes,
            equal_trees_have_equal_ids,
            restore_brings_a_rescue_back,
            restore_refuses_to_overwrite,
            a_forgotten_base_may_be_forgotten_again,
            rescues_are_listed_by_task,
        }
    };
}
