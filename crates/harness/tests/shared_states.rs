//! Cases of a shared repository that only real git has: unusual states, and files that git does not
//! bring.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sharing;

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    thread,
};

use harness::workspace::{
    Base, Filters, GitRepository, GitWorkspace, Leftovers, Sight, TreeSettings, WorkspaceError,
    shared::{Dead, InitScript, Landed, Rebase, Rebased, SharedRepository, Swap, TakenIn},
};
use harness_core::{CommitId, Epoch};
use harness_sim::conformance::{
    repository::Repository,
    shared::{done, head, main_tree, task, work, worker},
    workspace::Fixture,
};
use sharing::{fresh, id, open, rescues, result, with};

#[track_caller]
fn in_use(landed: &Landed, word: &str) {
    let Landed::TreeInUse { why } = landed else { panic!("{landed:?}") };
    assert!(why.contains(word), "{why}");
}

#[test]
fn files_that_git_does_not_bring_are_brought() {
    let repository = fresh();
    repository.write(".gitignore", "*.log\n.env\nsecret/\nnode_modules\n");
    repository.write(".env.example", "tracked");
    repository.write(".worktreeinclude", "secret/*.key\n/b.txt\n*.unignored\n");
    repository.git(["add", "-A"]);
    repository.commit("more");
    repository.write(".env", "user's");
    repository.write(".mcp.json", "untracked");
    repository.write("secret/a.key", "key");
    repository.write("secret/b.txt", "other");
    repository.write("x.unignored", "not ignored");
    repository.write("node_modules/m/index.js", "module");
    repository.write(".claude/settings.local.json", "{}");
    let link = vec!["node_modules".to_owned(), "missing".to_owned()];
    let shared = with(&repository, Filters::Off, TreeSettings { link, ..TreeSettings::default() });
    let tree = shared.reset(&worker("w"), &head(&repository)).unwrap().workspace;
    let agent = repository.in_tree(tree.top_level());
    for (path, text) in [
        (".env", "user's"),
        (".env.example", "tracked"),
        (".mcp.json", "untracked"),
        ("secret/a.key", "key"),
        (".claude/settings.local.json", "{}"),
    ] {
        assert_eq!(agent.read(path).as_deref(), Some(text), "{path}");
    }
    assert_eq!(agent.read("secret/b.txt"), None);
    assert_eq!(agent.read("x.unignored"), None);
    let target = fs::read_link(tree.top_level().join("node_modules")).unwrap();
    assert_eq!(target, repository.root.join("node_modules"));

    // They are no work of the attempt, and no reset saves them. A claim records nothing about them,
    // because the tree is made ready after it.
    let base = Base { untracked: None, ..tree.base(&task(), Sight::Anew).unwrap() };
    agent.write("new.txt", "new");
    let commit = tree.commit(&base, "task-1: title").unwrap();
    let files = repository.committed(&commit);
    assert!(!files.contains_key(".mcp.json") && !files.contains_key(".env"), "{files:?}");
    shared.start_branch(&worker("w"), &task(), Epoch(1)).unwrap();
    shared.reset(&worker("w"), &head(&repository)).unwrap();
    assert!(rescues(&repository).is_empty());

    // A copy that was changed is brought again; one that git does not ignore is saved first.
    agent.write(".env", "agent's");
    agent.write(".mcp.json", "agent's");
    repository.write("secret/a.key", "new key");
    shared.reset(&worker("w"), &head(&repository)).unwrap();
    assert_eq!(agent.read(".env").as_deref(), Some("user's"));
    assert_eq!(agent.read(".mcp.json").as_deref(), Some("untracked"));
    assert_eq!(agent.read("secret/a.key").as_deref(), Some("new key"));
    assert_eq!(rescues(&repository).len(), 1);
}

