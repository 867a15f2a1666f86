//! After a database has forgotten changes, results that landed are looked for before work goes on.

use harness_core::{
    WorkerId,
    command::{LandedResult, Settle},
    ledger::Unsettled,
};

use super::*;

/// A ledger that is left with epoch 5, whose lost claims had epochs up to 1000.
fn unsettled(tasks: &str) -> String {
    format!(
        r#"{{"version":2,"tasks":{tasks},"epoch":1000,"unsettled":{{"after":5,"until":1000}},
            "session_config":{{"target_branch":"main"}}}}"#
    )
}

fn landed(task: &str, epoch: u64) -> LandedResult {
    let commit = CommitId::parse("cccc").unwrap();
    LandedResult { task: id(task), epoch: Epoch(epoch), commit }
}

fn settle(found: &[LandedResult], unproven: &[&str]) -> Command {
    Command::Settle(Settle {
        of: Unsettled { after: Epoch(5), until: Epoch(1000) },
        worker: WorkerId::parse("w").unwrap(),
        landed: found.to_vec(),
        unproven: unproven.iter().map(|task| id(task)).collect(),
    })
}

#[test]
fn a_forgotten_result_completes_its_task() {
    at_now(
        &unsettled(r#"[{"id":"a","title":"A"},{"id":"b","title":"B"}]"#),
        settle(&[landed("a", 7)], &[]),
        &[
            "noted",
            r#"log: RECOVERY [a] action="complete" reason="it had landed as cccc before the database forgot it""#,
            "log: Completed [a] (commit cccc)",
            "log: WARN 1 forgotten result is on the target; work goes on",
            r#"head.unsettled: {"after":5,"until":1000} -> -"#,
            r#"a.status: "pending" -> "completed""#,
            "a.attempts: 0 -> 1",
            r#"a.completed_at: null -> "2025-07-01T10:00:00Z""#,
            r#"a.claimed_by: - -> "w""#,
            r#"a.claimed_at: - -> "2025-07-01T10:00:00Z""#,
            "a.epoch: - -> 7",
        ],
    );
}

/// Each result here is of no claim that was forgotten.
#[test]
fn other_results_complete_nothing() {
    for (why, task, epoch) in [
        ("an earlier task with the same id", r#"{"id":"a","title":"A"}"#, 5),
        ("a result that was taken back", r#"{"id":"a","title":"A","epoch":4}"#, 4),
        ("an epoch that nobody had", r#"{"id":"a","title":"A"}"#, 1001),
        ("a task that is completed", r#"{"id":"a","title":"A","status":"completed","epoch":6}"#, 6),
    ] {
        let lines = outcome(
            &ledger(&unsettled(&format!("[{task}]"))),
            time(NOW),
            &settle(&[landed("a", epoch)], &[]),
        );
        let expected = "log: WARN no forgotten result is on the target; work goes on";
        assert_eq!(lines[..2], ["noted", expected], "{why}");
        assert_eq!(lines.len(), 3, "{why}: {lines:?}");
    }
}

/// The claim is left, and only its completion was forgotten.
#[test]
fn the_result_of_an_open_claim_completes_its_task() {
    let task = r#"{"id":"a","title":"A","status":"in_progress","claimed_by":"x","epoch":4,
        "claimed_at":"2025-07-01T09:00:00Z","lease_expires_at":"2025-07-01T09:10:00Z"}"#;
    let before = ledger(&unsettled(&format!("[{task}]")));
    let lines = outcome(&before, time(NOW), &settle(&[landed("a", 4)], &["a"]));
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has("Completed [a]") && has("its receipt was lost with the database"), "{lines:?}");
    assert!(has(r#"a.flags: - -> ["unproven"]"#) && !has("a.claimed_by"), "{lines:?}");
}

#[test]
fn nothing_is_claimed_and_nothing_lands_before_it_is_settled() {
    let refused = "refused: the database has forgotten changes; results that landed are looked for \
                   before work goes on";
    let claim = Command::Claim(Claim::new(WorkerId::parse("w").unwrap()));
    let lines = outcome(&ledger(&unsettled(r#"[{"id":"a","title":"A"}]"#)), time(NOW), &claim);
    assert_eq!(lines, [refused]);
    let task = r#"[{"id":"a","title":"A","status":"in_progress","claimed_by":"w","epoch":4,
        "lease_expires_at":"2025-07-01T09:10:00Z"}]"#;
    let holder = Holder { task: id("a"), worker: WorkerId::parse("w").unwrap(), epoch: None };
    let (target, from, to) = ("main".to_owned(), commit("aaaa").unwrap(), commit("bbbb").unwrap());
    let take_over = Command::TakeOver(TakeOver {
        task: id("a"),
        epoch: Some(Epoch(4)),
        gone: Gone::LeaseRanOut,
        worker: WorkerId::parse("x").unwrap(),
        lease_seconds: 60,
        worktree: None,
    });
    let intend = Command::Intend(Intend {
        holder,
        intent: Intent::Land { target, from, to },
        check: None,
        files: Vec::new(),
    });
    for command in [take_over, intend] {
        assert_eq!(outcome(&ledger(&unsettled(task)), time(NOW), &command), [refused]);
    }
}

#[test]
fn what_another_worker_has_settled_stays() {
    at_now(r#"[{"id":"a","title":"A"}]"#, settle(&[landed("a", 7)], &[]), &["noted"]);
}

/// A task that is added meanwhile is not taken for one that was forgotten.
#[test]
fn a_new_task_has_a_number_that_no_forgotten_one_had() {
    let before = ledger(&unsettled(r#"[{"id":"task-001","title":"A"}]"#));
    let lines = outcome(&before, time(NOW), &add(None, "B", |_| {}));
    assert!(lines.iter().any(|line| line.contains("task-1001")), "{lines:?}");
}
