//! A table of the edits that are accepted for a ledger that is held.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;

use harness_core::{
    TaskId,
    edit_from_outside::{Held, Judged, describe, held_by_a_run, judge_edit},
    format,
};
use serde_json::{Value, json};

fn ledger() -> Value {
    json!({
        "epoch": 4, "session_count": 2, "goal": "g", "x": 1,
        "phases": [{"name": "p", "gate": {"command": "true"}}],
        "tasks": [
            {"id": "run", "title": "r", "status": "in_progress", "claimed_by": "w", "via": "run",
             "lease_expires_at": "2025-07-01T10:00:00Z", "epoch": 4, "max_attempts": 3,
             "validation": {"command": "false"}},
            {"id": "next", "title": "n", "depends_on": ["run"], "validation": {"command": "false"}},
            {"id": "tried", "title": "t", "status": "failed", "attempts": 1},
            {"id": "done", "title": "d", "status": "completed", "attempts": 1, "epoch": 3}
        ]
    })
}

fn judged(held: &Held, edit: impl FnOnce(&mut Value)) -> (bool, String) {
    let read = |value: &Value| format::read_ledger(value.to_string().as_bytes()).unwrap();
    let known = ledger();
    let mut found = known.clone();
    edit(&mut found);
    match judge_edit(&read(&known), &read(&found), held) {
        Judged::Taken { what, .. } => (true, describe(&what)),
        Judged::Refused { what } => (false, describe(&what)),
    }
}

type Edit = fn(&mut Value);

#[test]
fn while_a_run_holds_it_an_edit_may_add_and_describe_and_nothing_else() {
    let taken: &[(Edit, &str)] = &[
        (|_| {}, "only the layout, or fields unknown to harness"),
        (|l| l["x"] = 2.into(), "only the layout, or fields unknown to harness"),
        (|l| l["tasks"][0]["y"] = 2.into(), "only the layout, or fields unknown to harness"),
        (|l| l["tasks"][1]["title"] = "new".into(), "next: title"),
        (|l| l["tasks"][1]["instructions"] = "do".into(), "next: instructions"),
        (|l| l["tasks"][1]["priority"] = "P0".into(), "next: priority"),
        (|l| l["tasks"][1]["depends_on"] = json!(["tried", "run"]), "next: depends_on"),
        (
            |l| l["tasks"].as_array_mut().unwrap().push(json!({"id": "a", "title": "more"})),
            "a: added",
        ),
        (
            |l| {
                let new = json!({"id": "a", "title": "more", "validation": {"command": "true"}});
                l["tasks"].as_array_mut().unwrap().insert(0, new);
            },
            "a: added",
        ),
        (
            |l| {
                l["log_tail"] = json!(["x"]);
                l["log_at"] = 9.into();
            },
            "only the layout, or fields unknown to harness",
        ),
    ];
    for (edit, what) in taken {
        assert_eq!(judged(&Held::Run, edit), (true, (*what).to_owned()));
    }
    let refused: &[(Edit, &str)] = &[
        (|l| l["tasks"][0]["status"] = "completed".into(), "run: status"),
        (|l| l["tasks"][1]["status"] = "completed".into(), "next: status"),
        (|l| l["tasks"][3]["status"] = "pending".into(), "done: status"),
        (|l| l["tasks"][2]["attempts"] = 0.into(), "tried: attempts"),
        (|l| l["tasks"][0]["max_attempts"] = 1_000_000.into(), "run: max_attempts"),
        (|l| l["tasks"][1]["max_attempts"] = 9.into(), "next: max_attempts"),
        (|l| l["tasks"][0]["validation"]["command"] = "true".into(), "run: validation"),
        (|l| l["tasks"][1]["validation"]["command"] = "true".into(), "next: validation"),
        (|l| l["tasks"][0]["title"] = "x".into(), "run: title"),
        (|l| l["tasks"][2]["instructions"] = "x".into(), "tried: instructions"),
        (|l| l["tasks"][1]["depends_on"] = json!([]), "next: depends_on"),
        (|l| l["tasks"][0]["claimed_by"] = "me".into(), "run: claimed_by"),
        (|l| l["tasks"][0]["epoch"] = 5.into(), "run: epoch"),
        (|l| l["tasks"][1]["timeout_seconds"] = 5.into(), "next: timeout_seconds"),
        (|l| _ = l["tasks"].as_array_mut().unwrap().remove(1), "next: removed"),
        (|l| l["epoch"] = 1.into(), "epoch"),
        (|l| l["session_count"] = 0.into(), "session_count"),
        (|l| l["session_config"] = json!({"max_sessions": 0}), "session_config"),
        (|l| l["phases"][0]["passed_at"] = "2025-07-01T10:00:00Z".into(), "phases"),
        (|l| l["phases"][0]["gate"]["command"] = "true #".into(), "phases"),
        (
            |l| {
                let new = json!({"id": "a", "title": "more", "status": "completed"});
                l["tasks"].as_array_mut().unwrap().push(new);
            },
            "a: status",
        ),
        (
            |l| {
                l["tasks"][1]["title"] = "fine".into();
                l["tasks"][1]["status"] = "completed".into();
                l["tasks"][0]["attempts"] = 7.into();
            },
            "run: attempts; next: status",
        ),
    ];
    for (edit, what) in refused {
        assert_eq!(judged(&Held::Run, edit), (false, (*what).to_owned()));
    }
}

#[test]
fn rows_that_nobody_holds_are_free_where_only_claims_are_held() {
    let held = Held::Claims(BTreeSet::from([TaskId::parse("run").unwrap()]));
    let free: &[Edit] = &[
        |l| l["tasks"][1]["status"] = "completed".into(),
        |l| l["tasks"][1]["validation"]["command"] = "true".into(),
        |l| _ = l["tasks"].as_array_mut().unwrap().remove(3),
        |l| l["goal"] = "another".into(),
        |l| l["epoch"] = 9.into(),
    ];
    for edit in free {
        assert!(judged(&held, edit).0);
    }
    let bound: &[Edit] = &[
        |l| l["tasks"][0]["status"] = "completed".into(),
        |l| l["epoch"] = 1.into(),
        |l| _ = l["tasks"].as_array_mut().unwrap().remove(0),
    ];
    for edit in bound {
        assert!(!judged(&held, edit).0);
    }
}

#[test]
fn a_completion_that_appears_among_several_workers_is_unproven() {
    let read = |value: &Value| format::read_ledger(value.to_string().as_bytes()).unwrap();
    let mut known = ledger();
    known["session_config"] = json!({"concurrency_mode": "concurrent"});
    let mut found = known.clone();
    found["tasks"][1]["status"] = "completed".into();
    let held = Held::Claims(BTreeSet::new());
    let Judged::Taken { unproven, .. } = judge_edit(&read(&known), &read(&found), &held) else {
        panic!("refused");
    };
    assert_eq!(unproven, [TaskId::parse("next").unwrap()]);
}

#[test]
fn a_run_holds_the_ledger_as_long_as_a_claim_of_it_stands() {
    let read = |value: &Value| format::read_ledger(value.to_string().as_bytes()).unwrap();
    let mut value = ledger();
    assert!(held_by_a_run(&read(&value)));
    value["tasks"][0]["via"] = "client".into();
    assert!(!held_by_a_run(&read(&value)));
}