#[test]
fn nothing_is_brought_through_a_link_of_an_agent() {
    let repository = fresh();
    repository.write(".claude/settings.local.json", "{}");
    repository.exclude(".claude\n");
    let shared = open(&repository);
    let tree = shared.reset(&worker("w"), &head(&repository)).unwrap().workspace;
    let outside = repository.beside("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(tree.top_level().join(".claude")).unwrap();
    symlink(&outside, tree.top_level().join(".claude")).unwrap();
    shared.reset(&worker("w"), &head(&repository)).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(tree.top_level().join(".claude/settings.local.json").is_file());
}

#[test]
fn the_init_script_is_due_in_a_new_tree_and_after_a_change() {
    let repository = fresh();
    let shared = open(&repository);
    let reset = || shared.reset(&worker("w"), &head(&repository)).unwrap().init;
    assert_eq!(reset(), InitScript::Ran, "there is none");
    repository.write("harness-init.sh", "one");
    assert_eq!(reset(), InitScript::Due);
    assert_eq!(reset(), InitScript::Due, "it has not run yet");
    shared.init_ran(&worker("w")).unwrap();
    assert_eq!(reset(), InitScript::Ran);
    repository.write("harness-init.sh", "two");
    assert_eq!(reset(), InitScript::Due);
    shared.init_ran(&worker("w")).unwrap();
    shared.close(&worker("w")).unwrap();
    assert_eq!(reset(), InitScript::Due, "the tree is new");
}

#[test]
fn a_fresh_tree_has_no_ignored_files() {
    let repository = fresh();
    let settings = TreeSettings { leftovers: Leftovers::Removed, ..TreeSettings::default() };
    let shared = with(&repository, Filters::Off, settings);
    let tree = shared.reset(&worker("w"), &head(&repository)).unwrap().workspace;
    let agent = repository.in_tree(tree.top_level());
    agent.write("cache.log", "cached");
    agent.write("new.txt", "new");
    shared.reset(&worker("w"), &head(&repository)).unwrap();
    assert_eq!(agent.read("cache.log"), None);
    assert_eq!(agent.read("new.txt"), None);
    assert_eq!(rescues(&repository).len(), 1);
}

/// Damages the tree of `w`, resets it, and checks that it is whole again.
fn repaired(damage: impl Fn(&Repository, &Path, &Path)) -> Repository {
    let repository = fresh();
    let shared = open(&repository);
    let commit = head(&repository);
    let tree = shared.reset(&worker("w"), &commit).unwrap().workspace;
    let entry = repository.root.join(".git/worktrees/w");
    assert!(entry.is_dir());
    damage(&repository, tree.top_level(), &entry);
    for _ in 0..2 {
        let tree = shared.reset(&worker("w"), &commit).unwrap().workspace;
        let agent = repository.in_tree(tree.top_level());
        assert_eq!(agent.files(), repository.committed(&commit));
        assert_eq!(tree.head().unwrap(), commit);
        assert!(tree.status().unwrap().changed.is_empty());
        agent.git(["status"]);
    }
    repository.git(["worktree", "prune"]);
    assert!(repository.git(["worktree", "list"]).contains("locked"));
    repository
}

#[test]
fn a_damaged_tree_is_repaired() {
    let gone = repaired(|_, tree, _| fs::remove_dir_all(tree).unwrap());
    assert!(rescues(&gone).is_empty());
    let half_made = repaired(|_, tree, entry| {
        fs::remove_file(entry.join("harness-ready")).unwrap();
        fs::remove_file(entry.join("index")).unwrap();
        fs::write(entry.join("locked"), "initializing").unwrap();
        fs::remove_file(tree.join("b.txt")).unwrap();
    });
    assert!(rescues(&half_made).is_empty());
    let barely_made = repaired(|_, tree, entry| {
        for file in ["harness-ready", "index", "HEAD", "commondir"] {
            fs::remove_file(entry.join(file)).unwrap();
        }
        fs::remove_dir_all(tree).unwrap();
    });
    assert!(rescues(&barely_made).is_empty());
    let misled = repaired(|repository, tree, _| {
        fs::write(tree.join(".git"), format!("gitdir: {}/.git\n", repository.root.display()))
            .unwrap();
    });
    assert!(rescues(&misled).is_empty());
    repaired(|_, tree, _| fs::remove_file(tree.join(".git")).unwrap());
    repaired(|_, _, entry| {
        fs::write(entry.join("index.lock"), "").unwrap();
        fs::write(entry.join("HEAD.lock"), "").unwrap();
    });
    repaired(|repository, tree, _| {
        let agent = repository.in_tree(tree);
        agent.write("a.txt", "changed");
        agent.try_git(["stash"]);
        agent.try_git(["bisect", "start"]);
    });
}

#[test]
fn a_tree_without_an_entry_is_saved() {
    let repository = repaired(|repository, tree, entry| {
        fs::write(tree.join("new.txt"), "the only copy").unwrap();
        fs::remove_dir_all(entry).unwrap();
        repository.git(["status"]);
    });
    let saved = repository.workspace().rescues(None).unwrap();
    assert!(saved.iter().any(|rescue| {
        repository.committed(&rescue.commit).get("new.txt").is_some_and(|t| t == "the only copy")
    }));
}

#[test]
fn a_deleted_branch_of_a_tree_loses_no_file() {
    let repository = repaired(|repository, tree, _| {
        let agent = repository.in_tree(tree);
        agent.create_branch("mine");
        agent.write("new.txt", "new");
        repository.git(["update-ref", "-d", "refs/heads/mine"]);
    });
    let saved = repository.workspace().rescues(None).unwrap();
    assert!(saved.iter().any(|r| repository.committed(&r.commit).contains_key("new.txt")));
}

#[test]
fn a_link_in_the_place_of_the_folder_is_refused() {
    let repository = fresh();
    let outside = repository.beside("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(repository.root.join(".harness")).unwrap();
    symlink(&outside, repository.root.join(".harness/worktrees")).unwrap();
    let error = open(&repository).reset(&worker("w"), &head(&repository)).map(drop).unwrap_err();
    assert!(matches!(error, WorkspaceError::Unsafe { .. }), "{error}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn many_workers_have_trees_and_threads_may_create_them_together() {
    const THREADS: usize = 4;
    const EACH: usize = 50;
    let repository = fresh();
    let (shared, commit) = (open(&repository), head(&repository));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (shared, commit) = (&shared, &commit);
            scope.spawn(move || {
                for tree in 0..EACH {
                    let name = worker(&format!("w.{number}.{tree}"));
                    shared.reset(&name, commit).unwrap();
                }
            });
        }
    });
    let listed = repository.git(["worktree", "list"]).lines().count();
    assert_eq!(listed, 1 + THREADS * EACH);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    for number in 0..THREADS {
        for tree in 0..EACH {
            shared.close(&worker(&format!("w.{number}.{tree}"))).unwrap();
        }
    }
    shared.close(&worker("w")).unwrap();
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_dir(repository.root.join(".harness/worktrees")).unwrap().count(), 0);
}

