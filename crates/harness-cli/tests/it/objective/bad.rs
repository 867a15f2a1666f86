//! Bad input gives a clear error, and nothing is lost.

use rusqlite::Connection;

use super::stage::*;
use crate::environment::TestEnvironment;

#[test]
fn promises_and_limits_that_nobody_means_are_refused() {
    let env = stage();
    for (flag, value, words) in [
        ("--completion-promise", "", "a promise must not be empty"),
        ("--completion-promise", " \t ", "a promise must not be empty"),
        ("--completion-promise", "two\nlines", "a promise must be one line"),
        ("--max-iterations", "1000001", "a number from 0 to 1000000"),
        ("--max-iterations", "many", "a number from 0 to 1000000"),
        ("--max-cost", "0", "an amount of US dollars above 0"),
        ("--max-cost", "NaN", "an amount of US dollars above 0"),
        ("--max-cost", "1e300", "an amount of US dollars above 0"),
        ("--max-tokens", "0", "a number of tokens above 0"),
        ("--max-tokens", "99999999999999999999", "a number of tokens above 0"),
        ("--max-duration", "1000000d", "a length of time such as 90s"),
        ("--max-duration", "soon", "a length of time such as 90s"),
    ] {
        for args in [vec!["run", "write it"], vec!["run", "--resume"]] {
            let args = [&args[..], &["--agent", "shell", flag, value]].concat();
            env.run(&args).code(2).stderr_contains(words);
        }
    }
    for negative in
        ["--max-iterations=-1", "--max-cost=-5", "--max-tokens=-1", "--max-duration=-1s"]
    {
        env.run(["run", "write it", "--agent", "shell", negative]).code(2);
    }
    assert!(!env.exists(".harness/harness.db"), "nothing was begun");
    env.run(["run", "write it", "--agent-command", "sh 'open"]).code(5).stderr_contains("quote");
}

/// Returns a world with a run that was stopped.
fn stopped() -> TestEnvironment {
    let env = stage();
    came_to(go(&env, "echo one", &["--max-iterations", "0"]), 3, "max_iterations", 0);
    env
}

fn database(env: &TestEnvironment) -> Connection {
    Connection::open(env.root().join(".harness/harness.db")).unwrap()
}

#[test]
fn a_database_of_a_later_version_is_left_alone() {
    let env = stopped();
    database(&env).pragma_update(None, "user_version", 99).unwrap();
    let before = iterations(&env);
    for args in [vec!["run", "--resume"], vec!["run", "more", "--agent", "shell"]] {
        let ran = env.run(&args);
        assert!(ran.errors().contains("99"), "{ran}");
        let ran = ran.stderr_contains("harness.db");
        assert_ne!(format!("{ran}").lines().next(), Some("exit Some(0)"), "{ran}");
    }
    assert_eq!(iterations(&env), before);
    // The ledger does not need the database.
    env.run(["add", "a task"]).success();
    env.run(["status"]).success();
    // The lock was released as well.
    database(&env).pragma_update(None, "user_version", 2).unwrap();
    let done = agent(&env, "echo TASK_COMPLETE");
    let more = ["run", "--resume", "--max-iterations", "1", "--agent-command", &done, "--json"];
    came_to(env.run(more), 0, "complete", 1);
}

#[test]
fn a_database_that_is_none_is_named_and_kept() {
    let env = stage();
    let garbage = "this is no database ".repeat(400);
    env.write(".harness/harness.db", &garbage);
    let words = "harness.db is damaged, or not a database of harness";
    env.run(["run", "write it", "--agent", "shell"]).code(5).stderr_contains(words);
    env.run(["run", "--resume"]).code(5).stderr_contains(words);
    assert_eq!(env.read(".harness/harness.db"), garbage);
    env.run(["add", "a task"]).success();
}

#[test]
fn a_locked_database_is_said_and_nothing_is_lost() {
    let env = stopped();
    let locker = database(&env);
    locker.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ran = env.run(["run", "more", "--agent", "shell"]).code(1);
    assert!(ran.errors().contains("locked"), "{ran}");
    locker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(run_row(&env)["stop_reason"], "max_iterations");
    env.run(["run", "touch x", "--agent", "shell"]).success();
}

#[test]
fn an_objective_needs_a_repository_and_trust() {
    let env = TestEnvironment::new();
    env.run(["run", "write it", "--agent", "shell"]).code(1).stderr_contains("harness init");
    let env = stage().variable("XDG_STATE_HOME", "/nonexistent/elsewhere");
    env.run(["run", "touch x", "--agent", "shell"]).code(5).stderr_contains("harness trust");
    assert!(!env.exists("x"));
}

#[test]
fn a_line_that_is_no_event_is_warned_of_once() {
    let env = stage();
    let ran = go(&env, "printf 'x\\ny\\n' >> $HARNESS_EVENTS; echo TASK_COMPLETE", &[]);
    let warnings: Vec<_> = ran.errors().lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("WARN: a line in $HARNESS_EVENTS is not an event"),
        "{warnings:?}"
    );
    came_to(ran, 0, "complete", 0);
}
