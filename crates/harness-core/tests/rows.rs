//! Rows as any program may have written them: with fields of another state, without fields of their
//! own. Nothing of them is lost, and the typed task has the meaning of the row.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use harness_core::{
    Ledger, Task,
    command::{Change, Reply, Row},
    format::{self, Document},
    task::{Status, TaskState},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const TIMES: [&str; 2] = ["2025-07-01T10:00:00Z", "2025-07-02T10:00:00Z"];
const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const ERRORS: [&str; 9] = [
    "[TEST_FAIL] exit code 1",
    "[DEPENDENCY] Blocked by failed b",
    "[DEPENDENCY] Blocked by failed c",
    "[DEPENDENCY] other",
    "[DEPENDENCY]without a space",
    "[SESSION_TIMEOUT] Lease expired (claimed_by=w)",
    "[ODD] entry",
    "no category",
    "",
];

/// Generates a field of any state. It may be present, missing or null.
fn field(key: &'static str, values: Vec<Value>) -> impl Strategy<Value = Option<(String, Value)>> {
    let some = proptest::sample::select(values).prop_map(move |v| Some((key.to_owned(), v)));
    prop_oneof![2 => Just(None), 3 => some]
}

fn texts(values: &[&str]) -> Vec<Value> {
    values.iter().map(|value| json!(value)).collect()
}

fn row() -> impl Strategy<Value = Value> {
    let time = |key| field(key, texts(&TIMES));
    let rollback = json!({"rollback": {"category": "TIMEOUT", "message": "m", "x": 1}});
    let land = json!({"land": {"target": "main", "from": "aaaa", "to": "bbbb"}});
    let errors = proptest::collection::vec(proptest::sample::select(ERRORS.to_vec()), 0..4);
    let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = vec![
        field("status", texts(&["pending", "in_progress", "completed", "failed"])).boxed(),
        field("attempts", vec![json!(0), json!(1), json!(3)]).boxed(),
        errors.prop_map(|errors| Some(("error_log".to_owned(), json!(errors)))).boxed(),
        time("completed_at").boxed(),
        time("failed_at").boxed(),
        field("claimed_by", texts(&["w", "somebody else"])).boxed(),
        time("claimed_at").boxed(),
        time("lease_expires_at").boxed(),
        field("epoch", vec![json!(1), json!(7), Value::Null]).boxed(),
        field("started_at_commit", texts(&["aaaa"])).boxed(),
        field("via", texts(&["run", "client"])).boxed(),
        field("worktree", texts(&["/srv"])).boxed(),
        field("branch", texts(&["main"])).boxed(),
        field("base_untracked", vec![json!(TREE), json!([]), Value::Null]).boxed(),
        field("intent", vec![rollback, land, Value::Null]).boxed(),
        field("requires", vec![json!(["gpu"]), json!("a gpu")]).boxed(),
        field("source", vec![json!({"kind": "k", "key": "1"}), json!("jira")]).boxed(),
        field("unknown", vec![json!({"deep": [1, null]})]).boxed(),
    ];
    fields.prop_shuffle().prop_map(|fields| {
        let mut row = Map::new();
        row.insert("id".to_owned(), json!("a"));
        row.extend(fields.into_iter().flatten());
        Value::Object(row)
    })
}

fn file(row: &Value) -> String {
    let root = json!({
        "version": 2, "created": null,
        "session_config":
            {"concurrency_mode": "exclusive", "max_tasks_per_session": 20, "max_sessions": 50},
        "tasks": [row], "session_count": 0, "last_session": null,
    });
    serde_json::to_string_pretty(&root).unwrap() + "\n"
}

fn read(text: &str) -> (Ledger, Document, Task) {
    let (ledger, document) = format::read(text.as_bytes()).unwrap();
    let task = ledger.tasks().next().unwrap().clone();
    (ledger, document, task)
}

fn written(document: &mut Document, ledger: &Ledger, task: &Task) -> String {
    let rows = vec![Row::Put(Box::new(task.clone()))];
    let change = Change { head: None, rows, facts: Vec::new(), reply: Reply::Noted };
    document.put_in(&change);
    document.render(ledger)
}

