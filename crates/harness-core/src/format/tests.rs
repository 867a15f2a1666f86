use serde_json::Value;

use super::*;
use crate::{
    Command, Ledger, TaskId, Timestamp, WorkerId,
    command::{Change, Claim, ClaimChoice, Place, Remove, Reply, Row},
    decide,
    ledger::Head,
    task::Via,
};

/// A ledger with everything that other programs may have written, in an order that is not ours.
const FOREIGN: &str = r#"{
  "x-top": {"deep": [1, 2.50, {"k": "v"}]},
  "version": 2,
  "tasks": [
    {"note": "kept", "id": "a", "status": "pending", "title": "A \u00e9",
     "validation": {"shell": "bash", "command": "true"},
     "checkpoints": [{"who": "me", "step": 1, "total": 2, "description": "d", "timestamp": null}]},
    {"id": "b", "title": "B", "depends_on": null, "attempts": "many", "max_attempts": -1}
  ],
  "session_config": {"concurrency_mode": "exclusive", "extra": true}
}"#;

fn claim() -> Command {
    Command::Claim(Claim {
        worker: WorkerId::parse("w").unwrap(),
        via: Via::Client,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Next,
        lease_seconds: 600,
        place: Place::default(),
        parallel: None,
    })
}

fn apply(ledger: &mut Ledger, document: &mut Document, command: &Command) -> String {
    let change = decide(ledger, Timestamp::from_seconds(0), command).unwrap();
    ledger.put_in(&change);
    document.put_in(&change);
    document.render(ledger)
}

#[test]
fn unknown_fields_and_the_order_of_keys_survive_on_every_level() {
    let (mut ledger, mut document) = read(FOREIGN.as_bytes()).unwrap();
    let text = apply(&mut ledger, &mut document, &claim());
    insta::assert_snapshot!(text, @r#"
    {
      "x-top": {
        "deep": [
          1,
          2.50,
          {
            "k": "v"
          }
        ]
      },
      "version": 2,
      "tasks": [
        {
          "note": "kept",
          "id": "a",
          "status": "in_progress",
          "title": "A é",
          "validation": {
            "shell": "bash",
            "command": "true",
            "timeout_seconds": 300
          },
          "checkpoints": [
            {
              "who": "me",
              "step": 1,
              "total": 2,
              "description": "d",
              "timestamp": null
            }
          ],
          "priority": "P1",
          "depends_on": [],
          "attempts": 0,
          "max_attempts": 3,
          "started_at_commit": null,
          "on_failure": {
            "cleanup": null
          },
          "error_log": [],
          "completed_at": null,
          "claimed_by": "w",
          "claimed_at": "1970-01-01T00:00:00Z",
          "lease_expires_at": "1970-01-01T00:10:01Z",
          "epoch": 1,
          "via": "client"
        },
        {
          "id": "b",
          "title": "B",
          "depends_on": null,
          "attempts": "many",
          "max_attempts": -1
        }
      ],
      "session_config": {
        "concurrency_mode": "exclusive",
        "extra": true,
        "max_tasks_per_session": 20,
        "max_sessions": 50
      },
      "created": null,
      "session_count": 0,
      "last_session": null,
      "epoch": 1
    }
    "#);
}

#[test]
fn what_was_written_reads_back_and_writes_the_same_bytes() {
    let (mut ledger, mut document) = read(FOREIGN.as_bytes()).unwrap();
    let text = apply(&mut ledger, &mut document, &claim());
    let (again, mut document) = read(text.as_bytes()).unwrap();
    assert_eq!(document.render(&again), text);
    assert!(again.tasks().eq(ledger.tasks()));
    let parsed: Value = serde_json::from_str(&text).unwrap();
    let ours = serde_json::to_string_pretty(&parsed).unwrap() + "\n";
    assert_eq!(ours, text.replace("2.50", "2.5"), "only what is not ours may look otherwise");
}

#[test]
fn what_no_parser_keeps_survives_to_the_letter() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for odd in ["1e999", "123456789012345678901234567890", "0.10", r#""\ud800""#, &deep] {
        let text = format!(
            r#"{{"x":{odd},"tasks":[{{"id":"a","x":{odd},"validation":{{"x":{odd}}},
               "checkpoints":[{{"step":1,"total":2,"x":{odd}}}]}}],"session_config":{{"x":{odd}}}}}"#
        );
        assert!(read_ledger(text.as_bytes()).is_ok(), "{odd}");
        let (mut ledger, mut document) = read(text.as_bytes()).unwrap();
        let written = apply(&mut ledger, &mut document, &claim());
        let squeezed: String = written.split_whitespace().collect();
        assert_eq!(squeezed.matches(&format!(r#""x":{odd}"#)).count(), 5, "{odd}: {written}");
    }
}

#[test]
fn an_intent_that_stays_keeps_what_else_is_in_it() {
    let text = r#"{"tasks":[{"id":"a","status":"in_progress","claimed_by":"w","via":"client",
        "intent":{"rollback":{"category":"TIMEOUT","message":"m","x":1}}}]}"#;
    let (mut ledger, mut document) = read(text.as_bytes()).unwrap();
    let written = apply(&mut ledger, &mut document, &claim());
    assert!(written.contains("\"x\": 1"), "{written}");
}

