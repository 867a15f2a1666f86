use proptest::prelude::*;

use super::*;

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn fenced(json: &str) -> String {
    format!("Here is the plan.\n\n```json\n{json}\n```\n\nLet me know.\n")
}

fn task(fields: &str) -> String {
    fenced(&format!(r#"{{"goal":"g","tasks":{{"task-1":{{"description":"d"{fields}}}}}}}"#))
}

fn error(text: &str) -> String {
    Plan::parse(text).unwrap_err().to_string()
}

#[test]
fn a_plan_is_found_in_chatter() {
    let plan = Plan::parse(&fenced(
        r#"{
          "goal": "Implement auth",
          "tasks": {
            "task-1": {"description": "Add login endpoint"},
            "task-2": {"description": "Add logout", "dependencies": ["task-1"]}
          }
        }"#,
    ))
    .unwrap();
    assert_eq!(plan.goal, "Implement auth");
    assert_eq!(plan.tasks.keys().map(TaskId::as_str).collect::<Vec<_>>(), ["task-1", "task-2"]);
    let first = PlanTask { description: "Add login endpoint".into(), ..PlanTask::default() };
    assert_eq!(plan.tasks[&id("task-1")], first);
    assert_eq!(plan.tasks[&id("task-2")].dependencies, [id("task-1")]);
    assert_eq!(plan.warnings, [""; 0]);
}

#[test]
fn the_first_block_is_what_the_expression_captures() {
    let cases = [
        ("```json\n{}\n```", Some("{}")),
        ("```{}```", Some("{}")),
        ("```json{}```", Some("{}")),
        ("```\r\n{}\r\n```\r\n", Some("{}")),
        ("```\u{a0}\u{1c}{}\u{2003}```", Some("{}")),
        ("````{}````", Some("{}")),
        ("```sh\nls\n```\n```{}```", Some("{}")),
        ("```{\"a\":1}```\n```{\"b\":2}```", Some("{\"a\":1}")),
        // The string contains fenced code, so the first closing fence is not the end.
        ("```{\"a\":\"fn x() {}\\n} ``` more\"}```", Some("{\"a\":\"fn x() {}\\n} ``` more\"}")),
        // A bare object, a block that is a list, and a block that never closes are not plans.
        ("{}", None),
        ("```[]```", None),
        ("```{}", None),
        ("```{} x```", None),
        ("```jsonc\n{}\n```", None),
        ("``` json\n{}\n```", None),
        ("```JSON\n{}\n```", None),
    ];
    for (text, block) in cases {
        assert_eq!(extract(text), block.ok_or(PlanError::NoBlock), "{text}");
    }
}

#[test]
fn texts_without_a_plan_have_distinct_errors() {
    assert_eq!(error(""), "content required");
    assert_eq!(error("Do task 1, then task 2."), "No JSON plan block found");
    for broken in ["{goal: \"broken}", "{\"a\":1} and {}", "{\"a\":\"\\ud800\"}", "{\"a\":1e999}"] {
        let message = error(&fenced(broken));
        assert!(message.starts_with("Invalid JSON: "), "{broken}: {message}");
    }
    let later = "```json\n{broken}\n```\n```json\n{\"goal\":\"g\",\"tasks\":{}}\n```";
    assert!(error(later).starts_with("Invalid JSON: "), "the first block counts");
}

#[test]
fn instructions_may_hold_fenced_code() {
    let plan = Plan::parse(&task(r#","instructions":"Write:\n```rust\nfn x() {}\n```\n{ } ```""#));
    let wanted = "Write:\n```rust\nfn x() {}\n```\n{ } ```";
    assert_eq!(plan.unwrap().tasks[&id("task-1")].instructions.as_deref(), Some(wanted));
}

#[test]
fn every_field_is_read() {
    let plan = Plan::parse(&task(
        r#","dependencies":[],"timeout_seconds":12,"instructions":"i","role":"r","requires":["linux","gpu"],"priority":"P0",
           "validation":{"command":"true","timeout_seconds":1.5},"on_failure":{"cleanup":"c"},
           "protected":["tests/*.rs"],"phase":"Build","max_attempts":2"#,
    ));
    let some = |text: &str| Some(text.to_owned());
    let wanted = PlanTask {
        description: "d".into(),
        dependencies: vec![],
        timeout_seconds: Some(12),
        instructions: some("i"),
        role: some("r"),
        requires: vec!["gpu".to_owned(), "linux".to_owned()],
        priority: some("P0"),
        validation: Some(PlanValidation {
            command: "true".into(),
            timeout_seconds: Some(2),
            ..PlanValidation::default()
        }),
        cleanup: some("c"),
        protected: vec!["tests/*.rs".to_owned()],
        phase: some("Build"),
        max_attempts: Some(2),
        source: None,
        completed: false,
    };
    assert_eq!(plan.unwrap().tasks[&id("task-1")], wanted);
    let nulls = r#","instructions":null,"role":null,"validation":null,"on_failure":null"#;
    let plan = Plan::parse(&task(nulls)).unwrap();
    assert_eq!(
        plan.tasks[&id("task-1")],
        PlanTask { description: "d".into(), ..PlanTask::default() }
    );
    assert_eq!(Plan::parse(&fenced(r#"{"goal":"","tasks":{}}"#)).unwrap(), Plan::default());
}

#[test]
fn seconds_are_rounded_up() {
    for (given, stored) in [("1", 1), ("600.0", 600), ("600.2", 601), ("1e3", 1000)] {
        let plan = Plan::parse(&task(&format!(r#","timeout_seconds":{given}"#))).unwrap();
        assert_eq!(plan.tasks[&id("task-1")].timeout_seconds, Some(stored), "{given}");
    }
}

#[test]
fn wrong_fields_are_refused_by_name() {
    let cases = [
        (r#","dependencies":"task-2""#, "dependencies: expected a list of task ids"),
        (r#","dependencies":null"#, "dependencies: expected a list of task ids"),
        (r#","dependencies":[1]"#, "dependencies: expected a list of task ids"),
        (r#","dependencies":["a b"]"#, "dependencies: \"a b\" is not a valid task id"),
        (r#","timeout_seconds":0"#, "timeout_seconds: 0 is out of range: at least 1"),
        (r#","timeout_seconds":0.5"#, "timeout_seconds: 0.5 is out of range: at least 1"),
        (r#","timeout_seconds":-3"#, "timeout_seconds: -3 is out of range: at least 1"),
        (r#","timeout_seconds":1e300"#, "timeout_seconds: 1e+300 is out of range"),
        (r#","timeout_seconds":"600""#, "timeout_seconds: expected a number of seconds"),
        (r#","timeout_seconds":true"#, "timeout_seconds: expected a number of seconds"),
        (r#","timeout_seconds":null"#, "timeout_seconds: expected a number of seconds"),
        (r#","instructions":["a"]"#, "instructions: expected a string, found a list"),
        (r#","requires":"gpu""#, "requires: expected a list of labels, found a string"),
        (r#","requires":["a b"]"#, "requires: \"a b\" is not 1 to 64 of"),
        (r#","role":1"#, "role: expected a string, found a number"),
        (r#","priority":"P3""#, "priority: \"P3\" is not one of P0, P1, P2"),
        (r#","priority":0"#, "priority: expected a string"),
        (r#","validation":"true""#, "validation: expected an object"),
        (r#","validation":{}"#, "validation.command: required, but missing"),
        (r#","validation":{"command":1}"#, "validation.command: expected a string"),
        (r#","on_failure":[]"#, "on_failure: expected an object"),
        (r#","on_failure":{"cleanup":{}}"#, "on_failure.cleanup: expected a string"),
        (r#","max_attempts":0"#, "max_attempts: 0 is not a whole number from 1 to 4294967295"),
        (r#","max_attempts":1.5"#, "max_attempts: 1.5 is not a whole number from 1 to 4294967295"),
        (
            r#","max_attempts":4294967296"#,
            "max_attempts: 4294967296 is not a whole number from 1 to 4294967295",
        ),
        (r#","role":"a","role":"b""#, "role: given twice"),
    ];
    for (fields, wanted) in cases {
        let message = error(&task(fields));
        assert!(message.starts_with(&format!("tasks.task-1.{wanted}")), "{fields}: {message}");
    }
}

#[test]
fn wrong_plans_are_refused() {
    let cases = [
        ("{}", "goal: required, but missing"),
        (r#"{"goal":"g"}"#, "tasks: required, but missing"),
        (r#"{"goal":1,"tasks":{}}"#, "goal: expected a string, found a number"),
        (r#"{"goal":"g","tasks":[]}"#, "tasks: expected an object, found a list"),
        (r#"{"goal":"g","tasks":{"a":"b"}}"#, "tasks.a: expected an object, found a string"),
        (r#"{"goal":"g","tasks":{"a":{}}}"#, "tasks.a.description: required, but missing"),
        (
            r#"{"goal":"g","tasks":{"a":{"description":""},"a":{"description":""}}}"#,
            "tasks.a: duplicate id",
        ),
        (
            r#"{"goal":"g","tasks":{"a":{"description":"","dependencies":["ghost"]}}}"#,
            "Missing dependency: ghost (in a)",
        ),
    ];
    for (json, wanted) in cases {
        assert_eq!(error(&fenced(json)), wanted);
    }
    for bad in ["", "../x", "a\\u0000", "a\\n", "a.lock", "\\u202ea"] {
        let json = format!(r#"{{"goal":"g","tasks":{{"{bad}":{{"description":""}}}}}}"#);
        let message = error(&fenced(&json));
        assert!(
            message.starts_with("tasks: ") && message.contains("not a valid task id"),
            "{message}"
        );
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn unknown_keys_are_left_out_and_named() {
    let plan = Plan::parse(&fenced(
        r#"{"goal":"g","version":1,"tasks":{"a":{"description":"","context_files":["x"],
            "validation":{"command":"true","shell":"sh"},"on_failure":{"then\u001b":1}}}}"#,
    ))
    .unwrap();
    let wanted = [
        "unknown key \"version\" left out",
        "tasks.a: unknown key \"context_files\" left out",
        "tasks.a.validation: unknown key \"shell\" left out",
        "tasks.a.on_failure: unknown key \"then\\u{1b}\" left out",
    ];
    assert_eq!(plan.warnings, wanted);

    let many: String = (0..60).map(|n| format!(",\"x{n}\":0")).collect();
    let plan = Plan::parse(&task(&many)).unwrap();
    assert_eq!(plan.warnings.len(), 51);
    assert_eq!(plan.warnings[50], "10 more unknown keys left out");
}

type Edges<'a> = &'a [(&'a str, &'a [&'a str])];

fn graph(edges: Edges<'_>) -> Plan {
    let task = |dependencies: &[&str]| PlanTask {
        dependencies: dependencies.iter().map(|d| id(d)).collect(),
        ..PlanTask::default()
    };
    let tasks = edges.iter().map(|(name, deps)| (id(name), task(deps))).collect();
    Plan { tasks, ..Plan::default() }
}

#[test]
fn cycles_are_named_by_the_first_repeated_node() {
    let cases: &[(Edges<'_>, Option<&str>)] = &[
        (&[("a", &["b"]), ("b", &["a"])], Some("a")),
        (&[("a", &["a"])], Some("a")),
        (&[("x", &["b"]), ("a", &["b"]), ("b", &["c"]), ("c", &["b"])], Some("b")),
        (&[("x", &[]), ("d", &["x", "c"]), ("c", &["d"])], Some("d")),
        (&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])], None),
        (&[("a", &["b", "b"]), ("b", &[])], None),
    ];
    for (edges, cycle) in cases {
        let wanted = cycle.map_or(Ok(()), |at| Err(PlanError::Cycle(id(at))));
        assert_eq!(graph(edges).check_graph(|_| false), wanted, "{edges:?}");
    }
    assert_eq!(PlanError::Cycle(id("a")).to_string(), "Cycle detected at a");
}

#[test]
fn a_merged_plan_may_lean_on_the_ledger() {
    let plan = graph(&[("a", &["old"]), ("b", &["a", "older"])]);
    assert_eq!(plan.check_graph(|d| d.as_str().starts_with("old")), Ok(()));
    let (dependency, task) = (id("older"), id("b"));
    let missing = PlanError::MissingDependency { dependency, task };
    assert_eq!(plan.check_graph(|d| d.as_str() == "old"), Err(missing));
}

#[test]
fn a_long_chain_is_walked_without_a_deep_stack() {
    let link = |n: u64| {
        let dependencies = if n > 1 { vec![TaskId::numbered(n - 1)] } else { vec![] };
        (TaskId::numbered(n), PlanTask { dependencies, ..PlanTask::default() })
    };
    let mut plan = Plan { tasks: (1..=100_000).rev().map(link).collect(), ..Plan::default() };
    assert_eq!(plan.check_graph(|_| false), Ok(()));
    plan.tasks[&id("task-001")].dependencies.push(id("task-100000"));
    assert_eq!(plan.check_graph(|_| false), Err(PlanError::Cycle(id("task-100000"))));
}

/// Each of these texts takes minutes for a reader that tries one fence after the other.
#[test]
fn hostile_texts_are_read_in_one_pass() {
    let size = 8 << 20;
    let repeat = |unit: &str| unit.repeat(size / unit.len());
    assert_eq!(extract(&repeat("```{}")), Ok("{}"));
    for unit in ["```", "```json \n", "```{", "```json{\"a\":"] {
        assert_eq!(extract(&repeat(unit)), Err(PlanError::NoBlock), "{unit}");
    }
    for unit in ["} ```", "```{\\\"a\\\":} ```", "\\\"}```"] {
        let message = extract(&format!("```{{\"a\":\"{}", repeat(unit))).unwrap_err().to_string();
        assert!(message.starts_with("Invalid JSON: "), "{unit}: {message}");
    }
    let huge = repeat("x");
    let plan = Plan::parse(&task(&format!(",\"instructions\":\"{huge}\""))).unwrap();
    assert_eq!(plan.tasks[&id("task-1")].instructions.as_deref(), Some(huge.as_str()));
}

#[test]
fn deep_nesting_is_refused_without_a_deep_stack() {
    let nested = |depth: usize| task(&format!(",\"x\":{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(Plan::parse(&nested(100)).is_ok());
    for depth in [129, 1_000_000] {
        assert!(error(&nested(depth)).starts_with("Invalid JSON: recursion limit"), "{depth}");
    }
}

#[test]
fn the_template_is_a_plan_of_every_field() {
    let text = Plan::template();
    let plan = Plan::parse(&text).unwrap();
    assert_eq!((plan.tasks.len(), plan.warnings.len()), (2, 0));
    for key in ["goal", "role", "priority", "validation", "on_failure", "max_attempts", "phase"] {
        assert!(text.contains(&format!("| `{key}` |")), "{key}");
    }
    assert_eq!(Plan::parse(&plan.to_markdown()).unwrap(), plan);
}

#[test]
fn an_export_has_only_what_is_set() {
    let mut plan = graph(&[("a", &[])]);
    plan.goal = "say ```{} ```".into();
    assert_eq!(
        extract(&plan.to_markdown()).unwrap(),
        "{\n  \"goal\": \"say ```{} ```\",\n  \"tasks\": {\n    \"a\": {\n      \"description\": \"\"\n    }\n  }\n}"
    );
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[`{}\" \n\\\\jsona]{0,30}"]
}

fn any_task() -> impl Strategy<Value = PlanTask> {
    let text = || proptest::option::of(any_text());
    let seconds = || proptest::option::of(1..=u64::MAX);
    let validation = proptest::option::of((any_text(), seconds())).prop_map(|v| {
        v.map(|(command, timeout_seconds)| PlanValidation {
            command,
            timeout_seconds,
            ..PlanValidation::default()
        })
    });
    let priority = proptest::option::of("P[0-2]");
    let counts = (seconds(), proptest::option::of(1..=u32::MAX));
    (any_text(), counts, text(), text(), priority, validation, text(), text()).prop_map(
        |(description, counts, instructions, role, priority, validation, cleanup, phase)| {
            PlanTask {
                description,
                dependencies: vec![],
                timeout_seconds: counts.0,
                instructions,
                requires: role.iter().map(|_| "gpu".to_owned()).collect(),
                role,
                priority,
                validation,
                cleanup,
                protected: phase.iter().map(|_| "tests/*.rs".to_owned()).collect(),
                phase,
                max_attempts: counts.1,
                source: None,
                completed: false,
            }
        },
    )
}

/// Generates plans whose tasks depend on some of those before them.
fn any_plan() -> impl Strategy<Value = Plan> {
    let tasks = proptest::collection::vec((any_task(), any::<u8>()), 0..6);
    (any_text(), tasks).prop_map(|(goal, drawn)| {
        let mut plan = Plan { goal, ..Plan::default() };
        for (n, (mut task, bits)) in drawn.into_iter().enumerate() {
            let earlier = plan.tasks.keys().enumerate().filter(|(i, _)| bits & (1 << i) != 0);
            task.dependencies = earlier.map(|(_, id)| id.clone()).collect();
            plan.tasks.insert(TaskId::numbered(99 - n as u64), task);
        }
        plan
    })
}

/// Implements the specification literally: it tries one closing fence after the other.
fn extract_slowly(text: &str) -> Option<&str> {
    let opening = regex::Regex::new(r"```(?:json)?\s*(\{)").unwrap();
    let closing = regex::Regex::new(r"\}\s*```").unwrap();
    let start = opening.captures(text)?.get(1)?.start();
    let parses = |block: &str| serde_json::from_str::<serde_json::Value>(block).is_ok();
    let ends = (start..text.len()).filter(|&i| text.is_char_boundary(i));
    let ends = ends.filter(|&i| closing.find_at(text, i).is_some_and(|m| m.start() == i));
    ends.map(|i| &text[start..=i]).find(|block| parses(block))
}

proptest! {
    #[test]
    fn any_plan_reads_back(plan in any_plan(), before in "[a-z {}`]{0,2}[a-z\n]{0,9}") {
        let text = plan.to_markdown();
        prop_assert_eq!(Plan::parse(&text), Ok(plan.clone()));
        let crlf = text.replace('\n', "\r\n");
        prop_assert_eq!(Plan::parse(&format!("{before}\r\n{crlf}{before}")), Ok(plan));
    }

    #[test]
    fn one_pass_finds_what_trying_every_fence_finds(
        text in "`?```(json)?(```|json|\\{\\}|\\{\"a\":\"|\"\\}|\\}| |\n|x|`|\\{\"a\":1\\}){0,10}",
    ) {
        prop_assert_eq!(extract(&text).ok(), extract_slowly(&text));
    }

    #[test]
    fn reading_never_panics(text in any::<String>(), json in "[\\[\\]{}\":,a-z0-9.\\\\ -]{0,60}") {
        let _ = Plan::parse(&text);
        let _ = Plan::parse(&fenced(&text));
        let _ = Plan::parse(&fenced(&format!("{{{json}}}")));
        let _ = Plan::parse(&task(&format!(",{json}")));
    }
}