#[test]
fn trees_may_be_on_another_file_system() {
    let repository = fresh();
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let memory = Path::new("/dev/shm");
    let other = if device(memory).is_some() && device(memory) != device(&repository.root) {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let other = other.unwrap();
    let folder = Some(other.path().to_owned());
    let settings = TreeSettings { folder, ..TreeSettings::default() };
    let shared = with(&repository, Filters::Off, settings);
    repository.write(".env", "user's");
    repository.exclude(".env\n");
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    let place = shared.tree_path(&worker("w"));
    assert!(place.starts_with(other.path().canonicalize().unwrap()), "{place:?}");
    assert_eq!(fs::read_to_string(place.join(".env")).unwrap(), "user's");
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("new.txt").as_deref(), Some("new"));
    shared.close(&worker("w")).unwrap();
    assert!(!place.exists());
}

#[test]
fn the_files_of_a_state_root_below_the_top_level_stay_out_of_commits() {
    let repository = fresh();
    repository.write("sub/harness-tasks.json", "{}");
    repository.git(["add", "-A"]);
    let commit = repository.commit("a tracked ledger");
    let root = repository.root.join("sub");
    let main = GitWorkspace::discover(&root, &root, Filters::Off).unwrap();
    let shared = GitRepository::new(main, &root, TreeSettings::default()).unwrap();
    let tree = shared.reset(&worker("w"), &commit).unwrap().workspace;
    assert!(tree.top_level().starts_with(root.join(".harness/worktrees")));
    let base = tree.base(&task(), Sight::Anew).unwrap();
    let agent = repository.in_tree(tree.top_level());
    agent.write("sub/harness-tasks.json", "{ \"changed\": true }");
    agent.write("sub/code.txt", "code");
    let made = tree.commit(&base, "task-1: title").unwrap();
    let files = repository.committed(&made);
    assert_eq!(files["sub/harness-tasks.json"], "{}");
    assert_eq!(files["sub/code.txt"], "code");
    shared.reset(&worker("w"), &commit).unwrap();
    assert_eq!(agent.read("sub/harness-tasks.json").as_deref(), Some("{}"));
}

