//! Cases that only real git has: unusual states and kinds of repositories.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claimed;

use std::fs;

use claimed::{LONG_AGO, claim, exercise, refused, roll_back, task};
use harness::workspace::{Base, Filters, GitWorkspace, Sight, Workspace, WorkspaceError};
use harness_sim::conformance::{repository::Repository, workspace::Fixture};

/// Makes `a.txt` differ on `main` and on `other`.
fn diverge(repository: &Repository) {
    repository.create_branch("other");
    repository.commit_file("a.txt", "theirs", "theirs");
    repository.git(["switch", "--quiet", "main"]);
    repository.commit_file("a.txt", "middle", "middle");
    repository.commit_file("a.txt", "ours", "ours");
}

#[test]
fn unfinished_business_is_refused_at_the_start() {
    let cases: [(&[&str], &str); 4] = [
        (&["merge", "other"], "merge"),
        (&["rebase", "other"], "rebase"),
        (&["cherry-pick", "other"], "cherry-pick"),
        (&["revert", "--no-edit", "HEAD~1"], "revert"),
    ];
    for (command, word) in cases {
        let repository = Repository::new();
        diverge(&repository);
        assert!(!repository.try_git(command), "{command:?} should stop at a conflict");
        refused(repository.workspace().preflight(), word);
    }
    let repository = Repository::new();
    repository.git(["bisect", "start"]);
    refused(repository.workspace().preflight(), "bisect");
    repository.git(["bisect", "reset"]);
    repository.workspace().preflight().unwrap();
    fs::write(repository.root.join(".git/index.lock"), "").unwrap();
    refused(repository.workspace().preflight(), "locked");
}

#[test]
fn unfinished_business_of_the_agent_is_rolled_back() {
    let cases: [&[&str]; 6] = [
        &["merge", "other"],
        &["rebase", "other"],
        &["cherry-pick", "other"],
        &["cherry-pick", "other", "main~2"],
        &["revert", "--no-edit", "HEAD~2"],
        &["bisect", "start", "HEAD", "HEAD~2"],
    ];
    for command in cases {
        let repository = Repository::new();
        diverge(&repository);
        let base = claim(&repository);
        let agents = repository.commit_file("c.txt", "c", "more");
        repository.try_git(command);
        refused(repository.workspace().preflight(), "in progress");
        roll_back(&repository, &base).unwrap();
        repository.workspace().preflight().unwrap();
        assert_eq!(repository.read("a.txt").as_deref(), Some("ours"), "{command:?}");
        assert_eq!(repository.read("c.txt"), None, "{command:?}");
        assert_eq!(repository.tip("main"), Some(base.commit.clone()));
        assert!(repository.workspace().status().unwrap().changed.is_empty());
        let rescue = repository.workspace().rescues(None).unwrap().remove(0);
        repository.git(["merge-base", "--is-ancestor", agents.as_str(), rescue.commit.as_str()]);
        roll_back(&repository, &base);
        assert_eq!(repository.workspace().rescues(None).unwrap().len(), 1, "{command:?}");
    }
}

#[test]
fn a_merge_that_the_agent_resolved_is_committed_as_a_merge() {
    let repository = Repository::new();
    diverge(&repository);
    let base = claim(&repository);
    repository.try_git(["merge", "other"]);
    repository.write("a.txt", "both");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    let parents = repository.git(["log", "-1", "--format=%P", commit.as_str()]);
    assert_eq!(parents.split(' ').count(), 2);
    assert_eq!(repository.committed(&commit)["a.txt"], "both");
    repository.workspace().preflight().unwrap();
}

#[test]
fn a_rebase_under_way_is_not_committed() {
    let repository = Repository::new();
    diverge(&repository);
    let base = claim(&repository);
    assert!(!repository.try_git(["rebase", "other"]));
    refused(repository.workspace().commit(&base, "task-1: title"), "rebase");
}

#[test]
fn a_locked_index_stops_a_rollback_before_anything_is_touched() {
    let repository = Repository::new();
    let base = claim(&repository);
    repository.write("a.txt", "changed");
    fs::write(repository.root.join(".git/index.lock"), "").unwrap();
    refused(repository.workspace().rollback(&task(), 1, &base), "locked");
    refused(repository.workspace().commit(&base, "task-1: title"), "locked");
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
    assert!(repository.workspace().rescue(&task(), 1, &base).unwrap().is_some());
}