/// The rules of the flat format: the meaning of a row before states had types.
fn means(row: &Value, task: &Task) {
    let status = row["status"].as_str().unwrap_or("pending");
    assert_eq!(task.status().name(), status);
    let errors: Vec<&str> =
        row["error_log"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let blocked = errors.iter().any(|entry| entry.starts_with("[DEPENDENCY]"));
    let attempts = row["attempts"].as_u64().unwrap_or(0);
    assert_eq!(task.failed_for_good(), status == "failed" && (attempts >= 3 || blocked));
    assert_eq!(task.epoch.map(|epoch| epoch.0), row["epoch"].as_u64());
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let commit = task.started_at_commit.as_ref().map(|commit| commit.as_str().to_owned());
    assert_eq!(commit, text("started_at_commit"));
    match &task.state {
        TaskState::Pending => {}
        TaskState::Claimed(claim) => {
            assert_eq!(claim.by.as_ref().map(|by| by.as_str().to_owned()), text("claimed_by"));
            assert_eq!(claim.via.map(|via| via.name().to_owned()), text("via"));
            assert_eq!(claim.lease_expires_at.map(|at| at.to_string()), text("lease_expires_at"));
            assert_eq!(claim.intent.is_some(), row["intent"].is_object());
        }
        TaskState::Completed(completion) => {
            let by = completion.by.as_ref().map(|by| by.as_str().to_owned());
            assert_eq!(by, text("claimed_by"));
            assert_eq!(completion.at.map(|at| at.to_string()), text("completed_at"));
        }
        TaskState::Failed(failure) => {
            assert_eq!(failure.at.map(|at| at.to_string()), text("failed_at"));
        }
    }
}

/// Checks that every field of `before` is in `after` with the same value, except those in `but`.
fn kept(before: &Value, after: &Value, but: &[&str]) {
    for (key, value) in before.as_object().unwrap() {
        let same = after.get(key) == Some(value) || value.is_null() && after.get(key).is_none();
        let none = key == "base_untracked" && *value == json!([]);
        assert!(same || none || but.contains(&key.as_str()), "{key}: {value} in {after}");
    }
}

fn only_row(text: &str) -> Value {
    let root: Value = serde_json::from_str(text).unwrap();
    root["tasks"][0].clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_row_is_read_and_written_without_loss(row in row()) {
        let text = file(&row);
        let (ledger, mut document, task) = read(&text);
        means(&row, &task);
        // An unchanged file is rendered exactly as it was.
        prop_assert_eq!(document.render(&ledger), text.clone());

        // Even after a rewrite, and with another field changed, fields of other states stay.
        let again = written(&mut document, &ledger, &task);
        kept(&row, &only_row(&again), &[]);
        prop_assert_eq!(&read(&again).2, &task);
        let renamed = Task { title: "another".to_owned(), ..task.clone() };
        let edited = written(&mut document, &ledger, &renamed);
        kept(&row, &only_row(&edited), &["title"]);
        prop_assert_eq!(&read(&edited).2, &renamed);

        // A row that is built from the task alone has the same meaning.
        let fresh = file(&Value::Object(format::task_object(&task)));
        prop_assert_eq!(&read(&fresh).2, &task);
    }

    /// Once the state of a row changes, the file agrees with the task, whatever was left in the
    /// row.
    #[test]
    fn a_new_state_clears_what_another_left(row in row(), next in row()) {
        let (ledger, mut document, task) = read(&file(&row));
        let (_, _, next) = read(&file(&next));
        prop_assume!(next.status() != task.status());
        let text = written(&mut document, &ledger, &next);
        prop_assert_eq!(&read(&text).2, &next);
        let row = only_row(&text);
        let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
        let claimed = next.status() == Status::InProgress;
        for key in ["lease_expires_at", "via", "worktree", "branch", "base_untracked", "intent"] {
            prop_assert!(claimed || !has(key), "{}", key);
        }
        prop_assert!(next.failure().is_some() || !has("failed_at"));
    }
}
