//! Every command, as tables: a ledger, a command, and what comes of it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "support/mod.rs"]
mod support;

use harness_core::{
    Category, Command, CommitId, Epoch, Holder, TaskId, Timestamp, TreeId,
    command::*,
    decide,
    plan::Plan,
    task::{Intent, Via},
};
use support::*;

const NOW: &str = "2025-07-01T10:00:00Z";

/// `a`, claimed by `w` through the daemon in epoch 4, with more fields.
fn claimed(more: &str) -> String {
    format!(
        r#"[{{"id":"a","title":"A","status":"in_progress","claimed_by":"w","epoch":4,
             "claimed_at":"2025-07-01T09:00:00Z","lease_expires_at":"2025-07-01T09:10:00Z"{more}}}]"#
    )
}

const CLIENT: &str = r#","via":"client""#;
const CHECKED: &str = r#","via":"client","validation":{"command":"make test"}"#;
const UNDOING: &str = r#","intent":{"rollback":{"category":"TEST_FAIL","message":"1 failed"}}"#;
const LANDING: &str = r#","intent":{"land":{"target":"main","from":"aaaa","to":"bbbb"}},"worktree":"/w","branch":"b""#;

#[track_caller]
fn at_now(ledger: &str, command: Command, expected: &[&str]) {
    check(ledger, time(NOW), command, expected);
}

fn commit(text: &str) -> Option<CommitId> {
    Some(CommitId::parse(text).unwrap())
}

fn with_epoch(holder: Holder, epoch: u64) -> Holder {
    Holder { epoch: Some(Epoch(epoch)), ..holder }
}

fn add(id: Option<&str>, title: &str, change: impl FnOnce(&mut Edit)) -> Command {
    let mut fields = Edit::nothing(TaskId::numbered(0));
    change(&mut fields);
    Command::Add(Add { id: id.map(support::id), title: title.into(), fields })
}

fn edit(task: &str, change: impl FnOnce(&mut Edit)) -> Command {
    let mut fields = Edit::nothing(id(task));
    change(&mut fields);
    Command::Edit(fields)
}

fn import(plan: &str, mode: ImportMode) -> Command {
    Command::Import(Import { plan: Plan::read(&format!("```json\n{plan}\n```")).unwrap(), mode })
}