/// Prepares a landing in a main tree that `spoil` has made unusable.
fn refused(spoil: impl Fn(&Repository), word: &str) {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new"), ("a.txt", "changed")]);
    spoil(&repository);
    let before = main_tree(&repository);
    let index = fs::read(repository.root.join(".git/index")).unwrap();
    in_use(&shared.land(&swap).unwrap(), word);
    assert_eq!(main_tree(&repository), before);
    assert_eq!(fs::read(repository.root.join(".git/index")).unwrap(), index);
    assert_eq!(repository.tip("main"), Some(swap.from));
    let lock = repository.root.join(".git/index.lock");
    assert!(!lock.exists() || word == "index.lock");
}

#[test]
fn a_main_tree_in_use_is_not_touched() {
    refused(
        |repository| fs::write(repository.root.join(".git/index.lock"), "").unwrap(),
        "index.lock",
    );
    refused(
        |repository| {
            let file = repository.root.join(".git/MERGE_HEAD");
            fs::write(file, format!("{}\n", head(repository))).unwrap();
        },
        "merge",
    );
    refused(|repository| repository.write("b.txt", "edited"), "b.txt");
    refused(|repository| repository.remove("b.txt"), "b.txt");
    refused(
        |repository| {
            repository.exclude("new.txt\n");
            repository.write("new.txt", "ignored, and the user's");
        },
        "new.txt",
    );
    refused(
        |repository| {
            repository.write("new.txt/inside.txt", "a folder in the place of a file");
        },
        "new.txt",
    );
    refused(
        |repository| {
            repository.detach();
            let folder = repository.root.join(".git/rebase-merge");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("head-name"), "refs/heads/main\n").unwrap();
        },
        "rebase",
    );
}

#[test]
fn a_target_in_another_tree_of_the_user_is_not_touched() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    repository.create_branch("mine");
    let other = repository.beside("other");
    repository.git(["worktree", "add", "--quiet", other.to_str().unwrap(), "main"]);
    in_use(&shared.land(&swap).unwrap(), "other");
    assert!(!other.join("new.txt").exists());
    assert_eq!(repository.tip("main"), Some(swap.from));
}

#[test]
fn a_file_whose_time_alone_changed_is_not_changed() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("a.txt", "changed")]);
    repository.write("a.txt", "a");
    repository.write("b.txt", "b");
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
    assert_eq!(repository.git(["status", "--porcelain", "--untracked-files=no"]), "");
    assert_eq!(repository.git(["log", "-1", "-g", "--format=%gs", "main"]), "harness: land task-1");
}

#[test]
fn a_detached_head_of_the_user_does_not_move() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    repository.detach();
    repository.write("b.txt", "edited");
    let before = main_tree(&repository);
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(main_tree(&repository), before);
    assert_eq!(repository.tip("main"), Some(swap.to));
}

