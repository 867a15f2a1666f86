//! PROTOCOL.md is true: its examples are read, printed, run, and compared with the output of the
//! binary.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
};

use harness::store::{
    DATABASE, RunStore,
    disk::File,
    lock::{StateLock, Wait},
};
use harness_core::{
    Category, CommitId, Epoch, Fact, Flag, Ledger, RunId, Stats, Task, TaskId, Timestamp, TreeId,
    WorkerId,
    command::{Change, Code, Reply, Row},
    fact::{LineStep, ObjectiveStep, Source},
    format::{self, Document},
    ledger::{Alert, Gate, GateHold, Head, LandingEntry, Phase, SessionConfig, Unsettled},
    log::{Kind, LogLine},
    plan::Plan,
    role::Operation,
    task::{
        ActiveClaim, Checkpoint, ErrorEntry, FailureCause, Intent, Priority, TaskCompletion,
        TaskFailure, TaskSource, TaskState, Validation, Via,
    },
};
use serde_json::Value;

use crate::{
    environment::TestEnvironment,
    page::{Page, code, repository},
};

const BASE: &str = "9fceb02d0ae598e95dc970b74767f19372d61af8";
const COMMIT: &str = "e83c5163316f89bfbde7d9ab23ca2e25604af290";

fn protocol() -> Page {
    Page::open("PROTOCOL.md")
}

fn now() -> Timestamp {
    Timestamp::parse("2025-07-01T10:00:00Z").unwrap()
}

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn commit(text: &str) -> CommitId {
    CommitId::parse(text).unwrap()
}

/// Returns every key of a document by its path: `a`, `a.b`, `list[].c`.
fn paths(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, at: &str, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                    walk(value, &at, into);
                    into.insert(at);
                }
            }
            Value::Array(items) => items.iter().for_each(|i| walk(i, &format!("{at}[]"), into)),
            _ => {}
        }
    }
    let mut into = BTreeSet::new();
    walk(value, "", &mut into);
    into
}

fn set(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().collect()
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_file_of_the_store_is_in_the_table() {
    let named = protocol().named("## Files");
    for file in [
        File::Ledger,
        File::Backup,
        File::Tmp,
        File::Log,
        File::Marker,
        File::Trajectory,
        File::Lock,
    ] {
        assert!(named.iter().any(|name| name == file.path()), "{}", file.path());
    }
    assert!(named.iter().any(|name| name == DATABASE));
}

#[test]
fn the_tables_of_the_database_have_every_column() {
    let root = tempfile::tempdir().unwrap();
    drop(RunStore::open(root.path()).unwrap());
    let database = rusqlite::Connection::open(root.path().join(DATABASE)).unwrap();
    let rows = protocol().rows("## The database of runs");
    let shown: BTreeSet<String> = rows.iter().flat_map(|row| code(&row[0])).collect();
    let sql = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c \
        WHERE t.type = 'table'";
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| row.get::<_, String>(1)).unwrap();
    assert_eq!(shown, set(columns.map(Result::unwrap)));
}

#[test]
fn every_code_and_every_operation_is_in_its_table() {
    let page = protocol();
    let codes = Code::ALL.iter().map(|code| code.name().to_owned());
    assert_eq!(set(page.named("### Codes")), set(codes));
    let operations = Operation::ALL.iter().map(|operation| operation.name().to_owned());
    assert_eq!(set(page.named("### Roles")), set(operations));
}

#[test]
fn the_ledger_reads_and_is_written_back_to_the_letter() {
    let text = protocol().block("json ledger");
    let (ledger, mut document) = format::read(text.as_bytes()).unwrap();
    assert_eq!(document.render(&ledger), text);
    // The same holds if each task is written again instead of copied.
    let rows = ledger.tasks().map(|task| Row::Put(Box::new(task.clone()))).collect();
    document.put_in(&Change { head: None, rows, facts: Vec::new(), reply: Reply::NothingToClaim });
    assert_eq!(document.render(&ledger), text);
    assert!(text.contains("\"ticket\""), "the example shows a field that nobody knows");
}

fn tree() -> TreeId {
    TreeId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap()
}

