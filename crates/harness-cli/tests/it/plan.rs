//! `harness plan …`

use insta::assert_snapshot;

use crate::{environment::TestEnvironment, ledgers::MIXED};

const PLAN: &str = r#"My plan:

```json
{"goal": "Ship it", "context_files": [],
 "tasks": {"build": {"description": "Build"},
           "test": {"description": "Test", "dependencies": ["build"], "instructions": "```sh\nmake test\n```"}}}
```
"#;

fn plan(tasks: &str) -> String {
    format!("```json\n{{\"goal\": \"g\", \"tasks\": {tasks}}}\n```\n")
}

#[test]
fn phases_gates_and_the_strictness_of_checks_come_with_a_plan_and_go_back_into_one() {
    let env = TestEnvironment::of_worker();
    let plan = r#"{"goal": "g",
        "phases": [
            {"name": "Plan", "gate": {"command": "test -f plan.ok", "timeout_seconds": 9}},
            {"name": "Build", "approve": true}
        ],
        "tasks": {
            "a": {"description": "A", "phase": "Plan",
                "validation": {"command": "true", "clean": true, "baseline": false}},
            "b": {"description": "B", "phase": "Build"}
        }}"#;
    env.write("plan.md", format!("```json\n{plan}\n```\n"));
    env.run(["plan", "import", "plan.md"]).success();
    let ledger: serde_json::Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    assert_eq!(ledger["phases"][0]["gate"]["command"], "test -f plan.ok");
    assert_eq!(ledger["phases"][0]["gate"]["timeout_seconds"], 9);
    assert_eq!(ledger["phases"][1]["approve"], true);
    assert_eq!(env.task(0)["validation"]["clean"], true);
    assert_eq!(env.task(0)["validation"]["baseline"], false);
    let exported = env.run(["plan", "export"]).success().raw().to_owned();
    env.write("again.md", exported);
    env.run(["plan", "import", "again.md", "--replace"]).success();
    let again: serde_json::Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    assert_eq!(again["phases"], ledger["phases"]);
    env.run(["plan", "import", "again.md", "--merge"]).success().stderr_contains("a merge leaves");
    let stray = plan.replace("\"phase\": \"Build\"", "\"phase\": \"Rest\"");
    env.write("stray.md", format!("```json\n{stray}\n```\n"));
    env.run(["plan", "check", "stray.md"]).code(1).stderr_contains("there is no phase \"Rest\"");
}

#[test]
fn strictness_and_phases_are_flags_of_a_task_too() {
    let env = TestEnvironment::of_worker();
    let words = "there is no phase \"Nonsense\", so it orders nothing";
    let args = ["add", "x", "--validate", "true", "--clean", "--baseline=false"];
    env.run([&args[..], &["--phase", "Nonsense"]].concat()).success().stderr_contains(words);
    assert_eq!(env.task(0)["validation"]["clean"], true);
    assert_eq!(env.task(0)["validation"]["baseline"], false);
    env.run(["task", "edit", "task-001", "--clean", "false"]).success();
    assert_eq!(env.task(0)["validation"]["clean"], false);
}

