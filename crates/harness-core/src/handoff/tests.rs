//! Tests of handoffs, good and bad.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read_value(value: &Value) -> Read {
    read(value.to_string().as_bytes())
}

fn full() -> Value {
    json!({
        "phase": "Phase 2 - Execution",
        "completed": ["Setup Env", "Research Phase 1"],
        "next_step": "Implement Feature X",
        "critical_files": ["tasks/01_research/overview.md", "src/config.py"],
        "memory_notes": "User prefers concise logs. API key is in env var."
    })
}

#[test]
fn a_handoff_becomes_the_resumed_state() {
    let Read { handoff, warnings } = read_value(&full());
    assert!(warnings.is_empty(), "{warnings:?}");
    insta::assert_snapshot!(handoff.unwrap().resumed_state(), @"
    [RESUMED STATE]
    Phase: Phase 2 - Execution
    Completed: Setup Env; Research Phase 1
    Next: Implement Feature X
    Ref: tasks/01_research/overview.md, src/config.py
    Notes: User prefers concise logs. API key is in env var.
    ");
}

#[test]
fn what_is_not_there_has_no_line() {
    let Read { handoff, warnings } = read_value(&json!({ "next_step": "go on" }));
    assert_eq!(handoff.unwrap().resumed_state(), "[RESUMED STATE]\nNext: go on\n");
    let missing = "state/handoff.json has no `phase`, `completed`, `critical_files`, \
                   `memory_notes`";
    assert_eq!(warnings, [missing]);
    let empty = read_value(&json!({})).handoff.unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.resumed_state(), "");
}

/// Replaces one field. Checks what is left of it, and the warning.
#[track_caller]
fn check(key: &str, value: Value, left: &str, warning: &str) {
    let mut document = full();
    document[key] = value;
    let Read { handoff, warnings } = read_value(&document);
    let handoff = handoff.unwrap();
    let state = handoff.resumed_state();
    assert!(left.is_empty() || state.contains(left), "{state}");
    assert_eq!(warnings.join("\n"), warning, "{key}");
    // The other fields are unaffected.
    let others = ["Phase: Phase 2", "Next: Implement", "Notes: User"];
    let expected =
        others.len() - usize::from(["phase", "next_step", "memory_notes"].contains(&key));
    assert!(others.iter().filter(|other| state.contains(*other)).count() >= expected, "{state}");
}

#[test]
fn what_is_valid_is_kept_and_the_rest_is_named() {
    let file = "state/handoff.json";
    check("phase", json!(2), "", &format!("{file}: `phase` is a number, not a text"));
    check("phase", json!("two\n\u{1b}lines"), "Phase: two lines\n", "");
    check("phase", json!("  "), "", "");
    check("next_step", Value::Null, "", &format!("{file} has no `next_step`"));
    check("completed", json!("all"), "Completed: all\n", "");
    check(
        "completed",
        json!(["a", 1, "b", ["c"]]),
        "Completed: a; b\n",
        &format!(
            "{file}: `completed` has a number among its texts\n\
             {file}: `completed` has a list among its texts"
        ),
    );
    check(
        "completed",
        json!({ "a": true }),
        "",
        &format!("{file}: `completed` is an object, not a list of texts"),
    );
    check(
        "critical_files",
        json!(["/etc/passwd", "a/../../b", "~/x", "", "c\nd", "./src/ok.rs", "..rs"]),
        "Ref: ./src/ok.rs, ..rs\n",
        &format!(
            "{file}: `critical_files` names \"/etc/passwd\", which is outside the workspace\n\
             {file}: `critical_files` names \"a/../../b\", which is outside the workspace\n\
             {file}: `critical_files` names \"~/x\", which is outside the workspace\n\
             {file}: `critical_files` names \"\", which is empty\n\
             {file}: `critical_files` names \"c d\", which has control characters"
        ),
    );
    check("memory_notes", json!(["one", "two"]), "Notes: one\ntwo\n", "");
}

#[test]
fn what_is_no_handoff_is_one_warning() {
    for (bytes, warning) in [
        (&b""[..], "is not JSON: EOF while parsing"),
        (b"{\"phase\": ", "is not JSON: EOF while parsing"),
        (b"[]", "is a list, not an object"),
        (b"\xff\xfe", "is not JSON: "),
        (&[b' '; BYTES_MAX + 1], "has more than 65536 bytes"),
        ("[".repeat(60_000).as_bytes(), "is not JSON: recursion limit"),
    ] {
        let Read { handoff, warnings } = read(bytes);
        assert_eq!(handoff, None);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains(warning), "{warnings:?}");
    }
    assert!(read("\u{feff}{\"phase\":\"x\"}".as_bytes()).handoff.is_some());
}

#[test]
fn everything_has_a_limit() {
    let long = "x".repeat(3000);
    let document = json!({
        "phase": long, "next_step": long, "completed": vec!["done"; 500],
        "critical_files": vec!["f"; 200], "memory_notes": "y".repeat(20_000),
    });
    let Read { handoff, warnings } = read_value(&document);
    let handoff = handoff.unwrap();
    assert_eq!(handoff.phase.unwrap().len(), LINE_BYTES);
    assert_eq!(handoff.completed.len(), COMPLETED_MAX);
    assert_eq!(handoff.critical_files.len(), FILES_MAX);
    assert_eq!(handoff.memory_notes.unwrap().len(), NOTES_BYTES);
    assert_eq!(warnings.len(), 5);
    let wrong = read_value(&json!({ "completed": vec![1; 500] }));
    assert_eq!(wrong.warnings.len(), WARNINGS_MAX + 1);
}

/// Generates any JSON, with our keys among others.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[./~a\n]{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        proptest::sample::select(vec![
            "phase",
            "completed",
            "next_step",
            "critical_files",
            "memory_notes"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
        read(&bytes);
    }

    #[test]
    fn what_was_read_is_clean(document in documents()) {
        let Read { handoff, warnings } = read_value(&document);
        prop_assert_eq!(handoff.is_some(), document.is_object());
        prop_assert!(warnings.len() <= WARNINGS_MAX + 1);
        let handoff = handoff.unwrap_or_default();
        let state = handoff.resumed_state();
        prop_assert!(!state.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        prop_assert_eq!(state.is_empty(), handoff.is_empty());
        for path in &handoff.critical_files {
            prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
        }
    }
}