#[test]
fn a_target_that_the_user_reset_is_not_moved() {
    let repository = fresh();
    let first = head(&repository);
    repository.commit_file("late.txt", "late", "late");
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    repository.git(["reset", "--quiet", "--hard", first.as_str()]);
    let before = main_tree(&repository);
    assert_eq!(shared.land(&swap).unwrap(), Landed::TargetMoved);
    assert_eq!(main_tree(&repository), before);
    // The work can still be put on what is there now.
    let again = Rebase { onto: first.clone(), ..work(&swap.from, &swap.to, &first) };
    let to = done(shared.rebase(&worker("w"), &again).unwrap());
    shared.set_token(&task(), &to).unwrap();
    let swap = Swap { from: first, to, ..swap };
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("new.txt").as_deref(), Some("new"));
    assert_eq!(repository.read("late.txt"), None);
}

/// Leaves the main tree as a crash in the middle of a landing does: the files are moved, the index is
/// locked, the branch is not moved. Returns the lock of the index, and the file whose lock shows that
/// the process is alive.
fn crashed(repository: &Repository, swap: &Swap) -> (PathBuf, PathBuf) {
    let folder = repository.root.join(".git/harness-landing-crashed");
    fs::create_dir(&folder).unwrap();
    let planned = format!("{} {} refs/heads/main\n", swap.from, swap.to);
    for (file, text) in [("alive", ""), ("twin", ""), ("move", planned.as_str())] {
        fs::write(folder.join(file), text).unwrap();
    }
    let lock = repository.root.join(".git/index.lock");
    fs::hard_link(folder.join("twin"), &lock).unwrap();
    repository.write("a.txt", "changed");
    repository.write("new.txt", "new");
    (lock, folder.join("alive"))
}

#[test]
fn a_landing_that_a_crash_cut_short_is_taken_back_by_whatever_finds_it() {
    let calls: [fn(&GitRepository, &Swap); 3] = [
        |shared, swap| shared.finish_main_tree(swap).unwrap(),
        |shared, _| shared.check().unwrap(),
        |shared, swap| assert_eq!(shared.land(swap).unwrap(), Landed::Done),
    ];
    for call in calls {
        let repository = fresh();
        let shared = open(&repository);
        let swap = result(&repository, &shared, &[("a.txt", "changed"), ("new.txt", "new")]);
        let (lock, alive) = crashed(&repository, &swap);
        call(&shared, &swap);
        assert!(!lock.exists() && !alive.exists());
        assert_eq!(repository.git(["status", "--porcelain", "--untracked-files=no"]), "");
        let expected = repository.committed(&head(&repository));
        assert_eq!(main_tree(&repository).0, expected);
    }
}

#[test]
fn a_lock_of_a_living_process_stays() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("a.txt", "changed"), ("new.txt", "new")]);
    let (lock, alive) = crashed(&repository, &swap);
    let alive = fs::File::open(alive).unwrap();
    alive.lock().unwrap();
    shared.check().unwrap();
    assert!(lock.exists());
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"), "that process goes on");
    drop(alive);
    shared.check().unwrap();
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    fs::write(&lock, "").unwrap();
    shared.check().unwrap();
    assert!(lock.exists(), "git has it");
}

#[test]
fn a_landing_waits_for_the_process_that_ends_another_one() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("a.txt", "changed"), ("new.txt", "new")]);
    let (lock, alive) = crashed(&repository, &swap);
    let folder = alive.parent().unwrap().to_owned();
    let alive = fs::File::open(&alive).unwrap();
    alive.lock().unwrap();
    fs::write(folder.join("finishing"), "").unwrap();
    fs::remove_file(&lock).unwrap();
    let landings = || {
        let entries = fs::read_dir(repository.root.join(".git")).unwrap().flatten();
        let ours =
            |name: std::ffi::OsString| name.to_string_lossy().starts_with("harness-landing-");
        entries.filter(|entry| ours(entry.file_name())).count()
    };
    std::thread::scope(|scope| {
        let landing = scope.spawn(|| shared.land(&swap).unwrap());
        while landings() < 2 && !landing.is_finished() {
            std::thread::yield_now();
        }
        // The other process is done.
        repository.write("a.txt", "a");
        fs::remove_file(repository.root.join("new.txt")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        drop(alive);
        assert_eq!(landing.join().unwrap(), Landed::Done);
    });
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
    assert_eq!(landings(), 0);
}

