//! Results become a pull request.

use serde_json::Value;

use super::stage::{add_independent, all_landed_once, tasks, world};
use crate::environment::TestEnvironment;

/// Sets a command that writes its arguments into a file and prints an address.
fn with_command(command: &str) -> TestEnvironment {
    let env = world();
    env.write("harness.toml", format!("[parallel]\nland = 'pr'\npr = '''{command}'''\n"));
    env.run(["trust", "--yes"]).success();
    add_independent(&env, 3, "");
    env
}

fn run(env: &TestEnvironment) -> (Value, String) {
    let ran = env.run(["run", "--agent", "shell", "--workers", "2", "--json"]).success();
    (ran.json(), ran.errors().to_owned())
}

#[test]
fn the_results_of_a_run_are_on_its_branch_and_the_report_has_the_address() {
    let env = with_command(
        "printf '%s|' {branch} {target} {title} {body} > \"$HOME/pr\"; \
         echo opening; echo https://example.com/pr/7; echo done >&2",
    );
    let before = env.git(["rev-parse", "main"]);
    let (ended, errors) = run(&env);
    assert_eq!(ended["pull_request"], "https://example.com/pr/7");
    assert!(errors.contains("in https://example.com/pr/7"), "{errors}");
    assert_eq!(env.git(["rev-parse", "main"]), before);
    let branch = format!("harness/run-{}", ended["run_id"].as_str().unwrap());
    all_landed_once(&env, &branch);
    let given = std::fs::read_to_string(env.home().join("pr")).unwrap();
    let given: Vec<&str> = given.split('|').collect();
    assert_eq!(&given[..3], [branch.as_str(), "main", "3 tasks by harness"]);
    assert!(given[3].contains("- task-002: a task (`test -f f2` passed)"), "{given:?}");
    env.run(["report"]).success().stdout_contains("Pull request https://example.com/pr/7");
    let report = env.run(["report", "--json"]).success().json();
    assert_eq!(report["pull_requests"][0]["url"], "https://example.com/pr/7");
    assert_eq!(report["pull_requests"][0]["target"], "main");
}

#[test]
fn a_command_that_fails_is_a_warning_and_the_results_stay_on_the_branch() {
    let env = with_command("echo no network; exit 3");
    let (ended, errors) = run(&env);
    assert_eq!(ended["pull_request"], Value::Null);
    assert!(errors.contains("the pull request could not be opened: no network"), "{errors}");
    assert!(errors.contains("on harness/run-"), "{errors}");
    assert!(tasks(&env).iter().all(|task| task["status"] == "completed"));
    assert_eq!(
        env.run(["report", "--json"]).success().json()["pull_requests"],
        serde_json::json!([])
    );
}
