//! `harness plan phase` and `harness plan phases`.

use serde_json::{Value, json};

use crate::{
    daemon::world,
    environment::TestEnvironment,
    objective::stage::{Going, Held, beside},
};

fn phases(env: &TestEnvironment) -> Value {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"].clone()
}

#[test]
fn phases_are_added_changed_listed_and_removed() {
    let env = TestEnvironment::of_worker();
    env.run(["plan", "phases"]).success().stdout("").stderr_contains("harness plan phase NAME");
    env.run(["plan", "phase", "Research", "--approval"]).success().stdout("Phase Research added");
    let build = ["plan", "phase", "Build", "--gate", "test -f ok", "--gate-timeout", "2m"];
    env.run(build).success().stdout("Phase Build added");
    env.run(build).success().stdout("Phase Build unchanged");
    env.run(["plan", "phase", "Design", "--before", "Build"]).success();
    assert_eq!(
        phases(&env),
        json!([
            { "name": "Research", "approve": true },
            { "name": "Design" },
            { "name": "Build", "gate": { "command": "test -f ok", "timeout_seconds": 120 } },
        ])
    );
    let log = env.read("harness-progress.txt");
    for line in [
        r#"WARN phase "Research" added by operator (pid="#,
        r#"WARN phase "Build": gate changed by operator (pid="#,
        r#": "" -> "test -f ok""#,
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    env.run(["add", "a", "--validate", "true", "--phase", "Design"]).success().stderr("");
    let listed = env.run(["plan", "phases"]).success();
    let listed = listed.stdout_contains("2.  Design    0 of 1 completed  no gate");
    listed.stdout_contains("3.  Build     0 of 0 completed  gate: test -f ok (limit 2 min)");
    let listed = env.run(["plan", "phases", "--json"]).success().json();
    assert_eq!(listed["phases"][0]["approve"], true);
    assert_eq!(listed["phases"][1]["tasks"], 1);
    // A phase with tasks stays until they are moved.
    let refused = env.run(["plan", "phase", "Design", "--remove"]).code(1);
    let refused = refused.stderr_contains("phase \"Design\" has tasks: task-001");
    refused.stderr_contains("harness task edit ID --phase OTHER");
    env.run(["task", "edit", "task-001", "--phase", "Build"]).success();
    env.run(["plan", "phase", "Design", "--remove"]).success().stdout("Phase Design removed");
    env.run(["plan", "phase", "Research", "--no-approval"]).success();
    env.run(["plan", "phase", "Build", "--no-gate"]).success().stdout("Phase Build changed");
    assert_eq!(
        phases(&env),
        json!([{ "name": "Research", "approve": false }, { "name": "Build" }])
    );
}

#[test]
fn wrong_phases_are_refused_and_unknown_fields_of_others_stay() {
    let env = TestEnvironment::of_worker();
    env.run(["plan", "phase", "A", "--gate", "true"]).success();
    let ledger = env.read("harness-tasks.json");
    env.write(
        "harness-tasks.json",
        ledger.replace("\"name\": \"A\"", "\"name\": \"A\", \"due\": 5"),
    );
    env.run(["plan", "phase", "A", "--gate", "false"]).success();
    assert_eq!(phases(&env)[0]["due"], 5);
    for (args, words) in [
        (&["plan", "phase", "", "--approval"][..], "name of a phase: must be a text"),
        (&["plan", "phase", "x\ny"], "name of a phase: must be one line"),
        (&["plan", "phase", "B", "--before", "Nowhere"], "there is no phase \"Nowhere\""),
        (&["plan", "phase", "A", "--before", "A"], "cannot be put before itself"),
        (&["plan", "phase", "B", "--remove"], "there is no phase \"B\""),
        (&["plan", "phase", "B", "--gate-timeout", "1m"], "has no gate to limit"),
    ] {
        env.run(args).code(1).stderr_contains(words);
    }
    env.run(["plan", "phase", "A", "--gate", ""]).code(2).stderr_contains("--no-gate");
    env.run(["plan", "phase", "A", "--remove", "--approval"]).code(2);
    assert_eq!(phases(&env).as_array().unwrap().len(), 1);
}

#[test]
fn only_the_operator_changes_phases() {
    let env = TestEnvironment::of_worker().variable("CLAUDECODE", "1");
    let refused = env.run(["plan", "phase", "A"]).code(1);
    refused.stderr_contains("only the operator may change the phases");
    env.run(["plan", "phases", "--json"]).success();
}

#[test]
fn a_gate_from_a_command_is_trusted_as_a_check_is() {
    let env = TestEnvironment::of_worker();
    env.run(["plan", "phase", "A", "--gate", "touch gate.ran"]).success();
    env.run(["plan", "phase", "B"]).success();
    let add = |title: &str, phase: &str| {
        let made = format!("touch {title}");
        let check = format!("test -f {title}");
        let args = ["add", title, "--phase", phase, "--instructions", &made, "--validate", &check];
        env.run(args).success();
    };
    add("one", "A");
    add("two", "B");
    // The ledger is in git, so that every item in it needs a grant of its own.
    env.git(["add", "--force", "harness-tasks.json"]);
    env.git(["commit", "--quiet", "-m", "the ledger"]);
    env.run(["run", "--agent", "shell"]).success();
    assert!(env.exists("gate.ran") && env.exists("two"));
    // A gate that came with the repository is not trusted.
    env.run(["add", "three", "--phase", "A", "--validate", "true"]).success();
    let ledger = env.read("harness-tasks.json").replace("touch gate.ran", "touch foreign");
    env.write("harness-tasks.json", ledger);
    env.git(["commit", "--quiet", "--all", "-m", "pulled"]);
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("touch foreign");
}

#[test]
fn a_gate_that_holds_a_secret_is_refused_by_the_command_and_in_a_plan() {
    let env = TestEnvironment::of_worker().variable("MY_API_KEY", "hunter2hunter2hunter2");
    let gate = "curl -H hunter2hunter2hunter2 x";
    let refused = env.run(["plan", "phase", "A", "--gate", gate]).code(1);
    refused.stderr_contains("the gate contains the value of MY_API_KEY");
    let plan = json!({ "goal": "g", "tasks": {},
        "phases": [{ "name": "A", "gate": { "command": gate } }] });
    env.write("plan.md", format!("```json\n{plan}\n```\n"));
    let refused = env.run(["plan", "import", "plan.md"]).code(1);
    refused.stderr_contains("the gate contains the value of MY_API_KEY");
}

#[test]
fn a_daemon_tries_a_gate_that_was_changed_at_once() {
    let env = world();
    env.run(["plan", "phase", "Plan", "--gate", "false"]).success();
    env.run(["plan", "phase", "Build"]).success();
    env.run(["add", "plan", "--phase", "Plan"]).success();
    env.run(["add", "build", "--phase", "Build"]).success();
    let claim = || env.run(["task", "claim"]).success().json()["task"]["id"].clone();
    assert_eq!(claim(), "task-001");
    env.run(["task", "complete", "task-001"]).success();
    assert_eq!(claim(), Value::Null, "the gate is closed");
    env.run(["plan", "phase", "Plan", "--gate", "true"]).success();
    assert_eq!(claim(), "task-002");
    let changed = env.run(["plan", "phase", "Plan", "--gate", "false"]).success();
    changed.stderr_contains("has passed already");
}

#[test]
fn a_run_at_work_takes_phases_and_session_settings_from_another_terminal() {
    let env = TestEnvironment::of_worker();
    env.run(["add", "a", "--validate", "true"]).success();
    let held = Held::new(&env);
    let run = Going::start(&env, &["run", "--agent-command", &held.command]);
    held.is_at_work();
    assert_eq!(beside(&env, &["plan", "phase", "Later"]), "Phase Later added");
    assert_eq!(beside(&env, &["session", "max_sessions", "7"]), "7");
    let mode = ["session", "concurrency_mode", "concurrent"];
    let refused = env.harness(mode).env_remove("HARNESS_DAEMON").output().unwrap();
    env.ran(refused).code(1).stderr_contains("Task task-001 is in progress");
    held.release();
    let (code, _, err) = run.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(phases(&env)[0]["name"], "Later");
    env.run(["session", "max_sessions"]).success().stdout("7");
}
