//! `harness run --task`: only the tasks that a person names.

use crate::{environment::TestEnvironment, objective::stage::stage};

/// Three tasks, of which the third waits for the first, and one that always fails.
fn project() -> TestEnvironment {
    let env = stage();
    for n in 1..=3 {
        let (instructions, check) = (format!("touch {n}"), format!("test -f {n}"));
        let mut add = vec!["add", "t", "--instructions", &instructions, "--validate", &check];
        if n == 3 {
            add.extend(["--depends-on", "task-001"]);
        }
        env.run(add).success();
    }
    let fails = ["add", "t", "--instructions", "true", "--validate", "false"];
    env.run(fails).success();
    env.run(["task", "edit", "task-004", "--max-attempts", "1"]).success();
    env
}

const RUN: [&str; 4] = ["run", "--agent", "shell", "--task"];

fn run(env: &TestEnvironment, tasks: &[&str]) -> crate::environment::Ran {
    env.run(RUN.iter().chain(tasks))
}

fn statuses(env: &TestEnvironment) -> Vec<String> {
    let list = env.run(["status", "--json"]).success().json();
    let tasks = list["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_the_named_tasks_are_worked_on() {
    let env = project();
    run(&env, &["task-002"])
        .code(0)
        .stderr_contains("done: 1 task is completed")
        .stderr_contains("next         harness run\n");
    assert_eq!(statuses(&env), ["pending", "completed", "pending", "pending"]);
    assert!(env.root().join(".harness-active").exists(), "work is left, so hooks stay active");
    run(&env, &["task-002"])
        .code(0)
        .stderr_contains("nothing to do: every chosen task is completed");
    // Several, in the order of the ledger, with what depends on one of them.
    run(&env, &["task-003", "task-001"]).code(0).stderr_contains("done: 2 tasks are completed");
    run(&env, &["task-004"])
        .code(4)
        .stderr_contains("finished: 0 tasks are completed, 1 failed for good")
        .stderr_contains("next         harness why task-004");
    assert_eq!(statuses(&env), ["completed", "completed", "completed", "failed"]);
    assert!(!env.root().join(".harness-active").exists(), "no work is left");
}

#[test]
fn a_chosen_task_that_waits_names_what_it_waits_for() {
    let env = project();
    let ran = run(&env, &["task-003", "--task", "task-002", "--json"])
        .code(3)
        .stderr_contains("stopped (once): of the chosen tasks, task-003 waits for task-001")
        .stderr_contains("next         harness run\n");
    assert_eq!(ran.json()["exit_code"], 3);
    assert_eq!(statuses(&env), ["pending", "completed", "pending", "pending"]);
    run(&env, &["task-030"]).code(1).stderr_contains("did you mean `task-003`?");
}

#[test]
fn a_dry_run_shows_the_chosen_tasks_only() {
    let env = project();
    let lines = |tasks: &[&str]| {
        let ran = run(&env, &[tasks, &["--dry-run"]].concat()).success();
        let ids = ran.output().lines().map(|line| line.split_whitespace().nth(1).unwrap());
        let ids: Vec<_> = ids.map(|id| id.trim_end_matches(':').to_owned()).collect();
        (ids, ran.errors().to_owned())
    };
    assert_eq!(lines(&["task-003", "task-001"]).0, ["task-001", "task-003"]);
    let (ids, warned) = lines(&["task-002", "task-003"]);
    assert_eq!(ids, ["task-002"]);
    assert!(warned.contains("task-003 waits for task-001"), "{warned}");
}

#[test]
fn an_objective_that_is_a_task_is_refused() {
    let env = project();
    for (objective, hint) in [
        ("task-001", "`harness run --task task-001`"),
        (" task-001, task-002 ", "`harness run --task task-001 --task task-002`"),
    ] {
        env.run(["run", objective, "--agent", "shell"]).code(2).stderr_contains(hint);
    }
    env.run(["run", "touch task-001", "--agent", "shell"]).code(0);
    env.run(["run", "an objective", "--task", "task-001"]).code(2);
}