#[test]
fn places_that_are_no_work_tree_are_named() {
    let repository = Repository::empty(&[]);
    let workspace = repository.workspace();
    assert!(matches!(workspace.head(), Err(WorkspaceError::NoCommits)));
    assert!(matches!(workspace.preflight(), Err(WorkspaceError::NoCommits)));
    assert!(matches!(workspace.base(&task(), Sight::Anew), Err(WorkspaceError::NoCommits)));
    workspace.status().unwrap();
    let bare = repository.beside("bare");
    repository.git(["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let nowhere = repository.beside("nowhere");
    fs::create_dir(&nowhere).unwrap();
    for place in [&bare, &nowhere, &repository.root.join(".git"), &nowhere.join("missing")] {
        let error = GitWorkspace::discover(place, &repository.root, Filters::Off).unwrap_err();
        assert!(matches!(error, WorkspaceError::NotARepository { .. }), "{place:?} {error:?}");
    }
}

#[test]
fn a_linked_worktree_works_and_is_not_the_main_one() {
    let repository = Repository::new();
    let linked = repository.beside("linked");
    let path = linked.to_str().unwrap();
    repository.git(["worktree", "add", "--quiet", "-b", "side", path]);
    let workspace = GitWorkspace::discover(&linked, &repository.root, Filters::Off).unwrap();
    assert_eq!(workspace.top_level(), linked.canonicalize().unwrap());
    workspace.preflight().unwrap();
    let base = workspace.base(&task(), Sight::Anew).unwrap();
    assert_eq!(base.branch.as_deref(), Some("side"));
    fs::write(linked.join("a.txt"), "changed").unwrap();
    fs::write(linked.join("new.txt"), "new").unwrap();
    let error = repository.workspace().rollback(&task(), 1, &base).unwrap_err();
    assert!(matches!(error, WorkspaceError::WrongWorktree { .. }));
    let commit = workspace.commit(&base, "task-1: title").unwrap();
    assert_eq!(repository.tip("side"), Some(commit));
    workspace.rollback(&task(), 1, &base).unwrap();
    assert_eq!(fs::read_to_string(linked.join("a.txt")).unwrap(), "a");
    assert!(!linked.join("new.txt").exists());
    assert_eq!(repository.workspace().rescues(None).unwrap().len(), 1);
    assert_eq!(repository.tip("main"), Some(base.commit));
}

#[test]
fn a_state_root_below_the_top_level_has_our_files() {
    let repository = Repository::new();
    repository.write("sub/harness-tasks.json", "{}");
    repository.write("harness-tasks.json", "somebody's");
    let sub = repository.root.join("sub");
    let workspace = GitWorkspace::discover(&sub, &sub, Filters::Off).unwrap();
    assert_eq!(workspace.top_level(), repository.root);
    let base = workspace.base(&task(), Sight::Anew).unwrap();
    repository.write("sub/.harness/x", "x");
    repository.write("sub/new.txt", "new");
    repository.write("harness-tasks.json", "changed");
    workspace.rollback(&task(), 1, &base).unwrap();
    assert_eq!(repository.read("sub/.harness/x").as_deref(), Some("x"));
    assert_eq!(repository.read("sub/harness-tasks.json").as_deref(), Some("{}"));
    assert_eq!(repository.read("harness-tasks.json").as_deref(), Some("somebody's"));
    assert_eq!(repository.read("sub/new.txt"), None);
}

#[test]
fn submodules_come_back_to_their_commit() {
    let library = Repository::new();
    let old = library.workspace().head().unwrap();
    let repository = Repository::new();
    let url = library.root.to_str().unwrap();
    let allow = ["-c", "protocol.file.allow=always"];
    repository.git(allow.iter().chain(&["submodule", "--quiet", "add", url, "lib"]));
    Fixture::commit(&repository, "with a submodule");
    let base = claim(&repository);
    let lib = repository.root.join("lib");
    let in_lib = |arguments: &[&str]| {
        let ran = repository.command(&lib).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    fs::write(lib.join("a.txt"), "newer").unwrap();
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    in_lib(&[&identity[..], &["commit", "--quiet", "-am", "newer"]].concat());
    let newer = in_lib(&["rev-parse", "HEAD"]);
    assert_eq!(repository.workspace().status().unwrap().changed, ["lib"]);
    roll_back(&repository, &base).unwrap();
    assert_eq!(in_lib(&["rev-parse", "HEAD"]), old.as_str());
    assert!(repository.workspace().status().unwrap().changed.is_empty());
    in_lib(&["checkout", "--quiet", &newer]);
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    let entry = repository.git(["ls-tree", commit.as_str(), "lib"]);
    assert!(entry.contains(&newer), "{entry}");
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let repository = Repository::new();
    repository.write("in/x.txt", "x");
    repository.write("out/y.txt", "y");
    repository.git(["add", "-A"]);
    Fixture::commit(&repository, "two folders");
    repository.git(["sparse-checkout", "set", "in"]);
    assert_eq!(repository.read("out/y.txt"), None);
    let base = claim(&repository);
    repository.write("in/x.txt", "changed");
    repository.write("in/new.txt", "new");
    repository.write("out/new.txt", "outside of the cone");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    let committed = repository.committed(&commit);
    assert_eq!(committed["out/y.txt"], "y", "what is not checked out is not deleted");
    assert_eq!(committed["out/new.txt"], "outside of the cone");
    roll_back(&repository, &base).unwrap();
    assert_eq!(repository.read("in/x.txt").as_deref(), Some("x"));
    assert_eq!(repository.read("in/new.txt"), None);
    assert_eq!(repository.read("out/new.txt"), None);
    assert_eq!(repository.read("out/y.txt"), None);
    assert!(repository.workspace().status().unwrap().changed.is_empty());
}

#[test]
fn sha256_repositories_work() {
    let repository = Repository::with_options(&["--object-format=sha256"]);
    repository.write("notes.txt", "mine");
    exercise(&repository);
    assert_eq!(repository.workspace().head().unwrap().as_str().len(), 64);
}

#[test]
fn without_an_identity_ours_is_used() {
    let repository = Repository::new();
    let who = |commit: &str| repository.git(["log", "-1", "--format=%an <%ae>, %cn <%ce>", commit]);
    let base = claim(&repository);
    repository.write("a.txt", "changed");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(who(commit.as_str()), "User <user@example.org>, User <user@example.org>");
    repository.git(["config", "user.name", ""]);
    repository.git(["config", "user.email", ""]);
    repository.write("b.txt", "changed");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(who(commit.as_str()), "harness <harness@localhost>, harness <harness@localhost>");
}

#[test]
fn line_end_conversion_does_not_touch_untracked_files() {
    for mode in ["true", "input"] {
        let repository = Repository::new();
        repository.git(["config", "core.autocrlf", mode]);
        repository.git(["config", "core.safecrlf", "true"]);
        repository.write("notes.txt", "mixed\r\nends\n");
        repository.write("unix.txt", "unix\n");
        let before = repository.files();
        let base = claim(&repository);
        let evidence = repository.workspace().evidence(&task(), &base, LONG_AGO).unwrap();
        assert!(!evidence.uncommitted);
        assert_eq!(repository.workspace().rescue(&task(), 1, &base).unwrap(), None);
        repository.write("notes.txt", "gone");
        repository.remove("unix.txt");
        roll_back(&repository, &base);
        assert_eq!(repository.files(), before);
    }
}

#[test]
fn a_rollback_cut_short_between_its_steps_is_finished() {
    type Step = fn(&Repository, &Base);
    let reset: Step = |repository, base| {
        repository.git(["reset", "--quiet", "--hard", base.commit.as_str()]);
    };
    let half: Step = |repository, _| {
        repository.write("a.txt", "a");
        repository.remove("staged.txt");
    };
    let cleaned: Step = |repository, base| {
        repository.git(["reset", "--quiet", "--hard", base.commit.as_str()]);
        repository.git(["clean", "-fdq", "-e", "notes.txt"]);
    };
    for (number, step) in [reset, half, cleaned].into_iter().enumerate() {
        let repository = Repository::new();
        repository.write("notes.txt", "mine");
        let before = repository.files();
        let base = claim(&repository);
        repository.commit_file("c.txt", "c", "more");
        repository.write("a.txt", "changed");
        repository.write("staged.txt", "staged");
        repository.stage("staged.txt");
        repository.write("notes.txt", "touched");
        repository.write("new.txt", "new");
        repository.workspace().rescue(&task(), 1, &base).unwrap().unwrap();
        step(&repository, &base);
        roll_back(&repository, &base).unwrap();
        assert_eq!(repository.files(), before, "step {number}");
        assert_eq!(repository.workspace().rescues(None).unwrap().len(), 1, "step {number}");
    }
}

#[test]
fn what_is_kept_survives_garbage_collection() {
    let repository = Repository::new();
    repository.write("notes.txt", "mine");
    fs::create_dir(repository.root.join("empty")).unwrap();
    let base = claim(&repository);
    repository.write("notes.txt", "touched");
    let rescue = repository.workspace().rescue(&task(), 1, &base).unwrap().unwrap();
    repository.git(["reflog", "expire", "--expire=now", "--all"]);
    repository.git(["gc", "--quiet", "--prune=now"]);
    repository.git(["fsck", "--strict"]);
    roll_back(&repository, &base);
    assert_eq!(repository.read("notes.txt").as_deref(), Some("mine"));
    assert_eq!(repository.committed(&rescue.commit)["notes.txt"], "touched");
}

#[test]
fn nothing_of_ours_is_left_in_the_git_directory() {
    let repository = Repository::new();
    repository.write("notes.txt", "mine");
    exercise(&repository);
    let entries = fs::read_dir(repository.root.join(".git")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with("harness")).count(), 0);
}

#[test]
fn a_change_too_fast_for_stat_data_is_seen() {
    let repository = Repository::new();
    repository.git(["config", "core.trustctime", "false"]);
    repository.git(["config", "core.checkStat", "minimal"]);
    let base = claim(&repository);
    let file = repository.root.join("a.txt");
    repository.write("a.txt", "1");
    repository.stage("a.txt");
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    repository.write("a.txt", "2");
    // The file has the size and time of the index entry, and is no older than the index.
    for path in [&file, &repository.root.join(".git/index")] {
        fs::File::options().append(true).open(path).unwrap().set_modified(written).unwrap();
    }
    roll_back(&repository, &base).unwrap();
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    assert_eq!(repository.committed(&rescue.commit)["a.txt"], "2");
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
}