#[test]
fn a_repository_with_an_untrusted_filter_is_refused_before_anything_is_made() {
    let repository = fresh();
    repository.write(".gitattributes", "*.bin filter=upper\n");
    repository.write("x.bin", "abc");
    repository.git(["add", "-A"]);
    let commit = repository.commit("with a filter");
    repository.configure("filter.upper.smudge", "tr a-z A-Z");
    repository.configure("filter.upper.clean", "tr A-Z a-z");
    let error = open(&repository).reset(&worker("w"), &commit).map(drop).unwrap_err();
    assert!(error.to_string().contains("x.bin"), "{error}");
    assert!(!repository.root.join(".git/worktrees").exists());
    let shared = with(&repository, Filters::Run, TreeSettings::default());
    let swap = result(&repository, &shared, &[("y.bin", "NEW")]);
    let place = shared.tree_path(&worker("w"));
    assert_eq!(fs::read_to_string(place.join("x.bin")).unwrap(), "ABC");
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("y.bin").as_deref(), Some("NEW"));
    assert_eq!(repository.git(["show", "main:y.bin"]), "new");
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let repository = fresh();
    for path in ["in/a.txt", "out/b.txt"] {
        repository.write(path, "text");
    }
    repository.git(["add", "-A"]);
    repository.commit("folders");
    repository.git(["sparse-checkout", "set", "in"]);
    assert_eq!(repository.read("out/b.txt"), None);
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("in/new.txt", "new")]);
    let place = shared.tree_path(&worker("w"));
    assert!(place.join("in/a.txt").is_file());
    assert!(!place.join("out").exists());
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("in/new.txt").as_deref(), Some("new"));
    assert_eq!(repository.read("out/b.txt"), None);
    assert_eq!(repository.committed(&swap.to)["out/b.txt"], "text");
}

/// Creates a repository with a submodule `sub` that holds `s.txt`.
fn with_submodule() -> Repository {
    let repository = fresh();
    let origin = repository.beside("origin");
    fs::create_dir(&origin).unwrap();
    let inner = repository.in_tree(&origin);
    inner.git(["init", "--quiet", "--initial-branch=main"]);
    inner.git(["config", "user.name", "User"]);
    inner.git(["config", "user.email", "user@example.org"]);
    inner.commit_file("s.txt", "inside", "inside");
    let path = origin.to_str().unwrap();
    repository.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "--quiet",
        path,
        "sub",
    ]);
    repository.commit("a submodule");
    let sub = repository.in_tree(&repository.root.join("sub"));
    sub.git(["config", "user.name", "User"]);
    sub.git(["config", "user.email", "user@example.org"]);
    fs::remove_dir_all(origin).unwrap();
    repository
}

#[test]
fn submodules_are_checked_out_without_the_network() {
    let repository = with_submodule();
    let shared = open(&repository);
    let tree = shared.reset(&worker("w"), &head(&repository)).unwrap().workspace;
    let inner = repository.in_tree(&tree.top_level().join("sub"));
    assert_eq!(inner.read("s.txt").as_deref(), Some("inside"));
    assert!(tree.status().unwrap().changed.is_empty());
    // An agent commits in the submodule, and the new commit lands with the main tree.
    shared.start_branch(&worker("w"), &task(), Epoch(1)).unwrap();
    let base = tree.base(&task(), Sight::Anew).unwrap();
    inner.commit_file("s.txt", "by the agent", "inner work");
    let commit = tree.commit(&base, "task-1: title").unwrap();
    let from = head(&repository);
    let to = done(shared.rebase(&worker("w"), &work(&from, &commit, &from)).unwrap());
    shared.set_token(&task(), &to).unwrap();
    let swap = Swap { task: task(), target: "main".to_owned(), from, to };
    assert_eq!(shared.land(&swap).unwrap(), Landed::Done);
    assert_eq!(repository.read("sub/s.txt").as_deref(), Some("by the agent"));
    assert_eq!(repository.git(["status", "--porcelain", "--untracked-files=no"]), "");
    // What is left in a submodule is saved in its repository.
    inner.write("s.txt", "left behind");
    shared.close(&worker("w")).unwrap();
    let sub = repository.in_tree(&repository.root.join("sub"));
    let saved = sub.git(["for-each-ref", "--format=%(refname)", "refs/harness/rescue/"]);
    assert_eq!(sub.git(["show", &format!("{saved}:s.txt")]), "left behind");
    assert_eq!(sub.git(["worktree", "list"]).lines().count(), 1);
    shared.reset(&worker("w"), &head(&repository)).unwrap();
    assert_eq!(inner.read("s.txt").as_deref(), Some("by the agent"));
}

