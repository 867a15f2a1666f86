//! The machine of a worker, with its inputs and steps line by line.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use std::collections::BTreeSet;

use harness_core::{
    Command, CommitId, Epoch, Refusal, Reply, Stop, Task, TaskId, Timestamp, WorkerId,
    command::{ClaimChoice, Claimed, Note, Place},
    ledger::Phase,
    machine::{
        Input, Machine, Next,
        attempt::AttemptEnd,
        gate::GateEnd,
        scope::TaskScope,
        session::Alerts,
        worker::{
            Claiming, Worker, WorkerEffect, WorkerEnd, WorkerReport, WorkerStop, WorkerTerms,
        },
    },
    run::StopReason,
};

fn described(next: &Next<WorkerEffect, WorkerEnd>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Upkeep => "upkeep".into(),
            Command::Claim(c) => match &c.choice {
                ClaimChoice::Next => "claim".into(),
                ClaimChoice::NextIs(task) => format!("claim {task}"),
                ClaimChoice::Ready(task) => format!("claim chosen {task}"),
            },
            Command::Note(Note::Problem { category, message, .. }) => {
                format!("note {category} {message}")
            }
            Command::Note(Note::Warning { task: Some(task), message }) => {
                format!("warn {task}: {message}")
            }
            other => format!("{other:?}"),
        },
        Next::Start(WorkerEffect::Attempt { task, .. }) => format!("attempt {}", task.id),
        Next::Start(WorkerEffect::Base { task }) => format!("base {task}"),
        Next::Start(WorkerEffect::Gate { phase, until }) => {
            format!("gate {} until {until:?}", phase.name)
        }
        Next::Start(WorkerEffect::Peek { .. }) => "peek".into(),
        Next::Start(WorkerEffect::Await) => "await".into(),
        Next::Start(WorkerEffect::Open { task }) => format!("open {}", task.id),
        Next::Start(WorkerEffect::Resolve { task, .. }) => format!("resolve {}", task.id),
        Next::Start(WorkerEffect::Transplant { taken, .. }) => format!("transplant {}", taken.id),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(WorkerEnd { why, alerted }) => {
            let why = match why {
                WorkerStop::SessionFull => "session full".into(),
                WorkerStop::Stopped(stop) => format!("done {stop}"),
            };
            if *alerted { format!("{why}, alerted") } else { why }
        }
    }
}

fn terms() -> WorkerTerms {
    WorkerTerms {
        worker: WorkerId::parse("w").unwrap(),
        scope: TaskScope::Ledger,
        labels: Vec::new(),
        lease_seconds: 1800,
        max_tasks: 2,
        until: None,
        alerts: Alerts::default(),
        parallel: None,
    }
}

#[track_caller]
fn check(terms: WorkerTerms, story: &[(Input<WorkerReport>, &str)]) {
    let mut worker = Worker::new(terms);
    for (n, (input, expected)) in story.iter().enumerate() {
        let next = worker.step(Timestamp::from_seconds(0), input.clone());
        assert_eq!(described(&next), *expected, "step {n}, after {input:?}");
    }
}

fn task(n: u64) -> Task {
    let mut task = Task::new(TaskId::numbered(n), "one");
    task.validation.command = Some("make test".into());
    task
}

fn ok() -> Input<WorkerReport> {
    Input::Committed(Reply::Noted)
}

fn claimed(n: u64) -> Input<WorkerReport> {
    let claimed = Claimed { task: task(n), epoch: Epoch(1), is_retry: false, is_reclaim: false };
    Input::Committed(Reply::Claimed(Box::new(claimed)))
}

fn completed() -> Input<WorkerReport> {
    let commit = CommitId::parse("abcdef0").unwrap();
    attempted(AttemptEnd::Completed { commit: Some(commit) })
}

fn attempted(end: AttemptEnd) -> Input<WorkerReport> {
    Input::Ended(WorkerReport::Attempted(end))
}

fn peeked(task: Option<Task>) -> Input<WorkerReport> {
    left(task, None, Alerts::default())
}

fn left(next: Option<Task>, in_progress: Option<TaskId>, alerts: Alerts) -> Input<WorkerReport> {
    let next = next.map(Box::new);
    Input::Ended(WorkerReport::Peeked {
        next,
        gate: None,
        in_progress,
        waiting: None,
        alerts,
        others: None,
        claiming: Claiming::Open,
    })
}

