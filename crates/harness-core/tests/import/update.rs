//! Importing once and again.

use harness_core::{
    Command, Fact, Ledger, Reply, Task, TaskId, Timestamp,
    command::{Change, Import, ImportMode, ImportedTasks, Refusal, decide},
    import::ImportKind,
    ledger::Head,
    plan::Plan,
    task::{Status, TaskCompletion, TaskState},
};

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn ids(texts: &[&str]) -> Vec<TaskId> {
    texts.iter().map(|text| id(text)).collect()
}

fn empty() -> Ledger {
    Ledger::new(Head::new(Timestamp::default()), Vec::new()).unwrap()
}

fn plan(kind: ImportKind, text: &str, check: Option<&str>) -> Plan {
    super::read(kind, "openspec/changes/c/tasks.md", text).unwrap().into_plan(check)
}

fn decided(ledger: &Ledger, plan: Plan) -> Result<Change, Refusal> {
    let import = Import { plan, mode: ImportMode::Update, by: None };
    decide(ledger, Timestamp::default(), &Command::Import(import))
}

/// Imports a text, and returns what was said.
fn import(ledger: &mut Ledger, text: &str) -> ImportedTasks {
    import_with(ledger, text, None)
}

fn import_with(ledger: &mut Ledger, text: &str, check: Option<&str>) -> ImportedTasks {
    let change = decided(ledger, plan(ImportKind::Openspec, text, check)).unwrap();
    ledger.put_in(&change);
    let Reply::Imported { tasks, .. } = change.reply else { panic!("{:?}", change.reply) };
    *tasks.unwrap()
}

fn edit(ledger: &mut Ledger, task: &str, change: impl FnOnce(&mut Task)) {
    let mut tasks: Vec<Task> = ledger.tasks().cloned().collect();
    change(tasks.iter_mut().find(|t| t.id.as_str() == task).unwrap());
    *ledger = Ledger::new(ledger.head().clone(), tasks).unwrap();
}

const FIRST: &str = "## 1. A\n- [ ] 1.1 One\n- [x] 1.2 Two\n## 2. B\n- [ ] 2.1 Three\n";

#[test]
fn a_second_import_of_the_same_text_changes_nothing() {
    let mut ledger = empty();
    let said = import(&mut ledger, FIRST);
    assert_eq!(said.added, ids(&["c-1.1", "c-1.2", "c-2.1"]));
    assert_eq!(ledger.task(&id("c-1.2")).unwrap().status(), Status::Completed);
    assert_eq!(ledger.task(&id("c-2.1")).unwrap().depends_on, ids(&["c-1.1", "c-1.2"]));
    let change = decided(&ledger, plan(ImportKind::Openspec, FIRST, None)).unwrap();
    assert!(change.is_empty() && change.facts.is_empty(), "{change:?}");
    let said = import(&mut ledger, FIRST);
    assert_eq!((said.unchanged, said.kept), (ids(&["c-1.1", "c-2.1"]), ids(&["c-1.2"])));
}

#[test]
fn texts_of_tasks_that_nobody_started_follow_the_source() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    let text = FIRST.replace("One", "One, better").replace("- [ ] 2.1", "- [ ] 2.0 New\n- [ ] 2.1");
    let change = decided(&ledger, plan(ImportKind::Openspec, &text, None)).unwrap();
    let edited = Fact::Edited { task: id("c-1.1") };
    assert!(change.facts.contains(&edited), "{:?}", change.facts);
    let said = import(&mut ledger, &text);
    assert_eq!((said.added, said.updated), (ids(&["c-2.0"]), ids(&["c-1.1"])));
    assert_eq!(ledger.task(&id("c-1.1")).unwrap().title, "One, better");
}

#[test]
fn what_was_started_or_completed_is_kept() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    edit(&mut ledger, "c-1.1", |task| task.attempts = 1);
    edit(&mut ledger, "c-2.1", |task| {
        task.state = TaskState::Completed(TaskCompletion::default());
    });
    let before: Vec<Task> = ledger.tasks().cloned().collect();
    let text = FIRST.replace("One", "Other").replace("Three", "Other").replace("[x]", "[ ]");
    let said = import(&mut ledger, &text);
    assert_eq!(said.kept, ids(&["c-1.1", "c-1.2", "c-2.1"]));
    assert_eq!(ledger.tasks().cloned().collect::<Vec<_>>(), before);
}

