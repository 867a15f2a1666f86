//! Commits that a person makes during an attempt stay on their branch.

use crate::{environment::TestEnvironment, evidence::add, run::Hanging};

const RUN: [&str; 3] = ["run", "--agent", "shell"];
/// The command of a person in another terminal while the agent works.
const BY_ME: &str = "GIT_COMMITTER_NAME=Me git commit --quiet";

fn world() -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.write("base.txt", "base\n");
    env.git(["add", "base.txt"]);
    env.git(["commit", "--quiet", "--message", "base"]);
    env
}

fn subjects(env: &TestEnvironment) -> Vec<String> {
    env.git(["log", "--format=%s", "main"]).lines().map(str::to_owned).collect()
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

#[test]
fn x_h2_a_commit_of_the_user_stays_when_an_attempt_is_rolled_back() {
    let env = world();
    let script = format!(
        "echo 1 > one; git add one; git commit --quiet -m 'some work'\n\
         echo mine > mine; git add mine; {BY_ME} -m 'my own work'\n\
         echo 2 > two; git add two; git commit --quiet -m 'more work'\n\
         echo changed > base.txt; echo new > new"
    );
    add(&env, &script, "false", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    let expected = ["task-001: undo", "more work", "my own work", "some work", "base", "start"];
    assert_eq!(subjects(&env), expected);
    assert_eq!(env.git(["log", "-1", "--format=%(trailers)"]), "Harness-Reverts: task-001.1");
    assert_eq!(env.git(["ls-tree", "--name-only", "HEAD"]), "base.txt\nmine");
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert_eq!((env.read("base.txt").as_str(), env.read("mine").as_str()), ("base\n", "mine\n"));
    let committer = env.git(["log", "-1", "--format=%cn", "HEAD~1"]);
    assert_eq!(committer, "Test Committer (harness task-001.1)");
    assert!(
        log(&env).contains("WARN [task-001] commits of others stay; the attempt's are reverted")
    );
    assert!(!log(&env).contains("ROLLBACK"), "{}", log(&env));
    let rescued = env.git(["show", "refs/harness/rescue/task-001/1:new"]);
    assert_eq!(rescued, "new");
}

#[test]
fn x_h2_an_attempt_without_commits_of_others_is_reset() {
    let env = world();
    let script = "echo 1 > one; git add one; git commit --quiet -m 'some work'; echo x > new";
    add(&env, script, "false", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    assert_eq!(subjects(&env), ["base", "start"]);
    assert!(log(&env).contains("ROLLBACK [task-001] git reset --hard"));
}

#[test]
fn x_h2_a_revert_that_conflicts_is_left_to_the_user() {
    let env = world();
    let script = format!(
        "if [ $HARNESS_ATTEMPT -gt 1 ]; then touch done; exit; fi\n\
         echo agent > base.txt; git commit --quiet -am 'some work'\n\
         echo me > base.txt; {BY_ME} -am 'my own work'\n\
         echo new > new"
    );
    add(&env, &script, "test -f done", &[]);
    let stopped = env.run(RUN).code(5).stderr_contains("git revert --no-commit");
    stopped.stderr_contains("git commit --allow-empty");
    assert_eq!(env.task(0)["status"], "in_progress");
    assert_eq!(subjects(&env), ["my own work", "some work", "base", "start"]);
    assert_eq!(env.git(["status", "--porcelain"]), "?? new");
    // The same happens again until a person settles it.
    env.run(RUN).code(5);
    let keep = ["commit", "--quiet", "--allow-empty", "-m", "task-001: keep"];
    env.git([&keep[..], &["-m", "Harness-Reverts: task-001.1"]].concat());
    env.run(RUN).success();
    assert_eq!(env.task(0)["attempts"], 2);
    assert!(
        subjects(&env).ends_with(&["my own work", "some work", "base", "start"].map(Into::into))
    );
    assert!(!env.exists("new"));
}

#[test]
fn r2_recovery_takes_no_commit_of_a_person_off_the_branch() {
    for (setup, expected) in [
        ("", vec!["my own work", "base", "start"]),
        ("echo half > half", vec!["my own work", "base", "start"]),
        (
            "echo half > half; git add half; git commit --quiet -m 'some work'",
            vec!["task-001: undo", "my own work", "some work", "base", "start"],
        ),
    ] {
        let env = world();
        Hanging::start(&env, setup, "test -f done").kill();
        env.write("mine", "mine");
        env.git(["add", "mine"]);
        env.git(["commit", "--quiet", "--message", "my own work"]);
        env.run(RUN).success();
        let subjects = subjects(&env);
        assert_eq!(subjects[0], "task-001: a task");
        assert_eq!(subjects[1..], expected, "{setup}");
        assert!(env.exists("mine") && !env.exists("half"), "{setup}");
    }
}

#[test]
fn x_h2_commits_are_not_marked_where_the_setting_says_so() {
    let env = world();
    env.write("harness.toml", "[git]\nmark = false\n");
    add(&env, "echo 1 > one; git add one; git commit --quiet -m 'task-001: x'", "true", &[]);
    env.run(RUN).success();
    assert_eq!(env.git(["log", "-1", "--format=%cn"]), "Test Committer");
}