fn based() -> Input<WorkerReport> {
    Input::Ended(WorkerReport::Based(Place::default()))
}

/// Returns the steps from the choice of a task to its attempt.
fn up_to_attempt(n: u64) -> [(Input<WorkerReport>, &'static str); 4] {
    let base = ["base task-001", "base task-002"][n as usize - 1];
    let claim = ["claim task-001", "claim task-002"][n as usize - 1];
    let attempt = ["attempt task-001", "attempt task-002"][n as usize - 1];
    [(ok(), "peek"), (peeked(Some(task(n))), base), (based(), claim), (claimed(n), attempt)]
}

#[test]
fn works_task_after_task_until_nothing_is_left() {
    let mut story = vec![(Input::Begin, "upkeep")];
    story.extend(up_to_attempt(1));
    story.extend([(completed(), "upkeep"), (ok(), "peek"), (peeked(None), "done complete")]);
    check(terms(), &story);
}

/// Returns the steps of a worker that has begun as many attempts as the session allows.
fn up_to_the_last_attempt() -> Vec<(Input<WorkerReport>, &'static str)> {
    let mut story = vec![(Input::Begin, "upkeep")];
    story.extend(up_to_attempt(1));
    story.push((completed(), "upkeep"));
    story.extend(up_to_attempt(2));
    story.extend([(completed(), "upkeep"), (ok(), "peek")]);
    story
}

#[test]
fn a_session_that_has_had_its_tasks_is_full() {
    let mut story = up_to_the_last_attempt();
    story.push((peeked(Some(task(3))), "session full"));
    check(terms(), &story);
}

#[test]
fn r4_a_session_without_work_left_is_not_full() {
    let mut story = up_to_the_last_attempt();
    story.push((peeked(None), "done complete"));
    check(terms(), &story);
    let mut story = up_to_the_last_attempt();
    story.extend([
        (bare_with_gate(None), "note CONFIG Missing validation.command"),
        (ok(), "done config, without a check (task-001)"),
    ]);
    check(terms(), &story);
}

#[test]
fn r1_a_worker_that_leaves_a_task_in_progress_is_not_complete() {
    let alert = Alerts { count: 1, last: Some(Timestamp::from_seconds(5)) };
    for (peeked, done) in [
        (
            left(None, Some(TaskId::numbered(2)), Alerts::default()),
            "done crashed, unattended (task-002)",
        ),
        (left(None, None, alert), "done complete, alerted"),
        (left(None, None, Alerts::default()), "done complete"),
    ] {
        check(terms(), &[(Input::Begin, "upkeep"), (ok(), "peek"), (peeked, done)]);
    }
}

#[test]
fn r1_a_lost_claim_ends_loudly() {
    let mut story = vec![(Input::Begin, "upkeep")];
    story.extend(up_to_attempt(1));
    story.extend([
        (
            attempted(AttemptEnd::Lost),
            "warn task-001: its claim was lost: what was done is in no commit of this run, \
             `harness rescue list` shows what was saved",
        ),
        (ok(), "upkeep"),
        (ok(), "peek"),
        (peeked(None), "done complete, alerted"),
    ]);
    check(terms(), &story);
}

/// Returns a peek in which only a task without a check can be worked on.
fn bare_with_gate(gate: Option<Phase>) -> Input<WorkerReport> {
    let next = Some(Box::new(Task::new(TaskId::numbered(1), "one")));
    let (in_progress, alerts) = (None, Alerts::default());
    Input::Ended(WorkerReport::Peeked {
        next,
        gate,
        in_progress,
        waiting: None,
        alerts,
        others: None,
        claiming: Claiming::Open,
    })
}

fn phase() -> Phase {
    Phase { name: "Plan".into(), gate: None, approve: true, passed_at: None, held: None }
}

#[test]
fn s20_a_gate_comes_before_a_task_without_a_check() {
    check(
        terms(),
        &[
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (bare_with_gate(Some(phase())), "gate Plan until None"),
            (Input::Ended(WorkerReport::Gated(GateEnd::Passed)), "upkeep"),
        ],
    );
}

#[test]
fn a_task_without_a_check_is_never_started() {
    check(
        terms(),
        &[
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (bare_with_gate(None), "note CONFIG Missing validation.command"),
            (ok(), "done config, without a check (task-001)"),
        ],
    );
}

#[test]
fn what_stops_an_attempt_stops_the_worker() {
    for (why, done) in [
        (Stop::interrupted(), "done cancelled"),
        (Stop::with_words(StopReason::Limit, "why"), "done limit: why"),
        (Stop::with_words(StopReason::Budget, "why"), "done budget: why"),
    ] {
        let mut story = vec![(Input::Begin, "upkeep")];
        story.extend(up_to_attempt(1));
        story.push((attempted(AttemptEnd::Left(why)), done));
        check(terms(), &story);
    }
}

#[test]
fn r6_a_stop_because_of_the_environment_is_in_the_log() {
    let mut story = vec![(Input::Begin, "upkeep")];
    story.extend(up_to_attempt(1));
    let stop = Stop::with_words(StopReason::EnvSetup, "no make");
    story.extend([
        (attempted(AttemptEnd::Left(stop)), "note ENV_SETUP no make"),
        (ok(), "done env_setup: no make"),
    ]);
    check(terms(), &story);
}

#[test]
fn a_claim_that_lost_a_race_looks_again_and_an_interrupt_lets_nothing_begin() {
    check(
        terms(),
        &[
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(task(1))), "base task-001"),
            (based(), "claim task-001"),
            (Input::Refused(Refusal::NotNext { task: TaskId::numbered(1) }), "upkeep"),
            (ok(), "peek"),
            (Input::Interrupt, "wait"),
            (peeked(Some(task(2))), "done cancelled"),
        ],
    );
}

