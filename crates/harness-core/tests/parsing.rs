//! No file content makes the reader panic, and the two readers agree about it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashSet;

use harness_core::{
    Ledger, Stats,
    format::{ClaimGlance, FormatError, Glance, TaskGlance, glance, read, read_ledger},
    stats,
    task::Status,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A ledger with each field of the format.
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

/// Checks that a glance shows the data of the ledger.
fn same(glance: &Glance<'_>, ledger: &Ledger) {
    let blocked = stats::blocked(ledger);
    let expected: Vec<_> = ledger
        .tasks()
        .map(|task| TaskGlance {
            id: task.id.as_str().into(),
            title: task.title.as_str().into(),
            status: task.status(),
            blocked: blocked.contains(&task.id),
            attempts: task.attempts,
            max_attempts: task.max_attempts,
            checked: task.check().is_some(),
            claim: (task.status() == Status::InProgress).then(|| {
                Box::new(ClaimGlance {
                    claimed_by: task.claimed_by().map(|by| by.as_str().into()),
                    lease_expires_at: task.lease_expires_at(),
                    epoch: task.epoch,
                    claimed_at: task.claimed_at(),
                    worktree: task.claim().and_then(|c| c.worktree.as_deref()).map(Into::into),
                })
            }),
        })
        .collect();
    assert_eq!(glance.tasks, expected);
    assert_eq!(&glance.head, ledger.head());
    assert_eq!(glance.stats, Stats::of(ledger));
}

/// Reads in all three ways. The result is written and must read back.
fn check(bytes: &[u8]) -> Result<(), FormatError> {
    match (glance(bytes), read_ledger(bytes)) {
        (Ok(glance), Ok(ledger)) => same(&glance, &ledger),
        (one, other) => assert_eq!(one.err(), other.err()),
    }
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

/// Collects all places in a value.
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

/// Tries every value in every place. Each is accepted or named in an error, and never reported as
/// corrupt.
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

/// Spec 1 §2: these are corrected on reading. Any other wrong shape is an error.
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
        assert_eq!(read.status(), Status::Pending);
    }
}

/// Generates tasks that are chained, shuffled and spelled at random: `id` or `depends_on` with an
/// escape, a title with and without one, ids that occur twice.
fn tasks() -> impl Strategy<Value = String> {
    const IDS: [&str; 6] = ["c", "task-2", "\\u0064", "a", "task-10", "b"];
    let title = prop::sample::select(vec!["null", "\"\"", "\"t\"", "\"t\\n\\u00e9\"", "\"é\""]);
    let status =
        prop::sample::select(vec!["pending", "pending", "in_progress", "completed", "failed"]);
    let error = prop::sample::select(vec![
        "",
        "\"[TASK_EXEC] e\"",
        "\"[DEPENDENCY] d\"",
        "\"e\",\"\\u005bDEPENDENCY] d\"",
    ]);
    let holder = prop::sample::select(vec!["null", "\"w\"", "\"w\\t\""]);
    let lease = prop::sample::select(vec!["null", "\"2025-07-01T10:00:00+02:00\""]);
    let before = prop::collection::vec(prop::sample::select(IDS.to_vec()), 0..3);
    let numbers = (0..20_u8, 0..4_u32, 0..3_u32);
    let task = (title, status, error, before, numbers, holder, lease).prop_map(
        |(title, status, error, before, (twice, attempts, most), holder, lease)| {
            let before: Vec<_> = before.iter().map(|id| format!("\"{id}\"")).collect();
            let rest = format!(
                r#""title":{title},"status":"{status}","error_log":[{error}],"depends_on":[{}],
                "attempts":{attempts},"max_attempts":{most},"x":[],"claimed_by":{holder},
                "lease_expires_at":{lease},"checkpoints":[{{}}]"#,
                before.join(",")
            );
            (twice == 0, rest)
        },
    );
    prop::collection::vec(task, 0..=IDS.len()).prop_map(|tasks| {
        let named = tasks.iter().enumerate().map(|(n, (twice, rest))| {
            let id = IDS[if *twice { 0 } else { n }];
            format!(r#"{{"id":"{id}",{rest}}}"#)
        });
        named.collect::<Vec<_>>().join(",")
    })
}

/// The generator must reach the cases that a glance computes itself. Otherwise the comparison
/// proves little.
#[test]
fn a_glance_meets_blocked_tasks_and_ids_that_are_there_twice() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut met: Vec<&str> = Vec::new();
    for _ in 0..500 {
        let tasks = tasks().new_tree(&mut runner).unwrap().current();
        met.push(match glance(format!("{{\"tasks\":[{tasks}]}}").as_bytes()) {
            Ok(seen) if seen.stats.blocked > 0 => "blocked",
            Ok(_) => "read",
            Err(_) => "refused",
        });
    }
    let kinds: HashSet<_> = met.iter().copied().collect();
    for kind in ["blocked", "read", "refused"] {
        let times = met.iter().filter(|met| **met == kind).count();
        assert!(times >= 20, "{kind}: {times} times; {kinds:?}");
    }
}

fn tasks_json(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let write = &mut |piece: &[u8]| {
        text.extend_from_slice(piece);
        Ok::<(), std::convert::Infallible>(())
    };
    glance(bytes).unwrap().tasks_json(write).unwrap();
    String::from_utf8(text).unwrap()
}

/// Every reader removes the mark once, and the text of a glance has none.
#[test]
fn a_glance_goes_past_a_byte_order_mark() {
    let text = full().to_string();
    let marked = format!("\u{feff}{text}");
    check(marked.as_bytes()).unwrap();
    assert_eq!(tasks_json(marked.as_bytes()), full()["tasks"].to_string());
    assert!(check(format!("\u{feff}{marked}").as_bytes()).is_err());
}

#[test]
fn a_glance_gives_the_tasks_to_the_letter_wherever_they_are() {
    let tasks = r#"[{"id":"a","title":"] } \" x","n":2.50,"tasks":[1,[]]},{"id":"b","e":{}}]"#;
    let spaced = tasks.replace(',', " ,\n ").replace(':', " :\t");
    for text in [
        format!("{{\"tasks\":{spaced}}}"),
        format!("{{ \"x\": {{\"tasks\": [0]}}, \"tasks\" :\n{spaced}, \"y\": [1] }}"),
        format!("{{\"goal\": \"tasks\", \"a\": [\"tasks\"], \"tasks\": {spaced} }}\n"),
        format!("{{\"goal\": \"\\\"tasks\\\":\", \"\\u0074asks\": {spaced}, \"z\": null}}"),
    ] {
        assert_eq!(tasks_json(text.as_bytes()), tasks, "{text}");
    }
    assert_eq!(tasks_json(b"{\"tasks\": [ ]}"), "[]");
}

proptest! {
    #[test]
    fn a_glance_shows_what_the_ledger_says(tasks in tasks(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = format!("{{\"version\":2,\"tasks\":[{tasks}],\"session_count\":4}}").into_bytes();
        let _ = check(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = check(&bytes);
    }

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