#[test]
fn an_import_where_there_is_no_ledger_makes_one_that_is_trusted() {
    let env = TestEnvironment::with_git();
    env.write("deep/plan.md", PLAN);
    let ran = env.run_in("deep", ["plan", "import", "--file", "plan.md"]).success();
    assert_snapshot!(ran.output(), @"Plan imported (2 tasks)");
    assert_snapshot!(ran.errors(), @r#"
    WARN: unknown key "context_files" left out
    note: build, test have no check, so `harness run` cannot finish them
    "#);
    for made in ["harness-tasks.json", "harness-progress.txt", ".harness-active"] {
        assert!(env.exists(made), "{made}");
    }
    env.run(["trust", "--list"]).success().stdout("[ROOT]  [TIME]");
    assert_snapshot!(env.run(["task", "list"]).success().output(), @r"
    build  pending  P1  0/3  Build
    test   pending  P1  0/3  Test
    ");
    assert!(env.read("harness-progress.txt").contains("INIT Harness initialized for project"));
}

#[test]
fn a_ledger_that_came_with_the_repository_is_not_trusted_by_an_import() {
    let env = TestEnvironment::with_git();
    env.write("plan.md", PLAN).write("harness-tasks.json", r#"{"tasks": []}"#);
    env.run(["plan", "import", "--file", "plan.md"]).success();
    env.run(["trust", "--list"]).success().stdout("");
}

#[test]
fn a_plan_that_is_refused_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    let cases = [
        ("", "content required"),
        ("no block", "No JSON plan block found"),
        ("```json\n{\"goal\": }\n```", "Invalid JSON: "),
        (
            &plan(r#"{"a": {"description": "A", "dependencies": ["b"]}}"#),
            "Missing dependency: b (in a)",
        ),
        (
            &plan(
                r#"{"a": {"description": "", "dependencies": ["b"]}, "b": {"description": "", "dependencies": ["a"]}}"#,
            ),
            "Cycle detected at a",
        ),
        (&plan(r#"{"a/b": {"description": "A"}}"#), "tasks: \"a/b\" is not a valid task id"),
        (&plan(r#"{"a": {}}"#), "tasks.a.description: "),
    ];
    for (text, expected) in cases {
        for command in ["import", "check"] {
            let ran = env.run_with_input(text, ["plan", command, "--file", "-"]).code(1).stdout("");
            assert!(ran.errors().starts_with(&format!("Error: {expected}")), "{ran}");
        }
    }
    assert_eq!(env.root().read_dir().unwrap().count(), 0);
    env.run(["trust", "--list"]).success().stdout("");
}

#[test]
fn files_that_can_not_be_read_are_named() {
    let env = TestEnvironment::new();
    assert_snapshot!(env.run(["plan", "import", "--file", "gone.md"]).code(1).errors(), @"Error: File not found: gone.md");
    env.write("big.md", vec![b' '; 8 * 1024 * 1024 + 1]);
    assert_snapshot!(env.run(["plan", "import", "--file", "big.md"]).code(1).errors(), @r"
    Error: big.md is too large: 8388609 bytes; a plan has at most 8388608 bytes
    Hint: split it, and import the parts with --merge
    ");
    env.write("exact.md", vec![b' '; 8 * 1024 * 1024]);
    env.run(["plan", "import", "--file", "exact.md"]).code(1).stderr_contains("No JSON plan block");
    env.run(["plan", "import", "--file", "/dev/zero"]).code(1).stderr_contains("more than 8388608");
    env.write("latin.md", b"\xe9");
    env.run(["plan", "check", "--file", "latin.md"]).code(1).stderr_contains("is not UTF-8");
    env.run(["plan", "check", "--file", "."]).code(1).stderr_contains("cannot read");
}

#[test]
fn unfinished_work_is_not_thrown_away_unasked() {
    let env = TestEnvironment::new();
    env.write("harness-tasks.json", MIXED).write("plan.md", PLAN);
    assert_snapshot!(env.run(["plan", "import", "--file", "plan.md"]).code(1).errors(), @r#"
    WARN: unknown key "context_files" left out
    Error: the ledger has unfinished work (5 of 7 tasks)
    Hint: --merge keeps the present tasks and adds new ones
    Hint: --replace archives the ledger and starts from the plan
    "#);
    env.run(["plan", "import", "--file", "plan.md", "--merge"])
        .success()
        .stdout("Plan imported (2 tasks)");
    assert_eq!(env.run(["status", "--json"]).json()["counts"]["total"], 9);
    let ran = env.run(["plan", "import", "--file", "plan.md", "--replace", "--json"]).success();
    let archive = ran.json()["archive"].as_str().unwrap().to_owned();
    assert!(env.read(archive).contains("task-007"));
    assert_eq!(ran.json()["task_count"], 2);
    assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(env.run(["status", "--json"]).json()["counts"]["total"], 2);
    env.run(["plan", "import", "--file", "plan.md", "--replace", "--merge"]).code(2);
}

#[test]
fn check_says_what_the_plan_is() {
    let env = TestEnvironment::new();
    env.write("plan.md", PLAN);
    let ran = env.run(["plan", "check", "--file", "plan.md"]).success();
    assert_snapshot!(ran.output(), @r"
    Plan is valid (2 tasks)
    Goal: Ship it
    ");
    assert_snapshot!(ran.errors(), @r#"
    WARN: unknown key "context_files" left out
    note: build, test have no check, so `harness run` cannot finish them
    "#);
    assert!(!env.exists("harness-tasks.json"));
    let document = env.run(["plan", "check", "--file", "plan.md", "--json"]).success().json();
    assert_eq!((&document["goal"], &document["task_count"]), (&"Ship it".into(), &2.into()));
}

#[test]
fn the_template_is_a_plan_and_comes_back_from_an_export() {
    let env = TestEnvironment::new();
    let template = env.run(["plan", "template"]).success().raw().to_owned();
    env.run_with_input(&template, ["plan", "import", "--file", "-"]).success();
    let exported = env.run(["plan", "export"]).success().raw().to_owned();
    let document = env.run(["plan", "export", "--json"]).success().json();
    assert_eq!(document["tasks"]["login"]["role"], "backend");
    env.run_with_input(&exported, ["plan", "import", "--replace", "--file", "-"])
        .success()
        .stdout_contains("Plan imported (2 tasks)");
    assert_eq!(env.run(["plan", "export"]).success().raw(), exported);
}

#[test]
fn an_export_leaves_out_what_a_plan_has_not() {
    let env = TestEnvironment::new();
    env.write(
        "harness-tasks.json",
        r#"{"tasks": [{"id": "b", "title": "B", "priority": "urgent", "depends_on": ["gone"], "status": "failed"},
            {"id": "a", "title": "A", "order": 0, "max_attempts": 5, "validation": {"command": "make", "timeout_seconds": 9}}]}"#,
    );
    let ran = env.run(["plan", "export", "--json"]).success();
    assert_snapshot!(ran.output(), @r#"{"version":1,"goal":"","tasks":{"a":{"description":"A","max_attempts":5,"validation":{"command":"make","timeout_seconds":9}},"b":{"description":"B","dependencies":["gone"]}}}"#);
    assert_snapshot!(ran.errors(), @r#"
    WARN: tasks.b.priority: a plan has no "urgent", left out
    WARN: Missing dependency: gone (in b)
    "#);
}

#[test]
fn a_reset_says_where_the_archive_is() {
    let env = TestEnvironment::new();
    env.run(["plan", "reset"]).code(1).stderr_contains("harness init");
    env.write("harness-tasks.json", MIXED);
    let ran = env.run(["plan", "reset", "--yes"]).success();
    let path = ran.raw().lines().last().unwrap().strip_prefix("Archived: ").unwrap().to_owned();
    assert!(env.read(path).contains("x-note"));
    assert_eq!(ran.raw().lines().next(), Some("Plan reset (7 tasks)"));
    assert_eq!(env.run(["status", "--json"]).json()["counts"]["total"], 0);
    assert_eq!(env.run(["status", "--json"]).json()["session_count"], 3);
    let again = env.run(["plan", "reset", "--yes", "--json"]).success().json();
    assert_eq!(again["task_count"], 0);
}

#[test]
fn the_title_of_a_planned_task_is_one_line_of_limited_length() {
    let env = TestEnvironment::new();
    let plan = |description: &str| {
        let plan =
            serde_json::json!({ "goal": "g", "tasks": { "a": { "description": description } } });
        format!("```json\n{plan}\n```\n")
    };
    let long = "x".repeat(501);
    for (description, problem) in [
        ("one\ntwo", "tasks.a.description: must be one line"),
        (long.as_str(), "tasks.a.description: has 501 characters, and at most 500 are allowed"),
    ] {
        for command in [&["plan", "check"][..], &["plan", "import"], &["plan", "import", "--merge"]]
        {
            let args = [command, &["--file", "-"]].concat();
            let ran = env.run_with_input(&plan(description), args);
            assert!(!ran.ended_with(&[0]), "{ran}");
            assert!(ran.errors().contains(problem), "{ran}");
        }
    }
    assert!(!env.exists("harness-tasks.json"), "a refused plan leaves nothing behind");
    env.run_with_input(&plan(&long[1..]), ["plan", "import", "--file", "-"]).success();
}