/// The fields that later versions will use, with more in them than this version knows.
const PREPARED: &str = r#"{
  "version": 2,
  "created": null,
  "session_config": {
    "concurrency_mode": "exclusive",
    "max_tasks_per_session": 20,
    "max_sessions": 50
  },
  "tasks": [
    {
      "id": "a",
      "requires": [
        "gpu"
      ],
      "source": {
        "kind": "beads",
        "key": "bd-7",
        "x": 1
      }
    },
    {
      "id": "b",
      "requires": "a gpu",
      "source": "jira"
    }
  ],
  "session_count": 0,
  "last_session": null,
  "needs": [
    "teleport"
  ],
  "landing": [
    {
      "task": "a",
      "epoch": 3,
      "onto": "aaaa",
      "renewed_at": "2025-07-01T10:00:00Z"
    }
  ]
}
"#;

#[test]
fn fields_of_later_versions_are_typed_and_kept() {
    let (mut ledger, mut document) = read(PREPARED.as_bytes()).unwrap();
    assert_eq!(document.render(&ledger), PREPARED);
    let [entry] = &ledger.head().landing[..] else { panic!("{:?}", ledger.head()) };
    assert_eq!((entry.task.as_str(), entry.epoch.0, entry.green), ("a", 3, None));
    assert_eq!(ledger.head().unknown_needs().collect::<Vec<_>>(), ["teleport"]);
    let tasks: Vec<_> = ledger.tasks().cloned().collect();
    assert_eq!(tasks[0].requires, ["gpu"]);
    let source = tasks[0].source.clone().unwrap();
    assert_eq!((source.kind.as_str(), source.key.as_str(), source.path), ("beads", "bd-7", None));
    assert!(tasks[1].requires.is_empty() && tasks[1].source.is_none(), "another shape is not ours");

    let rows = tasks.into_iter().map(|task| Row::Put(Box::new(task))).collect();
    let mut head = ledger.head().clone();
    head.landing[0].green = Some(true);
    let change = Change { head: Some(head), rows, facts: Vec::new(), reply: Reply::Noted };
    ledger.put_in(&change);
    document.put_in(&change);
    let text = document.render(&ledger);
    for kept in ["\"x\": 1", "\"a gpu\"", "\"jira\"", "renewed_at", "\"green\": true"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

#[test]
fn a_newer_file_is_called_newer_whatever_its_shape() {
    for tasks in ["{}", "[{\"id\": \"a\", \"status\": \"paused\"}]"] {
        let text = format!("{{\"version\": 3, \"tasks\": {tasks}}}");
        assert_eq!(read(text.as_bytes()).unwrap_err(), FormatError::Newer { found: 3 });
        assert_eq!(read_ledger(text.as_bytes()).unwrap_err(), FormatError::Newer { found: 3 });
    }
}

#[test]
fn a_new_file_has_the_published_shape() {
    let head = Head::new(Timestamp::from_seconds(0));
    let ledger = Ledger::new(head, Vec::new()).unwrap();
    let text = Document::new(&ledger).render(&ledger);
    insta::assert_snapshot!(text, @r#"
    {
      "version": 2,
      "created": "1970-01-01T00:00:00Z",
      "session_config": {
        "concurrency_mode": "exclusive",
        "max_tasks_per_session": 20,
        "max_sessions": 50
      },
      "tasks": [],
      "session_count": 0,
      "last_session": null
    }
    "#);
}

#[test]
fn a_removed_task_takes_only_its_own_text_along() {
    let (mut ledger, mut document) = read(FOREIGN.as_bytes()).unwrap();
    let task = TaskId::parse("a").unwrap();
    let text = apply(&mut ledger, &mut document, &Command::Remove(Remove { task }));
    assert!(!text.contains("kept") && text.contains("many"));
}

#[test]
fn wrong_shapes_are_named_with_task_and_field() {
    for (text, error) in [
        (
            "",
            "harness-tasks.json is not readable JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            "{\"tasks\": [",
            "harness-tasks.json is not readable JSON: EOF while parsing a list at line 1 column 11",
        ),
        ("[]", "harness-tasks.json: the root is not an object"),
        ("{}", "harness-tasks.json: tasks: missing"),
        ("{\"tasks\": {}}", "harness-tasks.json: tasks: must be a list"),
        (
            "{\"tasks\": [3]}",
            "harness-tasks.json: tasks[0]: invalid type: integer `3`, expected an object",
        ),
        ("{\"tasks\": [{\"title\": \"x\"}]}", "harness-tasks.json: tasks[0]: missing field `id`"),
        (
            "{\"tasks\": [{\"id\": \"../x\"}]}",
            "harness-tasks.json: task \"../x\": id: \"../x\" is not a valid task id: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit, without `..` and not ending in `.lock`",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"a\"}]}",
            "harness-tasks.json: duplicate task id a",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"status\": \"done\"}]}",
            "harness-tasks.json: task \"a\": status: unknown variant `done`, expected one of `pending`, `in_progress`, `completed`, `failed`",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"depends_on\": \"b\"}]}",
            "harness-tasks.json: task \"a\": depends_on: invalid type: string \"b\", expected a sequence",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"completed_at\": \"soon\"}]}",
            "harness-tasks.json: task \"a\": completed_at: \"soon\" is not a time such as 2025-07-01T10:00:00Z",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"validation\": {\"timeout_seconds\": \"5\"}}]}",
            "harness-tasks.json: task \"a\": validation.timeout_seconds: invalid type: string \"5\", expected u64",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"title\": \"x\", \"title\": \"y\"}]}",
            "harness-tasks.json: task \"a\": duplicate field `title`",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\", \"epoch\": 18446744073709551615}]}",
            "harness-tasks.json: task \"a\": epoch: 18446744073709551615 is too large for an epoch",
        ),
        (
            "{\"version\": 3, \"tasks\": []}",
            "harness-tasks.json: version 3 was written by a newer harness (this one reads version 2)",
        ),
        (
            "{\"version\": \"2\", \"tasks\": []}",
            "harness-tasks.json: version: \"2\" is not a version this harness reads (it reads 2)",
        ),
        (
            "{\"tasks\": [], \"session_config\": {\"concurrency_mode\": \"wild\"}}",
            "harness-tasks.json: session_config.concurrency_mode: unknown variant `wild`, expected `exclusive` or `concurrent`",
        ),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), error);
        assert_eq!(read_ledger(text.as_bytes()).unwrap_err().to_string(), error, "read_ledger");
    }
}

#[test]
fn compact_takes_out_space_between_parts_only() {
    let json = r#"{ "a b" : [ 1 ,
        -2.5e3, true , null ], "q" : "x \" , \\" , "e":{ } }"#;
    assert_eq!(
        super::pretty::compact(json),
        r#"{"a b":[1,-2.5e3,true,null],"q":"x \" , \\","e":{}}"#
    );
}

