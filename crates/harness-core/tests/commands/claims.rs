//! The selection of a task, and the effect of a claim.

use harness_core::select::Applicant;

use super::*;

#[test]
fn claim_takes_the_next_and_records_it() {
    let task = r#"{"version":2,"epoch":2,"tasks":[{"id":"a","title":"A","status":"failed","attempts":1,"failed_at":"2025-07-01T08:00:00Z","epoch":5,"timeout_seconds":90,
        "checkpoints":[{"step":1,"total":2,"description":"d","timestamp":null}]}]}"#;
    at_now(
        task,
        Command::Claim(client("w")),
        &[
            "claimed a epoch=6",
            "log: Starting [a] A (base=none)",
            "head.epoch: 2 -> 6",
            r#"a.status: "failed" -> "in_progress""#,
            r#"a.failed_at: "2025-07-01T08:00:00Z" -> -"#,
            "a.epoch: 5 -> 6",
            r#"a.claimed_by: - -> "w""#,
            r#"a.claimed_at: - -> "2025-07-01T10:00:00Z""#,
            r#"a.lease_expires_at: - -> "2025-07-01T10:01:31Z""#,
            r#"a.via: - -> "client""#,
        ],
    );
    let place = Place {
        base: commit("0123456789abcdef"),
        base_untracked: Some(TreeId::parse("eeee").unwrap()),
        worktree: Some("/w".into()),
        branch: Some("main".into()),
    };
    at_now(
        task,
        Command::Claim(Claim { place, ..session("w") }),
        &[
            "claimed a epoch=6",
            "log: Starting [a] A (base=0123456)",
            "head.epoch: 2 -> 6",
            r#"a.status: "failed" -> "in_progress""#,
            r#"a.started_at_commit: null -> "0123456789abcdef""#,
            r#"a.checkpoints: [{"step":1,"total":2,"description":"d","timestamp":null}] -> []"#,
            r#"a.failed_at: "2025-07-01T08:00:00Z" -> -"#,
            "a.epoch: 5 -> 6",
            r#"a.claimed_by: - -> "w""#,
            r#"a.claimed_at: - -> "2025-07-01T10:00:00Z""#,
            r#"a.lease_expires_at: - -> "2025-07-01T10:30:00Z""#,
            r#"a.via: - -> "run""#,
            r#"a.worktree: - -> "/w""#,
            r#"a.branch: - -> "main""#,
            r#"a.base_untracked: - -> "eeee""#,
        ],
    );
    let only = |task: &str| {
        Command::Claim(Claim { choice: ClaimChoice::NextIs(id(task)), ..session("w") })
    };
    let two = r#"[{"id":"a"},{"id":"b"}]"#;
    at_now(two, only("b"), &["refused: Task b is not the next one"]);
    assert_eq!(outcome(&ledger(two), time(NOW), &only("a"))[0], "claimed a epoch=1");
    at_now("[]", only("a"), &["refused: Task a is not the next one"]);
    let chosen = |task: &str| ClaimChoice::Ready(id(task));
    let ready = |task: &str| Command::Claim(Claim { choice: chosen(task), ..session("w") });
    assert_eq!(outcome(&ledger(two), time(NOW), &ready("b"))[0], "claimed b epoch=1");
    let waits = r#"[{"id":"a"},{"id":"b","depends_on":["a"]},{"id":"c","status":"completed"}]"#;
    for task in ["b", "c", "gone"] {
        let refused = format!("refused: Task {task} cannot be worked on now");
        at_now(waits, ready(task), &[refused.as_str()]);
    }
    at_now("[]", Command::Claim(client("w")), &["nothing to claim"]);
    at_now(
        r#"[{"id":"a","depends_on":["gone"]},{"id":"b"}]"#,
        Command::Claim(client("w")),
        &["refused: Missing dependency: gone (in a)"],
    );
    // A finished task may have lost its dependency.
    let got = outcome(
        &ledger(r#"[{"id":"a","status":"completed","depends_on":["gone"]},{"id":"b"}]"#),
        time(NOW),
        &Command::Claim(client("w")),
    );
    assert_eq!(got[0], "claimed b epoch=1");
}