#[test]
fn a_source_that_calls_a_task_done_does_not_complete_it_here() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    let said = import(&mut ledger, &FIRST.replace("[ ] 1.1", "[x] 1.1"));
    assert_eq!(said.done_at_source, ids(&["c-1.1"]));
    assert_eq!(ledger.task(&id("c-1.1")).unwrap().status(), Status::Pending);
}

#[test]
fn a_task_that_its_source_lost_is_named_and_stays() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    let said = import(&mut ledger, &FIRST.replace("- [ ] 1.1 One\n", ""));
    assert_eq!(said.gone, ids(&["c-1.1"]));
    assert!(ledger.contains(&id("c-1.1")));
}

#[test]
fn a_check_of_the_operator_stays_and_a_missing_one_is_given() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    edit(&mut ledger, "c-1.1", |task| task.validation.command = Some("mine".to_owned()));
    let said = import_with(&mut ledger, FIRST, Some("make test"));
    assert_eq!(said.updated, ids(&["c-2.1"]));
    assert_eq!(ledger.task(&id("c-1.1")).unwrap().check(), Some("mine"));
    assert_eq!(ledger.task(&id("c-2.1")).unwrap().check(), Some("make test"));
    assert_eq!(ledger.task(&id("c-1.2")).unwrap().check(), None, "it is completed without one");
}

#[test]
fn an_id_that_is_taken_gets_a_number_and_is_found_again() {
    let own = Task::new(id("c-1.1"), "My own");
    let mut ledger = Ledger::new(Head::new(Timestamp::default()), vec![own.clone()]).unwrap();
    let said = import(&mut ledger, FIRST);
    assert_eq!(said.added, ids(&["c-1.1-2", "c-1.2", "c-2.1"]));
    assert_eq!(ledger.task(&id("c-2.1")).unwrap().depends_on, ids(&["c-1.1-2", "c-1.2"]));
    assert_eq!(ledger.task(&id("c-1.1")), Some(&own));
    let said = import(&mut ledger, FIRST);
    assert!(said.added.is_empty() && said.gone.is_empty(), "{said:?}");
}

#[test]
fn own_dependencies_stay_and_those_of_the_source_follow_it() {
    let own = Task::new(id("mine"), "My own");
    let mut ledger = Ledger::new(Head::new(Timestamp::default()), vec![own]).unwrap();
    import(&mut ledger, FIRST);
    edit(&mut ledger, "c-2.1", |task| task.depends_on.push(id("mine")));
    let said = import(&mut ledger, &FIRST.replace("## 2. B\n", ""));
    assert_eq!(said.updated, ids(&["c-2.1"]), "its group changed");
    assert_eq!(ledger.task(&id("c-2.1")).unwrap().depends_on, ids(&["mine"]));
}

#[test]
fn a_circle_through_own_tasks_is_refused() {
    let mut ledger = empty();
    import(&mut ledger, FIRST);
    let mut tasks: Vec<Task> = ledger.tasks().cloned().collect();
    let mut own = Task::new(id("mine"), "My own");
    own.depends_on = ids(&["c-2.1"]);
    tasks.push(own);
    tasks[0].depends_on = ids(&["mine"]);
    tasks[2].depends_on.clear();
    ledger = Ledger::new(ledger.head().clone(), tasks).unwrap();
    let refused = decided(&ledger, plan(ImportKind::Openspec, FIRST, None)).unwrap_err();
    assert!(refused.to_string().contains("Cycle"), "{refused}");
}

#[test]
fn features_are_recognized_wherever_they_stand() {
    let mut ledger = empty();
    let feature = |text: &str| format!("{{\"description\": \"{text}\", \"passes\": false}}");
    let list = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| feature(text)).collect();
        plan(ImportKind::Features, &format!("[{}]", texts.join(",")), None)
    };
    let change = decided(&ledger, list(&["A", "B"])).unwrap();
    ledger.put_in(&change);
    let change = decided(&ledger, list(&["New", "B", "A"])).unwrap();
    let Reply::Imported { tasks: Some(said), .. } = &change.reply else { panic!() };
    assert_eq!(said.unchanged, ids(&["feature-002", "feature-001"]));
    assert_eq!(said.added, ids(&["feature-001-2"]));
}
