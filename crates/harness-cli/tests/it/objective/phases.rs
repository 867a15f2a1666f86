//! Phases: gates between them, and people who approve them.

use serde_json::{Value, json};

use super::stage::*;
use crate::environment::TestEnvironment;

fn set_phases(env: &TestEnvironment, phases: Value) {
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"] = phases;
    env.write("harness-tasks.json", serde_json::to_string_pretty(&ledger).unwrap());
}

fn phase(env: &TestEnvironment, n: usize) -> Value {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"][n].clone()
}

fn add(env: &TestEnvironment, phase: &str, file: &str) {
    let (script, check) = (format!("touch {file}"), format!("test -f {file}"));
    let args = ["add", file, "--instructions", &script, "--validate", &check, "--phase", phase];
    env.run(args).success();
}

#[test]
fn the_tasks_of_a_phase_wait_for_the_gate_before_it() {
    let env = stage();
    set_phases(
        &env,
        json!([
            { "name": "Plan", "gate": { "command": "test -f .git/open || { echo no review; exit 7; }" } },
            { "name": "Build" },
        ]),
    );
    add(&env, "Build", "built");
    add(&env, "Plan", "planned");
    let ran = env.run(["run", "--agent", "shell", "--json"]).code(3);
    assert_eq!(ran.json()["stop_reason"], "gate", "{ran}");
    assert!(env.exists("planned") && !env.exists("built"));
    assert!(log(&env).contains("ERROR [TEST_FAIL] gate Plan: exit code 7"), "{}", log(&env));
    assert!(phase(&env, 0)["passed_at"].is_null());
    // The next run tries it again.
    env.run(["run", "--agent", "shell"]).code(3);
    env.write(".git/open", "");
    env.run(["run", "--agent", "shell"]).success();
    assert!(env.exists("built"));
    assert!(phase(&env, 0)["passed_at"].is_string());
    // It is not tried again once it has passed.
    std::fs::remove_file(env.root().join(".git/open")).unwrap();
    add(&env, "Build", "more");
    env.run(["run", "--agent", "shell"]).success();
}

#[test]
fn neither_a_gate_nor_a_question_of_the_ledger_goes_on_beyond_the_time_of_the_run() {
    for gate in [json!({ "gate": { "command": "exec sleep 600" } }), json!({ "approve": true })] {
        let env = stage();
        let mut plan = gate.clone();
        plan["name"] = "Plan".into();
        set_phases(&env, json!([plan, { "name": "Build" }]));
        add(&env, "Build", "built");
        let ran = env.run(["run", "--agent", "shell", "--max-duration", "2s", "--json"]).code(3);
        assert_eq!(ran.json()["stop_reason"], "budget", "{ran}");
        assert!(!log(&env).contains("ERROR"), "a gate without a word is not closed: {}", log(&env));
    }
}

#[test]
fn a_person_lets_a_phase_pass_or_not() {
    for (answer, code, built) in [("approve", 0, true), ("reject", 3, false)] {
        let env = stage();
        set_phases(&env, json!([{ "name": "Plan", "approve": true }, { "name": "Build" }]));
        add(&env, "Plan", "planned");
        add(&env, "Build", "built");
        let mut run = Going::start(&env, &["run", "--agent", "shell"]);
        run.until("Completed [task-001]");
        // The question appears soon after.
        let question = loop {
            let asked = beside(&env, &["questions"]);
            if !asked.is_empty() {
                break asked;
            }
        };
        assert!(question.contains("May the work go on after phase Plan?"), "{question}");
        assert_eq!(run_row(&env)["status"], "waiting_for_human");
        assert!(!env.exists("built"));
        let id = question.split(':').next().unwrap().to_owned();
        beside(&env, &["reply", &id, answer, "--choice", answer]);
        let (ended, _, err) = run.end();
        assert_eq!(ended, Some(code), "{err}");
        assert_eq!(env.exists("built"), built);
        assert_eq!(phase(&env, 0)["passed_at"].is_string(), built);
        let said = log(&env).contains("ERROR [TEST_FAIL] gate Plan: not approved");
        assert_eq!(said, !built, "{}", log(&env));
    }
}

#[test]
fn an_objective_moves_from_phase_to_phase_and_the_promise_counts_after_the_last_gate() {
    let env = stage();
    set_phases(
        &env,
        json!([
            { "name": "Plan", "gate": { "command": "echo no plan yet; test -f plan" } },
            { "name": "Build", "gate": { "command": "test -f built" } },
        ]),
    );
    let script = "case $n in 1) touch plan;; 2) touch built;; esac; echo TASK_COMPLETE";
    came_to(go(&env, script, &[]), 0, "complete", 2);
    assert!(prompt(&env, 0).contains("The current phase is: Plan"));
    let second = prompt(&env, 1);
    assert!(second.contains("The current phase is: Plan"), "{second}");
    assert!(
        second.contains("the gate of the phase failed") && second.contains("no plan yet"),
        "{second}"
    );
    let third = prompt(&env, 2);
    assert!(third.contains("The current phase is: Build"), "{third}");
    assert!(third.contains("The gate of the last phase passed"), "{third}");
    assert!(phase(&env, 0)["passed_at"].is_string() && phase(&env, 1)["passed_at"].is_string());
}

#[test]
fn an_empty_list_changes_nothing() {
    let env = stage();
    set_phases(&env, json!([]));
    came_to(go(&env, "echo TASK_COMPLETE", &[]), 0, "complete", 0);
    assert!(!prompt(&env, 0).contains("phase is"));
}
