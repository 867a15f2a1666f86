//! Tests of the views that values become.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use harness_core::{
    Epoch, Run, RunId, Standing, TaskId, Timestamp,
    agent::Usage,
    format::{self, Glance, TaskGlance},
    run::{Iteration, Owner, RunLease, RunLimits, RunStatus, StopReason},
    task::Status,
};
use serde_json::{Value, json};

use super::*;
use crate::{flows::ClosedGate, protocol::QuestionView};

const NOW: Timestamp = Timestamp::from_seconds(10_000);

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn owner(pid: u32) -> Owner {
    Owner { host: "here".into(), pid, started: "-/-/-".into() }
}

/// Processes with odd numbers count as gone.
fn is_gone(owner: &Owner) -> bool {
    owner.pid % 2 == 1
}

fn run(n: u128, status: RunStatus) -> Run {
    let created_at = Timestamp::from_seconds(i64::try_from(n).unwrap());
    Run { status, ..Run::queued(RunId::of_bits(n), created_at) }
}

fn driven(n: u128, status: RunStatus, pid: u32) -> Run {
    let lease = Some(RunLease { owner: owner(pid), expires_at: NOW });
    Run { lease, ..run(n, status) }
}

fn stopped(n: u128, reason: StopReason) -> Run {
    Run { stop_reason: Some(reason), ..run(n, reason.status()) }
}

fn attempt(n: u128, parent: u128, epoch: u64, status: RunStatus) -> Run {
    let usage = Usage { input_tokens: 10, output_tokens: 5, cost_usd: Some(0.5) };
    let (task, epoch) = (Some(id("a")), Some(Epoch(epoch)));
    Run { parent: Some(RunId::of_bits(parent)), task, epoch, usage, ..run(n, status) }
}

#[test]
fn a_run_is_in_one_condition_and_says_how_to_go_on() {
    use RunCondition::{AsksPerson, CutOff, Over, WaitsForLimit, Working};
    use RunStatus::{Running, WaitingForHuman};
    let limits = RunLimits { max_cost_usd: Some(1.0), ..RunLimits::default() };
    let spent = Usage { cost_usd: Some(1.5), ..Usage::default() };
    let resume = "harness run --resume --run-id 00000000-0000-0000-0000-000000000001";
    let raised = format!("{resume} --max-cost AMOUNT");
    for (run, condition, next) in [
        (driven(1, Running, 2), Working, None),
        (driven(1, WaitingForHuman, 2), AsksPerson, Some("harness questions")),
        (Run { wake_at: Some(NOW), ..driven(1, Running, 2) }, WaitsForLimit, Some("harness kick")),
        (driven(1, Running, 1), CutOff, Some(resume)),
        (driven(1, WaitingForHuman, 1), CutOff, Some(resume)),
        (stopped(1, StopReason::Stalled), Over, Some(resume)),
        (stopped(1, StopReason::Budget), Over, Some(resume)),
        (
            Run { limits, usage: spent, ..stopped(1, StopReason::Budget) },
            Over,
            Some(raised.as_str()),
        ),
        (stopped(1, StopReason::Complete), Over, None),
    ] {
        let record = RunHistory::of(vec![run.clone()], is_gone);
        let summary = RunSummary::of(&run, &record);
        assert_eq!(summary.condition, condition, "{run:?}");
        assert_eq!(summary.next.map(|next| next.to_string()).as_deref(), next, "{run:?}");
    }
}

#[test]
fn a_claim_is_abandoned_when_nobody_drives_its_run() {
    let goes_on = attempt(2, 1, 7, RunStatus::Running);
    for (parent, is_abandoned) in [
        (driven(1, RunStatus::Running, 2), None),
        (driven(1, RunStatus::Running, 1), Some("was cut off")),
        (stopped(1, StopReason::Cancelled), Some("stopped (cancelled)")),
    ] {
        let record = RunHistory::of(vec![parent, goes_on.clone()], is_gone);
        let found = record.abandoned(&id("a"), Some(Epoch(7))).map(|run| run.ended());
        assert_eq!(found.as_deref(), is_abandoned);
        // These are another claim, and a claim of a client.
        assert_eq!(record.abandoned(&id("a"), Some(Epoch(8))), None);
        assert_eq!(record.abandoned(&id("a"), None), None);
    }
}

