//! Commands by which authors change the ledger, and the sessions over it.

use super::*;

const PLAN: &str = r#"{"goal":"G","tasks":{"n":{"description":"N","dependencies":["m"]},"m":{"description":"M","priority":"P0","timeout_seconds":1.5,"validation":{"command":"true"}}}}"#;

#[test]
fn add_numbers_and_checks() {
    at_now(
        "[]",
        add(None, "One", |_| ()),
        &["task task-001", "task-001: new", r#"task-001.title: "" -> "One""#],
    );
    // The number is one above the highest, whatever the spelling.
    for (tasks, next) in [
        (r#"[{"id":"task-9"},{"id":"task-007"}]"#, "task task-010"),
        (r#"[{"id":"task-999"}]"#, "task task-1000"),
        (r#"[{"id":"task-5x"},{"id":"other-9"}]"#, "task task-001"),
        // An implausibly large number does not use the numbers up.
        (r#"[{"id":"task-18446744073709551615"}]"#, "task task-001"),
    ] {
        let got = outcome(&ledger(tasks), time(NOW), &add(None, "x", |_| ()));
        assert_eq!(got[0], next);
    }
    let refused = |tasks: &str, command, why: &str| at_now(tasks, command, &[why]);
    refused(r#"[{"id":"a"}]"#, add(Some("a"), "x", |_| ()), "refused: Task a already exists");
    refused("[]", add(None, " ", |_| ()), "refused: title: must not be empty");
    refused(
        "[]",
        add(Some("a"), "x", |f| f.depends_on = Some(vec![id("a")])),
        "refused: Task a cannot depend on a: that would close a cycle",
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
        "refused: Task n cannot depend on a: that would close a cycle",
    );
}

#[test]
fn tasks_from_agents_and_workers_are_marked() {
    let author = |role, attempt: Option<&str>| {
        let attempt = attempt.and_then(Attempt::parse);
        Some(Author { role, pid: 7, attempt })
    };
    let mark = |author, line: &str| {
        let lines = outcome(&ledger("[]"), time(NOW), &add(None, "x", |f| f.by = author));
        assert_eq!(lines.iter().any(|l| l.contains("added_by")), !line.is_empty(), "{lines:?}");
        assert!(line.is_empty() || lines.iter().any(|l| l == line), "{lines:?}");
    };
    mark(author(Role::Operator, None), "");
    mark(author(Role::Agent, Some("a.3")), r#"task-001.added_by: - -> "agent a.3""#);
    mark(author(Role::Worker, None), r#"task-001.added_by: - -> "worker""#);
    let Command::Import(import) = import(PLAN, ImportMode::Merge) else { unreachable!() };
    let by = author(Role::Worker, None);
    let import = Command::Import(Import { by, ..import });
    let lines = outcome(&ledger(r#"[{"id":"m"}]"#), time(NOW), &import);
    assert!(lines.iter().any(|l| l == r#"n.added_by: - -> "worker""#), "{lines:?}");
}

#[test]
fn a_change_of_what_judges_a_task_is_logged_with_its_author() {
    let by = || Some(Author { role: Role::Operator, pid: 7, attempt: None });
    let a =
        r#"[{"id":"a","title":"A","validation":{"command":"make \"x\"","timeout_seconds":300}}]"#;
    let change = |f: &mut Edit| {
        f.by = by();
        f.title = Some("B".into());
        f.validation_command = Some("true".into());
        f.max_attempts = Some(9);
        f.phase = Some("Build".into());
    };
    let lines = outcome(&ledger(a), time(NOW), &edit("a", change));
    let logged: Vec<&String> = lines.iter().filter(|l| l.starts_with("log:")).collect();
    assert_eq!(
        logged,
        [
            r#"log: WARN [a] check changed by operator (pid=7): "make \"x\"" -> "true""#,
            r#"log: WARN [a] max_attempts changed by operator (pid=7): "3" -> "9""#,
            r#"log: WARN [a] phase changed by operator (pid=7): "" -> "Build""#,
        ]
    );
    let lines =
        outcome(&ledger(a), time(NOW), &edit("a", |f| (f.by, f.role) = (by(), Some("x".into()))));
    assert!(!lines.iter().any(|l| l.starts_with("log:")), "{lines:?}");
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
        "refused: Task a cannot depend on b: that would close a cycle",
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
    // The claim counter keeps the epoch that only this row had.
    at_now(tasks, remove("b"), &["task b", "head.epoch: - -> 7", "b: gone"]);
    at_now(tasks, remove("c"), &["task c", "head.epoch: - -> 7", "c: gone"]);
    at_now(&claimed(CLIENT), remove("a"), &["refused: Task a is in progress (claimed by w)"]);
}

#[test]
fn import_replaces_what_is_finished() {
    use ImportMode::*;
    let plan = PLAN;
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
fn import_merges_behind_what_is_there() {
    use ImportMode::*;
    // A merge keeps the existing tasks. New tasks follow them, and may depend on them.
    at_now(
        r#"{"version":2,"goal":"old","tasks":[{"id":"m","title":"mine","order":4}]}"#,
        import(PLAN, Merge),
        &[
            r#"imported "G" 1 []"#,
            "n: new",
            r#"n.title: "" -> "N""#,
            r#"n.depends_on: [] -> ["m"]"#,
            "n.order: - -> 5",
        ],
    );
    let far = r#"[{"id":"m","order":18446744073709551615}]"#;
    assert_eq!(outcome(&ledger(far), time(NOW), &import(PLAN, Merge))[0], r#"imported "G" 1 []"#);
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
    let begin = || Command::BeginSession(BeginSession { pid: 7, max_sessions: None });
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
