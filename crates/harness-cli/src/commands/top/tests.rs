//! The screens at three sizes, and what the keys do.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::HashMap, path::Path};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use harness::{
    protocol::{BudgetRequest, QuestionReply, QuestionView, Request},
    view::{
        ActivityLog, Board, BoardInputs, RunHistory, TaskDetail, TaskStory, TaskSurroundings,
        Trusted,
    },
};
use harness_core::{
    Epoch, Ledger, Receipt, Run, RunId, Standing, TaskId, Timestamp,
    agent::Usage,
    format,
    run::{Iteration, Owner, RunLease, RunLimits, RunStatus, StopReason},
};
use insta::assert_snapshot;
use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;

use super::{
    draw::draw,
    pane::{Detail, Tab, TaskPane, Wanted},
    state::{Focus, Input, Link, Mode, Notice, Top, Wish},
    theme::Theme,
};

/// A time of day at which no time zone has midnight within ten minutes.
const NOW: Timestamp = Timestamp::from_seconds(1_763_390_700);

const LEDGER: &str = r#"{"version":2,"goal":"Users can log in and out","tasks":[
 {"id":"schema","title":"Write the migration for the sessions table","status":"completed","attempts":1,
  "validation":{"command":"cargo test schema"},"completed_at":"2025-11-17T14:39:00Z","claimed_by":"w.1","epoch":1},
 {"id":"login","title":"Add the login endpoint","status":"in_progress","attempts":1,"claimed_by":"w.1",
  "claimed_at":"2025-11-17T14:40:00Z","lease_expires_at":"2025-11-17T15:05:00Z","epoch":4,"via":"run",
  "validation":{"command":"cargo test login"},"error_log":["[TEST_FAIL] exit code 101"],
  "checkpoints":[{"step":2,"total":4,"description":"handler written","timestamp":"2025-11-17T14:44:00Z"}]},
 {"id":"docs","title":"Document the API \u001b[31mred\u001b[0m","status":"in_progress","claimed_by":"w.2",
  "claimed_at":"2025-11-17T14:41:00Z","lease_expires_at":"2025-11-17T15:05:00Z","epoch":5,"via":"run",
  "validation":{"command":"true"}},
 {"id":"limits","title":"Rate-limit password attempts and lock accounts after ten failures","status":"failed",
  "attempts":3,"failed_at":"2025-11-17T14:38:00Z","epoch":3,"validation":{"command":"cargo test limits"},
  "error_log":["[TEST_FAIL] The check failed (exit code 101)"]},
 {"id":"logout","title":"Add the logout endpoint","depends_on":["login"],"validation":{"command":"true"}},
 {"id":"train","title":"Train the spam filter","requires":["gpu"],"validation":{"command":"true"}},
 {"id":"mail","title":"Send a mail after ten failures","validation":{"command":"true"}}]}"#;

fn ledger() -> Ledger {
    format::read_ledger(LEDGER.as_bytes()).unwrap()
}

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_seconds(NOW.seconds() + minutes * 60)
}

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn top_run() -> Run {
    let owner = Owner { host: "here".into(), pid: 2, started: "-".into() };
    Run {
        status: RunStatus::Running,
        agent: "claude".into(),
        limits: RunLimits { max_cost_usd: Some(10.0), max_iterations: 10, ..RunLimits::default() },
        usage: Usage { input_tokens: 410_000, output_tokens: 21_000, cost_usd: Some(7.25) },
        lease: Some(RunLease { owner, expires_at: at(5) }),
        ..Run::queued(RunId::of_bits(1), at(-8))
    }
}

fn attempt(n: u128, task: &str, epoch: u64, status: RunStatus) -> Run {
    Run {
        status,
        stop_reason: status.is_over().then_some(StopReason::Crashed),
        agent: "claude".into(),
        parent: Some(RunId::of_bits(1)),
        task: Some(id(task)),
        epoch: Some(Epoch(epoch)),
        usage: Usage { input_tokens: 90_000, output_tokens: 4_000, cost_usd: Some(1.4) },
        updated_at: at(-1),
        ..Run::queued(RunId::of_bits(n), at(-5))
    }
}