#[test]
fn a_submodule_whose_commit_is_missing_is_named() {
    let repository = with_submodule();
    let missing = "1".repeat(40);
    repository.git(["update-index", "--cacheinfo", &format!("160000,{missing},sub")]);
    let commit = repository.commit("a commit that nobody has");
    let error = open(&repository).reset(&worker("w"), &commit).map(drop).unwrap_err();
    let WorkspaceError::Unsafe { what, hint } = error else { panic!("{error}") };
    assert!(what.contains("sub") && hint.contains("submodule update"), "{what} {hint}");
}

#[test]
fn an_agents_commit_keeps_its_author_and_its_date() {
    let repository = fresh();
    let shared = open(&repository);
    let base = head(&repository);
    let tree = shared.reset(&worker("w"), &base).unwrap().workspace;
    shared.start_branch(&worker("w"), &task(), Epoch(1)).unwrap();
    let agent = repository.in_tree(tree.top_level());
    agent.write("new.txt", "new");
    agent.git(["add", "-A"]);
    let mut command = agent.command(tree.top_level());
    command.env("GIT_AUTHOR_NAME", "Grace").env("GIT_AUTHOR_EMAIL", "g@example.org");
    command.env("GIT_AUTHOR_DATE", "1600000000 +0130");
    let made = command.args(["commit", "--quiet", "-m", "subject\n\nbody\n\nFixes: 1"]).status();
    assert!(made.unwrap().success());
    let commit = CommitId::parse(&agent.git(["rev-parse", "HEAD"])).unwrap();
    let onto = repository.foreign_file("b.txt", "landed", "landed");
    let to = done(shared.rebase(&worker("w"), &work(&base, &commit, &onto)).unwrap());
    let show = |format: &str| {
        repository.git([
            "show",
            "--no-patch",
            &format!("--format={format}"),
            "--date=raw",
            to.as_str(),
        ])
    };
    assert_eq!(show("%an <%ae> %ad"), "Grace <g@example.org> 1600000000 +0130");
    assert_eq!(show("%cn"), "User");
    assert_eq!(show("%B"), "subject\n\nbody\n\nFixes: 1\nHarness-Task: task-1.1");
    let kept = repository.git(["rev-parse", "refs/harness/work/task-1.1"]);
    assert_eq!(kept, commit.as_str());
}

#[test]
fn work_that_is_in_no_commit_is_not_lost_by_a_rebase() {
    let repository = fresh();
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("new.txt", "new")]);
    let onto = repository.foreign_file("b.txt", "landed", "landed");
    let tree = shared.reset(&worker("w"), &swap.to).unwrap().workspace;
    let place = tree.top_level();
    for path in ["a.txt", "b.txt"] {
        tree.disturbed();
        fs::write(place.join(path), "in no commit").unwrap();
        let rebase = work(&swap.from, &swap.to, &onto);
        let error = shared.rebase(&worker("w"), &rebase).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
        assert_eq!(fs::read_to_string(place.join(path)).unwrap(), "in no commit");
        repository.in_tree(place).git(["checkout", "--quiet", "--", path]);
    }
}