fn full_claim(intent: Intent) -> TaskState {
    TaskState::Claimed(Box::new(ActiveClaim {
        by: Some(WorkerId::recorded("w")),
        at: Some(now()),
        lease_expires_at: Some(now()),
        via: Some(Via::Client),
        worktree: Some("/srv".into()),
        branch: Some("main".into()),
        base_untracked: Some(tree()),
        intent: Some(intent),
    }))
}

/// Returns a task with all fields. There is no `..`, so that a new field does not compile until it
/// is here, and in the tables.
fn full_task(name: &str, state: TaskState) -> Task {
    Task {
        id: id(name),
        title: "title".into(),
        state,
        priority: Priority::P0,
        depends_on: vec![id("task-001")],
        attempts: 1,
        max_attempts: 3,
        epoch: Some(Epoch(1)),
        started_at_commit: Some(commit(BASE)),
        validation: Validation {
            command: Some("true".into()),
            timeout_seconds: 300,
            clean: Some(true),
            baseline: Some(true),
        },
        cleanup: Some("true".into()),
        error_log: vec![ErrorEntry::new(Some(Category::TaskExec), "x")],
        checkpoints: vec![Checkpoint {
            step: 1,
            total: 2,
            description: "x".into(),
            timestamp: Some(now()),
            tree: Some(tree()),
        }],
        instructions: Some("x".into()),
        protected: vec!["x".into()],
        requires: vec!["gpu".into()],
        conflicts: vec!["src/login.rs".into()],
        source: Some(Box::new(TaskSource {
            kind: "beads".into(),
            path: Some("x".into()),
            key: "x".into(),
        })),
        role: Some("x".into()),
        phase: Some("x".into()),
        timeout_seconds: Some(1),
        order: Some(1),
        flags: vec![Flag::Edit],
        added_by: Some("worker".into()),
    }
}

fn full_head() -> Head {
    Head {
        created: Some(now()),
        session_config: SessionConfig {
            target_branch: Some("main".into()),
            target_remote: Some("origin".into()),
            landed_branch: Some("harness/landed".into()),
            landed_why: Some("x".into()),
            ..SessionConfig::default()
        },
        session_count: 1,
        session_claims: 1,
        last_session: Some(now()),
        paused_at: Some(now()),
        epoch: Epoch(1),
        unsettled: Some(Unsettled { after: Epoch(1), until: Epoch(2) }),
        goal: Some("x".into()),
        phases: vec![Phase {
            name: "x".into(),
            gate: Some(Gate { command: "true".into(), timeout_seconds: Some(1) }),
            approve: true,
            passed_at: Some(now()),
            held: Some(GateHold { by: WorkerId::recorded("w"), until: now() }),
        }],
        needs: vec!["x".into()],
        landing: vec![LandingEntry {
            task: id("task-001"),
            epoch: Epoch(1),
            onto: Some(commit(BASE)),
            commit: Some(commit(COMMIT)),
            green: Some(true),
            renewed_at: Some(now()),
        }],
        alerts: vec![Alert { time: now(), task: Some(id("task-001")), message: "x".into() }],
        log_tail: vec!["x".into()],
        log_at: 1,
    }
}

#[test]
fn every_field_of_the_ledger_is_in_its_table_and_the_other_way_round() {
    let rollback = Intent::Rollback { category: Category::TestFail, message: "x".into() };
    let land = Intent::Land { target: "main".into(), from: commit(BASE), to: commit(COMMIT) };
    let by = Some(WorkerId::recorded("w"));
    let completion = TaskCompletion { by, claimed_at: Some(now()), at: Some(now()) };
    let cause = FailureCause::Attempt;
    let failure = TaskFailure { at: Some(now()), category: Some(Category::TaskExec), cause };
    let tasks = vec![
        full_task("a", full_claim(rollback)),
        full_task("b", full_claim(land)),
        full_task("c", TaskState::Completed(completion)),
        full_task("d", TaskState::Failed(failure)),
    ];
    let ledger = Ledger::new(full_head(), tasks).unwrap();
    let mut document = Document::new(&ledger);
    document.record_transaction("x", 1);
    document.settle(&ledger, 1, Some(&harness_core::format::Key::new([0; 32])));
    let text = document.text();
    let written = paths(&serde_json::from_str(&text).unwrap());
    let of_tasks = |path: &String| path.strip_prefix("tasks[].").map(str::to_owned);
    let page = protocol();
    let root = written.iter().filter(|path| of_tasks(path).is_none()).cloned();
    assert_eq!(set(page.named("### Fields of the root")), set(root));
    assert_eq!(set(page.named("### Fields of a task")), set(written.iter().filter_map(of_tasks)));
}