#[test]
fn what_runs_have_cost_is_counted_once() {
    let usage = Usage { input_tokens: 20, output_tokens: 10, cost_usd: Some(1.0) };
    let over_ledger = Run { usage, ..stopped(1, StopReason::Complete) };
    let updated_at = Timestamp::from_seconds(62);
    let first = Run { updated_at, ..attempt(2, 1, 1, RunStatus::Failed) };
    let second = attempt(3, 1, 2, RunStatus::Succeeded);
    let record = RunHistory::of(vec![over_ledger, first, second], is_gone);
    let all = record.spending();
    assert_eq!((all.tokens(), all.cost_usd), (30, Some(1.0)));
    let of_task = record.spending_of(&id("a"));
    assert_eq!((of_task.tokens(), of_task.cost_usd, of_task.seconds), (30, Some(1.0), 60));
    assert_eq!(record.spending_of(&id("b")), Spending::default());
}

fn glanced(ids: &[(&str, Status)]) -> String {
    let tasks: Vec<Value> =
        ids.iter().map(|(id, status)| json!({ "id": id, "status": status.name() })).collect();
    json!({ "tasks": tasks }).to_string()
}

#[test]
fn a_page_never_leaves_out_a_task_in_progress() {
    use Status::{Completed, Failed, InProgress, Pending};
    let text = glanced(&[
        ("a", Completed),
        ("b", Pending),
        ("c", InProgress),
        ("d", Failed),
        ("e", Completed),
        ("f", InProgress),
    ]);
    let ledger = format::glance(text.as_bytes()).unwrap();
    for (rows, expected, left_out) in [
        (9, "a b c d e f", 0),
        (6, "a b c d e f", 0),
        (5, "b c d f", 2),
        (4, "c d f", 3),
        (3, "c f", 4),
        (1, "c f", 4),
        (0, "c f", 4),
    ] {
        let page = TaskPage::of(&ledger.tasks, rows);
        let ids: Vec<&str> = page.tasks.iter().map(|task: &&TaskGlance<'_>| &*task.id).collect();
        assert_eq!((ids.join(" ").as_str(), page.left_out), (expected, left_out), "{rows} rows");
    }
}

fn question(phase: Option<&str>) -> QuestionView {
    QuestionView {
        prompt_id: "prompt-0-1".into(),
        question: "Go on?".into(),
        choices: vec!["approve".into(), "reject".into()],
        allow_text: true,
        phase: phase.map(Into::into),
        task_id: None,
        host: None,
    }
}

const PHASED: &str = r#"{"goal": "g", "session_count": 3,
    "phases": [{"name": "Plan", "approve": true}, {"name": "Build"}],
    "alerts": [{"time": "2025-07-01T10:00:00Z", "message": "look"}],
    "tasks": [{"id": "a", "status": "completed", "phase": "Plan", "odd": 2.50},
              {"id": "b", "phase": "Build"}]}"#;

fn view_of<'a>(ledger: &'a Glance<'a>, record: &'a RunHistory) -> ViewInputs<'a> {
    ViewInputs::new(Path::new("/srv/shop"), ledger, record)
}

