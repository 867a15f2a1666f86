//! Repositories in bad states, and a user who changes things while workers work.

use super::stage::{add, add_independent, all_landed_once, ledger, nothing_left, tasks, world};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, fifo, hear},
};

/// Adds a task whose agent waits for the test, and starts a run for it. `meanwhile` happens while it
/// waits. Returns the exit code and standard error.
fn meanwhile(env: &TestEnvironment, args: &[&str], act: impl FnOnce()) -> (Option<i32>, String) {
    let [waits, go] = ["waits", "go"].map(|name| fifo(env, name));
    let once = env.home().join("once").display().to_string();
    let script = format!(
        "if ! [ -e {once} ]; then touch {once}; echo x > {}; read word < {}; fi; echo 1 > f1",
        waits.display(),
        go.display()
    );
    add(env, &script, "test -f f1", &[]);
    let usual = ["run", "--agent", "shell", "--worktree"];
    let run = Going::start(env, &[&usual[..], args].concat());
    assert_eq!(hear(&waits), "x");
    act();
    std::fs::write(go, "go\n").unwrap();
    let ended = run.end();
    (ended.0, ended.2)
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let env = TestEnvironment::new();
    env.git(["init", "--quiet", "--initial-branch", "main"]);
    env.run(["init"]).success();
    add_independent(&env, 1, "");
    env.run(["run", "--agent", "shell", "--workers", "2"]).code(5).stderr_contains("first commit");
    env.run(["work", "--agent", "shell"]).code(5).stderr_contains("first commit");
    assert_eq!(tasks(&env)[0]["status"], "pending");
}

#[test]
fn a_commit_of_the_user_meanwhile_stays_below_the_result() {
    let env = world();
    let (code, err) = meanwhile(&env, &[], || {
        env.write("mine", "of the user\n");
        env.git(["add", "mine"]);
        env.git(["commit", "--quiet", "--message", "mine"]);
    });
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(env.git(["log", "--format=%s", "-2"]).lines().last(), Some("mine"));
    assert_eq!((env.read("mine").trim(), env.read("f1").trim()), ("of the user", "1"));
    assert_eq!(env.git(["status", "--porcelain"]), "");
    nothing_left(&env);
}

#[test]
fn a_target_that_the_user_set_back_is_not_moved_back_again() {
    let env = world();
    env.write("regretted", "x\n");
    env.git(["add", "regretted"]);
    env.git(["commit", "--quiet", "--message", "regretted"]);
    let (code, err) = meanwhile(&env, &[], || {
        env.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    });
    assert_eq!(code, Some(0), "{err}");
    let log = env.git(["log", "--format=%s", "main"]);
    assert!(!log.contains("regretted") && log.contains("task-001"), "{log}");
    assert!(!env.exists("regretted") && env.exists("f1"));
    nothing_left(&env);
}

#[test]
fn a_target_that_the_user_deleted_is_made_again_or_named_and_nothing_is_lost() {
    let env = world();
    let (code, err) = meanwhile(&env, &["--target", "results"], || {
        env.git(["branch", "--quiet", "-D", "results"]);
    });
    let task = &tasks(&env)[0];
    match code {
        Some(0) => assert_eq!(env.git(["show", "results:f1"]), "1", "{err}"),
        _ => {
            assert!(err.contains("results"), "{err}");
            assert_ne!(task["status"], "completed");
            env.run(["run", "--agent", "shell", "--target", "results"]).success();
            assert_eq!(env.git(["show", "results:f1"]), "1");
        }
    }
}

#[test]
fn a_tree_that_vanishes_under_an_agent_is_named_and_the_next_run_goes_on() {
    let env = world();
    let (code, err) = meanwhile(&env, &[], || {
        std::fs::remove_dir_all(env.root().join(".harness/worktrees/w.1")).unwrap();
    });
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(".harness/worktrees/w.1 is not inside a git work tree"), "{err}");
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    assert_eq!(tasks(&env)[0]["status"], "completed");
    assert_eq!(env.read("f1").trim(), "1");
    nothing_left(&env);
}