/// Returns one of each fact, in the order of a story. [`number`] ensures that none is forgotten.
fn every_fact() -> Vec<Fact> {
    let (one, two) = (id("task-001"), id("task-002"));
    let (title, goal) =
        ("Add the login endpoint".to_owned(), "Users can log in and out".to_owned());
    let worker = WorkerId::parse("alice").unwrap();
    let (category, message) = (Category::TestFail, "exit code 101".to_owned());
    let stats = Stats {
        total: 5,
        completed: 1,
        failed: 1,
        pending: 3,
        in_progress: 0,
        blocked: 0,
        attempts_total: 2,
        checkpoints: 1,
    };
    let (base, done) = (commit(BASE), commit(COMMIT));
    let intent = Intent::Rollback { category, message: message.clone() };
    let description = "routes done".to_owned();
    let word = "no validation.command; completed on the word of alice".to_owned();
    vec![
        Fact::Initialized { project: "/srv/shop".into() },
        Fact::LockAcquired { pid: 12345 },
        Fact::HealthCheck { passed: true },
        Fact::Added { task: one.clone(), title: title.clone() },
        Fact::Edited { task: one.clone() },
        Fact::Removed { task: id("task-009") },
        Fact::PlanImported { goal: goal.clone(), task_count: 2 },
        Fact::PlanReplaced { goal, task_count: 2, replaced: 1 },
        Fact::PlanReset { task_count: 2 },
        Fact::Claimed {
            task: one.clone(),
            title,
            worker: worker.clone(),
            epoch: Epoch(7),
            base: Some(base.clone()),
        },
        Fact::Renewed { task: one.clone(), expires_at: now() },
        Fact::Checkpointed { task: one.clone(), step: 2, total: 4, description },
        Fact::Completed { task: one, worker, commit: Some(done) },
        Fact::Intended { task: two.clone(), intent },
        Fact::IntentVoided { task: two.clone() },
        Fact::Failed { task: two.clone(), category, message, retryable: Some(true) },
        Fact::RolledBack { task: two.clone(), commit: base },
        Fact::Recovered {
            task: two.clone(),
            action: "release".into(),
            reason: "released by hand".into(),
        },
        Fact::LedgerRestored { from: Source::Backup, reason: "not JSON".into() },
        Fact::Problem {
            task: Some(id("task-003")),
            category: Category::Config,
            message: "Missing validation.command".into(),
        },
        Fact::Warned { task: Some(two), message: word },
        Fact::Stats(stats),
        Fact::LockReleased { pid: 12345 },
        Fact::GatePassed { phase: "Research".to_owned(), by: Some("operator (pid=4711)".into()) },
        Fact::Flagged {
            task: Some(id("task-001")),
            flag: Flag::NoChange,
            message: "the commit is the one that the claim started from".into(),
        },
        Fact::Acknowledged { count: 2 },
        Fact::FilesRestored { what: "harness-progress.txt".into(), reason: "it was gone".into() },
        Fact::Line { task: id("task-002"), step: LineStep::Green },
        Fact::Objective {
            run: RunId::of_bits(0x0197_f0a2_0000_7000_8000_0000_0000_0001),
            step: ObjectiveStep::CheckFailed,
            message: "check failed: exit code 1".into(),
        },
        Fact::Paused { by: Some("operator (pid=4711)".into()) },
        Fact::Resumed { by: Some("operator (pid=4711)".into()) },
    ]
}