fn record(run: Run) -> RunHistory {
    let runs = vec![
        run,
        attempt(2, "login", 2, RunStatus::Failed),
        attempt(3, "login", 4, RunStatus::Running),
        attempt(4, "docs", 5, RunStatus::Running),
        attempt(5, "schema", 1, RunStatus::Succeeded),
        attempt(6, "limits", 3, RunStatus::Failed),
    ];
    let transcript = Iteration {
        transcript: Some(".harness/transcripts/login.4.0.log".into()),
        ..Iteration::begun(0, at(-5))
    };
    RunHistory::of(runs, |owner| owner.pid % 2 == 1)
        .with_iterations(RunId::of_bits(3), vec![transcript])
}

fn activity() -> ActivityLog {
    let mut log = ActivityLog::default();
    let id = |seconds: i64| {
        let millis = u128::try_from((NOW.seconds() - seconds) * 1000).unwrap();
        Some(uuid::Uuid::from_u128((millis << 80) | (7 << 76) | (2 << 62)))
    };
    let context = |worker: &str| json!({ "worker": worker, "agent": { "name": "claude" } });
    let begin =
        json!({ "type": "run:iteration", "taskId": "login", "iteration": 1, "maxIterations": 10 });
    log.see(id(60), &begin, &context("w.1"));
    let tool = json!({ "type": "agent:tool:start", "toolName": "Bash", "input": { "command": "cargo test login" } });
    log.see(id(12), &tool, &context("w.1"));
    let text = json!({ "type": "agent:text", "content": "I look at \u{1b}[2Jthe routes now.\n" });
    log.see(id(400), &text, &context("w.2"));
    log
}

fn questions() -> Vec<QuestionView> {
    serde_json::from_value(json!([{ "prompt_id": "prompt-0-1", "question": "Which database?",
        "choices": ["postgres", "sqlite"], "allow_text": true }]))
    .unwrap()
}

fn receipts() -> HashMap<TaskId, Receipt> {
    let receipt = json!({ "version": 1, "task": "schema", "epoch": 1, "worker": "w.1", "attempt": 1,
        "base": "9fceb02d0ae598e95dc970b74767f19372d61af8",
        "commit": "e83c5163316f89bfbde7d9ab23ca2e25604af290", "tree": null, "baseline": null,
        "check": { "command": "cargo test schema", "timeout_seconds": 300, "clean": true, "exit_code": 0,
                   "duration_ms": 4200, "output_bytes": 10, "output_sha256": "00",
                   "output_tail": "running 4 tests\ntest result: ok. 4 passed\n" },
        "protected": ["tests/schema.rs"], "agent": "claude", "iterations": 1, "tokens": 94_000,
        "cost_usd": 1.4, "time": "2025-11-17T14:39:00Z" });
    HashMap::from([(id("schema"), serde_json::from_value(receipt).unwrap())])
}

fn board(run: Run, paused: bool) -> Board {
    let text = match paused {
        true => LEDGER.replacen(
            "\"version\":2",
            "\"version\":2,\"paused_at\":\"2025-11-17T14:44:00Z\"",
            1,
        ),
        false => LEDGER.to_owned(),
    };
    let ledger = format::read_ledger(text.as_bytes()).unwrap();
    let (record, activity, questions, receipts) =
        (record(run), activity(), questions(), receipts());
    let mut inputs =
        BoardInputs::new(Path::new("/srv/shop"), &ledger, &record, &activity, &receipts);
    inputs.questions = &questions;
    inputs.trusted = Trusted::Yes;
    Board::of(&inputs, NOW)
}

