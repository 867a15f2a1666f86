//! Each importer over files in the shape of its tool, with the expected tasks beside them. To write
//! the expected files again: `HARNESS_GOLDEN=write cargo test -p harness-supervisor-core --test import`.

use std::{fmt::Write as _, fs, path::Path};

use harness_core::{
    import::{self, ImportChoice, ImportKind, IssueRelation, IssueRelationKind, SourceText},
    plan::Plan,
};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import/golden"))
}

fn text(kind: &str, path: &str) -> SourceText {
    let text = fs::read_to_string(folder().join(kind).join(path)).unwrap();
    SourceText { path: path.to_owned(), text, ..SourceText::default() }
}

/// Writes a plan as lines that a person can compare.
fn shown(plan: &Plan) -> String {
    let mut shown = format!("goal: {}\n", plan.goal);
    for warning in &plan.warnings {
        writeln!(shown, "note: {warning}").unwrap();
    }
    for (id, task) in &plan.tasks {
        let source = task.source.as_ref().unwrap();
        let state = if task.completed { "done" } else { "open" };
        let priority = task.priority.as_deref().unwrap_or("-");
        let path = source.path.as_deref().unwrap();
        writeln!(shown, "\n{id}  {state}  {priority}  {path} {}", source.key).unwrap();
        writeln!(shown, "  title: {}", task.description).unwrap();
        if let Some(validation) = &task.validation {
            writeln!(shown, "  check: {}", validation.command.replace('\n', "\\n")).unwrap();
        }
        if !task.dependencies.is_empty() {
            let ids: Vec<&str> = task.dependencies.iter().map(|id| id.as_str()).collect();
            writeln!(shown, "  after: {}", ids.join(" ")).unwrap();
        }
        for line in task.instructions.as_deref().unwrap_or_default().lines() {
            writeln!(shown, "  | {line}").unwrap();
        }
    }
    shown
}