fn number(fact: &Fact) -> usize {
    match fact {
        Fact::Initialized { .. } => 0,
        Fact::LockAcquired { .. } => 1,
        Fact::HealthCheck { .. } => 2,
        Fact::Added { .. } => 3,
        Fact::Edited { .. } => 4,
        Fact::Removed { .. } => 5,
        Fact::PlanImported { .. } => 6,
        Fact::PlanReplaced { .. } => 7,
        Fact::PlanReset { .. } => 8,
        Fact::Claimed { .. } => 9,
        Fact::Renewed { .. } => 10,
        Fact::Checkpointed { .. } => 11,
        Fact::Completed { .. } => 12,
        Fact::Intended { .. } => 13,
        Fact::IntentVoided { .. } => 14,
        Fact::Failed { .. } => 15,
        Fact::RolledBack { .. } => 16,
        Fact::Recovered { .. } => 17,
        Fact::LedgerRestored { .. } => 18,
        Fact::Problem { .. } => 19,
        Fact::Warned { .. } => 20,
        Fact::Stats(_) => 21,
        Fact::LockReleased { .. } => 22,
        Fact::GatePassed { .. } => 23,
        Fact::Flagged { .. } => 24,
        Fact::Acknowledged { .. } => 25,
        Fact::FilesRestored { .. } => 26,
        Fact::Line { .. } => 27,
        Fact::Objective { .. } => 28,
        Fact::Paused { .. } => 29,
        Fact::Resumed { .. } => 30,
    }
}

#[test]
fn the_log_is_what_the_facts_say() {
    let facts = every_fact();
    assert!(facts.iter().map(number).eq(0..31), "one fact of each kind");
    let lines = facts.iter().filter_map(|fact| fact.log_line(now(), 1));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(protocol().block("text log"), text);
    for kind in Kind::ALL {
        assert!(text.contains(&format!("[SESSION-1] {kind} ")), "{kind}");
    }
}

#[test]
fn the_trajectory_is_what_the_facts_say() {
    let facts = every_fact();
    let text: String = facts.iter().map(|fact| format!("{}\n", fact.trajectory(now()))).collect();
    assert_eq!(protocol().block("json trajectory"), text);
}

#[test]
fn telemetry_is_what_the_facts_say() {
    let facts = every_fact();
    // A replaced plan is reported like a new one.
    let told = facts.iter().filter(|fact| !matches!(fact, Fact::PlanReplaced { .. }));
    let told = told.filter_map(harness::telemetry::object);
    let text: String = told.map(|object| format!("{object}\n")).collect();
    assert_eq!(protocol().block("json telemetry"), text);
}

