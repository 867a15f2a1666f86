//! The output of `status`, `why` and `report` about runs that are active, stopped or killed.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use super::stage::*;

const USAGE: &str = "echo '{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":1,\"cost_usd\":0.75}' >> $HARNESS_EVENTS";

fn add(env: &crate::environment::TestEnvironment) {
    let args = ["add", "a task", "--instructions", "make it", "--validate", "test -f made"];
    env.run(args).success();
}

#[test]
fn a_run_that_stopped_is_shown_with_the_command_that_resumes_it() {
    let env = stage();
    add(&env);
    let spends = agent(&env, &format!("{USAGE}\n{USAGE}\nexec sleep 600"));
    env.run(["run", "--agent-command", &spends, "--max-cost", "1.00"]).code(3);
    let run = run_row(&env);
    let id = run["run_id"].as_str().unwrap();
    assert_eq!(env.task(0)["status"], "in_progress");
    let resume = format!("harness run --resume --run-id {id} --max-cost AMOUNT");
    let status = env.run(["status"]).success();
    let status = status
        .stdout_contains(&format!(" — stopped (budget): `{resume}`"))
        .stdout_contains("w, not at work: its run stopped (budget)");
    assert!(!status.raw().contains(", lease "), "{status}");
    env.run(["why", "task-001"])
        .success()
        .stdout_contains("nobody works on it: its run stopped (budget).")
        .stdout_contains(&format!("Next: {resume}"));
    let document = env.run(["status", "--json"]).success().json();
    assert_eq!(document["runs"], json!([]));
    let last = &document["last_run"];
    assert_eq!((&last["condition"], &last["next"]), (&"over".into(), &resume.as_str().into()));
    assert_eq!(document["needs"][0]["kind"], "budget");
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!((&report["cost_usd"], &report["waiting"][0]["next"]), (&json!(1.5), &resume.into()));

    // Once the run is finished, it is not shown any more.
    let done = agent(&env, "touch made; echo TASK_COMPLETE");
    let again = ["run", "--resume", "--max-cost", "9", "--agent-command", &done];
    env.run(again).success();
    assert_eq!(env.run(["status", "--json"]).success().json()["last_run"], Value::Null);
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!(report["landed"][0]["cost_usd"], json!(1.5), "{report}");
    env.run(["report"]).success().stdout_contains("$1.50, 22 tokens");
}

#[test]
fn an_objective_that_was_reached_stays_visible() {
    let env = stage();
    let script = format!("{USAGE}\nif [ $n = 1 ]; then echo TASK_COMPLETE; else echo $n; fi");
    came_to(go(&env, &script, &[]), 0, "complete", 1);
    env.run(["status"])
        .success()
        .stdout_contains("run: write it, context 2 of at most 11 (")
        .stdout_contains("22 tokens, $1.50")
        .stdout_contains(" — succeeded");
    env.run(["report"]).success().stdout_contains("Runs (1)").stdout_contains("run: write it");
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!(report["cost_usd"], json!(1.5));
    assert_eq!(report["runs"][0]["objective"], "write it");
    assert_eq!(report["runs"][0]["next"], Value::Null);
}

#[test]
fn why_names_the_transcripts_of_the_attempts() {
    let env = stage();
    add(&env);
    let fails = agent(&env, "echo TASK_COMPLETE");
    env.run(["run", "--agent-command", &fails, "--max-iterations", "0"]).code(4);
    let why = env.run(["why", "task-001", "--json"]).success().json();
    let transcript = why["runs"][0]["transcripts"][0].as_str().unwrap_or_default().to_owned();
    assert!(env.exists(&transcript), "{why}");
    env.run(["why", "task-001"]).success().stdout_contains(&transcript);
    let report = env.run(["report", "--json"]).success().json();
    assert!(env.exists(report["failed"][0]["transcript"].as_str().unwrap()), "{report}");
}

#[test]
fn a_watcher_sees_an_objective_that_begins_after_it() {
    let env = stage();
    let mut child =
        env.harness(["status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["runs"], json!([]));
    let gate = fifo(&env, "gate");
    let command = agent(&env, &format!("read go < {}\necho TASK_COMPLETE", gate.display()));
    let run = Going::start(&env, &["run", "write it", "--agent-command", &command]);
    let seen = loop {
        let seen = next();
        // Its row exists a moment before its process is recorded.
        if seen["runs"][0]["objective"] == "write it" && seen["runs"][0]["driven"] == true {
            break seen;
        }
    };
    assert_eq!(
        (&seen["runs"][0]["driven"], &seen["runs"][0]["condition"]),
        (&true.into(), &"working".into())
    );
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(run.end().0, Some(0));
    while next()["last_run"]["condition"] != "over" {}
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