#[test]
fn a_folder_of_trees_that_is_gone_or_locked_is_made_again() {
    let env = world();
    add_independent(&env, 1, "");
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    // An entry of git without a folder, locked as those of workers are.
    let tree = env.root().join(".harness/worktrees/w.1");
    let path = tree.display().to_string();
    env.git(["worktree", "add", "--quiet", "--detach", &path]);
    env.git(["worktree", "lock", &path]);
    std::fs::remove_dir_all(&tree).unwrap();
    add(&env, "touch second", "test -f second", &[]);
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn trees_may_be_elsewhere_and_are_removed_there_too() {
    // A folder in memory is another file system.
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let env = world();
    env.write(
        "harness.toml",
        format!("[parallel]\nworktrees = '{}'\n", elsewhere.path().display()),
    );
    env.run(["trust", "--yes"]).success();
    add(&env, "pwd > where", "test -s where", &[]);
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    let at = env.git(["show", "main:where"]);
    assert!(at.starts_with(&*elsewhere.path().to_string_lossy()), "{at}");
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
    let tree = std::path::PathBuf::from(at);
    assert!(!tree.exists(), "{}", tree.display());
    all_landed_once(&env, "main");
}

#[test]
fn a_submodule_is_there_for_every_worker() {
    let env = world();
    let module = env.home().join("module");
    std::fs::create_dir(&module).unwrap();
    let at = module.display().to_string();
    env.git(["-C", &at, "init", "--quiet"]);
    env.write(module.join("code"), "code\n");
    env.git(["-C", &at, "add", "code"]);
    env.git(["-C", &at, "commit", "--quiet", "--message", "module"]);
    let allowed = "protocol.file.allow=always";
    env.git(["-c", allowed, "submodule", "--quiet", "add", &at, "module"]);
    env.git(["commit", "--quiet", "--message", "a submodule"]);
    for n in 1..=2 {
        add(&env, &format!("cat module/code > f{n}"), &format!("grep -q code f{n}"), &[]);
    }
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    for n in 1..=2 {
        assert_eq!(env.git(["show", &format!("main:f{n}")]), "code");
    }
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn a_sparse_checkout_of_the_user_stays_sparse_and_nothing_is_removed() {
    let env = world();
    env.write("deep/file", "deep\n").write("other/file", "other\n");
    env.git(["add", "deep", "other"]);
    env.git(["commit", "--quiet", "--message", "folders"]);
    env.git(["sparse-checkout", "set", "deep"]);
    for n in 1..=2 {
        add(&env, &format!("cp deep/file deep/f{n}"), &format!("test -f deep/f{n}"), &[]);
    }
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    assert!(env.exists("deep/f1") && env.exists("deep/f2"));
    assert!(!env.exists("other"), "the tree of the user stays sparse");
    assert_eq!(env.git(["show", "main:other/file"]), "other", "nothing was removed");
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn a_fresh_tree_has_nothing_of_the_task_before() {
    for (fresh, expected) in [(false, "left"), (true, "gone")] {
        let env = world();
        env.write(".gitignore", "cache\n");
        env.write("harness.toml", format!("[parallel]\nfresh = {fresh}\n"));
        env.git(["add", ".gitignore", "harness.toml"]);
        env.git(["commit", "--quiet", "--message", "settings"]);
        env.run(["trust", "--yes"]).success();
        add(&env, "touch cache a", "test -f a", &[]);
        let look = "if [ -e cache ]; then echo left > b; else echo gone > b; fi";
        add(&env, look, "test -f b", &["--depends-on", "task-001"]);
        env.run(["run", "--agent", "shell", "--worktree"]).success();
        assert_eq!(env.git(["show", "main:b"]), expected, "fresh = {fresh}");
        assert_eq!(ledger(&env)["tasks"][1]["status"], "completed");
        nothing_left(&env);
    }
}