#[test]
fn add_numbers_and_checks() {
    at_now(
        "[]",
        add(None, "One", |_| ()),
        &["task task-001", "task-001: new", r#"task-001.title: "" -> "One""#],
    );
    // One above the highest, however it is written.
    for (tasks, next) in [
        (r#"[{"id":"task-9"},{"id":"task-007"}]"#, "task task-010"),
        (r#"[{"id":"task-999"}]"#, "task task-1000"),
        (r#"[{"id":"task-5x"},{"id":"other-9"}]"#, "task task-001"),
    ] {
        let got = outcome(&ledger(tasks), time(NOW), &add(None, "x", |_| ()));
        assert_eq!(got[0], next);
    }
    let refused = |tasks: &str, command, why: &str| at_now(tasks, command, &[why]);
    refused(r#"[{"id":"a"}]"#, add(Some("a"), "x", |_| ()), "refused: Task a already exists");
    refused(
        r#"[{"id":"task-18446744073709551615"}]"#,
        add(None, "x", |_| ()),
        "refused: Task task-18446744073709551615 already exists",
    );
    refused("[]", add(None, " ", |_| ()), "refused: title: must not be empty");
    refused(
        "[]",
        add(Some("a"), "x", |f| f.depends_on = Some(vec![id("a")])),
        "refused: Task a can not depend on a: that would close a cycle",
    );
    refused(
        "[]",
        add(None, "x", |f| f.depends_on = Some(vec![id("b")])),
        "refused: Unknown dependency: b",
    );
    // A dependency that was missing until now must not become a cycle.
    refused(
        r#"[{"id":"a","depends_on":["n"]}]"#,
        add(Some("n"), "x", |f| f.depends_on = Some(vec![id("a")])),
        "refused: Task n can not depend on a: that would close a cycle",
    );
}

#[test]
fn a_number_stays_taken_while_an_id_has_it() {
    let mut ledger = ledger(r#"[{"id":"task-1"},{"id":"task-001","title":"mine"}]"#);
    let _ = apply(&mut ledger, time(NOW), &Command::Remove(Remove { task: id("task-1") })).unwrap();
    let _ = apply(&mut ledger, time(NOW), &add(None, "new", |_| ())).unwrap();
    assert_eq!(ledger.task(&id("task-001")).unwrap().title, "mine");
    assert!(ledger.contains(&id("task-002")));
}

#[test]
fn edit_sets_clears_and_refuses() {
    let a = r#"[{"id":"a","title":"A","role":"x"},{"id":"b","depends_on":["a"]}]"#;
    at_now(a, edit("a", |_| ()), &["task a"]);
    at_now(a, edit("z", |_| ()), &["refused: Task z not found"]);
    at_now(
        a,
        edit("a", |f| {
            f.title = Some("AA".into());
            f.priority = Some("P0".into());
            f.validation_command = Some("true".into());
            f.validation_timeout_seconds = Some(7);
            f.attempt_timeout_seconds = Some(8);
            f.max_attempts = Some(9);
            f.cleanup = Some("rm x".into());
            f.instructions = Some("do".into());
            f.role = Some(" ".into());
            f.phase = Some("p".into());
        }),
        &[
            "task a",
            r#"a.title: "A" -> "AA""#,
            r#"a.priority: "P1" -> "P0""#,
            "a.max_attempts: 3 -> 9",
            r#"a.validation: {"command":null,"timeout_seconds":300} -> {"command":"true","timeout_seconds":7}"#,
            r#"a.on_failure: {"cleanup":null} -> {"cleanup":"rm x"}"#,
            r#"a.role: "x" -> -"#,
            r#"a.instructions: - -> "do""#,
            r#"a.phase: - -> "p""#,
            "a.timeout_seconds: - -> 8",
        ],
    );
    let refused = |change: fn(&mut Edit), why: &str| at_now(a, edit("a", change), &[why]);
    refused(|f| f.title = Some(String::new()), "refused: title: must not be empty");
    refused(
        |f| f.priority = Some("high".into()),
        "refused: priority: \"high\" is not one of P0, P1, P2",
    );
    refused(|f| f.max_attempts = Some(0), "refused: max_attempts: must be at least 1");
    refused(
        |f| f.attempt_timeout_seconds = Some(0),
        "refused: timeout_seconds: must be at least 1",
    );
    refused(
        |f| f.validation_timeout_seconds = Some(0),
        "refused: validation.timeout_seconds: must be at least 1",
    );
    refused(
        |f| f.depends_on = Some(vec![id("b")]),
        "refused: Task a can not depend on b: that would close a cycle",
    );
    refused(|f| f.depends_on = Some(vec![id("z")]), "refused: Unknown dependency: z");
    // A dependency named twice counts once; a completed task closes no cycle.
    let done = r#"[{"id":"a"},{"id":"b","status":"completed","depends_on":["a"]}]"#;
    at_now(
        done,
        edit("a", |f| f.depends_on = Some(vec![id("b"), id("b")])),
        &["task a", r#"a.depends_on: [] -> ["b"]"#],
    );
}

#[test]
fn remove_keeps_what_others_need() {
    let remove = |task: &str| Command::Remove(Remove { task: id(task) });
    let tasks =
        r#"[{"id":"a","epoch":7},{"id":"b","depends_on":["a"]},{"id":"c","depends_on":["c"]}]"#;
    at_now(tasks, remove("a"), &["refused: Task a is needed by b"]);
    at_now(tasks, remove("z"), &["refused: Task z not found"]);
    // The claim counter does not forget the epoch that only this row had.
    at_now(tasks, remove("b"), &["task b", "head.epoch: - -> 7", "b: gone"]);
    at_now(tasks, remove("c"), &["task c", "head.epoch: - -> 7", "c: gone"]);
    at_now(&claimed(CLIENT), remove("a"), &["refused: Task a is in progress (claimed by w)"]);
}

#[test]
fn import_refuses_replaces_and_merges() {
    use ImportMode::*;
    let plan = r#"{"goal":"G","tasks":{"n":{"description":"N","dependencies":["m"]},"m":{"description":"M","priority":"P0","timeout_seconds":1.5,"validation":{"command":"true"}}}}"#;
    let new = [
        r#"head.goal: - -> "G""#,
        "n: new",
        r#"n.title: "" -> "N""#,
        r#"n.depends_on: [] -> ["m"]"#,
        "n.order: - -> 0",
        "m: new",
        r#"m.title: "" -> "M""#,
        r#"m.priority: "P1" -> "P0""#,
        r#"m.validation: {"command":null,"timeout_seconds":300} -> {"command":"true","timeout_seconds":300}"#,
        "m.timeout_seconds: - -> 2",
        "m.order: - -> 1",
    ];
    let reply = r#"imported "G" 2 []"#;
    at_now("[]", import(plan, IfFinished), &[&[reply][..], &new].concat());

    let finished = r#"{"version":2,"goal":"old","phases":[{"name":"p"}],"session_count":3,"last_session":"2025-01-01T00:00:00Z",
        "session_config":{"concurrency_mode":"concurrent","max_sessions":7},
        "tasks":[{"id":"n","status":"completed","epoch":9},{"id":"x","status":"failed","attempts":3}]}"#;
    let got = outcome(&ledger(finished), time(NOW), &import(plan, IfFinished));
    assert!(
        got.contains(&"head.epoch: - -> 9".into()) && got.contains(&"x: gone".into()),
        "{got:#?}"
    );
    assert!(got.contains(&r#"n.status: "completed" -> "pending""#.into()), "{got:#?}");
    assert!(
        !got.iter().any(|l| l.starts_with("head.session") || l.starts_with("head.last")),
        "{got:#?}"
    );

    for unfinished in [
        r#"[{"id":"a"}]"#.to_owned(),
        r#"[{"id":"a","status":"failed","attempts":2}]"#.into(),
        claimed(CLIENT),
    ] {
        at_now(
            &unfinished,
            import(plan, IfFinished),
            &["refused: the ledger has unfinished work (1 of 1 tasks)"],
        );
        let got = outcome(&ledger(&unfinished), time(NOW), &import(plan, Replace));
        assert_eq!(got[0], reply);
        assert!(got.contains(&"a: gone".into()));
    }
    // Merged: what is there stays; new tasks follow it, and may depend on it.
    at_now(
        r#"{"version":2,"goal":"old","tasks":[{"id":"m","title":"mine","order":4}]}"#,
        import(plan, Merge),
        &[
            r#"imported "G" 1 []"#,
            "n: new",
            r#"n.title: "" -> "N""#,
            r#"n.depends_on: [] -> ["m"]"#,
            "n.order: - -> 5",
        ],
    );
    let far = r#"[{"id":"m","order":18446744073709551615}]"#;
    assert_eq!(outcome(&ledger(far), time(NOW), &import(plan, Merge))[0], r#"imported "G" 1 []"#);
    let missing = r#"{"goal":"G","tasks":{"n":{"description":"N","dependencies":["gone"]}}}"#;
    let cycle = r#"{"goal":"G","tasks":{"n":{"description":"N","dependencies":["n"]}}}"#;
    let closing = r#"{"goal":"G","tasks":{"n":{"description":"N","dependencies":["o"]},"o":{"description":"O","dependencies":["a"]}}}"#;
    for (plan, mode, tasks, why) in [
        (missing, Replace, r#"[{"id":"gone"}]"#, "refused: Missing dependency: gone (in n)"),
        (missing, Merge, "[]", "refused: Missing dependency: gone (in n)"),
        (cycle, Replace, "[]", "refused: Cycle detected at n"),
        (cycle, Merge, "[]", "refused: Cycle detected at n"),
        (closing, Merge, r#"[{"id":"a","depends_on":["n"]}]"#, "refused: Cycle detected at n"),
    ] {
        at_now(tasks, import(plan, mode), &[why]);
    }
    at_now(
        r#"{"version":2,"goal":"g","session_count":2,"tasks":[{"id":"a","epoch":3}]}"#,
        Command::Reset,
        &["reset 1", r#"head.goal: "g" -> -"#, "head.epoch: - -> 3", "a: gone"],
    );
    let archives = |tasks: &str, command: &Command| {
        decide(&ledger(tasks), time(NOW), command).unwrap().archives()
    };
    assert!(archives(finished, &import(plan, IfFinished)) && archives("[]", &Command::Reset));
    assert!(!archives("[]", &import(plan, IfFinished)));
}

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
            r#"a.lease_expires_at: - -> "2025-07-01T10:01:30Z""#,
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
    let only = |task: &str| Command::Claim(Claim { only: Some(id(task)), ..session("w") });
    let two = r#"[{"id":"a"},{"id":"b"}]"#;
    at_now(two, only("b"), &["refused: Task b is not the next one"]);
    assert_eq!(outcome(&ledger(two), time(NOW), &only("a"))[0], "claimed a epoch=1");
    at_now("[]", only("a"), &["refused: Task a is not the next one"]);
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
fn whoever_asks_again_gets_what_it_has() {
    at_now(
        &claimed(CLIENT),
        Command::Claim(client("w")),
        &[
            "claimed a epoch=4 is_retry",
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:10:00Z""#,
        ],
    );
    at_now(&claimed(CLIENT), Command::Claim(session("w")), &["refused: Worker w already holds a"]);
    let other = Claim { only: Some(id("z")), ..client("w") };
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
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:10:00Z""#,
            "a.epoch: 4 -> 5",
        ],
    );
    // At its last attempt it is over, and whoever waited for it never gets a turn.
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
    // A session's claim is recovered by a session, an intent is finished: neither is failed here.
    at_now(&claimed(""), Command::Claim(client("v")), &["nothing to claim"]);
    at_now(
        &claimed(&format!("{CLIENT}{UNDOING}")),
        Command::Claim(client("v")),
        &["nothing to claim"],
    );
    // A lease ends at its second, not before.
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
    // With the expired P0 task recorded as failed, that one would be tried first; but this is only
    // known together with the claim, and refusing would lose the record and repeat for ever.
    let tasks = r#"[{"id":"x","status":"failed","attempts":1,"failed_at":"2025-07-01T08:00:00Z"},
        {"id":"z","priority":"P0","status":"in_progress","claimed_by":"c","via":"client","lease_expires_at":"2025-07-01T09:00:00Z"}]"#;
    let only = Claim { only: Some(id("x")), ..session("w") };
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
        let next = ledger.selection().next(*role).map_or("-", TaskId::as_str);
        assert_eq!(next, *expected, "{tasks}");
    }
}

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
    let renew = |holder| Command::Renew(Renew { holder, lease_seconds: 60 });
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
            "lease a 2025-07-01T10:00:30Z",
            r#"a.lease_expires_at: "2025-07-01T09:10:00Z" -> "2025-07-01T10:00:30Z""#,
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
        &["refused: Task a has a check; it counts as completed only when that passed"],
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
    // Landing is the way to completion.
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
        &["refused: Task a has a check; it counts as completed only when that passed"],
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
    // The intended cause, not what came up while it was undone.
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
    // The last attempt, and an attempt after which none can help.
    let got =
        outcome(&ledger(&claimed(",\"attempts\":2")), time(NOW), &Command::Fail(broke.clone()));
    assert!(got[0] == "failed a retryable=false" && got.contains(&"a.attempts: 2 -> 3".into()));
    let got = outcome(
        &ledger(&claimed("")),
        time(NOW),
        &Command::Fail(Fail { attempts: Attempts::All, ..broke.clone() }),
    );
    assert!(got[0] == "failed a retryable=false" && got.contains(&"a.attempts: 0 -> 3".into()));
    // A maximum that was lowered meanwhile takes back no attempt.
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
    let intend = |by: &str, intent| Command::Intend(Intend { holder: holder("a", by), intent });
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
fn retry_frees_those_who_were_blocked_by_it() {
    let retry = |task: &str| Command::Retry(Retry { task: id(task), reason: "fixed".into() });
    let tasks = r#"[
        {"id":"a","status":"failed","attempts":3,"failed_at":"2025-07-01T08:00:00Z","error_log":["[TEST_FAIL] x"]},
        {"id":"b","status":"failed","failed_at":"2025-07-01T08:00:00Z","depends_on":["a"],"error_log":["[DEPENDENCY] Blocked by failed a"]},
        {"id":"c","status":"failed","failed_at":"2025-07-01T08:00:00Z","attempts":1,"depends_on":["b"],"error_log":["[TEST_FAIL] y","[DEPENDENCY] Blocked by failed b"]},
        {"id":"d","status":"failed","depends_on":["e"],"error_log":["[DEPENDENCY] Blocked by failed e"]},
        {"id":"e","status":"failed","depends_on":["a"],"error_log":["[DEPENDENCY] Blocked by failed a","[DEPENDENCY] other"]}]"#;
    at_now(
        tasks,
        retry("a"),
        &[
            "task a",
            r#"log: RECOVERY [a] action="retry" reason="fixed""#,
            r#"a.status: "failed" -> "pending""#,
            "a.attempts: 3 -> 0",
            r#"a.failed_at: "2025-07-01T08:00:00Z" -> -"#,
            r#"b.status: "failed" -> "pending""#,
            r#"b.error_log: ["[DEPENDENCY] Blocked by failed a"] -> []"#,
            r#"b.failed_at: "2025-07-01T08:00:00Z" -> -"#,
            r#"c.error_log: ["[TEST_FAIL] y","[DEPENDENCY] Blocked by failed b"] -> ["[TEST_FAIL] y"]"#,
            r#"e.error_log: ["[DEPENDENCY] Blocked by failed a","[DEPENDENCY] other"] -> ["[DEPENDENCY] other"]"#,
        ],
    );
    at_now(r#"[{"id":"a"}]"#, retry("a"), &["refused: Task a is pending, not failed"]);
    at_now("[]", retry("a"), &["refused: Task a not found"]);
}

#[test]
fn sessions_are_counted_and_limited() {
    let begin = || Command::BeginSession(BeginSession { pid: 7 });
    let head = |count: u64, max: i64| {
        format!(
            r#"{{"version":2,"session_count":{count},"session_config":{{"max_sessions":{max}}},"tasks":[{{"id":"a","status":"completed","attempts":2}}]}}"#
        )
    };
    at_now(
        &head(1, 2),
        begin(),
        &["session 2", "log: LOCK acquired (pid=7)", "head.session_count: 1 -> 2"],
    );
    at_now(&head(2, 2), begin(), &["refused: max_sessions reached (2)"]);
    at_now(
        &head(2, 0),
        begin(),
        &["session 3", "log: LOCK acquired (pid=7)", "head.session_count: 2 -> 3"],
    );
    at_now(
        &head(u64::MAX, -1),
        begin(),
        &["session 18446744073709551615", "log: LOCK acquired (pid=7)"],
    );
    at_now(
        &head(1, 2),
        Command::EndSession(EndSession { pid: 7 }),
        &[
            "session 1",
            "log: STATS tasks_total=1 completed=1 failed=0 pending=0 blocked=0 attempts_total=2 checkpoints=0",
            "log: LOCK released",
            r#"head.last_session: null -> "2025-07-01T10:00:00Z""#,
        ],
    );
}

/// Choosing must not walk the ledger: the change names one row, whatever the size.
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
        assert_eq!(ledger.selection().next(None), Some(&TaskId::numbered(n + 1)));
    }
    assert_eq!(
        ledger.task(&TaskId::numbered(1)).unwrap().claimed_via(),
        Via::Run,
        "via goes with the claim"
    );
}
