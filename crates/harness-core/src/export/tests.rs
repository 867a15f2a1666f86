//! What is exported can be imported again.

use super::*;
use crate::{
    TaskId,
    import::{self, ImportChoice, ImportKind, ImportProgress, SourceText},
    ledger::Head,
    task::{Priority, TaskCompletion, TaskState},
};

fn ledger() -> Ledger {
    let now = Timestamp::default();
    let id = |text: &str| TaskId::parse(text).unwrap();
    let mut first = Task::new(id("first"), "Add the login endpoint");
    first.instructions = Some("# Heading\n\n- [ ] no item\n\n### Task 9: no task".into());
    first.validation.command = Some("cargo test login".into());
    first.priority = Priority::P0;
    let mut second = Task::new(id("second"), "Add the logout endpoint");
    second.depends_on = vec![id("first")];
    second.validation.command = Some("printf '`'".into());
    let mut third = Task::new(id("third"), "Write \"docs\"");
    third.state = TaskState::Completed(TaskCompletion::default());
    let mut head = Head::new(now);
    head.goal = Some("Users can log in".into());
    Ledger::new(head, vec![first, second, third]).unwrap()
}

#[test]
fn each_form_can_be_imported_again() {
    let ledger = ledger();
    for form in ExportForm::ALL {
        let exported = export(&ledger, *form, Timestamp::default());
        let kind = ImportKind::parse(form.name()).unwrap();
        let path = "exported.md".to_owned();
        let text = SourceText { path, text: exported.text.clone(), ..SourceText::default() };
        let found = import::read(kind, &[text], &ImportChoice::default()).unwrap();
        let name = form.name();
        assert_eq!(found.tasks.len(), 3, "{name}\n{}", exported.text);
        let titles: Vec<&str> = found.tasks.iter().map(|task| task.title.as_str()).collect();
        let expected = ["Add the login endpoint", "Add the logout endpoint", "Write \"docs\""];
        assert_eq!(titles, expected, "{name}");
        assert_eq!(found.tasks[0].check.as_deref(), Some("cargo test login"), "{name}");
        assert_eq!(found.tasks[1].check, None, "{name}");
        let done: Vec<bool> =
            found.tasks.iter().map(|task| task.progress == ImportProgress::Done).collect();
        assert_eq!(done, [false, false, true], "{name}");
        assert!(found.tasks[0].instructions.contains("### Task 9: no task"), "{name}");
        let lost = exported.warnings.join("\n");
        assert!(lost.contains("second: its check does not fit"), "{name}: {lost}");
        let waits = !found.tasks[1].depends_on.is_empty();
        let said = lost.contains("dependencies are left out");
        assert!(waits || said, "{name}: {lost}");
    }
}

#[test]
fn nothing_is_written_that_beads_would_refuse() {
    let text = export(&ledger(), ExportForm::Beads, Timestamp::default()).text;
    for line in text.lines() {
        let issue: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(issue["status"] == "closed", issue["closed_at"].is_string(), "{issue}");
        assert!(issue["created_at"].is_string() && issue["updated_at"].is_string());
    }
}
