//! Waits that follow from the structure of a source give way to those that somebody wrote.

use harness_core::import::ImportKind;

use super::read;

/// Reads a text and compares what each task waits for, and the notes about circles.
fn check(kind: ImportKind, text: &str, expected: &[(&str, &[&str])], notes: &[&str]) {
    let found = read(kind, "specs/f/tasks.md", text).unwrap();
    let circles: Vec<&str> =
        found.notes.iter().map(String::as_str).filter(|note| note.contains("wait for")).collect();
    let waits: Vec<(&str, Vec<&str>)> = found
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task.depends_on.iter().map(String::as_str).collect()))
        .collect();
    let expected: Vec<(&str, Vec<&str>)> =
        expected.iter().map(|(name, waits)| (*name, waits.to_vec())).collect();
    assert_eq!(waits, expected, "{kind}");
    assert_eq!(circles, notes, "{kind}");
    found.into_plan(None).check_graph(|_| false).unwrap();
}

#[test]
fn a_part_that_is_blocked_by_its_whole_comes_after_it() {
    check(
        ImportKind::Gh,
        r#"[{"number": 1, "title": "Whole", "subIssues": [{"number": 2}, {"number": 3}]},
            {"number": 2, "title": "Part", "blockedBy": [{"number": 1}]},
            {"number": 3, "title": "Other part"}]"#,
        &[("gh-1", &["gh-3"]), ("gh-2", &["gh-1"]), ("gh-3", &[])],
        &["gh-1: it does not wait for gh-2, which waits for it"],
    );
}

#[test]
fn an_item_that_names_a_later_one_comes_after_it() {
    check(
        ImportKind::Speckit,
        "## Phase 1: A\n- [ ] T001 One (depends on T003)\n- [ ] T002 Two\n- [ ] T003 Three\n",
        &[("f-T001", &["f-T003"]), ("f-T002", &["f-T001"]), ("f-T003", &[])],
        &["f-T003: it does not wait for f-T002, which waits for it"],
    );
}

#[test]
fn a_task_that_its_own_subtask_leads_to_waits_for_less() {
    check(
        ImportKind::Taskmaster,
        r#"{"tasks": [{"id": 1, "title": "A", "dependencies": [2], "subtasks": [{"id": 1, "title": "S"}]},
            {"id": 2, "title": "B", "dependencies": ["1.1"]}]}"#,
        &[("tm-1.1", &[]), ("tm-1", &["tm-2", "tm-1.1"]), ("tm-2", &["tm-1.1"])],
        &["tm-1.1: it does not wait for tm-2, which waits for it"],
    );
}

#[test]
fn children_of_an_epic_that_waits_for_them_do_not_wait_for_each_other() {
    let lines = [
        r#"{"id": "e", "title": "Epic", "issue_type": "epic", "dependencies": [{"depends_on_id": "a", "type": "blocks"}, {"depends_on_id": "b", "type": "blocks"}, {"depends_on_id": "x", "type": "blocks"}]}"#,
        r#"{"id": "a", "title": "A", "dependencies": [{"depends_on_id": "e", "type": "parent-child"}]}"#,
        r#"{"id": "b", "title": "B", "dependencies": [{"depends_on_id": "e", "type": "parent-child"}]}"#,
        r#"{"id": "x", "title": "X"}"#,
        r#"{"id": "p", "title": "Parent", "dependencies": [{"depends_on_id": "c", "type": "blocks"}]}"#,
        r#"{"id": "c", "title": "Child", "dependencies": [{"depends_on_id": "p", "type": "parent-child"}]}"#,
    ];
    check(
        ImportKind::Beads,
        &lines.join("\n"),
        &[("a", &["x"]), ("b", &["x"]), ("x", &[]), ("p", &["c"]), ("c", &[])],
        &["c: it does not wait for p, which waits for it"],
    );
}

#[test]
fn a_circle_that_somebody_wrote_is_refused() {
    let text = r#"[{"number": 1, "title": "A", "blockedBy": [{"number": 2}]},
        {"number": 2, "title": "B", "blockedBy": [{"number": 1}]}]"#;
    let found = read(ImportKind::Gh, "octo/app", text).unwrap();
    assert!(found.into_plan(None).check_graph(|_| false).is_err());
}