fn check(kind: ImportKind, name: &str, texts: &[SourceText], choice: &ImportChoice) {
    let plan = import::read(kind, texts, choice).unwrap().into_plan(None);
    plan.check_graph(|_| false).unwrap();
    plan.check_titles().unwrap();
    let again = Plan::read(&plan.to_markdown()).unwrap();
    assert_eq!(again.tasks, plan.tasks, "a plan holds everything that an importer finds");
    let file = folder().join(format!("{name}.expected.txt"));
    let found = shown(&plan);
    if std::env::var_os("HARNESS_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&file, &found).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if let Some((n, (a, b))) =
        expected.lines().zip(found.lines()).enumerate().find(|(_, (a, b))| a != b)
    {
        panic!("{name}, line {}:\n  expected {a}\n  found    {b}", n + 1);
    }
    assert_eq!(expected.lines().count(), found.lines().count(), "{name}");
}

#[test]
fn openspec_changes() {
    let beside = |change: &str, names: &[&str]| {
        names.iter().map(|name| format!("openspec/changes/{change}/{name}")).collect()
    };
    let mut first = text("openspec", "openspec/changes/add-quick-search/tasks.md");
    first.beside = beside("add-quick-search", &["proposal.md", "design.md", "specs"]);
    let second = text("openspec", "openspec/changes/rework-billing/tasks.md");
    check(ImportKind::Openspec, "openspec", &[first, second], &ImportChoice::default());
}

#[test]
fn beads_issues() {
    let issues = [text("beads", ".beads/issues.jsonl")];
    check(ImportKind::Beads, "beads", &issues, &ImportChoice::default());
    let label = Some("agent".to_owned());
    let choice = ImportChoice { label, ..ImportChoice::default() };
    check(ImportKind::Beads, "beads-label", &issues, &choice);
}

#[test]
fn spec_kit_features() {
    let mut tasks = text("speckit", "specs/012-shared-calendars/tasks.md");
    tasks.beside = vec!["specs/012-shared-calendars/spec.md".to_owned()];
    check(ImportKind::Speckit, "speckit", &[tasks], &ImportChoice::default());
}

#[test]
fn task_master_tags() {
    let tasks = [text("taskmaster", ".taskmaster/tasks/tasks.json")];
    check(ImportKind::Taskmaster, "taskmaster", &tasks, &ImportChoice::default());
    let choice = ImportChoice { tag: Some("next".to_owned()), ..ImportChoice::default() };
    check(ImportKind::Taskmaster, "taskmaster-next", &tasks, &choice);
    let choice = ImportChoice { current_tag: Some("next".to_owned()), ..ImportChoice::default() };
    check(ImportKind::Taskmaster, "taskmaster-next", &tasks, &choice);
    let choice = ImportChoice { tag: Some("nothing".to_owned()), ..ImportChoice::default() };
    let problem = import::read(ImportKind::Taskmaster, &tasks, &choice).unwrap_err();
    assert!(problem.to_string().contains("the tags are master, next"), "{problem}");
}

#[test]
fn user_stories() {
    check(ImportKind::Prd, "prd", &[text("prd", "prd.json")], &ImportChoice::default());
}

#[test]
fn feature_lists_alone_and_in_an_object() {
    let list = text("features", "feature_list.json");
    let object = format!("{{\"project\": \"Calendar\", \"features\": {}}}", list.text);
    let object = SourceText { text: object, ..list.clone() };
    check(ImportKind::Features, "features", std::slice::from_ref(&list), &ImportChoice::default());
    let choice = ImportChoice::default();
    let both = [list, object].map(|text| import::read(ImportKind::Features, &[text], &choice));
    let [list, object] = both.map(|found| {
        let tasks = found.unwrap().tasks;
        tasks.into_iter().map(|task| (task.source, task.title)).collect::<Vec<_>>()
    });
    assert_eq!(list, object);
}

#[test]
fn plans_in_markdown() {
    let plan = text("plan", "docs/plans/2026-02-03-calendar.md");
    check(ImportKind::Plan, "plan", &[plan], &ImportChoice::default());
}

#[test]
fn checklists() {
    let list = text("checklist", "TODO.md");
    check(ImportKind::Checklist, "checklist", &[list], &ImportChoice::default());
}

#[test]
fn issues_with_relations_in_one_answer_and_one_by_one() {
    let mut issues = text("gh", "issues.json");
    issues.path = "octo/app".to_owned();
    check(ImportKind::Gh, "gh", &[issues.clone()], &ImportChoice::default());
    let label = Some("agent".to_owned());
    let choice = ImportChoice { label, ..ImportChoice::default() };
    check(ImportKind::Gh, "gh-label", &[issues], &choice);
    let plain = r#"[{"number": 1, "title": "One", "state": "open", "body": null, "labels": []},
        {"number": 2, "title": "Two", "state": "open", "parent_issue_url": "https://x/issues/1"},
        {"number": 3, "title": "Three", "state": "open"},
        {"number": 9, "title": "A pull request", "state": "open", "pull_request": {}}]"#;
    let relation = |issue, kind, text: &str| IssueRelation { issue, kind, text: text.to_owned() };
    let relations = vec![
        relation(3, IssueRelationKind::BlockedBy, r#"[{"number": 2, "title": "Two"}]"#),
        relation(3, IssueRelationKind::SubIssues, r#"[{"number": 1}]"#),
    ];
    let path = "octo/app".to_owned();
    let source = SourceText { path, text: plain.to_owned(), relations, ..SourceText::default() };
    let found = import::read(ImportKind::Gh, &[source], &ImportChoice::default()).unwrap();
    let waits: Vec<(String, Vec<String>)> =
        found.tasks.into_iter().map(|task| (task.name, task.depends_on)).collect();
    let row = |name: &str, waits: &[&str]| {
        (name.to_owned(), waits.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(waits, [row("gh-1", &["gh-2"]), row("gh-2", &[]), row("gh-3", &["gh-1", "gh-2"])]);
}
