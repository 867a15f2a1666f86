//! What is left of workers that are gone, results that are taken back, and many workers at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sharing;

use std::{collections::BTreeSet, fs, thread};

use harness::workspace::{
    CleanupItem, CleanupKind, CleanupMode, CleanupTerms, RevertChain, Sight,
    shared::{Landed, Rebase, SharedRepository, Swap, work_ref},
};
use harness_core::{Epoch, Timestamp};
use harness_sim::conformance::{
    repository::Repository,
    shared::{done, head, task, work, worker},
    workspace::Fixture,
};
use sharing::{fresh, id, open, rescues, result, result_of};

fn terms(mode: CleanupMode) -> CleanupTerms {
    CleanupTerms {
        mode,
        target: Some("main".to_owned()),
        open_tasks: BTreeSet::new(),
        open_trees: BTreeSet::new(),
        rescues_before: Timestamp::from_seconds(0),
    }
}

fn kinds(items: &[CleanupItem]) -> Vec<CleanupKind> {
    items.iter().map(|item| item.kind).collect()
}

/// Leaves the tree of a dead worker with work in it, a landed branch and a stale token.
fn left_behind() -> Repository {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    shared.set_token(&id("task-9"), &swap.to).unwrap();
    let tree = shared.tree_path(&worker("w"));
    fs::write(tree.join("left.txt"), "the only copy").unwrap();
    repository
}

#[test]
fn a_cleanup_lists_first_and_saves_before_it_removes() {
    let repository = left_behind();
    let shared = open(&repository);
    let planned = shared.cleanup(&terms(CleanupMode::Plan)).unwrap();
    let expected = [CleanupKind::WorkTree, CleanupKind::TaskBranch, CleanupKind::StaleRef];
    assert_eq!(kinds(&planned), expected, "{planned:?}");
    assert!(planned[0].bytes > 10, "{planned:?}");
    assert!(shared.tree_path(&worker("w")).join("left.txt").exists());
    assert!(repository.tip("harness/task-1.1").is_some());
    let removed = shared.cleanup(&terms(CleanupMode::Remove)).unwrap();
    assert_eq!(kinds(&removed), expected);
    let saved = removed[0].saved.clone().unwrap();
    assert_eq!(rescues(&repository), std::slice::from_ref(&saved));
    assert_eq!(repository.git(["show", &format!("{saved}:left.txt")]), "the only copy");
    assert!(!shared.tree_path(&worker("w")).exists());
    assert_eq!(repository.tip("harness/task-1.1"), None);
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(repository.git(["for-each-ref", "refs/harness/land/"]), "");
    assert!(shared.cleanup(&terms(CleanupMode::Remove)).unwrap().is_empty());
    let later = Timestamp::from_seconds(i64::from(u32::MAX));
    let old = CleanupTerms { rescues_before: later, ..terms(CleanupMode::Remove) };
    assert_eq!(kinds(&shared.cleanup(&old).unwrap()), [CleanupKind::OldRescue]);
    assert!(rescues(&repository).is_empty());
}

#[test]
fn what_is_in_use_or_open_stays() {
    let repository = left_behind();
    let living = open(&repository);
    living.reset(&worker("living"), &head(&repository)).unwrap();
    let tree = living.tree_path(&worker("w"));
    let open_terms = CleanupTerms {
        open_tasks: [task(), id("task-9")].into(),
        open_trees: [tree.clone()].into(),
        ..terms(CleanupMode::Remove)
    };
    assert_eq!(open(&repository).cleanup(&open_terms).unwrap(), []);
    assert!(tree.join("left.txt").exists());
    assert!(repository.tip("harness/task-1.1").is_some());
    let removed = open(&repository).cleanup(&terms(CleanupMode::Remove)).unwrap();
    assert!(removed.iter().all(|item| !item.name.contains("living")), "{removed:?}");
    assert!(living.tree_path(&worker("living")).exists());
}

#[test]
fn a_branch_with_the_only_copy_is_saved_before_it_is_removed() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    drop(shared);
    let shared = open(&repository);
    let removed = shared.cleanup(&terms(CleanupMode::Remove)).unwrap();
    let expected = [CleanupKind::WorkTree, CleanupKind::TaskBranch, CleanupKind::StaleRef];
    assert_eq!(kinds(&removed), expected, "{removed:?}");
    assert_eq!(repository.tip("harness/task-1.1"), None);
    let saved = removed[1].saved.clone().unwrap();
    assert_eq!(repository.git(["rev-parse", &saved]), swap.to.as_str());
}

#[test]
fn original_work_without_a_branch_is_kept_as_a_rescue() {
    let repository = fresh();
    let shared = open(&repository);
    result(&repository, &shared, &[("new.txt", "new")]);
    drop(shared);
    let kept = repository.git(["rev-parse", &work_ref(&task(), Epoch(1))]);
    repository.git(["worktree", "remove", "--force", "--force", &tree_of(&repository)]);
    repository.git(["branch", "-D", "harness/task-1.1"]);
    let removed = open(&repository).cleanup(&terms(CleanupMode::Remove)).unwrap();
    let saved = removed.iter().find_map(|item| item.saved.clone()).unwrap();
    assert_eq!(repository.git(["rev-parse", &saved]), kept);
}

fn tree_of(repository: &Repository) -> String {
    open(repository).tree_path(&worker("w")).display().to_string()
}