#[test]
fn a_view_lists_what_waits_for_a_person_with_the_command_that_settles_it() {
    let ledger = format::glance(PHASED.as_bytes()).unwrap();
    let record = RunHistory::of(
        vec![stopped(1, StopReason::Complete), stopped(2, StopReason::Gate)],
        is_gone,
    );
    let gate = ClosedGate::new("Plan".into(), NOW, "exit code 1".into(), "red\n".into());
    let questions = [question(None), question(Some("Plan"))];
    let mut inputs = view_of(&ledger, &record);
    inputs.questions = &questions;
    inputs.gate = Some(&gate);
    let view = View::of(&inputs, NOW);
    let needs: Vec<String> = view
        .needs
        .iter()
        .map(|need| format!("{:?}: {} -> {}", need.kind, need.text, need.next))
        .collect();
    assert_eq!(
        needs,
        [
            "Question: Go on? -> harness reply prompt-0-1 ANSWER",
            "Approval: Go on? -> harness reply prompt-0-1 approve",
            "Stopped: the run stopped: gate -> harness run --resume --run-id \
             00000000-0000-0000-0000-000000000002",
            "Gate: the gate of Plan is closed: exit code 1 -> harness run",
            "Alert: look -> harness status --ack",
        ]
    );
}

#[test]
fn the_document_of_a_view_has_the_tasks_to_the_letter() {
    let ledger = format::glance(PHASED.as_bytes()).unwrap();
    let record = RunHistory::default();
    let view = View::of(&view_of(&ledger, &record), NOW);
    let mut text = Vec::new();
    view.write_json(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(r#""odd":2.50"#) && !text.contains('\n'), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let ledger: Value = serde_json::from_str(PHASED).unwrap();
    assert_eq!(document["tasks"], ledger["tasks"]);
    assert_eq!((&document["goal"], &document["session_count"]), (&"g".into(), &3.into()));
    assert_eq!(document["counts"]["pending"], 1);
    assert_eq!(document["alerts"][0]["task"], Value::Null);
}

#[test]
fn a_task_behind_a_phase_is_brought_on_by_an_answer() {
    let ledger = format::read_ledger(PHASED.as_bytes()).unwrap();
    let task = ledger.task(&id("b")).unwrap();
    let record = RunHistory::default();
    let detail = |around: &TaskSurroundings<'_>| {
        TaskDetail::of(task, Standing::of(&ledger, task), around, NOW).next.to_string()
    };
    let mut around = TaskSurroundings::new(&record);
    assert_eq!(detail(&around), "harness status");
    let others = [question(None), question(Some("Build"))];
    around.questions = &others;
    assert_eq!(detail(&around), "harness status");
    let asked = [question(Some("Plan"))];
    around.questions = &asked;
    assert_eq!(detail(&around), "harness reply prompt-0-1 approve");
}

#[test]
fn a_report_has_the_cost_and_the_transcripts_of_attempts() {
    let text = r#"{"tasks": [{"id": "a", "status": "failed", "attempts": 3, "failed_at": null}]}"#;
    let ledger = format::read_ledger(text.as_bytes()).unwrap();
    let transcript = |path: &str| Iteration {
        transcript: Some(path.into()),
        ..Iteration::begun(0, Timestamp::default())
    };
    let objective = Run { objective: Some("o".into()), ..stopped(9, StopReason::Complete) };
    let record = RunHistory::of(
        vec![stopped(1, StopReason::Complete), attempt(2, 1, 1, RunStatus::Failed), objective],
        is_gone,
    )
    .with_iterations(RunId::of_bits(2), vec![transcript("one"), transcript("two")]);
    let report =
        ProjectReport::of(&ReportInputs::new(&ledger, TaskSurroundings::new(&record)), NOW);
    let [failed] = &report.failed[..] else { panic!("{report:#?}") };
    assert_eq!((failed.transcript.as_deref(), failed.for_good), (Some("two"), true));
    assert_eq!(
        (failed.spending.cost_usd, failed.next.to_string().as_str()),
        (Some(0.5), "harness task retry a")
    );
    let runs: Vec<_> = report.runs.iter().map(|run| run.objective.as_deref()).collect();
    assert_eq!(runs, [Some("o")]);
}
