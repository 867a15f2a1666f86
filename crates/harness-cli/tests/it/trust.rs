//! `harness trust`

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

const LEDGER: &str = r#"{
  "tasks": [
    {"id": "a", "validation": {"command": "make test"}, "on_failure": {"cleanup": "make clean"}},
    {"id": "b", "validation": {"command": "make test"}, "instructions": "touch b"},
    {"id": "c", "validation": {"command": "printf '\u001b[2K'"}}
  ],
  "phases": [{"name": "Build", "gate": {"command": "make gate"}}]
}
"#;

#[test]
fn trust_shows_what_would_run_and_is_kept_outside_the_project() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", LEDGER).write("harness-init.sh", "true\n");
    env.write("harness.toml", "notify = 'curl example.com'\n");
    let ran = env.run(["trust", "--yes"]).success();
    assert_snapshot!(ran.errors(), @r#"
    [ROOT] would run
      checks:
        make test
        printf '\u{1b}[2K'
      cleanup after a failure:
        make clean
      phase gates:
        make gate
      at every session start:
        harness-init.sh (1 line)
      set in harness.toml:
        notify = "curl example.com"
      instructions of tasks: 1 (agents follow them; the shell agent runs them)
        touch b
    "#);
    assert_snapshot!(ran.output(), @"[ROOT] is trusted");
    assert_snapshot!(env.run(["trust", "--list"]).success().output(), @"[ROOT]  [TIME]");
    assert!(!env.exists(".harness"));
    let kept = env.home().join(".local/state/harness/trust");
    let records = kept.read_dir().unwrap().flatten();
    let records = records.filter(|entry| entry.path().extension().is_some_and(|e| e == "json"));
    assert_eq!(records.count(), 1);

    env.run(["trust", "--revoke"]).success().stdout("[ROOT] is no longer trusted");
    env.run(["trust", "--list"]).success().stdout("");
}

#[test]
fn programs_get_a_document() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", LEDGER);
    let ran = env.run(["trust", "--yes", "--json"]).success().stderr("");
    assert_eq!(ran.json()["trusted"], true);
    assert_eq!(ran.json()["would_run"]["gates"][0], "make gate");
    let listed = env.run(["trust", "--list", "--json"]).success().json();
    assert_eq!(listed["trusted"][0]["root"], env.root().to_str().unwrap());
    assert_eq!(env.run(["trust", "--revoke", "--json"]).success().json()["trusted"], false);
}

#[test]
fn without_a_home_it_says_so() {
    let env = TestEnvironment::new().without_variable("HOME").without_variable("XDG_STATE_HOME");
    env.write("harness-tasks.json", "{}");
    env.run(["trust"]).code(5).stderr_contains("neither HOME nor XDG_STATE_HOME");
}

#[test]
fn a_ledger_that_is_no_json_is_not_trusted_blindly() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", "{");
    env.run(["trust"]).code(5).stderr_contains("[ROOT]/harness-tasks.json is not JSON: ");
    env.run(["trust", "--list"]).success().stdout("");
}
