//! Commands of a holder: checkpoints, renewals and the end of an attempt.

use super::*;

#[test]
fn checkpoints_and_renewals_are_the_holders() {
    let checkpoint = |by: &str, step, total| {
        Command::Checkpoint(AddCheckpoint {
            holder: holder("a", by),
            step,
            total,
            description: "half\nway".into(),
            tree: Some(TreeId::parse("abcd").unwrap()),
            lease_seconds: 60,
        })
    };
    let session = claimed("");
    at_now(
        &session,
        checkpoint("w", 1, 2),
        &[
            "lease a 2025-07-01T10:01:00Z",
            "log: CHECKPOINT [a] step=1/2 \"half\\nway\"",
            r#"a.checkpoints: [] -> [{"step":1,"total":2,"description":"half\nway","timestamp":"2025-07-01T10:00:00Z","tree":"abcd"}]"#,
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:01:00Z""#,
        ],
    );
    at_now(&session, checkpoint("v", 1, 2), &["refused: Task a is not claimed by v"]);
    for (step, total) in [(0, 1), (2, 1), (0, 0)] {
        let why = format!("refused: step {step} of {total}: steps count from 1 to the total");
        at_now(&session, checkpoint("w", step, total), &[&why]);
    }
    let renew = |holder| Command::Renew(Renew::new(holder, 60));
    at_now(
        &session,
        renew(with_epoch(holder("a", "w"), 4)),
        &[
            "lease a 2025-07-01T10:01:00Z",
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:01:00Z""#,
        ],
    );
    at_now(
        &claimed(&format!("{CLIENT},\"timeout_seconds\":30")),
        renew(holder("a", "w")),
        &[
            "lease a 2025-07-01T10:00:31Z",
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:00:31Z""#,
        ],
    );
    at_now(
        &session,
        renew(with_epoch(holder("a", "w"), 3)),
        &["refused: Task a is not claimed by w"],
    );
    at_now(&session, renew(holder("z", "w")), &["refused: Task z not found"]);
    at_now(
        r#"[{"id":"a","status":"completed","claimed_by":"w"}]"#,
        renew(holder("a", "w")),
        &["refused: Task a is not claimed by w"],
    );
}