#[test]
fn a_repeated_claim_returns_the_held_task() {
    at_now(
        &claimed(CLIENT),
        Command::Claim(client("w")),
        &[
            "claimed a epoch=4 is_retry",
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:10:01Z""#,
        ],
    );
    at_now(&claimed(CLIENT), Command::Claim(session("w")), &["refused: Worker w already holds a"]);
    let other = Claim { choice: ClaimChoice::NextIs(id("z")), ..client("w") };
    at_now(&claimed(CLIENT), Command::Claim(other), &["refused: Worker w already holds a"]);
}

#[test]
fn a_lease_that_ran_out_is_recorded_before_the_next_claim() {
    at_now(
        &claimed(CLIENT),
        Command::Claim(client("v")),
        &[
            "claimed a epoch=5 is_reclaim",
            "log: ERROR [a] [SESSION_TIMEOUT] Lease expired (claimed_by=w)",
            "log: Starting [a] A (base=none)",
            "head.epoch: - -> 5",
            "a.attempts: 0 -> 1",
            r#"a.error_log: [] -> ["[SESSION_TIMEOUT] Lease expired (claimed_by=w)"]"#,
            r#"a.claimed_by: "w" -> "v""#,
            r#"a.claimed_at: "2025-07-01T09:00:00Z" -> "2025-07-01T10:00:00Z""#,
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:10:01Z""#,
            "a.epoch: 4 -> 5",
        ],
    );
    // After its last attempt the task has failed, and the tasks that wait for it are never tried.
    let last = claimed(&format!("{CLIENT},\"attempts\":2"));
    let waiting =
        last.replace("}]", r#"},{"id":"b","depends_on":["a"]},{"id":"c","depends_on":["b"]}]"#);
    at_now(
        &waiting,
        Command::Claim(client("v")),
        &[
            "nothing to claim",
            "log: ERROR [a] [SESSION_TIMEOUT] Lease expired (claimed_by=w)",
            "log: ERROR [b] [DEPENDENCY] Blocked by failed a",
            "log: ERROR [c] [DEPENDENCY] Blocked by failed b",
            r#"a.status: "in_progress" -> "failed""#,
            "a.attempts: 2 -> 3",
            r#"a.error_log: [] -> ["[SESSION_TIMEOUT] Lease expired (claimed_by=w)"]"#,
            r#"a.claimed_by: "w" -> -"#,
            r#"a.claimed_at: "2025-07-01T09:00:00Z" -> -"#,
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> -"#,
            r#"a.via: "client" -> -"#,
            r#"a.failed_at: - -> "2025-07-01T10:00:00Z""#,
            r#"b.status: "pending" -> "failed""#,
            r#"b.error_log: [] -> ["[DEPENDENCY] Blocked by failed a"]"#,
            r#"b.failed_at: - -> "2025-07-01T10:00:00Z""#,
            r#"c.status: "pending" -> "failed""#,
            r#"c.error_log: [] -> ["[DEPENDENCY] Blocked by failed b"]"#,
            r#"c.failed_at: - -> "2025-07-01T10:00:00Z""#,
        ],
    );
    // A session recovers the claim of a session, and an intent is finished. Neither is failed here.
    at_now(&claimed(""), Command::Claim(client("v")), &["nothing to claim"]);
    at_now(
        &claimed(&format!("{CLIENT}{UNDOING}")),
        Command::Claim(client("v")),
        &["nothing to claim"],
    );
    // A lease ends exactly at its second.
    for (now, reply) in [
        ("2025-07-01T09:09:59Z", "nothing to claim"),
        ("2025-07-01T09:10:00Z", "claimed a epoch=5 is_reclaim"),
    ] {
        assert_eq!(
            outcome(&ledger(&claimed(CLIENT)), time(now), &Command::Claim(client("v")))[0],
            reply
        );
    }
}

#[test]
fn a_task_that_somebody_prepared_for_is_not_taken_back_by_upkeep() {
    // With the expired P0 task recorded as failed, that task would be tried first. But this is
    // known only together with the claim. A refusal would lose the record and repeat forever.
    let tasks = r#"[{"id":"x","status":"failed","attempts":1,"failed_at":"2025-07-01T08:00:00Z"},
        {"id":"z","priority":"P0","status":"in_progress","claimed_by":"c","via":"client","lease_expires_at":"2025-07-01T09:00:00Z"}]"#;
    let only = Claim { choice: ClaimChoice::NextIs(id("x")), ..session("w") };
    let got = outcome(&ledger(tasks), time(NOW), &Command::Claim(only));
    assert_eq!(
        got[..3],
        [
            "claimed x epoch=1",
            "log: ERROR [z] [SESSION_TIMEOUT] Lease expired (claimed_by=c)",
            "log: Starting [x]  (base=none)"
        ]
    );
    let got = outcome(&ledger(tasks), time(NOW), &Command::Claim(session("w")));
    assert_eq!(got[0], "claimed z epoch=1 is_reclaim");
}

