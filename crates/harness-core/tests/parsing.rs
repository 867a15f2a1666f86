//! Nothing that is in a file makes the reader panic, and the two readers agree about it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use harness_core::format::{FormatError, read, read_ledger};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One of each field that the format has.
fn full() -> Value {
    json!({
        "version": 2, "created": "2025-07-01T10:00:00Z", "epoch": 9, "goal": "g",
        "session_config": { "concurrency_mode": "concurrent", "max_tasks_per_session": 1, "max_sessions": 2 },
        "session_count": 3, "last_session": null, "log_at": 4, "log_tail": ["l"],
        "phases": [{ "name": "p", "gate": { "command": "c", "timeout_seconds": 5 }, "approve": true, "passed_at": "2025-07-01T10:00:00Z" }],
        "tasks": [{
            "id": "task-001", "title": "t", "status": "in_progress", "priority": "P0", "depends_on": ["b"],
            "attempts": 1, "max_attempts": 2, "started_at_commit": "abcd", "on_failure": { "cleanup": "c" },
            "validation": { "command": "v", "timeout_seconds": 6, "clean": true, "baseline": false },
            "error_log": ["[TASK_EXEC] e"], "completed_at": null, "failed_at": "2025-07-01T10:00:00Z",
            "checkpoints": [{ "step": 1, "total": 2, "description": "d", "timestamp": "2025-07-01T10:00:00", "tree": "abcd" }],
            "claimed_by": "w", "claimed_at": "2025-07-01T12:00:00+02:00", "lease_expires_at": "2025-07-01T10:00:00Z",
            "epoch": 9, "via": "run", "worktree": "/w", "branch": "b", "base_untracked": [],
            "intent": { "land": { "target": "m", "from": "abcd", "to": "bcde" } },
            "instructions": "i", "role": "r", "phase": "p", "timeout_seconds": 7, "order": 8
        }, { "id": "b", "status": "completed", "intent": { "rollback": { "category": "TIMEOUT", "message": "m" } } }]
    })
}

/// Reads both ways; what was read is written and reads back.
fn check(bytes: &[u8]) -> Result<(), FormatError> {
    match (read(bytes), read_ledger(bytes)) {
        (Ok((ledger, mut document)), Ok(alone)) => {
            assert!(ledger.tasks().eq(alone.tasks()));
            assert_eq!(ledger.head(), alone.head());
            let text = document.render(&ledger);
            let (again, mut document) = read(text.as_bytes()).unwrap();
            assert!(ledger.tasks().eq(again.tasks()), "{text}");
            assert_eq!(ledger.head(), again.head(), "{text}");
            assert_eq!(document.render(&again), text);
            Ok(())
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            Err(one)
        }
        (one, other) => panic!("{:?}, but {:?}", one.map(|_| "read"), other.map(|_| "read")),
    }
}

/// All places in a value.
fn pointers(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(o) => o.iter().for_each(|(k, v)| pointers(v, &format!("{at}/{k}"), into)),
        Value::Array(a) => {
            a.iter().enumerate().for_each(|(n, v)| pointers(v, &format!("{at}/{n}"), into));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn odd_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("task-001"),
        json!("2025-07-01T10:00:00Z"),
        json!("9999-12-31T23:59:59Z"),
        json!("-009999-01-02T01:59:59Z"),
        json!("\u{0}\n"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({}),
        json!({ "rollback": null }),
    ]
}

#[test]
fn the_full_ledger_is_read() {
    check(serde_json::to_string(&full()).unwrap().as_bytes()).unwrap();
}

/// Every value in every place, exhaustively: each is read or named, and never as corrupt.
#[test]
fn every_field_takes_every_value_or_says_why_not() {
    let full = full();
    let mut places = Vec::new();
    pointers(&full, "", &mut places);
    for place in &places {
        for odd in odd_values() {
            let mut value = full.clone();
            *value.pointer_mut(place).unwrap() = odd.clone();
            let verdict = check(value.to_string().as_bytes());
            let corrupt = matches!(verdict, Err(FormatError::Corrupt(_)));
            assert!(!corrupt, "{place} = {odd}: {verdict:?}");
        }
    }
}

/// Spec 1 §2: these are mended on reading, everything else in a wrong shape is an error.
#[test]
fn what_a_person_mistypes_is_tolerated() {
    for (task, expected) in [
        (r#"{"id":"a"}"#, (0, 3)),
        (
            r#"{"id":"a","status":null,"depends_on":null,"attempts":null,"max_attempts":null}"#,
            (0, 3),
        ),
        (r#"{"id":"a","attempts":"two","max_attempts":"x"}"#, (0, 3)),
        (r#"{"id":"a","attempts":-1,"max_attempts":-1}"#, (0, 3)),
        (r#"{"id":"a","attempts":1.5,"max_attempts":[1]}"#, (0, 3)),
        (r#"{"id":"a","attempts":2.0,"max_attempts":4}"#, (2, 4)),
        (r#"{"id":"a","attempts":99999999999,"max_attempts":{}}"#, (0, 3)),
    ] {
        let ledger = read_ledger(format!("{{\"tasks\":[{task}]}}").as_bytes()).unwrap();
        let read = ledger.tasks().next().unwrap();
        assert_eq!((read.attempts, read.max_attempts), expected, "{task}");
        assert_eq!(read.status, harness_core::task::Status::Pending);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes);
    }

    #[test]
    fn arbitrary_json(text in "[\\[\\]{}:,\"a-z0-9 .e\\\\-]{0,60}") {
        let _ = check(text.as_bytes());
        let _ = check(format!("{{\"tasks\":[{text}]}}").as_bytes());
        let _ = check(format!("{{\"tasks\":[{{\"id\":\"a\",{text}}}]}}").as_bytes());
    }

    #[test]
    fn flipped_bytes(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = full().to_string().into_bytes();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = check(&bytes);
    }

    #[test]
    fn cut_and_spliced(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let text = full().to_string();
        let (a, b) = (a.index(text.len()), b.index(text.len()));
        let cut = &text.as_bytes()[..a];
        prop_assert!(matches!(check(cut), Err(FormatError::Corrupt(_))), "half a file is corrupt");
        let _ = check(&[cut, &text.as_bytes()[b..]].concat());
    }

    #[test]
    fn substituted_values(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
    ) {
        let mut value = full();
        for (place, odd) in places {
            let mut all = Vec::new();
            pointers(&value, "", &mut all);
            let place = &all[place.index(all.len())];
            *value.pointer_mut(place).unwrap() = odd.get(&odd_values()).clone();
        }
        prop_assert!(!matches!(check(value.to_string().as_bytes()), Err(FormatError::Corrupt(_))));
    }
}