#[test]
fn log_lines_read_and_print_back() {
    let page = protocol();
    let blocks = page.blocks("text log").into_iter().chain(page.blocks("text log-line"));
    for line in blocks.collect::<String>().lines() {
        let read = LogLine::parse(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(read.to_string(), line);
    }
    let categories = set(Category::ALL.map(|c| c.to_string()));
    assert_eq!(set(page.named("## The log")), categories);
}

#[test]
fn the_last_word_of_a_lost_ledger_is_the_one_shown() {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    env.write("harness-tasks.json", "{");
    // The journal would restore it.
    fs::remove_dir_all(env.home().join(".local/state/harness/roots")).unwrap();
    env.run(["add", "x"]).code(5);
    let log = env.read("harness-progress.txt");
    let said = LogLine::parse(log.lines().last().unwrap()).unwrap();
    let shown = LogLine::parse(&protocol().block("text log-line")).unwrap();
    let words = |line: LogLine| (line.kind, line.task, line.category, line.message);
    assert_eq!(words(said), words(shown));
}

#[test]
fn the_plan_is_taken_and_uses_every_field() {
    let page = protocol();
    let text = page.block("md plan");
    let plan = Plan::parse(&text).unwrap();
    assert_eq!(plan.warnings, [""; 0]);
    let block: Value = serde_json::from_str(harness_core::plan::extract(&text).unwrap()).unwrap();
    let tasks = block["tasks"].as_object().unwrap();
    let used = tasks.values().flat_map(paths).map(|path| format!("tasks.{path}"));
    let used = set(used.chain(keys(&block)));
    assert_eq!(set(page.named("## Plans").into_iter().filter(|n| !n.contains([' ', '<']))), used);

    let env = TestEnvironment::new();
    env.write("plan.md", &text);
    env.run(["plan", "import", "--file", "plan.md"]).success().stdout("Plan imported (2 tasks)");
    let exported = env.run(["plan", "export"]).success();
    assert_eq!(Plan::parse(exported.raw()).unwrap().tasks.len(), 2);
}

#[test]
fn plans_are_refused_in_the_words_of_the_table() {
    let plan = |tasks: &str| format!("```json\n{{\"goal\":\"g\",\"tasks\":{tasks}}}\n```\n");
    let cases = [
        (String::new(), "content required", "content required"),
        ("no block".into(), "No JSON plan block found", "No JSON plan block found"),
        ("```json\n{\"goal\" 1}\n```".into(), "Invalid JSON: ", "Invalid JSON: <why>"),
        (
            plan(r#"{"a":{}}"#),
            "tasks.a.description: required, but missing",
            "tasks.a.description: required, but missing",
        ),
        (
            plan(r#"{"a":{"description":"x","dependencies":["b"]}}"#),
            "Missing dependency: b (in a)",
            "Missing dependency: <dependency> (in <task>)",
        ),
        (
            plan(r#"{"a":{"description":"x","dependencies":["a"]}}"#),
            "Cycle detected at a",
            "Cycle detected at <task>",
        ),
    ];
    let page = protocol();
    let env = TestEnvironment::new();
    for (text, said, shown) in cases {
        let ran = env.run_with_input(&text, ["plan", "import", "--file", "-"]);
        ran.code(1).stderr_contains(said);
        assert!(page.section("## Plans").contains(&format!("`{shown}`")), "{shown}");
        assert!(!env.exists("harness-tasks.json"), "{said}");
    }
    env.run(["init"]).success();
    env.run(["add", "x"]).success();
    env.write("plan.md", plan("{}"));
    let refused = env.run(["plan", "import", "--file", "plan.md"]).code(1);
    refused.stderr_contains("the ledger has unfinished work (1 of 1 tasks)");
}

/// Starts the script of the document, which runs `sh -c COMMAND` under the lock, from a folder
/// below the state root.
fn peer(env: &TestEnvironment, command: &str) -> Child {
    let script = env.home().join("with-lock.sh");
    fs::write(&script, protocol().block("sh lock")).unwrap();
    let below = env.root().join("below");
    fs::create_dir_all(&below).unwrap();
    let mut sh = env.program("sh");
    sh.current_dir(below).arg(script).args(["sh", "-c", command]);
    sh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn the_script_keeps_harness_out_and_lets_it_in_again() {
    let env = TestEnvironment::new().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "0");
    env.run(["init"]).success();
    let mut script = peer(&env, "echo held; read -r _");
    assert_eq!(wait_for_line(&mut script), "held");
    let refused = env.harness(["add", "x"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let expected = format!("Another harness session is active (pid={})", script.id());
    assert!(said.contains(&expected), "{said}");
    assert_eq!(refused.status.code(), Some(1));
    env.run(["status"]).success();
    script.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(script.wait().unwrap().success());
    let added = env.run(["add", "x", "--validate", "true"]).success();
    assert_eq!(added.errors(), "", "no stale lock was left");
}

#[test]
fn harness_keeps_the_script_out() {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    let held = StateLock::acquire(env.root(), Wait::No).unwrap();
    let output = peer(&env, "echo in").wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("Another harness session is active (pid={})\n", std::process::id());
    assert_eq!((output.status.code(), said, output.stdout), (Some(1), expected, Vec::new()));
    drop(held);
    assert!(peer(&env, "exit 0").wait().unwrap().success());
    assert_eq!(peer(&env, "exit 7").wait().unwrap().code(), Some(7));
    assert_eq!(env.run(["add", "x", "--validate", "true"]).success().errors(), "");
}

#[test]
fn a_script_that_is_killed_leaves_a_lock_that_harness_removes() {
    let env = TestEnvironment::new().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "0");
    env.run(["init"]).success();
    let mut script = peer(&env, "echo held; read -r _");
    assert_eq!(wait_for_line(&mut script), "held");
    script.kill().unwrap();
    script.wait().unwrap();
    let added = env.run(["add", "x", "--validate", "true"]).success();
    assert_eq!(added.errors(), "WARN: Removed stale lock from pid=[PID]\n");
}

#[test]
fn a_lock_of_harness_holds_what_the_table_says() {
    let env = TestEnvironment::new();
    env.run(["init"]).success();
    let _held = StateLock::acquire(env.root(), Wait::No).unwrap();
    let lock = format!("/tmp/harness-{}.lock", harness::home::root_hash(env.root()));
    let owner: Value = serde_json::from_slice(&fs::read(format!("{lock}/owner")).unwrap()).unwrap();
    let pid = fs::read_to_string(format!("{lock}/pid")).unwrap();
    assert_eq!(pid, format!("{}\n", std::process::id()));
    let page = protocol();
    let rows = page.rows("## The lock");
    let names: Vec<_> = rows.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(names, ["pid", "owner"]);
    assert_eq!(code(&rows[1][1]), keys(&owner));
}

/// Returns a project with the one task of the examples.
fn shop() -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "alice");
    env.run(["init"]).success();
    let words = ["--instructions", "The handlers are in src/routes.", "--priority", "P0"];
    let title = ["add", "Add the login endpoint", "--validate", "cargo test login"];
    env.run(title.iter().chain(&words)).success();
    env
}

#[test]
fn a_claim_has_the_keys_of_its_example_in_that_order() {
    let env = shop();
    let shown: Value = serde_json::from_str(&protocol().block("json claim")).unwrap();
    let said = env.run(["task", "claim"]).success().json();
    assert_eq!(paths(&said), paths(&shown));
    assert_eq!(keys(&said["task"]), keys(&shown["task"]));
    let nothing = env.run(["task", "claim", "--worker", "bob"]).success();
    nothing.stdout(r#"{"task":null}"#);
}

#[test]
fn a_receipt_is_its_example() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "alice");
    env.run(["init"]).success();
    env.run(["add", "one", "--validate", "echo ok"]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-001"]).success();
    let mut shown: Value = serde_json::from_str(&protocol().block("json receipt")).unwrap();
    let kept = env.read(".harness/receipts/task-001.1.json");
    let said: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(keys(&said), keys(&shown));
    assert_eq!(keys(&said["check"]), keys(&shown["check"]));
    for name in ["base", "commit", "tree", "time"] {
        shown[name] = said[name].clone();
    }
    shown["check"]["duration_ms"] = said["check"]["duration_ms"].clone();
    assert_eq!(said, shown);
    // The library reads it too.
    serde_json::from_value::<harness_core::Receipt>(shown).unwrap();
}

#[test]
fn status_has_the_keys_of_its_example() {
    let env = shop();
    let shown: Value = serde_json::from_str(&protocol().block("json status")).unwrap();
    let said = env.run(["status", "--json"]).success().json();
    assert_eq!(paths(&said), paths(&shown));
    assert_eq!(keys(&said), keys(&shown));
    assert_eq!(said["counts"], shown["counts"]);
    assert_eq!(said["tasks"], shown["tasks"]);
}

#[test]
fn the_other_documents_have_the_keys_of_the_table() {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "alice");
    env.write("plan.md", protocol().block("md plan"));
    let channel = "[[notify]]\nkind = 'command'\ncommand = 'true'\n";
    env.write(env.home().join(".config/harness/config.toml"), channel);
    env.write("TODO.md", "- [ ] One thing\n");
    // In this order each command has something to act upon.
    let story: &[(&str, &[&str])] = &[
        ("init", &["init"]),
        ("add TITLE", &["add", "one"]),
        ("", &["add", "two"]),
        ("log", &["log", "-n", "1"]),
        ("task list", &["task", "list"]),
        ("task show ID", &["task", "show", "task-001"]),
        ("task graph", &["task", "graph"]),
        ("workers", &["workers"]),
        ("top", &["top"]),
        ("pause", &["pause"]),
        ("resume", &["resume"]),
        ("report", &["report"]),
        ("why ID", &["why", "task-001"]),
        ("verify", &["verify"]),
        ("", &["task", "claim"]),
        (
            "task checkpoint",
            &["task", "checkpoint", "--id", "task-001", "--step", "1", "--total", "2", "half"],
        ),
        ("task renew", &["task", "renew", "--id", "task-001"]),
        ("task complete", &["task", "complete", "--id", "task-001"]),
        ("", &["task", "claim"]),
        ("task fail", &["task", "fail", "--id", "task-002", "why"]),
        ("task retry ID", &["task", "retry", "task-002"]),
        ("task edit ID", &["task", "edit", "task-002", "--priority", "P2"]),
        ("", &["task", "claim"]),
        ("task release ID", &["task", "release", "task-002"]),
        ("task remove ID", &["task", "remove", "task-002"]),
        ("plan check", &["plan", "check", "--file", "plan.md"]),
        ("plan import", &["plan", "import", "--file", "plan.md"]),
        ("import", &["import", "TODO.md"]),
        ("plan export", &["plan", "export"]),
        ("plan phase NAME", &["plan", "phase", "Ship", "--gate", "true"]),
        ("plan phases", &["plan", "phases"]),
        ("session", &["session"]),
        ("plan reset", &["plan", "reset", "--yes"]),
        ("rescue list", &["rescue", "list"]),
        ("gc", &["gc"]),
        ("runs list", &["runs", "list"]),
        ("runs show", &["runs", "show"]),
        ("runs cost", &["runs", "cost"]),
        ("notify list", &["notify", "list"]),
        ("notify test", &["notify", "test"]),
        ("research finalize --task ID", &["research", "finalize", "--task", "task-001"]),
        ("install AGENT", &["install", "claude"]),
        ("uninstall AGENT", &["uninstall", "claude"]),
        ("trust", &["trust", "--yes"]),
        ("config", &["config"]),
        ("doctor", &["doctor"]),
        ("init --restore", &["init", "--restore"]),
        ("purge", &["purge", "--yes"]),
    ];
    let rows = protocol().rows("### Other documents");
    let mut shown: Vec<(String, Vec<String>)> = Vec::new();
    for row in &rows {
        let keys = row[1].split(';').next().unwrap();
        shown.push((code(&row[0]).remove(0), code(keys)));
    }
    let mut said = Vec::new();
    for (name, args) in story {
        if name.is_empty() {
            env.run(*args).success();
            continue;
        }
        let ran = env.run(args.iter().chain(&["--json"])).success();
        said.push((format!("harness {name} --json"), keys(&ran.json())));
    }
    assert_eq!(said, shown);
}

#[test]
fn the_handoff_is_read_without_a_word() {
    let read = harness_core::handoff::read(protocol().block("json handoff").as_bytes());
    assert_eq!(read.warnings, [""; 0]);
    assert!(read.handoff.unwrap().resumed_state().contains("Next: Implement Feature X"));
}

#[test]
fn a_template_may_use_the_names_of_the_page() {
    let env = TestEnvironment::new();
    let section = protocol().section("## Prompts");
    let (_, common) = section.split_once("Every prompt has").unwrap();
    let (common, of_task) = common.split_once("; `task` has").unwrap();
    let of_task = of_task.split('.').next().unwrap();
    let mut own = Vec::new();
    for row in protocol().rows("## Prompts") {
        if row[2] != "the same" {
            own = code(&row[2]);
        }
        let mut names = [code(common), own.clone()].concat();
        if names.iter().any(|name| name == "task") {
            names.extend(code(of_task).iter().map(|field| format!("task.{field}")));
        }
        let template: Vec<_> = names.iter().map(|name| format!("{{{{ {name} }}}}")).collect();
        env.write(format!(".harness/prompts/{}", code(&row[0])[0]), template.join("\n"));
    }
    let (_, warnings) = harness::prompts::Prompts::load(env.root());
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let env = TestEnvironment::new();
    let help = env.run(["--help"]).success();
    let (_, codes) = help.output().split_once("Exit codes:\n").unwrap();
    let codes: Vec<_> = codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["PROTOCOL.md", "README.md"] {
        let rows = Page::open(name).rows("## Exit codes");
        assert!(rows.iter().map(|row| &row[0]).eq(&codes), "{name}");
    }
}

#[test]
fn every_variable_is_in_the_page() {
    let quoted = regex::Regex::new(r#""(HARNESS_[A-Z_]+)""#).unwrap();
    let mut read = BTreeSet::new();
    for krate in ["harness-core", "harness", "harness-cli"] {
        let mut folders = vec![repository().join("crates").join(krate).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                if path.ends_with("tests.rs") {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]").next().unwrap();
                read.extend(quoted.captures_iter(product).map(|found| found[1].to_owned()));
            }
        }
    }
    let section = protocol().section("## Environment variables");
    let named: BTreeSet<String> = set(code(&section));
    let missing: Vec<_> = read.difference(&named).collect();
    assert!(missing.is_empty(), "{missing:?} are read or set, and not told of");
    let of_tables = set(protocol().named("## Environment variables"));
    let gone = |name: &&String| name.starts_with("HARNESS_") && !read.contains(*name);
    let gone: Vec<_> = of_tables.iter().filter(gone).collect();
    assert!(gone.is_empty(), "{gone:?} are told of, and read by nobody");
}
