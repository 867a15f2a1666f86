//! Issues of beads that are no work, and what waits for them.

use harness_core::import::ImportKind;

use super::read;

#[test]
fn messages_gates_and_pinned_issues_are_no_tasks_and_waits_for_them_are_named() {
    let lines = [
        r#"{"id": "a", "title": "Work", "status": "open", "dependencies": [
            {"issue_id": "a", "depends_on_id": "g", "type": "blocks"},
            {"issue_id": "a", "depends_on_id": "l", "type": "blocks"},
            {"issue_id": "a", "depends_on_id": "t", "type": "blocks"}]}"#,
        r#"{"id": "g", "title": "Wait for the build", "status": "open", "issue_type": "gate"}"#,
        r#"{"id": "l", "title": "Later", "status": "deferred"}"#,
        r#"{"id": "t", "title": "Deleted", "status": "tombstone"}"#,
        r#"{"id": "m", "title": "Hello", "status": "open", "issue_type": "message"}"#,
        r#"{"id": "e", "title": "It began", "status": "closed", "issue_type": "event"}"#,
        r#"{"id": "p", "title": "Rules", "status": "open", "pinned": true}"#,
    ];
    let text: Vec<String> = lines.iter().map(|line| line.replace('\n', " ")).collect();
    let found = read(ImportKind::Beads, ".beads/issues.jsonl", &text.join("\n")).unwrap();
    let names: Vec<&str> = found.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    assert!(found.tasks[0].depends_on.is_empty());
    assert_eq!(
        found.notes,
        [
            "g: it is a gate that only beads can open, so it is not imported",
            "l: it is deferred, so it is not imported",
            "t: it was deleted (tombstone), so it is not imported",
            "m: it is a message, so it is not imported",
            "e: it is a message, so it is not imported",
            "p: it is pinned and not work, so it is not imported",
            "a: it waits for g, which is not imported",
            "a: it waits for l, which is not imported",
        ]
    );
}