#[test]
fn a_merge_with_a_resolution_becomes_one_commit() {
    let repository = fresh();
    let shared = open(&repository);
    let base = head(&repository);
    let tree = shared.reset(&worker("w"), &base).unwrap().workspace;
    shared.start_branch(&worker("w"), &task(), Epoch(1)).unwrap();
    let agent = repository.in_tree(tree.top_level());
    agent.commit_file("a.txt", "mine", "mine");
    let onto = repository.foreign_file("a.txt", "theirs", "theirs");
    assert!(!agent.try_git(["merge", onto.as_str()]));
    agent.write("a.txt", "both");
    agent.git(["add", "-A"]);
    let commit = agent.commit("resolved");
    let to = done(shared.rebase(&worker("w"), &work(&base, &commit, &onto)).unwrap());
    assert_eq!(repository.committed(&to)["a.txt"], "both");
    assert_eq!(repository.git(["rev-list", "--count", &format!("{onto}..{to}")]), "1");
    assert_eq!(repository.git(["show", "--no-patch", "--format=%s", to.as_str()]), "task-1: title");
}

#[test]
fn a_merge_driver_of_the_repository_does_not_run() {
    let repository = fresh();
    let witness = repository.beside("witness");
    repository.commit_file(".gitattributes", "a.txt merge=evil\n", "attributes");
    repository.configure("merge.evil.driver", &format!("touch {}", witness.display()));
    let shared = open(&repository);
    let swap = result(&repository, &shared, &[("a.txt", "mine")]);
    let onto = repository.foreign_file("a.txt", "theirs", "theirs");
    let rebased = shared.rebase(&worker("w"), &work(&swap.from, &swap.to, &onto)).unwrap();
    assert!(matches!(rebased, Rebased::Conflict { .. }), "{rebased:?}");
    assert!(!witness.exists());
}

#[test]
fn a_dead_attempt_that_never_began_has_nothing_to_take_over() {
    let repository = fresh();
    let shared = open(&repository);
    let tree = shared.reset(&worker("w.1"), &head(&repository)).unwrap().workspace;
    let base = tree.base(&task(), Sight::Anew).unwrap();
    let base = Base { epoch: Some(Epoch(1)), ..base };
    repository.in_tree(tree.top_level()).write("new.txt", "of another task");
    let task = task();
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    assert!(shared.transplant(&worker("w.2"), &dead, Epoch(2)).unwrap().is_none());
}

#[test]
fn a_result_on_the_way_to_land_is_taken_over_as_the_original_work() {
    let repository = fresh();
    let shared = open(&repository);
    let from = head(&repository);
    let tree = shared.reset(&worker("w.1"), &from).unwrap().workspace;
    shared.start_branch(&worker("w.1"), &task(), Epoch(1)).unwrap();
    let base = tree.base(&task(), Sight::Anew).unwrap();
    let base = Base { epoch: Some(Epoch(1)), ..base };
    repository.in_tree(tree.top_level()).write("new.txt", "new");
    let commit = tree.commit(&base, "task-1: title").unwrap();
    let onto = repository.foreign_file("b.txt", "not landed yet", "of another worker");
    done(shared.rebase(&worker("w.1"), &work(&from, &commit, &onto)).unwrap());
    let task = task();
    let dead = Dead { tree: tree.top_level(), task: &task, attempt: 1, base: &base };
    for name in ["w.2", "w.1"] {
        let taken = shared.transplant(&worker(name), &dead, Epoch(2)).unwrap().unwrap().workspace;
        assert_eq!(taken.head().unwrap(), commit, "{name}");
        let files = repository.in_tree(taken.top_level()).files();
        assert_eq!(files["b.txt"], "b");
        assert_eq!(files["new.txt"], "new");
    }
}

#[test]
fn a_name_that_cannot_be_a_target_is_refused() {
    let repository = fresh();
    let shared = open(&repository);
    for name in ["harness", "-x", "a..b", "a b", "x.lock", ""] {
        assert!(shared.target(Some(name)).is_err(), "{name}");
    }
    assert_eq!(shared.target(Some("release/1")).unwrap(), "release/1");
    assert_eq!(shared.take_in("main").unwrap(), TakenIn::Nothing);
    shared.end_branch(&worker("nobody"), &id("task-9"), Epoch(1), "main").unwrap();
}