#[test]
fn when_its_time_is_up_nothing_is_begun_and_no_gate_goes_on() {
    let until = Some(Timestamp::from_seconds(100));
    let waits = Input::Ended(WorkerReport::Peeked {
        next: None,
        gate: Some(phase()),
        in_progress: None,
        waiting: None,
        alerts: Alerts::default(),
        others: None,
        claiming: Claiming::Open,
    });
    let gated = Input::Ended(WorkerReport::Gated(GateEnd::Interrupted));
    let at_once = [(100, Input::Begin, "done budget: the time limit")];
    let at_a_gate = [
        (0, Input::Begin, "upkeep"),
        (99, ok(), "peek"),
        (99, waits, "gate Plan until Some(1970-01-01T00:01:40Z)"),
        (100, gated, "done budget: the time limit"),
    ];
    for story in [&at_once[..], &at_a_gate] {
        let mut worker = Worker::new(WorkerTerms { until, ..terms() });
        for (now, input, expected) in story {
            let next = worker.step(Timestamp::from_seconds(*now), input.clone());
            assert_eq!(described(&next), *expected, "at {now}, after {input:?}");
        }
    }
}

#[test]
fn chosen_tasks_are_claimed_out_of_turn_and_those_that_wait_are_named() {
    let chosen = BTreeSet::from([TaskId::numbered(1), TaskId::numbered(2)]);
    let waiting = Input::Ended(WorkerReport::Peeked {
        next: None,
        gate: None,
        in_progress: None,
        waiting: Some("task-002 waits for task-003".into()),
        alerts: Alerts::default(),
        others: None,
        claiming: Claiming::Open,
    });
    check(
        WorkerTerms { scope: TaskScope::Tasks(chosen), ..terms() },
        &[
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(task(1))), "base task-001"),
            (based(), "claim chosen task-001"),
            (Input::Refused(Refusal::NotReady { task: TaskId::numbered(1) }), "upkeep"),
            (ok(), "peek"),
            (waiting, "done once: task-002 waits for task-003"),
        ],
    );
}

#[test]
fn a_paused_worker_waits_while_there_is_work_and_ends_without() {
    let paused = |next: Option<Task>| {
        Input::Ended(WorkerReport::Peeked {
            next: next.map(Box::new),
            gate: None,
            in_progress: None,
            waiting: None,
            alerts: Alerts::default(),
            others: None,
            claiming: Claiming::Paused,
        })
    };
    check(
        terms(),
        &[
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (paused(Some(task(1))), "await"),
            (Input::Ended(WorkerReport::Awaited), "upkeep"),
            (ok(), "peek"),
            (paused(None), "done complete"),
        ],
    );
}