#[test]
fn a_byte_order_mark_is_no_damage() {
    let (ledger, mut document) = read(format!("\u{feff}{FOREIGN}").as_bytes()).unwrap();
    assert_eq!(ledger.len(), 2);
    assert!(document.render(&ledger).starts_with('{'));
}

#[test]
fn a_write_copies_the_tasks_between_two_changed_ones_at_once() {
    let row = |n: usize| format!(r#"{{"id": "t{n}", "title": "T", "depends_on": []}}"#);
    let rows: Vec<String> = (0..100).map(row).collect();
    let text = format!(r#"{{"version": 2, "tasks": [{}]}}"#, rows.join(","));
    let (ledger, mut document) = read(text.as_bytes()).unwrap();
    let ours = document.render(&ledger);
    let (mut ledger, mut document) = read(ours.as_bytes()).unwrap();
    let text = apply(&mut ledger, &mut document, &claim());
    let pieces = document.pieces();
    assert!(pieces.len() < 10, "{pieces:?}");
    assert_eq!(pieces.concat(), text);
    let (again, mut document) = read(text.as_bytes()).unwrap();
    assert_eq!(document.render(&again), text);
    let ids = |ledger: &Ledger| ledger.tasks().map(|task| task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&ledger));
}

#[test]
fn a_file_of_ours_that_was_only_respaced_between_its_tasks_keeps_its_seal_and_gets_our_form() {
    let key = Key::new([7; 32]);
    let (mut ledger, mut document) = read(FOREIGN.as_bytes()).unwrap();
    apply(&mut ledger, &mut document, &claim());
    document.settle(&ledger, 1, Some(&key));
    let ours = document.text();
    let respaced = ours.replacen("    },\n    {", "    }\n\n ,  {", 1);
    assert_ne!(respaced, ours);
    let (ledger, mut document) = read(respaced.as_bytes()).unwrap();
    assert_eq!(document.seal(&key), Seal::Fits);
    assert_eq!(document.render(&ledger), ours);
}

#[test]
fn the_last_transaction_of_each_process_is_part_of_the_file() {
    let ledger = Ledger::new(Head::new(Timestamp::from_seconds(0)), Vec::new()).unwrap();
    let mut document = Document::new(&ledger);
    for n in 0..100 {
        document.record_transaction(&format!("p{n}"), 1);
    }
    document.record_transaction("p40", 7);
    document.settle(&ledger, 1, None);
    let (_, again) = read(document.text().as_bytes()).unwrap();
    let last = |by: &str| again.transaction_of(by);
    assert_eq!((last("p40"), last("p99"), last("p0"), last("x")), (7, 1, 0, 0));
}
