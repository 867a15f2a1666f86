//! A run as somebody finds it in the morning: results, a failure, a question, a usage limit.

use std::fs;

use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, bare_agent, later},
};

/// A title that a browser must not act on.
pub(super) const HOSTILE: &str =
    "<script>window.pwned=1</script><img src=x onerror=\"window.pwned=2\"> & \"quotes\"";

/// The agent. It does what its task needs, and tells what it used.
const AGENT: &str = r#"
cat > /dev/null
use() { echo "{\"type\":\"usage\",\"input_tokens\":$1,\"output_tokens\":$2,\"cost_usd\":$3}" >> "$HARNESS_EVENTS"; }
case $HARNESS_TASK_ID in
  parser)
    echo 'Reading the grammar.'; use 42000 3100 0.31
    printf 'fn parse() {\n    todo\n}\n' > parser.rs
    harness task checkpoint --step 2 --total 2 'grammar read, parser written' > /dev/null
    ;;
  printer) echo 'Printing what was parsed.'; use 21000 1200 0.12; echo 'fn print() {}' > printer.rs ;;
  hostile) cat "$HOME/hostile"; use 900 100 0.01; echo safe > hostile.txt ;;
  flaky) echo 'The clock of the test is wrong.'; use 61000 5200 0.52; echo "try $HARNESS_ATTEMPT" > flaky.txt ;;
  schema)
    use 12000 800 0.08
    harness ask 'Which database do the tests use? The README names two.' --choices SQLite,PostgreSQL > answer.txt
    ;;
  migrate)
    if test ! -e "$HOME/lifted"; then
      touch "$HOME/lifted"; echo "{\"type\":\"limit\",\"until\":\"LATER\"}" >> "$HARNESS_EVENTS"; exit 1
    fi
    use 8000 400 0.05; echo migrated > migrate.txt
    ;;
esac
echo TASK_COMPLETE
"#;

/// Creates the project. Nothing runs yet.
pub(super) fn project() -> TestEnvironment {
    let env = TestEnvironment::with_git().with_daemon();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap();
    let path = std::env::join_paths([
        bin,
        "/usr/local/bin".as_ref(),
        "/usr/bin".as_ref(),
        "/bin".as_ref(),
    ])
    .unwrap();
    let env = env.variable("PATH", path);
    fs::write(env.home().join("hostile"), format!("{HOSTILE}\n\u{1b}[2J\u{202e}txet\n")).unwrap();
    let task = |id: &str, title: &str, needs: &[&str], check: &str| json!({ "id": id, "title": title, "depends_on": needs, "validation": { "command": check } });
    let mut flaky = task(
        "flaky",
        "Make the nightly test independent of the clock",
        &[],
        "echo 'expected 12:00, found 11:59' >&2; exit 1",
    );
    flaky["max_attempts"] = 2.into();
    flaky["priority"] = "P0".into();
    let mut parser = task("parser", "Parse the configuration file", &[], "test -s parser.rs");
    parser["priority"] = "P0".into();
    env.run(["init"]).success();
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["goal"] = "The importer reads every format that the old tool wrote".into();
    ledger["tasks"] = json!([
        parser,
        flaky,
        task("printer", "Print what was parsed", &["parser"], "test -s printer.rs"),
        task("hostile", HOSTILE, &["parser"], "test -s hostile.txt"),
        task(
            "schema",
            "Choose the database of the tests",
            &["printer", "hostile"],
            "test -s answer.txt"
        ),
        task("migrate", "Migrate the old files", &["schema"], "test -s migrate.txt"),
        task("docs", "Describe the nightly test", &["flaky"], "true"),
    ]);
    env.write("harness-tasks.json", ledger.to_string());
    env
}

/// Starts the run, and waits until it asks its question.
pub(super) fn run(env: &TestEnvironment) -> Going {
    let command = bare_agent(env, &AGENT.replace("LATER", later()));
    env.write(
        "harness.toml",
        format!("[agents.night]\nkind = \"command\"\ncommand = \"{command}\"\n"),
    );
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "configure"]);
    env.run(["trust", "--yes"]).success();
    let run = Going::start(env, &["run", "--agent", "night", "--max-cost", "4"]);
    while !env.run(["questions", "--json"]).output().contains("Which database") {}
    run
}
