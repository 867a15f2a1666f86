//! A completion is written back in its place, and every other byte stays.

use std::collections::BTreeSet;

use harness_core::import::{ImportChoice, ImportKind, write_back};

use super::source;

/// Writes the task `key` back and compares the whole text.
fn check(kind: ImportKind, before: &str, key: &str, after: &str) {
    let choice = ImportChoice::default();
    let keys = BTreeSet::from([key.to_owned()]);
    let written = write_back(kind, &source("x/tasks.md", before), &choice, &keys).unwrap();
    assert_eq!(written.text.as_deref(), Some(after), "{kind}");
    assert_eq!(written.marked, [key]);
    // Once more: there is nothing left to do.
    let again = write_back(kind, &source("x/tasks.md", after), &choice, &keys).unwrap();
    assert_eq!((again.text, again.already), (None, vec![key.to_owned()]), "{kind}");
}

#[test]
fn a_box_is_ticked_and_nothing_else_changes() {
    check(
        ImportKind::Openspec,
        "\u{feff}## 1. A\r\n\r\n\t* [ ]\t1.1 One  \r\n- [ ] 1.2 Two\n- [\u{a0}] 1.3 Three",
        "1.1",
        "\u{feff}## 1. A\r\n\r\n\t* [x]\t1.1 One  \r\n- [ ] 1.2 Two\n- [\u{a0}] 1.3 Three",
    );
    check(ImportKind::Openspec, "- [\u{a0}] 1.3 Three", "1.3", "- [x] 1.3 Three");
    check(
        ImportKind::Speckit,
        "## Phase 1: A\n- [ ] T001 One\n- [ ] T002 [P] Two\n",
        "T002",
        "## Phase 1: A\n- [ ] T001 One\n- [x] T002 [P] Two\n",
    );
    check(
        ImportKind::Plan,
        "### Task 1: A\n- [ ] a\n```\n- [ ] b\n```\n- [x] c\n* [ ] d\n### Task 2: B\n- [ ] e\n",
        "1",
        "### Task 1: A\n- [x] a\n```\n- [ ] b\n```\n- [x] c\n* [x] d\n### Task 2: B\n- [ ] e\n",
    );
}

#[test]
fn a_value_of_json_changes_and_its_formatting_stays() {
    check(
        ImportKind::Prd,
        "\u{feff}{ \"x\" : 1e2,\r\n\t\"userStories\" : [ {\"id\":\"a\",\"title\":\"\\u0041\",\"passes\"\t:\tfalse ,\"z\":[ ] },{\"id\":\"b\",\"title\":\"B\",\"passes\":false}]}",
        "a",
        "\u{feff}{ \"x\" : 1e2,\r\n\t\"userStories\" : [ {\"id\":\"a\",\"title\":\"\\u0041\",\"passes\"\t:\ttrue ,\"z\":[ ] },{\"id\":\"b\",\"title\":\"B\",\"passes\":false}]}",
    );
    check(
        ImportKind::Taskmaster,
        "{\"master\":{\"tasks\":[{\"id\":1,\"title\":\"A\",\"status\":\"pending\",\"subtasks\":[{\"id\":2,\"title\":\"S\",\"status\" : \"in-progress\"}]}]}}\n\n",
        "1.2",
        "{\"master\":{\"tasks\":[{\"id\":1,\"title\":\"A\",\"status\":\"pending\",\"subtasks\":[{\"id\":2,\"title\":\"S\",\"status\" : \"done\"}]}]}}\n\n",
    );
    let text = "[\n {\"description\": \"é  a\",\"passes\":false}\n]";
    let key =
        super::read(ImportKind::Features, "x/tasks.md", text).unwrap().tasks[0].source.key.clone();
    check(ImportKind::Features, text, &key, &text.replace("false", "true"));
}

#[test]
fn hundreds_of_items_change_one_character_each() {
    let line = |n: usize| format!("- [ ] {n}.1 Item number {n}\r\n");
    let text: String = (1..=300).map(line).collect();
    for n in [1_usize, 2, 150, 299, 300] {
        let keys = BTreeSet::from([format!("{n}.1")]);
        let choice = ImportChoice::default();
        let written =
            write_back(ImportKind::Openspec, &source("x/tasks.md", &text), &choice, &keys).unwrap();
        let after = written.text.unwrap();
        let differing: Vec<usize> =
            (0..text.len()).filter(|at| text.as_bytes()[*at] != after.as_bytes()[*at]).collect();
        assert_eq!((after.len(), differing.len()), (text.len(), 1));
        assert_eq!(after.as_bytes()[differing[0]], b'x');
    }
}

#[test]
fn tasks_with_the_same_id_are_marked_one_by_one() {
    let task = |status: &str| format!(r#"{{"id": 7, "title": "T", "status": "{status}"}}"#);
    let text =
        |first: &str, second: &str| format!(r#"{{"tasks": [{}, {}]}}"#, task(first), task(second));
    let before = text("pending", "pending");
    check(ImportKind::Taskmaster, &before, "7", &text("done", "pending"));
    check(ImportKind::Taskmaster, &before, "7-2", &text("pending", "done"));
}

#[test]
fn a_task_without_a_place_is_named() {
    let keys = BTreeSet::from(["a".to_owned(), "gone".to_owned()]);
    let text = r#"{"userStories": [{"id": "a", "title": "A"}]}"#;
    let choice = ImportChoice::default();
    let written = write_back(ImportKind::Prd, &source("prd.json", text), &choice, &keys).unwrap();
    assert_eq!(written.text, None);
    assert_eq!(written.without_place, ["a", "gone"]);
}
