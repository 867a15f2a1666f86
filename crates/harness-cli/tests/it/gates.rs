//! The gates of phases, in a daemon and in a run.

use serde_json::{Value, json};

use crate::{daemon::world, environment::TestEnvironment};

/// Writes two phases. The gate of the first one requires a file, and perhaps a person.
fn phased(env: &TestEnvironment, approve: bool) {
    let ledger = json!({
        "version": 2,
        "phases": [
            { "name": "Plan", "gate": { "command": "echo looking; test -f plan.ok" },
                "approve": approve },
            { "name": "Build" },
        ],
        "tasks": [
            { "id": "plan", "title": "Plan it", "phase": "Plan" },
            { "id": "build", "title": "Build it", "phase": "Build" },
        ],
    });
    env.write("harness-tasks.json", ledger.to_string());
}

/// Writes a ledger of two phases with an approval between them.
pub(crate) fn with_approval(env: &TestEnvironment) {
    let ledger = json!({
        "version": 2,
        "phases": [{ "name": "Plan", "approve": true }, { "name": "Build" }],
        "tasks": [
            { "id": "plan", "title": "Plan it", "phase": "Plan" },
            { "id": "build", "title": "Build it", "phase": "Build" },
        ],
    });
    env.write("harness-tasks.json", ledger.to_string());
}

fn claim(env: &TestEnvironment) -> Value {
    env.run(["task", "claim"]).success().json()["task"]["id"].clone()
}

/// Brings a ledger to the approval of its first phase. Returns the open question as it is printed.
fn waiting_for_a_person() -> (TestEnvironment, String) {
    let env = world();
    phased(&env, true);
    env.write("plan.ok", "");
    assert_eq!(claim(&env), "plan");
    env.run(["task", "complete", "--id", "plan"]).success();
    assert_eq!(claim(&env), Value::Null);
    let asked = env.run(["questions"]).success().raw().to_owned();
    (env, asked)
}

fn passed_at(env: &TestEnvironment) -> Value {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["phases"][0]["passed_at"].clone()
}

#[test]
fn a_daemon_tries_a_gate_when_somebody_needs_what_is_behind_it() {
    let env = world();
    phased(&env, false);
    assert_eq!(claim(&env), "plan");
    // The gate is not tried while its own phase is at work.
    assert!(!env.read("harness-progress.txt").contains("gate"));
    env.run(["task", "complete", "--id", "plan"]).success();
    // A closed gate is reported once, however often it is tried.
    assert_eq!(claim(&env), Value::Null);
    assert_eq!(claim(&env), Value::Null);
    let log = env.read("harness-progress.txt");
    assert_eq!(log.matches("ERROR [TEST_FAIL] gate Plan: exit code 1").count(), 1, "{log}");
    assert_eq!(passed_at(&env), Value::Null);
    // Another commit is a reason to try again.
    env.write("plan.ok", "");
    env.git(["add", "plan.ok"]);
    env.git(["commit", "--quiet", "--message", "the plan"]);
    assert_eq!(claim(&env), "build");
    assert!(passed_at(&env).is_string());
    assert!(env.read("harness-progress.txt").contains("INIT Gate passed: Plan"));
}

#[test]
fn a_person_lets_a_phase_pass_by_the_daemon() {
    let (env, asked) = waiting_for_a_person();
    let (id, question) = asked.trim_end().split_once(": ").unwrap();
    assert_eq!(question, "May the work go on after phase Plan? [approve, reject]");
    // The question is asked once, however often a task is requested.
    assert_eq!(claim(&env), Value::Null);
    env.run(["questions"]).success().stdout(&format!("{id}: {question}"));
    let document = env.run(["questions", "--json"]).success().json();
    assert_eq!(document["questions"][0]["prompt_id"], id);
    env.run(["reply", id, "approve"]).success();
    let claimed = env.run(["task", "claim", "--wait"]).success().json();
    assert_eq!(claimed["task"]["id"], "build");
}

#[test]
fn a_phase_that_waits_for_a_person_names_the_command_everywhere() {
    let (env, asked) = waiting_for_a_person();
    let (id, _) = asked.split_once(": ").unwrap();
    let reply = format!("harness reply {id} approve");
    env.run(["status"])
        .success()
        .stdout_contains(&format!("QUESTION {id}: May the work go on after phase Plan?"))
        .stdout_contains(&reply);
    env.run(["why", "build"]).success().stdout_contains(&format!("Next: {reply}"));
    env.run(["report"]).success().stdout_contains(&reply);
    let status = env.run(["status", "--json"]).success().json();
    assert_eq!(status["questions"][0]["phase"], "Plan");
    assert_eq!(status["needs"][0]["kind"], "approval");
    assert_eq!(status["needs"][0]["next"], reply.as_str());
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!(report["waiting"][0]["next"], reply.as_str());
    env.run(["reply", id, "approve"]).success();
    assert_eq!(env.run(["status", "--json"]).success().json()["questions"], json!([]));
}

#[test]
fn the_output_of_a_closed_gate_is_shown() {
    let env = world();
    phased(&env, false);
    assert_eq!(claim(&env), "plan");
    env.run(["task", "complete", "--id", "plan"]).success();
    assert_eq!(claim(&env), Value::Null);
    let closed = "the gate of Plan is closed: exit code 1";
    for command in ["status", "report"] {
        env.run([command]).success().stdout_contains(closed).stdout_contains("| looking");
    }
    env.run(["why", "build"])
        .success()
        .stdout_contains("waits for phase Plan, whose gate is closed: exit code 1.")
        .stdout_contains("| looking");
    let gate = &env.run(["status", "--json"]).success().json()["gate"];
    assert_eq!((&gate["phase"], &gate["output"]), (&"Plan".into(), &"looking\n".into()));
    // A gate that passed is not shown any more.
    env.write("plan.ok", "");
    env.git(["add", "plan.ok"]);
    env.git(["commit", "--quiet", "--message", "the plan"]);
    assert_eq!(claim(&env), "build");
    assert_eq!(env.run(["status", "--json"]).success().json()["gate"], Value::Null);
}

#[test]
fn a_run_that_stops_at_a_gate_shows_its_output() {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env.run(["plan", "phase", "Plan", "--gate", "echo looking; exit 3"]).success();
    env.run([
        "add",
        "x",
        "--phase",
        "Plan",
        "--instructions",
        "touch a",
        "--validate",
        "test -f a",
    ])
    .success();
    env.run(["run", "--agent", "shell"])
        .code(3)
        .stderr_contains("stopped (gate): the gate of Plan is closed: exit code 3\n    | looking");
}