fn detail_of(task: &str) -> Detail {
    let (ledger, record, receipts) = (ledger(), record(top_run()), receipts());
    let found = ledger.task(&id(task)).unwrap();
    let around = TaskSurroundings::new(&record);
    let detail = TaskDetail::of(found, Standing::of(&ledger, found), &around, NOW);
    let receipts: Vec<Receipt> = receipts.into_values().filter(|r| r.task == found.id).collect();
    let output =
        (task != "schema").then(|| "thread 'login' panicked at src/login.rs:7\n".to_owned());
    let story = TaskStory::of(detail, &record, &receipts, &[], output);
    Detail {
        wanted: Wanted { task: Some(id(task)), ..Wanted::default() },
        task: Some(TaskPane::from(&story)),
        transcript: ["I look at the routes.", "> Bash: cargo test login", "! exit code 101 \\u{1b}[2J", "= success, 3 turns"]
            .map(str::to_owned)
            .to_vec(),
        diff: Some(Ok(" src/login.rs | 2 +-\n\ndiff --git a/src/login.rs b/src/login.rs\n--- a/src/login.rs\n\
                       +++ b/src/login.rs\n@@ -1 +1 @@\n-old\n+new \u{1b}[31m\n"
            .to_owned())),
    }
}

fn top() -> Top {
    let mut top = Top::new(Theme::Coloured, NOW);
    top.update(Input::Link(Link::Live));
    top.update(Input::Board(Box::new(board(top_run(), false))));
    top
}

fn press(top: &mut Top, keys: &str) -> Vec<Wish> {
    let code = |c: char| match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        c => KeyCode::Char(c),
    };
    let press = |c: char| top.update(Input::Key(KeyEvent::new(code(c), KeyModifiers::NONE)));
    keys.chars().flat_map(press).collect()
}

/// Selects a task, and gives the pane what it wants.
fn select(top: &mut Top, task: &str) {
    press(top, "g");
    while top.item().and_then(|item| item.task().map(str::to_owned)).as_deref() != Some(task) {
        press(top, "j");
    }
    top.update(Input::Detail(Box::new(detail_of(task))));
}

/// Returns the screen as text. Times of the day depend on the zone of the machine.
fn screen(top: &Top, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, frame)).unwrap();
    let text = terminal.backend().to_string();
    let times = regex::Regex::new(r"\b\d\d:\d\d\b").unwrap();
    let text = times.replace_all(&text, "HH:MM");
    let days = regex::Regex::new(r"\b\d{4}-\d\d-\d\d\b").unwrap();
    let text = days.replace_all(&text, "YYYY-MM-DD");
    assert!(!text.contains('\u{1b}'), "{text}");
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

/// The sizes of the snapshots: the smallest common terminal, a usual one, and a large one.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 32), (160, 40)];

fn check(name: &str, top: &Top) {
    for (width, height) in SIZES {
        assert_snapshot!(format!("{name}_{width}x{height}"), screen(top, width, height));
    }
}

#[test]
fn the_first_screen() {
    check("first", &top());
}

#[test]
fn a_task_at_work() {
    let mut top = top();
    select(&mut top, "login");
    check("working", &top);
}

#[test]
fn each_page_of_the_detail() {
    for tab in [Tab::Transcript, Tab::Check, Tab::Diff, Tab::Receipt] {
        let mut top = top();
        select(&mut top, if tab == Tab::Receipt { "schema" } else { "login" });
        top.tab = tab;
        check(&format!("page_{}", tab.name().to_lowercase()), &top);
    }
}

#[test]
fn the_detail_on_the_whole_screen() {
    let mut top = top();
    select(&mut top, "login");
    press(&mut top, "\n");
    assert_eq!((top.zoomed, top.focus), (true, Focus::Detail));
    check("zoomed", &top);
    press(&mut top, "\u{1b}");
    assert!(!top.zoomed);
}

#[test]
fn the_help() {
    let mut top = top();
    press(&mut top, "?");
    check("help", &top);
    press(&mut top, "x");
    assert_eq!(top.mode, Mode::Normal, "any key ends the help, and does nothing else");
}

#[test]
fn a_question_is_answered() {
    let mut top = top();
    press(&mut top, "a");
    check("answer", &top);
    let wishes = press(&mut top, "2\n");
    let reply = QuestionReply {
        prompt_id: "prompt-0-1".into(),
        content: "sqlite".into(),
        choice: Some("sqlite".into()),
    };
    assert_eq!(wishes, [Wish::Ask(Box::new(Request::Reply(reply)), "answered".into())]);
}

