//! Tests of the limits of a task.

use super::*;

fn task() -> Task {
    Task::new(TaskId::numbered(1), "one")
}

#[test]
fn error_entries_are_bounded_and_cut_between_characters() {
    let mut t = task();
    let now = Timestamp::default();
    t.fail(now, ErrorEntry::blocked_by(TaskId::numbered(2)));
    for n in 0..40 {
        let message = format!("{n} {}", "é".repeat(2000));
        t.fail(now, ErrorEntry::new(Some(Category::TaskExec), message));
    }
    assert_eq!(t.error_log.len(), KEPT_ENTRIES);
    let texts: Vec<String> = t.error_log.iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| text.len() <= ENTRY_BYTES));
    let cause = FailureCause::Dependency(TaskId::numbered(2));
    assert_eq!(t.failure().unwrap().cause, cause, "a live dependency entry is never dropped");
    assert!(texts.last().unwrap().starts_with("[TASK_EXEC] 39 "));
}

#[test]
fn attempts_never_pass_their_maximum() {
    let mut t = task();
    for _ in 0..9 {
        t.count_attempt();
    }
    assert_eq!(t.attempts, t.max_attempts);
}