#[test]
fn halves_of_trees_are_cleaned() {
    let repository = fresh();
    let shared = open(&repository);
    for name in ["gone", "orphan", "half", "trash"] {
        shared.reset(&worker(name), &head(&repository)).unwrap();
    }
    let (folder, entries) =
        (repository.root.join(".harness/worktrees"), repository.root.join(".git/worktrees"));
    drop(shared);
    fs::remove_dir_all(folder.join("gone")).unwrap();
    fs::write(folder.join("orphan/left.txt"), "the only copy").unwrap();
    fs::remove_dir_all(entries.join("orphan")).unwrap();
    fs::remove_file(entries.join("half/harness-ready")).unwrap();
    fs::rename(folder.join("trash"), folder.join("trash.removed")).unwrap();
    let removed = open(&repository).cleanup(&terms(CleanupMode::Remove)).unwrap();
    assert_eq!(kinds(&removed), [CleanupKind::WorkTree; 4], "{removed:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
    let saved = repository.workspace().rescues(None).unwrap();
    assert!(saved.iter().any(|r| repository.committed(&r.commit).contains_key("left.txt")));
}

fn land(shared: &dyn SharedRepository, swap: &Swap) {
    assert_eq!(shared.land(swap).unwrap(), Landed::Done);
}

#[test]
fn what_landed_is_taken_back_newest_first() {
    let repository = fresh();
    let shared = open(&repository);
    land(&shared, &result_of(&repository, &shared, "task-1", &[("one.txt", "one")]));
    land(&shared, &result_of(&repository, &shared, "task-2", &[("two.txt", "two")]));
    land(&shared, &result_of(&repository, &shared, "task-10", &[("ten.txt", "ten")]));
    let before = head(&repository);
    let tasks = BTreeSet::from([id("task-1"), id("task-2")]);
    let chain = shared.revert("main", &tasks).unwrap();
    let RevertChain::Made { onto, commit, reverted, .. } = chain else { panic!("{chain:?}") };
    assert_eq!((&onto, reverted.len()), (&before, 2));
    assert_eq!(head(&repository), before, "nothing has moved");
    let subjects = repository.git(["log", "--format=%s", &format!("{onto}..{commit}")]);
    assert_eq!(subjects, "Revert \"task-1: title\"\nRevert \"task-2: title\"");
    shared.set_token(&id("task-1"), &commit).unwrap();
    land(&shared, &Swap { task: id("task-1"), target: "main".to_owned(), from: onto, to: commit });
    assert_eq!(repository.read("one.txt"), None);
    assert_eq!(repository.read("two.txt"), None);
    assert_eq!(repository.read("ten.txt").as_deref(), Some("ten"));
    assert_eq!(shared.revert("main", &tasks).unwrap(), RevertChain::Nothing);
    // The task is done again, and taken back again.
    land(&shared, &result_of(&repository, &shared, "task-1", &[("one.txt", "again")]));
    let chain = shared.revert("main", &tasks).unwrap();
    let RevertChain::Made { reverted, .. } = chain else { panic!("{chain:?}") };
    assert_eq!(reverted, [head(&repository)]);
}

#[test]
fn what_others_changed_since_is_not_taken_back() {
    let repository = fresh();
    let shared = open(&repository);
    land(&shared, &result(&repository, &shared, &[("a.txt", "by the task")]));
    let landed = head(&repository);
    repository.foreign_file("a.txt", "changed again", "later");
    let chain = shared.revert("main", &[task()].into()).unwrap();
    let files = vec!["a.txt".to_owned()];
    assert_eq!(chain, RevertChain::Conflict { commit: landed, files });
}

#[test]
fn many_workers_land_side_by_side() {
    const WORKERS: u64 = 4;
    const TASKS: u64 = 4;
    let repository = fresh();
    let shared = open(&repository);
    let first = head(&repository);
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let (shared, repository) = (&shared, &repository);
            scope.spawn(move || {
                for task in 0..TASKS {
                    land_one(repository, shared, number * TASKS + task, number);
                }
                shared.close(&worker(&format!("w.{number}"))).unwrap();
            });
        }
    });
    let count = repository.git(["rev-list", "--count", &format!("{first}..main")]);
    assert_eq!(count, (WORKERS * TASKS).to_string());
    assert_eq!(repository.git(["rev-list", "--count", "--merges", "main"]), "0");
    assert_eq!(repository.git(["status", "--porcelain", "--untracked-files=no"]), "");
    for number in 0..WORKERS * TASKS {
        assert!(repository.read(&format!("{number}.txt")).is_some(), "{number}");
    }
    assert_eq!(repository.git(["for-each-ref", "refs/harness/", "refs/heads/harness/"]), "");
}

/// Does a task as a worker does, and repeats a landing that others overtook.
fn land_one(repository: &Repository, shared: &dyn SharedRepository, number: u64, of: u64) {
    let (worker, task) = (worker(&format!("w.{of}")), id(&format!("task-{number}")));
    let from = shared.tip("main").unwrap().unwrap();
    let tree = shared.reset(&worker, &from).unwrap().workspace;
    shared.start_branch(&worker, &task, Epoch(1)).unwrap();
    let base = tree.base(&task, Sight::Last).unwrap();
    tree.disturbed();
    repository.in_tree(tree.top_level()).write(&format!("{number}.txt"), "done");
    let commit = tree.commit(&base, &format!("{task}: title")).unwrap();
    loop {
        let onto = shared.tip("main").unwrap().unwrap();
        let rebase = Rebase { task: task.clone(), ..work(&from, &commit, &onto) };
        let to = done(shared.rebase(&worker, &rebase).unwrap());
        shared.set_token(&task, &to).unwrap();
        let swap = Swap { task: task.clone(), target: "main".to_owned(), from: onto, to };
        match shared.land(&swap).unwrap() {
            Landed::Done => break,
            // Another worker holds the main tree at this moment, or was faster.
            Landed::TargetMoved | Landed::TreeInUse { .. } => {}
            Landed::Fenced => panic!("nobody took the token"),
        }
    }
    shared.end_branch(&worker, &task, Epoch(1), "main").unwrap();
}
