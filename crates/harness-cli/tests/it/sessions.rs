//! The sessions of `harness run`: their numbers, their beginnings and their ends.

use crate::{
    environment::TestEnvironment,
    run::{Hanging, add, log, world},
};

/// Returns the log with sessions and without times.
fn numbered(env: &TestEnvironment) -> Vec<String> {
    let log = env.read("harness-progress.txt");
    log.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
}

/// Adds an init script that is committed and trusted.
fn init_script(env: &TestEnvironment, script: &str) {
    env.write("harness-init.sh", script).git(["add", "harness-init.sh"]);
    env.git(["commit", "--quiet", "-m", "init"]);
    env.run(["trust", "--yes"]).success();
}

#[test]
fn r4_the_last_task_needs_no_session_after_it() {
    for more in [&["--max-sessions", "1"][..], &["--once"]] {
        let env = world();
        for n in 0..2 {
            add(&env, &format!("touch {n}"), &format!("test -f {n}"), &[]);
        }
        let run = ["run", "--agent", "shell", "--max-tasks-per-session", "2", "--json"];
        let ended = env.run([&run[..], more].concat()).success().json();
        assert_eq!(
            (&ended["stop_reason"], &ended["sessions"]),
            (&"complete".into(), &1.into()),
            "{more:?}"
        );
        assert!(!env.exists(".harness-active"), "{more:?}: no work is left");
        let log = log(&env);
        let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("LOCK acquired"), count("LOCK released"), count("STATS")), (1, 1, 1));
    }
}

#[test]
fn a_session_that_may_not_begin_leaves_nothing_in_the_log() {
    let env = world();
    for n in 0..2 {
        add(&env, &format!("touch {n}"), &format!("test -f {n}"), &[]);
    }
    let run = ["run", "--agent", "shell", "--max-tasks-per-session", "1", "--max-sessions", "1"];
    env.run(run).code(3);
    assert!(env.exists(".harness-active"), "work is left");
    let log = log(&env);
    let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("LOCK acquired"), count("LOCK released"), count("STATS")), (1, 1, 1));
}

#[test]
fn r6_what_the_environment_stops_is_in_the_log() {
    let env = world();
    add(&env, "touch done", "no-such-checker", &[]);
    env.run(["run", "--agent", "shell"]).code(1);
    let problem = "ERROR [task-001] [ENV_SETUP] the check cannot be run here";
    let found = |log: Vec<String>| log.iter().filter(|line| line.starts_with(problem)).count();
    assert_eq!(found(log(&env)), 1, "{:#?}", log(&env));
    // The recovery of the next session finds the same.
    env.run(["run", "--agent", "shell"]).code(1);
    assert_eq!(found(log(&env)), 2, "{:#?}", log(&env));

    let env = world();
    add(&env, "touch done", "test -f done", &[]);
    init_script(&env, "exit 1\n");
    env.run(["run", "--agent", "shell"]).code(1).stderr_contains("harness-init.sh failed twice");
    let log = numbered(&env);
    let problem = "[SESSION-1] ERROR [ENV_SETUP] harness-init.sh failed twice";
    assert!(log.iter().any(|line| line == problem), "{log:#?}");
}

#[test]
fn r18_a_recovery_carries_the_number_of_its_session() {
    let env = world();
    Hanging::start(&env, "touch done", "test -f done").kill();
    env.git(["commit", "--quiet", "--allow-empty", "-m", "by a person"]);
    env.run(["run", "--agent", "shell"]).success();
    let log = numbered(&env);
    let at = |what: &str| {
        let found = log.iter().position(|line| line.starts_with(what));
        found.unwrap_or_else(|| panic!("no {what}: {log:#?}"))
    };
    let begun = at("[SESSION-2] LOCK acquired");
    let recovered = at("[SESSION-2] RECOVERY [task-001] action=\"validate, then commit\"");
    let completed = at("[SESSION-2] Completed [task-001]");
    assert!(begun < recovered && recovered < completed, "{log:#?}");
}

#[test]
fn r23_each_session_begins_with_the_init_script() {
    let env = world();
    init_script(&env, "echo $HARNESS_SESSION >> .git/sessions\n");
    for n in 0..2 {
        add(&env, &format!("touch {n}"), &format!("test -f {n}"), &[]);
    }
    env.run(["run", "--agent", "shell", "--max-tasks-per-session", "1"]).success();
    assert_eq!(env.read(".git/sessions"), "1\n2\n");
    let log = numbered(&env);
    for session in 1..=2 {
        let line = format!("[SESSION-{session}] INIT Environment health check: PASS");
        assert!(log.contains(&line), "{log:#?}");
    }
}

#[test]
fn s20_a_task_without_a_check_stops_the_run_only_when_nothing_else_is_left() {
    let env = world();
    env.run(["add", "no check", "--priority", "P0", "--instructions", "true"]).success();
    add(&env, "touch one", "test -f one", &[]);
    // Its first attempt fails. Even the second one comes before the task without a check.
    add(&env, "test $HARNESS_ATTEMPT = 2 && touch two", "test -f two", &[]);
    env.run(["run", "--agent", "shell"])
        .code(5)
        .stderr_contains("task-001: Missing validation.command");
    assert_eq!(
        [0, 1, 2].map(|n| env.task(n)["status"].clone()),
        ["pending", "completed", "completed"]
    );
    let log = log(&env);
    let complaint = "ERROR [task-001] [CONFIG] Missing validation.command";
    assert_eq!(log.iter().filter(|line| *line == complaint).count(), 1, "{log:#?}");
    assert_eq!(env.run(["status", "--json"]).json()["session_count"], 1);
    assert!(env.exists(".harness-active"), "work is left");
    // A resume would stop there again, so the next step is another one everywhere.
    let step = "harness task edit task-001 --validate COMMAND";
    let again = env.run(["run", "--agent", "shell"]).code(5);
    assert!(again.errors().contains(&format!("next         {step}")), "{again}");
    let status = env.run(["status", "--json"]).success().json();
    assert_eq!(status["last_run"]["next"], step);
    assert_eq!(status["needs"][0]["next"], step);
    env.run(["status"]).success().stdout_contains(step);
    assert_eq!(env.run(["report", "--json"]).success().json()["runs"][0]["next"], step);
    assert_eq!(env.run(["why", "task-001", "--json"]).success().json()["next"], step);
    env.run(["task", "edit", "task-001", "--validate", "true"]).success();
    let status = env.run(["status", "--json"]).success().json();
    let next = status["last_run"]["next"].as_str().unwrap();
    assert!(next.starts_with("harness run --resume"), "{next}");
}

#[test]
fn a_run_that_had_all_its_sessions_is_resumed_with_more() {
    let env = world();
    for n in 0..2 {
        add(&env, &format!("touch {n}"), &format!("test -f {n}"), &[]);
    }
    env.run(["session", "max_sessions", "1"]).success();
    env.run(["run", "--agent", "shell", "--max-tasks-per-session", "1"]).code(3);
    let status = env.run(["status", "--json"]).success().json();
    let next = status["last_run"]["next"].as_str().unwrap().to_owned();
    assert!(next.ends_with(" --max-sessions COUNT"), "{next}");
}