#[test]
fn cycles_are_failed_before_choosing() {
    let tasks = r#"[{"id":"a","depends_on":["b"]},{"id":"b","depends_on":["a"]},{"id":"c","depends_on":["a"]},{"id":"s","depends_on":["s"]},{"id":"z","title":"Z"}]"#;
    let got = outcome(&ledger(tasks), time(NOW), &Command::Claim(client("w")));
    assert_eq!(
        got[..6],
        [
            "claimed z epoch=1",
            "log: ERROR [a] [DEPENDENCY] Circular dependency detected: a -> b -> a",
            "log: ERROR [b] [DEPENDENCY] Circular dependency detected: b -> a -> b",
            "log: ERROR [s] [DEPENDENCY] Circular dependency detected: s -> s",
            "log: ERROR [c] [DEPENDENCY] Blocked by failed a",
            "log: Starting [z] Z (base=none)",
        ]
    );
    assert!(!got.iter().any(|l| l.contains(".attempts")), "{got:#?}");
}

#[test]
fn the_order_of_choosing() {
    let cases: &[(&str, Option<&str>, &str)] = &[
        (r#"[{"id":"task-10"},{"id":"task-2"}]"#, None, "task-2"),
        (r#"[{"id":"a","priority":"P2"},{"id":"b"},{"id":"c","priority":"P0"}]"#, None, "c"),
        (r#"[{"id":"a","priority":"urgent"},{"id":"b","priority":"P2"}]"#, None, "b"),
        (r#"[{"id":"a"},{"id":"b","order":1},{"id":"c","order":0}]"#, None, "c"),
        (r#"[{"id":"a"},{"id":"b","order":7}]"#, None, "b"),
        (r#"[{"id":"a","status":"failed","priority":"P0"},{"id":"b","priority":"P2"}]"#, None, "b"),
        (
            r#"[{"id":"a","status":"failed","failed_at":"2025-01-02T00:00:00Z"},{"id":"b","status":"failed","failed_at":"2025-01-01T00:00:00Z"}]"#,
            None,
            "b",
        ),
        (r#"[{"id":"a","role":"x"},{"id":"b","role":"y"},{"id":"c"}]"#, Some("y"), "b"),
        (r#"[{"id":"a","role":"x"},{"id":"c"}]"#, Some("y"), "c"),
        (r#"[{"id":"a","role":"x"},{"id":"c"}]"#, None, "a"),
        (r#"[{"id":"a","role":"x"}]"#, Some("y"), "-"),
        (r#"[{"id":"a","depends_on":["b"]},{"id":"b"}]"#, None, "b"),
        (r#"[{"id":"a","depends_on":["b"]},{"id":"b","status":"completed"}]"#, None, "a"),
        (
            r#"{"tasks":[{"id":"a","phase":"2"},{"id":"b","phase":"1"}],"phases":[{"name":"1"},{"name":"2"}]}"#,
            None,
            "b",
        ),
        (
            r#"{"tasks":[{"id":"a","phase":"2"}],"phases":[{"name":"1","gate":{"command":"x"}},{"name":"2"}]}"#,
            None,
            "-",
        ),
        (
            r#"{"tasks":[{"id":"a","phase":"2"}],"phases":[{"name":"1","approve":true},{"name":"2"}]}"#,
            None,
            "-",
        ),
        (
            r#"{"tasks":[{"id":"a","phase":"2"}],"phases":[{"name":"1","gate":{"command":"x"},"passed_at":"2025-01-01T00:00:00Z"},{"name":"2"}]}"#,
            None,
            "a",
        ),
        (
            r#"{"tasks":[{"id":"a","phase":"other"}],"phases":[{"name":"1","approve":true}]}"#,
            None,
            "a",
        ),
    ];
    for (tasks, role, expected) in cases {
        let ledger = ledger(tasks);
        let next = ledger
            .selection()
            .next(Applicant { role: *role, ..Applicant::PLAIN })
            .map_or("-", TaskId::as_str);
        assert_eq!(next, *expected, "{tasks}");
    }
}

#[test]
fn s20_a_run_takes_a_task_without_a_check_last_and_a_client_in_its_turn() {
    let check = r#""validation":{"command":"true"}"#;
    let mut ledger = ledger(&format!(
        r#"{{"tasks":[{{"id":"bare","priority":"P0"}},{{"id":"a",{check}}},
            {{"id":"again","status":"failed","attempts":1,{check}}}]}}"#
    ));
    assert_eq!(ledger.selection().next(Applicant::PLAIN).map(TaskId::as_str), Some("bare"));
    for expected in ["a", "again", "bare"] {
        let next = ledger.selection().next_of_run(Applicant::PLAIN).cloned();
        assert_eq!(next.as_ref().map(TaskId::as_str), Some(expected));
        let choice = next.map_or(ClaimChoice::Next, ClaimChoice::NextIs);
        let claim = Claim { choice, ..session(expected) };
        _ = apply(&mut ledger, time(NOW), &Command::Claim(claim)).unwrap();
    }
}

#[test]
fn a_task_that_requires_labels_is_only_for_workers_that_have_all_of_them() {
    let mut ledger = ledger(
        r#"{"tasks":[{"id":"both","priority":"P0","requires":["gpu","linux"]},
            {"id":"gpu","requires":["gpu"]},{"id":"plain","priority":"P2"}]}"#,
    );
    let labels = |labels: &[&str]| labels.iter().map(|&l| l.to_owned()).collect::<Vec<_>>();
    let mut claim = |by: &str, has: &[&str]| {
        let claim = Claim { labels: labels(has), ..client(by) };
        match apply(&mut ledger, time(NOW), &Command::Claim(claim)).unwrap().reply {
            Reply::Claimed(claimed) => claimed.task.id.to_string(),
            _ => "nothing".to_owned(),
        }
    };
    assert_eq!(claim("a", &["gpu", "fast"]), "gpu");
    assert_eq!(claim("b", &["linux"]), "plain");
    assert_eq!(claim("c", &[]), "nothing");
    assert_eq!(claim("d", &["linux", "gpu"]), "both");
    // A worker gets its own task again, whatever it names now.
    assert_eq!(claim("d", &[]), "both");
}

#[test]
fn a_claim_of_a_named_task_needs_its_labels_too() {
    let mut ledger = ledger(r#"{"tasks":[{"id":"a","requires":["gpu"]}]}"#);
    let choice = ClaimChoice::Ready(TaskId::parse("a").unwrap());
    let plain = Claim { choice: choice.clone(), ..session("w") };
    let refused = apply(&mut ledger, time(NOW), &Command::Claim(plain));
    assert!(matches!(refused, Err(Refusal::NotReady { .. })), "{refused:?}");
    let labels = vec!["gpu".to_owned()];
    let able = Claim { choice, labels, ..session("w") };
    assert!(apply(&mut ledger, time(NOW), &Command::Claim(able)).is_ok());
}

/// The selection must not walk the ledger: the change names one row, whatever the size.
#[test]
fn a_claim_among_a_hundred_thousand_touches_one_row() {
    let mut tasks: Vec<harness_core::Task> =
        (1..=100_000).map(|n| harness_core::Task::new(TaskId::numbered(n), "t")).collect();
    for task in 1..tasks.len() {
        tasks[task].depends_on = vec![tasks[task - 1].id.clone()];
    }
    let head = harness_core::ledger::Head::new(Timestamp::from_seconds(0));
    let mut ledger = harness_core::Ledger::new(head, tasks).unwrap();
    for n in 1..=3 {
        let change = apply(&mut ledger, time(NOW), &Command::Claim(client("w"))).unwrap();
        assert_eq!(change.rows.len(), 1);
        let task = TaskId::numbered(n);
        let change =
            apply(&mut ledger, time(NOW), &Command::Complete(complete(task.as_str(), "w")))
                .unwrap();
        assert_eq!(change.rows.len(), 1);
        assert_eq!(ledger.selection().next(Applicant::PLAIN), Some(&TaskId::numbered(n + 1)));
    }
    assert_eq!(
        ledger.task(&TaskId::numbered(1)).unwrap().claimed_via(),
        Via::Run,
        "via goes with the claim"
    );
}
