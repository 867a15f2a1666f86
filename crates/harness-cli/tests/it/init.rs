//! `harness init`

use std::{fs, os::unix::fs::PermissionsExt};

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

#[test]
fn makes_ledger_log_and_marker_and_leaves_the_tree_clean() {
    let env = TestEnvironment::with_git();
    assert_snapshot!(env.run(["init"]).success().output(), @r#"
    [ROOT]
      made harness-tasks.json, harness-progress.txt and .harness-active
      added ignore rules to .git/info/exclude
    next: harness add "what is to be done" --validate 'the command that proves it'
    "#);
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert_snapshot!(env.normalise(&env.read("harness-progress.txt")), @"[[TIME]] [SESSION-0] INIT Harness initialized for project [ROOT]");
    assert!(env.exists(".harness-active"));
    assert_eq!(env.read(".harness/.gitignore"), "*\n");
    let mode = fs::metadata(env.root().join(".harness")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn run_twice_changes_nothing() {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    let files = ["harness-tasks.json", "harness-progress.txt", ".git/info/exclude"];
    let before = files.map(|f| env.read(f));
    env.run(["init", "--with-init-script"]).success().stdout_contains("nothing was changed");
    assert_eq!(files.map(|f| env.read(f)), before);
}

#[test]
fn works_at_the_top_of_the_repository_from_anywhere_in_it() {
    let env = TestEnvironment::with_git();
    env.write("deep/down/file", "");
    env.run_in("deep/down", ["init", "--gitignore"]).success();
    assert!(env.exists("harness-tasks.json"));
    assert!(env.read(".gitignore").contains(".harness/"));
    env.run_in("deep", ["add", "one"]).success().stdout("task-001");
}

#[test]
fn makes_a_repository_when_asked_and_an_init_script() {
    let env = TestEnvironment::new();
    env.run(["init", "--git", "--with-init-script"]).success();
    assert!(env.exists(".git"));
    let mode = fs::metadata(env.root().join("harness-init.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    let bare = TestEnvironment::new();
    bare.run(["init"]).success().stdout_contains("no git repository here");
    assert!(!bare.exists(".git"));
}

#[test]
fn a_ledger_that_came_with_the_repository_is_not_trusted_by_it() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.write(
        "harness-tasks.json",
        r#"{"tasks":[{"id":"a","title":"A","validation":{"command":"touch pwned"}}]}"#,
    );
    env.run(["init"]).success().stdout_contains("nothing was changed");
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "a"])
        .code(5)
        .stderr_contains("is not trusted; it would run")
        .stderr_contains("touch pwned")
        .stderr_contains("harness trust");
    assert!(!env.exists("pwned"));
    env.run(["trust", "--yes"]).success();
    env.run(["task", "complete", "--id", "a"]).success();
    assert!(env.exists("pwned"));
}

#[test]
fn a_read_only_project_gets_a_clear_error() {
    let env = TestEnvironment::new();
    if rustix::process::geteuid().is_root() {
        // Only files of the kernel are read-only for root.
        let ran = env.harness(["init"]).env("HARNESS_STATE_ROOT", "/proc/1").output().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        return;
    }
    fs::set_permissions(env.root(), fs::Permissions::from_mode(0o555)).unwrap();
    env.run(["init"]).code(1).stderr_contains("Error: cannot");
    fs::set_permissions(env.root(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_behind_a_link_is_never_written() {
    for name in ["harness-tasks.json", "harness-progress.txt", ".harness-active", ".harness"] {
        let env = TestEnvironment::with_git();
        let victim = env.home().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, env.root().join(name)).unwrap();
        let ran = env.run(["init"]);
        if name == "harness-tasks.json" {
            // A ledger exists, so init has nothing to do. Opening it reports the error.
            ran.code(5).stderr_contains("harness-tasks.json is a symbolic link");
            env.run(["add", "x"]).code(5).stderr_contains("harness-tasks.json is a symbolic link");
        } else {
            ran.code(5).stderr_contains(&format!("{name} is "));
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
}

#[test]
fn what_goes_wrong_beside_the_ledger_is_told_and_init_goes_on() {
    let env =
        TestEnvironment::with_git().without_variable("HOME").without_variable("XDG_STATE_HOME");
    env.run(["init"])
        .success()
        .stdout_contains("added ignore rules to .git/info/exclude")
        .stderr_contains("WARN: ")
        .stderr_contains("is not trusted to run its commands: neither HOME nor XDG_STATE_HOME");
    let broken = TestEnvironment::new();
    broken.write(".git", "gitdir: /nonexistent\n");
    broken
        .run(["init"])
        .success()
        .stdout_contains("made harness-tasks.json")
        .stderr_contains("WARN: git will not ignore these files: git rev-parse");
}

#[test]
fn a_git_dir_of_the_caller_is_left_alone() {
    let other = TestEnvironment::with_git();
    let before = other.read(".git/info/exclude");
    let env = TestEnvironment::with_git().variable("GIT_DIR", other.root().join(".git"));
    env.run(["init"]).success().stdout_contains("added ignore rules to .git/info/exclude");
    assert_eq!(other.read(".git/info/exclude"), before);
}

#[test]
fn a_path_that_is_no_text_is_shown_as_well_as_it_can_be() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let env = TestEnvironment::new();
    let strange = env.root().join(OsStr::from_bytes(b"bad\xff\x1b[31m"));
    fs::create_dir(&strange).unwrap();
    let env = env.variable("HARNESS_STATE_ROOT", &strange);
    let made = env.run(["init", "--json"]).success().stderr_contains("is not UTF-8");
    assert!(made.json()["root"].as_str().unwrap().contains("bad\u{fffd}"));
    let again = env.run(["init"]).success();
    assert!(!again.raw().contains('\x1b'), "{again}");
    env.run(["add", "one"]).success();
    let reset = env.run(["plan", "reset", "--yes", "--json"]).success();
    assert!(reset.json()["archive"].as_str().unwrap().contains(".harness/archive/"));
}

#[test]
fn a_pin_that_leads_nowhere_is_named() {
    let env = TestEnvironment::new();
    let nowhere = env.root().join("nowhere").display().to_string();
    let env = env.variable("HARNESS_STATE_ROOT", &nowhere);
    env.run(["status"])
        .code(5)
        .stderr_contains("HARNESS_STATE_ROOT: the state root [ROOT]/nowhere cannot be used")
        .stderr_contains("unset the variable");
}