#[test]
fn a_run_that_is_gone_and_one_that_stopped() {
    let mut top = top();
    top.update(Input::Link(Link::Lost));
    let lease =
        top_run().lease.map(|lease| RunLease { owner: Owner { pid: 3, ..lease.owner }, ..lease });
    top.update(Input::Board(Box::new(board(Run { lease, ..top_run() }, false))));
    check("gone", &top);
    let (status, stop_reason) = (RunStatus::Stopped, Some(StopReason::Budget));
    let usage = Usage { cost_usd: Some(10.2), ..top_run().usage };
    let stopped = Run { status, stop_reason, usage, lease: None, updated_at: NOW, ..top_run() };
    top.update(Input::Board(Box::new(board(stopped, false))));
    check("stopped", &top);
}

#[test]
fn a_pause_and_a_failed_action() {
    let mut top = top();
    top.update(Input::Board(Box::new(board(top_run(), true))));
    top.update(Input::Notice(Notice::Failed("no run waits for a usage limit".into())));
    check("paused", &top);
    assert_eq!(
        press(&mut top, "p"),
        [Wish::Ask(Box::new(Request::Resume), "claiming goes on".into())]
    );
    assert_eq!(top.notice, None, "the next key removes the notice");
}

#[test]
fn the_filter_keeps_what_contains_it() {
    let mut top = top();
    press(&mut top, "/log");
    assert_eq!(top.entries.len(), 2, "login and logout");
    check("filter", &top);
    press(&mut top, "\n");
    assert_eq!((top.mode.clone(), top.filter.as_str()), (Mode::Normal, "log"));
    press(&mut top, "\u{1b}");
    assert_eq!(top.filter, "");
}

#[test]
fn without_colours_the_text_is_the_same() {
    let mut plain = top();
    plain.theme = Theme::Plain;
    assert_eq!(screen(&plain, 100, 30), screen(&top(), 100, 30));
}

#[test]
fn a_tiny_terminal_and_one_without_a_board_do_not_panic() {
    let empty = Top::new(Theme::Plain, NOW);
    for (width, height) in [(1, 1), (10, 3), (21, 8), (40, 9), (80, 24)] {
        screen(&top(), width, height);
        screen(&empty, width, height);
        let mut asking = top();
        press(&mut asking, "a");
        screen(&asking, width, height);
    }
}

#[test]
fn each_key_is_a_request_of_the_protocol() {
    let wish = |keys: &str| press(&mut top(), keys);
    assert_eq!(wish("q"), [Wish::Quit]);
    assert_eq!(wish("w"), [Wish::Ask(Box::new(Request::Kick), "the wait has ended".into())]);
    assert_eq!(wish("p"), [Wish::Ask(Box::new(Request::Pause), "claiming is paused".into())]);
    assert_eq!(wish("x"), [], "it asks first");
    assert_eq!(wish("xn"), []);
    let abort = Request::Abort { reason: None };
    assert_eq!(wish("xy"), [Wish::Ask(Box::new(abort), "the run is stopping".into())]);
    let budget = BudgetRequest { max_cost: Some(20.0), ..BudgetRequest::default() };
    assert_eq!(
        wish("b20\n"),
        [Wish::Ask(Box::new(Request::Budget(budget)), "the new budget holds".into())]
    );
    let sent = wish("shello\n");
    let Wish::Ask(request, _) = &sent[0] else { panic!() };
    let Request::Send(message) = request.as_ref() else { panic!() };
    assert_eq!(message.content, "hello");
    let mut top = top();
    select(&mut top, "limits");
    let wishes = press(&mut top, "r");
    let Wish::Ask(request, _) = &wishes[0] else { panic!() };
    let Request::TaskRetry(retry) = request.as_ref() else { panic!() };
    assert_eq!(retry.task_id, id("limits"));
    select(&mut top, "login");
    assert_eq!(press(&mut top, "r"), []);
    assert!(matches!(top.notice, Some(Notice::Failed(_))));
}

#[test]
fn the_selection_stays_at_its_entry() {
    let mut top = top();
    select(&mut top, "logout");
    let mut next = board(top_run(), false);
    next.needs.clear();
    top.update(Input::Board(Box::new(next)));
    assert_eq!(top.item().unwrap().task(), Some("logout"));
    assert_eq!(top.wanted().task, Some(id("logout")));
}