#[test]
fn a_completion_needs_its_proof_and_keeps_its_holder() {
    let done = [
        r#"a.status: "in_progress" -> "completed""#,
        "a.attempts: 0 -> 1",
        r#"a.completed_at: null -> "2025-07-01T10:00:00Z""#,
        r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> -"#,
        r#"a.via: "client" -> -"#,
    ];
    let word = "log: WARN [a] no validation.command; completed on the word of w";
    at_now(
        &claimed(CLIENT),
        Command::Complete(complete("a", "w")),
        &[&["task a", word, "log: Completed [a] (commit none)"][..], &done].concat(),
    );
    let proven = |command: &str| Complete {
        proof: Proof::Passed { command: command.into() },
        commit: commit("0123456789"),
        ..complete("a", "w")
    };
    at_now(
        &claimed(CHECKED),
        Command::Complete(proven("make test")),
        &[&["task a", "log: Completed [a] (commit 0123456)"][..], &done].concat(),
    );
    at_now(
        &claimed(CHECKED),
        Command::Complete(proven("true")),
        &["refused: the check of task a was changed while it ran"],
    );
    at_now(
        &claimed(CLIENT),
        Command::Complete(proven("true")),
        &["refused: the check of task a was changed while it ran"],
    );
    at_now(
        &claimed(CHECKED),
        Command::Complete(complete("a", "w")),
        &["refused: Task a has a check; it counts as completed only when the check passed"],
    );
    let forbidden = Complete { unchecked: Unchecked::Forbidden, ..complete("a", "w") };
    at_now(
        &claimed(CLIENT),
        Command::Complete(forbidden),
        &["refused: Task a has no validation.command and require_validation is set"],
    );
    at_now(
        &claimed(CLIENT),
        Command::Complete(complete("a", "v")),
        &["refused: Task a is not claimed by v"],
    );
    at_now(&claimed(CLIENT), Command::Complete(complete("z", "w")), &["refused: Task z not found"]);
    at_now(
        &claimed(UNDOING),
        Command::Complete(complete("a", "w")),
        &["refused: Task a is being rolled back or landed; that has to be finished first"],
    );
    // Landing leads to the completion.
    let got =
        outcome(&ledger(&claimed(LANDING)), time(NOW), &Command::Complete(complete("a", "w")));
    assert_eq!(got[0], "task a");
    assert!(
        got.iter().any(|l| l.starts_with("a.intent: {"))
            && got.contains(&r#"a.worktree: "/w" -> -"#.into())
    );
}

#[test]
fn a_repeated_completion_changes_nothing() {
    let done = r#"[{"id":"a","status":"completed","claimed_by":"w","epoch":4}]"#;
    let again =
        |holder, authority| Command::Complete(Complete { holder, authority, ..complete("a", "w") });
    at_now(done, again(holder("a", "w"), Authority::Holder), &["task a"]);
    at_now(done, again(with_epoch(holder("a", "w"), 4), Authority::Holder), &["task a"]);
    at_now(
        done,
        again(with_epoch(holder("a", "w"), 3), Authority::Holder),
        &["refused: Task a is not claimed by w"],
    );
    at_now(
        done,
        again(holder("a", "v"), Authority::Holder),
        &["refused: Task a is not claimed by v"],
    );
    at_now(done, again(holder("a", "v"), Authority::Force), &["task a"]);
}

#[test]
fn force_takes_the_claim_but_not_the_check() {
    let force = |proof| {
        Command::Complete(Complete { authority: Authority::Force, proof, ..complete("a", "v") })
    };
    at_now(
        &claimed(CLIENT),
        force(Proof::Word),
        &[
            "task a",
            "log: WARN [a] no validation.command; completed on the word of v",
            "log: WARN [a] completed by force by v (claimed by w)",
            "log: Completed [a] (commit none)",
            "head.epoch: - -> 5",
            r#"a.status: "in_progress" -> "completed""#,
            "a.attempts: 0 -> 1",
            r#"a.completed_at: null -> "2025-07-01T10:00:00Z""#,
            r#"a.claimed_by: "w" -> "v""#,
            r#"a.claimed_at: "2025-07-01T09:00:00Z" -> "2025-07-01T10:00:00Z""#,
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> -"#,
            "a.epoch: 4 -> 5",
            r#"a.via: "client" -> -"#,
        ],
    );
    let got = outcome(&ledger(r#"[{"id":"a"}]"#), time(NOW), &force(Proof::Word));
    assert_eq!(got[2], "log: WARN [a] completed by force by v (claimed by nobody)");
    at_now(
        &claimed(CHECKED),
        force(Proof::Word),
        &["refused: Task a has a check; it counts as completed only when the check passed"],
    );
    for intent in [UNDOING, LANDING] {
        at_now(
            &claimed(intent),
            force(Proof::Word),
            &["refused: Task a is being rolled back or landed; that has to be finished first"],
        );
    }
}

#[test]
fn a_failure_counts_and_forgets_its_holder() {
    let failed = [
        r#"a.status: "in_progress" -> "failed""#,
        "a.attempts: 0 -> 1",
        r#"a.error_log: [] -> ["[TASK_EXEC] it\nbroke"]"#,
        r#"a.claimed_by: "w" -> -"#,
        r#"a.claimed_at: "2025-07-01T09:00:00Z" -> -"#,
        r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> -"#,
        r#"a.via: "client" -> -"#,
        r#"a.failed_at: - -> "2025-07-01T10:00:00Z""#,
    ];
    let broke = fail("a", "w", Category::TaskExec, "it\nbroke");
    at_now(
        &claimed(CLIENT),
        Command::Fail(broke.clone()),
        &[&["failed a retryable=true", r"log: ERROR [a] [TASK_EXEC] it\nbroke"][..], &failed]
            .concat(),
    );
    at_now(
        &claimed(CLIENT),
        Command::Fail(fail("a", "v", Category::TaskExec, "x")),
        &["refused: Task a is not claimed by v"],
    );
    // The cause is the intended one, not a problem that came up during the rollback.
    let undone = Fail { rolled_back_to: commit("0123456789"), ..broke.clone() };
    let got = outcome(&ledger(&claimed(UNDOING)), time(NOW), &Command::Fail(undone));
    assert_eq!(
        got[..3],
        [
            "failed a retryable=true",
            "log: ERROR [a] [TEST_FAIL] 1 failed",
            "log: ROLLBACK [a] git reset --hard 0123456"
        ]
    );
    assert!(got.iter().any(|l| l.starts_with("a.intent: {") && l.ends_with("-> -")), "{got:#?}");
    // This covers the last attempt, and an attempt after which none can help.
    let got =
        outcome(&ledger(&claimed(",\"attempts\":2")), time(NOW), &Command::Fail(broke.clone()));
    assert!(got[0] == "failed a retryable=false" && got.contains(&"a.attempts: 2 -> 3".into()));
    let got = outcome(
        &ledger(&claimed("")),
        time(NOW),
        &Command::Fail(Fail { attempts: Attempts::All, ..broke.clone() }),
    );
    assert!(got[0] == "failed a retryable=false" && got.contains(&"a.attempts: 0 -> 3".into()));
    // A maximum that was lowered meanwhile does not reduce the count of attempts.
    let got = outcome(
        &ledger(&claimed(",\"attempts\":2,\"max_attempts\":1")),
        time(NOW),
        &Command::Fail(broke),
    );
    assert!(
        got[0] == "failed a retryable=false" && !got.iter().any(|l| l.starts_with("a.attempts"))
    );
}

#[test]
fn an_intent_is_made_once_and_only_a_landing_is_taken_back() {
    let intend = |by: &str, intent| {
        Command::Intend(Intend { holder: holder("a", by), intent, check: None, files: Vec::new() })
    };
    let void = |by: &str| Command::VoidIntent(VoidIntent { holder: holder("a", by) });
    let undecided = "refused: Task a is being rolled back or landed; that has to be finished first";
    at_now(
        &claimed(""),
        intend("w", rollback("m")),
        &["task a", r#"a.intent: - -> {"rollback":{"category":"TEST_FAIL","message":"m"}}"#],
    );
    at_now(&claimed(""), intend("v", rollback("m")), &["refused: Task a is not claimed by v"]);
    at_now(&claimed(UNDOING), intend("w", rollback("1 failed")), &["task a"]);
    at_now(&claimed(UNDOING), intend("w", rollback("other")), &[undecided]);
    let land = Intent::Land {
        target: "main".into(),
        from: CommitId::parse("aaaa").unwrap(),
        to: CommitId::parse("bbbb").unwrap(),
    };
    at_now(&claimed(LANDING), intend("w", land), &["task a"]);
    at_now(&claimed(""), void("w"), &["task a"]);
    at_now(&claimed(UNDOING), void("w"), &[undecided]);
    at_now(&claimed(LANDING), void("v"), &["refused: Task a is not claimed by v"]);
    at_now(
        &claimed(LANDING),
        void("w"),
        &["task a", r#"a.intent: {"land":{"target":"main","from":"aaaa","to":"bbbb"}} -> -"#],
    );
}

#[test]
fn release_puts_back_uncounted() {
    let release = |holder: Option<Holder>| {
        Command::Release(Release { task: id("a"), holder, reason: "stopped".into() })
    };
    let expected = [
        "task a",
        r#"log: RECOVERY [a] action="release" reason="stopped""#,
        r#"a.status: "in_progress" -> "pending""#,
        r#"a.claimed_by: "w" -> -"#,
        r#"a.claimed_at: "2025-07-01T09:00:00Z" -> -"#,
        r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> -"#,
        r#"a.via: "client" -> -"#,
    ];
    at_now(&claimed(CLIENT), release(None), &expected);
    at_now(&claimed(CLIENT), release(Some(with_epoch(holder("a", "w"), 4))), &expected);
    at_now(
        &claimed(CLIENT),
        release(Some(holder("a", "v"))),
        &["refused: Task a is not claimed by v"],
    );
    at_now(r#"[{"id":"a"}]"#, release(None), &["refused: Task a is pending, not claimed"]);
    at_now("[]", release(None), &["refused: Task a not found"]);
    for intent in [UNDOING, LANDING] {
        at_now(
            &claimed(intent),
            release(None),
            &["refused: Task a is being rolled back or landed; that has to be finished first"],
        );
    }
}

#[test]
fn work_that_was_taken_back_is_pending_again_and_its_gate_is_due_again() {
    let done = r#""status":"completed","completed_at":"2025-07-01T09:00:00Z","attempts":2"#;
    let text = format!(
        r#"{{"version":2,"phases":[{{"name":"One","approve":true,"passed_at":"2025-07-01T09:30:00Z"}},{{"name":"Two"}}],
            "tasks":[{{"id":"a","phase":"One","conflicts":["x"],{done}}},
                     {{"id":"b","phase":"Two","depends_on":["a"],{done}}},
                     {{"id":"c","depends_on":["b"],{done}}},{{"id":"d","depends_on":["b"]}},
                     {{"id":"e","status":"in_progress","claimed_by":"w","epoch":1}}]}}"#
    );
    let mut ledger = ledger(&text);
    let reopen = |tasks: &[&str]| {
        let tasks = tasks.iter().map(|task| id(task)).collect();
        Command::Reopen(Reopen { tasks, reason: "it was wrong".into() })
    };
    let refused = decide(&ledger, time(NOW), &reopen(&["a", "e"])).unwrap_err();
    assert_eq!(refused.to_string(), "Task e is in_progress, not completed");
    let change = apply(&mut ledger, time(NOW), &reopen(&["a"])).unwrap();
    let dependents = vec![id("b"), id("c")];
    assert_eq!(change.reply, Reply::Reopened { tasks: vec![id("a")], dependents });
    let task = ledger.task(&id("a")).unwrap();
    assert_eq!((task.status().name(), task.attempts), ("pending", 0));
    assert_eq!(task.error_log[0].to_string(), "Reverted: it was wrong");
    assert!(task.conflicts.is_empty());
    assert_eq!(ledger.head().phases[0].passed_at, None);
    let again = apply(&mut ledger, time(NOW), &reopen(&["a"])).unwrap();
    assert!(again.is_empty() && again.facts.is_empty(), "{again:?}");
    assert_eq!(apply(&mut ledger, time(NOW), &Command::Claim(client("v"))).unwrap().rows.len(), 1);
}
