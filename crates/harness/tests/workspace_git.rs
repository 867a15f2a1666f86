//! What only real git has: hostile configuration, odd file names, unusual states of a repository.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use harness::workspace::{Base, Filters, GitWorkspace, Workspace, WorkspaceError};
use harness_core::{TaskId, Timestamp};
use harness_sim::conformance::{repository::Repository, workspace::Fixture};

const LONG_AGO: Timestamp = Timestamp::from_seconds(0);

fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

fn claim(repository: &Repository) -> Base {
    repository.workspace().preflight().unwrap();
    repository.workspace().base(&task()).unwrap()
}

fn roll_back(repository: &Repository, base: &Base) -> Option<String> {
    repository.workspace().rollback(&task(), 1, base).unwrap().rescue
}

#[track_caller]
fn refused(result: Result<impl std::fmt::Debug, WorkspaceError>, word: &str) {
    match result.unwrap_err() {
        WorkspaceError::Unsafe { what, hint } => {
            assert!(what.contains(word), "{what}");
            assert!(!hint.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Everything a harness does with a repository, one call each.
fn exercise(repository: &Repository) {
    let workspace = repository.open(Filters::Off);
    workspace.status().unwrap();
    let base = workspace.base(&task()).unwrap();
    repository.write("a.txt", "by the agent");
    repository.write("new.txt", "new");
    workspace.tree().unwrap();
    workspace.evidence(&task(), &base, LONG_AGO).unwrap();
    workspace.rollback(&task(), 1, &base).unwrap();
    let rescue = workspace.rescues(None).unwrap().remove(0);
    workspace.show(&rescue).unwrap();
    workspace.restore(&rescue).unwrap();
    workspace.commit(&base, "task-1: title").unwrap();
    workspace.forget(&task()).unwrap();
}

#[test]
fn nothing_that_a_hostile_repository_names_is_executed() {
    let repository = Repository::new();
    let (trap, mark) = (repository.beside("trap"), repository.beside("sprung"));
    script(&trap, &format!("echo \"$0 $*\" >> '{}'; cat", mark.display()));
    let trap = trap.to_str().unwrap();
    let hooks = repository.root.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let all = ["pre-commit", "post-commit", "post-checkout", "reference-transaction"];
    for hook in all.iter().chain(&["post-index-change", "commit-msg", "post-rewrite"]) {
        script(&hooks.join(hook), &format!("echo {hook} >> '{}'", mark.display()));
    }
    for key in [
        "alias.log",
        "alias.status",
        "core.alternateRefsCommand",
        "core.askPass",
        "core.editor",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "credential.helper",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "gpg.program",
        "interactive.diffFilter",
        "merge.evil.driver",
    ] {
        let bang = if key.starts_with("alias") { "!" } else { "" };
        repository.git(["config", key, &format!("{bang}{trap}")]);
    }
    for key in ["commit.gpgSign", "log.showSignature", "tag.gpgSign", "submodule.recurse"] {
        repository.git(["config", key, "true"]);
    }
    fs::write(repository.root.join(".git/info/attributes"), "* diff=evil merge=evil\n").unwrap();
    exercise(&repository);
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap());
    repository.write("a.txt", "once more");
    repository.try_git(["diff"]);
    assert!(mark.exists(), "the traps were not set");
}

#[test]
fn content_filters_of_the_agent_do_not_run() {
    for driver in ["evil", "a=b"] {
        let repository = Repository::new();
        let (trap, mark) = (repository.beside("trap"), repository.beside("sprung"));
        script(&trap, &format!("echo ran >> '{}'; cat", mark.display()));
        let base = claim(&repository);
        // Configured in the attempt, so preflight could not see it.
        for side in ["clean", "smudge"] {
            let key = format!("filter.{driver}.{side}");
            repository.git(["config", &key, trap.to_str().unwrap()]);
        }
        repository.git(["config", &format!("filter.{driver}.required"), "true"]);
        repository.write(".gitattributes", &format!("new.txt filter={driver}\n"));
        repository.write("a.txt", "by the agent");
        repository.write("new.txt", "new");
        let workspace = repository.open(Filters::Off);
        workspace.tree().unwrap();
        workspace.evidence(&task(), &base, LONG_AGO).unwrap();
        workspace.rescue(&task(), 1, &base).unwrap().unwrap();
        refused(workspace.commit(&base, "task-1: title"), "content filter");
        refused(workspace.preflight(), "content filter");
        workspace.rollback(&task(), 1, &base).unwrap();
        assert!(!mark.exists());
        assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
        assert_eq!(repository.read("new.txt"), None);
        let rescue = workspace.rescues(None).unwrap().remove(0);
        repository.try_git(["restore", "--source", &rescue.reference, "--", "."]);
        assert!(mark.exists(), "the trap was not set");
    }
}

#[test]
fn a_filtered_base_is_refused_without_trust_and_right_with_it() {
    let repository = Repository::new();
    repository.git(["config", "filter.upper.clean", "tr a-z A-Z"]);
    repository.git(["config", "filter.upper.smudge", "tr A-Z a-z"]);
    repository.write(".gitattributes", "a.txt filter=upper\n");
    repository.git(["add", "--renormalize", "-A"]);
    repository.git(["add", ".gitattributes"]);
    let commit = Fixture::commit(&repository, "filtered");
    assert_eq!(repository.committed(&commit)["a.txt"], "A");
    refused(repository.open(Filters::Off).preflight(), "content filter");
    let trusted = repository.open(Filters::Run);
    trusted.preflight().unwrap();
    let base = trusted.base(&task()).unwrap();
    repository.write("a.txt", "changed");
    refused(repository.open(Filters::Off).rollback(&task(), 1, &base), "content filter");
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
    trusted.rollback(&task(), 1, &base).unwrap();
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    let rescue = trusted.rescues(None).unwrap().remove(0);
    assert_eq!(repository.committed(&rescue.commit)["a.txt"], "CHANGED");
    trusted.restore(&rescue).unwrap();
    assert_eq!(repository.read("a.txt").as_deref(), Some("changed"));
}

fn odd_names() -> Vec<&'static OsStr> {
    let names: [&[u8]; 9] = [
        b"--help",
        b"-rf",
        b"line\nbreak",
        b"tab\tquote\"back\\slash",
        b"\xff\xfe not utf-8",
        b":(exclude)magic",
        b"*.txt",
        b" spaces ",
        b"!bang",
    ];
    names.into_iter().map(OsStr::from_bytes).collect()
}

#[test]
fn file_names_are_data() {
    let repository = Repository::new();
    for name in odd_names() {
        fs::write(repository.root.join(name), "mine").unwrap();
    }
    let base = claim(&repository);
    let folder = repository.root.join(OsStr::from_bytes(b"-\xff\n"));
    fs::create_dir(&folder).unwrap();
    for name in odd_names() {
        fs::write(repository.root.join(name), "changed").unwrap();
        fs::write(folder.join(name), "new").unwrap();
    }
    let reference = roll_back(&repository, &base).unwrap();
    assert!(!folder.exists());
    for name in odd_names() {
        assert_eq!(fs::read(repository.root.join(name)).unwrap(), b"mine");
        fs::remove_file(repository.root.join(name)).unwrap();
    }
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    assert_eq!(rescue.reference, reference);
    let written = repository.workspace().restore(&rescue).unwrap();
    assert_eq!(written.len(), 2 * odd_names().len());
    assert_eq!(fs::read(folder.join("--help")).unwrap(), b"new");
    repository.workspace().commit(&base, "task-1: title").unwrap();
    let names = repository.git(["ls-tree", "-r", "-z", "--name-only", "HEAD"]);
    assert_eq!(names.split_terminator('\0').count(), 3 + odd_names().len());
}

#[test]
fn links_modes_and_empty_folders_are_put_back() {
    let repository = Repository::new();
    let at = |name: &str| repository.root.join(name);
    symlink("/nowhere", at("link")).unwrap();
    script(&at("run"), "true");
    fs::create_dir_all(at("empty/inner")).unwrap();
    fs::create_dir_all(at("data")).unwrap();
    repository.write("folder/file", "mine");
    let outside = repository.beside("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "not ours").unwrap();
    let base = claim(&repository);

    fs::remove_file(at("link")).unwrap();
    fs::write(at("link"), "a file now").unwrap();
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(at("empty")).unwrap();
    repository.write("data/out.txt", "out");
    repository.write("made/by/agent.txt", "new");
    fs::create_dir_all(at("made/for/nothing")).unwrap();
    // Writing through a link that the agent made would change files elsewhere.
    fs::remove_dir_all(at("folder")).unwrap();
    symlink(&outside, at("folder")).unwrap();

    roll_back(&repository, &base);
    assert_eq!(fs::read_link(at("link")).unwrap(), PathBuf::from("/nowhere"));
    assert_ne!(fs::metadata(at("run")).unwrap().permissions().mode() & 0o100, 0);
    assert!(at("empty/inner").is_dir() && at("data").is_dir());
    assert!(!at("made").exists() && !at("data/out.txt").exists());
    assert!(!at("folder").is_symlink());
    assert_eq!(repository.read("folder/file").as_deref(), Some("mine"));
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "not ours");
    assert_eq!(repository.workspace().rescues(None).unwrap().len(), 1);
}

#[test]
fn ignored_files_in_the_way_are_saved() {
    let repository = Repository::new();
    repository.write("notes", "mine");
    let base = claim(&repository);
    repository.remove("notes");
    repository.remove("a.txt");
    repository.write("notes/deep.log", "ignored, one");
    repository.write("a.txt/deep.log", "ignored, two");
    roll_back(&repository, &base);
    assert_eq!(repository.read("notes").as_deref(), Some("mine"));
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    let saved = repository.committed(&rescue.commit);
    assert_eq!(saved["notes/deep.log"], "ignored, one");
    assert_eq!(saved["a.txt/deep.log"], "ignored, two");
}

#[test]
fn repositories_inside_the_work_tree_are_left_alone() {
    let repository = Repository::new();
    let nested = |name: &str| {
        repository.git(["init", "--quiet", name]);
        repository.write(&format!("{name}/file"), "theirs");
    };
    nested("before");
    let base = claim(&repository);
    nested("after/deep");
    repository.write("before/file", "changed");
    repository.write("new.txt", "new");
    roll_back(&repository, &base);
    assert_eq!(repository.read("before/file").as_deref(), Some("changed"));
    assert_eq!(repository.read("after/deep/file").as_deref(), Some("theirs"));
    assert!(repository.root.join("after/deep/.git").is_dir());
    repository.write("new.txt", "new");
    let commit = repository.workspace().commit(&base, "task-1: title").unwrap();
    let names: Vec<_> = repository.committed(&commit).into_keys().collect();
    assert_eq!(names, [".gitignore", "a.txt", "b.txt", "new.txt"]);
}

#[test]
fn a_core_worktree_of_the_agent_misleads_nobody() {
    let repository = Repository::new();
    let elsewhere = repository.beside("home");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "precious").unwrap();
    let workspace = repository.workspace();
    let base = workspace.base(&task()).unwrap();
    repository.write("new.txt", "new");
    repository.git(["config", "core.worktree", elsewhere.to_str().unwrap()]);
    workspace.rollback(&task(), 1, &base).unwrap();
    assert_eq!(repository.read("new.txt"), None);
    assert!(elsewhere.join("precious").exists());
    assert!(GitWorkspace::discover(&repository.root, &repository.root, Filters::Off).is_err());
}

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
    assert!(matches!(workspace.base(&task()), Err(WorkspaceError::NoCommits)));
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
    let base = workspace.base(&task()).unwrap();
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
    let base = workspace.base(&task()).unwrap();
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
fn variables_of_a_calling_git_do_not_redirect_us() {
    // A process can not safely change its own environment, so the test starts itself again.
    const MARK: &str = "HARNESS_TEST_REDIRECTED";
    if let Some(root) = std::env::var_os(MARK) {
        let root = PathBuf::from(root);
        let workspace = GitWorkspace::discover(&root, &root, Filters::Off).unwrap();
        let base = workspace.base(&task()).unwrap();
        fs::write(root.join("a.txt"), "changed").unwrap();
        workspace.commit(&base, "task-1: title").unwrap();
        return;
    }
    let (repository, other) = (Repository::new(), Repository::new());
    let (before, files) = (other.workspace().head().unwrap(), other.files());
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "variables_of_a_calling_git_do_not_redirect_us"])
        .env(MARK, &repository.root)
        .env("GIT_DIR", other.root.join(".git"))
        .env("GIT_WORK_TREE", &other.root)
        .env("GIT_INDEX_FILE", other.root.join(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", other.root.join(".git/objects"))
        .env("GIT_NAMESPACE", "other")
        .env("GIT_EXTERNAL_DIFF", "false")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.worktree")
        .env("GIT_CONFIG_VALUE_0", &other.root)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert_eq!(other.workspace().head().unwrap(), before);
    assert_eq!(other.files(), files);
    assert_eq!(repository.git(["log", "-1", "--format=%s"]), "task-1: title");
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
    // Same size and time as the index knows, and no older than the index.
    for path in [&file, &repository.root.join(".git/index")] {
        fs::File::options().append(true).open(path).unwrap().set_modified(written).unwrap();
    }
    roll_back(&repository, &base).unwrap();
    let rescue = repository.workspace().rescues(None).unwrap().remove(0);
    assert_eq!(repository.committed(&rescue.commit)["a.txt"], "2");
    assert_eq!(repository.read("a.txt").as_deref(), Some("a"));
}
