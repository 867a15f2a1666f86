//! Results of several workers come together on one branch.

use std::time::Instant;

use super::stage::{add, add_independent, all_landed_once, ledger, nothing_left, tasks, world};

#[test]
fn independent_tasks_land_one_commit_each_in_a_linear_history() {
    let env = world();
    add_independent(&env, 24, "");
    let ran = env.run(["run", "--agent", "shell", "--workers", "4"]).success();
    assert!(ran.errors().contains("concurrency_mode is concurrent now"), "{}", ran.errors());
    all_landed_once(&env, "main");
    nothing_left(&env);
    for n in 1..=24 {
        assert_eq!(env.read(format!("f{n}")), format!("{n}\n"), "the main tree has every result");
    }
    assert_eq!(env.git(["status", "--porcelain"]), "");
}

#[test]
fn two_tasks_that_edit_the_same_line_both_end_up_done() {
    let env = world();
    // Each waits for the other in its first attempt, so that both start from the same commit.
    for (mine, other) in [("one", "two"), ("two", "one")] {
        let home = env.home().display().to_string();
        let script = format!(
            "touch {home}/at-{mine}\n\
             while [ $HARNESS_ATTEMPT = 1 ] && ! [ -e {home}/at-{other} ]; do :; done\n\
             echo {mine} >> shared"
        );
        add(&env, &script, &format!("grep -q {mine} shared"), &[]);
    }
    env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
    let mut lines: Vec<String> = env.read("shared").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["line", "one", "two"]);
    let log = env.read("harness-progress.txt");
    assert!(log.contains("[TASK_EXEC] Conflict with main in shared"), "{log}");
    let attempts: Vec<_> = tasks(&env).iter().map(|task| task["attempts"].as_u64()).collect();
    assert!(attempts.contains(&Some(1)) && attempts.contains(&Some(2)), "{attempts:?}");
    assert!(env.git(["for-each-ref", "refs/harness/rescue"]).contains("commit"));
}

#[test]
fn a_dependent_sees_the_commit_of_its_dependency() {
    let env = world();
    let first = add(&env, "echo first > a", "test -f a", &[]);
    add(&env, "cat a a > b", "test $(grep -c first b) = 2", &["--depends-on", &first]);
    add(&env, "touch c", "test -f c", &[]);
    env.run(["run", "--agent", "shell", "--workers", "3"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn a_dirty_main_tree_stays_as_it_is_and_results_are_on_another_branch() {
    let env = world();
    env.write("shared", "my own line\n").write("untracked", "mine\n");
    let before = env.git(["rev-parse", "main"]);
    add_independent(&env, 3, "");
    let ran = env.run(["run", "--agent", "shell", "--workers", "2"]).success();
    let words = "Results are on harness/landed; take them with: git merge harness/landed";
    assert!(ran.errors().contains(words), "{}", ran.errors());
    assert_eq!(env.read("shared"), "my own line\n");
    assert_eq!(env.read("untracked"), "mine\n");
    assert_eq!(env.git(["status", "--porcelain"]), " M shared\n?? untracked");
    assert_eq!(env.git(["rev-parse", "main"]), before);
    all_landed_once(&env, "harness/landed");
    // The next run begins there, and a clean tree takes the results.
    env.git(["checkout", "--quiet", "shared"]);
    add(&env, "test -f f1 && touch last", "test -f last", &[]);
    env.run(["run", "--agent", "shell"]).success();
    all_landed_once(&env, "main");
    nothing_left(&env);
    assert_eq!(env.git(["status", "--porcelain"]), "?? untracked");
}

#[test]
fn results_land_on_the_branch_that_was_asked_for_and_it_is_created() {
    let env = world();
    add_independent(&env, 2, "");
    let before = env.git(["rev-parse", "main"]);
    env.run(["run", "--agent", "shell", "--workers", "2", "--target", "results"]).success();
    all_landed_once(&env, "results");
    assert_eq!(env.git(["rev-parse", "main"]), before);
    assert!(!env.exists("f1"));
}

#[test]
fn commits_of_an_attempt_stay_or_become_one() {
    for (how, commits) in [("rebase", 2), ("squash", 1)] {
        let env = world();
        let script = "touch a && git add a && git commit --quiet --message one\n\
                      touch b && git add b && git commit --quiet --message two";
        add(&env, script, "test -f a -a -f b", &[]);
        let before = env.git(["rev-parse", "main"]);
        env.run(["run", "--agent", "shell", "--worktree", "--land", how]).success();
        let count = env.git(["rev-list", "--count", &format!("{before}..main")]);
        assert_eq!(count, commits.to_string(), "{how}");
        assert_eq!(ledger(&env)["tasks"][0]["status"], "completed");
        nothing_left(&env);
    }
}

#[test]
fn checks_run_side_by_side_and_not_one_after_the_other() {
    let env = world();
    let add_slow = |n: usize| {
        add(&env, &format!("echo {n} > f{n}"), &format!("sleep 1; test -f f{n}"), &[]);
    };
    let timed = |workers: &str| {
        let started = Instant::now();
        env.run(["run", "--agent", "shell", "--worktree", "--workers", workers]).success();
        started.elapsed()
    };
    add_slow(0);
    let alone = timed("1");
    (1..=12).for_each(add_slow);
    let together = timed("6");
    all_landed_once(&env, "main");
    assert!(together < alone * 9, "12 tasks took {together:?}, and one took {alone:?}");
}

#[test]
fn files_that_were_brought_into_a_tree_are_in_no_commit() {
    let env = world();
    env.write(".gitignore", "node_modules/\n");
    env.write("harness.toml", "[parallel]\nlink = ['node_modules']\n");
    env.git(["add", ".gitignore", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "a link"]);
    env.run(["trust", "--yes"]).success();
    // Git ignores neither this file nor the link, which is no folder.
    env.write(".env", "SECRET=1\n");
    env.write("node_modules/module", "code");
    for n in 1..=2 {
        let script = format!("cat .env node_modules/module > /dev/null; echo {n} > f{n}");
        add(&env, &script, &format!("test -f f{n} && test -f .env"), &[]);
    }
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    let files = env.git(["log", "--name-only", "--format=", "main"]);
    assert!(files.contains("f1") && files.contains("f2"), "{files}");
    assert!(!files.contains(".env") && !files.contains("node_modules"), "{files}");
    assert_eq!(env.git(["for-each-ref", "refs/harness", "refs/heads/harness"]).trim(), "");
}

#[test]
fn a_ledger_that_is_checked_out_in_a_tree_is_no_root() {
    let env = world();
    env.git(["add", "--force", "harness-tasks.json"]);
    env.git(["commit", "--quiet", "--message", "the ledger too"]);
    let harness = env!("CARGO_BIN_EXE_harness");
    let unset = "env -u HARNESS_STATE_ROOT -u HARNESS_SOCKET -u HARNESS_WORKTREE";
    add(&env, &format!("{unset} {harness} status | head -1 > where"), "test -s where", &[]);
    env.run(["run", "--agent", "shell", "--worktree"]).success();
    assert_eq!(env.git(["show", "main:where"]).trim(), env.root().display().to_string());
}
