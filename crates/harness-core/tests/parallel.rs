//! One of several workers: how it waits for the others, makes its tree ready, takes over the tasks of
//! dead workers, and shares the gates. And the commands behind that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use harness_core::{
    Command, CommitId, Epoch, Ledger, Refusal, Reply, Stop, Task, TaskId, Timestamp, WorkerId,
    command::*,
    decide,
    ledger::{ConcurrencyMode, Gate, Head, Phase},
    machine::{
        Input, Machine as _, Next,
        attempt::{AttemptEnd, Entry},
        gate::GateEnd,
        recovery::{Action, Checkpoints, CommitWhen, Evidence, TaskCommits, Uncommitted},
        scope::TaskScope,
        session::{Alerts, WhenFull},
        worker::{
            Abandoned, Claiming, Found, LandedAlready, Others, ParallelWork, WhenIdle, Worker,
            WorkerEffect, WorkerEnd, WorkerReport, WorkerStop, WorkerTerms,
        },
    },
    run::StopReason,
    task::{ActiveClaim, Intent, Status, TaskState, Via},
};
use support::{holder, id, ledger, time, worker};

const NOW: &str = "2025-07-01T10:00:00Z";

fn described(next: &Next<WorkerEffect, WorkerEnd>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Upkeep => "upkeep".into(),
            Command::Claim(c) => format!("claim {:?}", c.choice),
            Command::TakeOver(c) => format!("take over {} {:?}", c.task, c.gone),
            Command::Release(c) => format!("release {}: {}", c.task, c.reason),
            Command::Renew(c) => format!("renew {} for {} s", c.holder.task, c.lease_seconds),
            Command::VoidIntent(c) => format!("void {}", c.holder.task),
            Command::Complete(c) => {
                format!("complete {} at {}", c.holder.task, c.commit.as_ref().unwrap().short())
            }
            Command::Fail(c) => format!("fail {} [{}] {}", c.holder.task, c.category, c.message),
            Command::HoldGate(c) => format!("{:?} gate {}", c.hold, c.phase).to_lowercase(),
            Command::Note(Note::Warning { message, .. }) => format!("warn {message}"),
            Command::Note(Note::Problem { category, message, .. }) => {
                format!("note {category} {message}")
            }
            other => format!("{other:?}"),
        },
        Next::Start(WorkerEffect::Attempt { task, entry, .. }) => match entry {
            Entry::Fresh => format!("attempt {}", task.id),
            Entry::Recovered(action) => format!("recover {} by {}", task.id, action.name()),
        },
        Next::Start(WorkerEffect::Base { task }) => format!("base {task}"),
        Next::Start(WorkerEffect::Gate { phase, .. }) => format!("gate {}", phase.name),
        Next::Start(WorkerEffect::Peek { .. }) => "peek".into(),
        Next::Start(WorkerEffect::Await) => "await".into(),
        Next::Start(WorkerEffect::Open { task }) => format!("open {}", task.id),
        Next::Start(WorkerEffect::Resolve { task, .. }) => format!("resolve {}", task.id),
        Next::Start(WorkerEffect::Transplant { taken, .. }) => format!("transplant {}", taken.id),
        Next::Wait => "wait".into(),
        Next::Cancel(_) => "cancel".into(),
        Next::Done(WorkerEnd { why: WorkerStop::SessionFull, .. }) => "session full".into(),
        Next::Done(WorkerEnd { why: WorkerStop::Stopped(stop), .. }) => format!("done {stop}"),
    }
}

fn terms() -> WorkerTerms {
    WorkerTerms {
        worker: worker("w.1"),
        scope: TaskScope::Ledger,
        labels: Vec::new(),
        lease_seconds: 1800,
        max_tasks: 2,
        until: None,
        alerts: Alerts::default(),
        parallel: Some(ParallelWork {
            max_sessions: None,
            when_full: WhenFull::Continue,
            when_idle: WhenIdle::Leave,
            worktree: Some("/trees/w.1".into()),
        }),
    }
}

#[track_caller]
fn check(terms: WorkerTerms, story: Vec<(Input<WorkerReport>, &str)>) {
    let mut worker = Worker::new(terms);
    for (input, expected) in story {
        let shown = format!("{input:?}");
        let next = worker.step(time(NOW), input);
        assert_eq!(described(&next), expected, "after {shown}");
    }
}

fn task(number: u64, state: TaskState) -> Task {
    let mut task = Task::new(TaskId::numbered(number), "t");
    task.validation.command = Some("true".into());
    task.epoch = Some(Epoch(7));
    task.started_at_commit = Some(commit('b'));
    task.state = state;
    task
}

fn claimed_by(by: &str, intent: Option<Intent>) -> TaskState {
    TaskState::Claimed(Box::new(ActiveClaim {
        by: Some(worker(by)),
        via: Some(Via::Run),
        worktree: Some("/trees/x".into()),
        intent,
        ..ActiveClaim::default()
    }))
}

fn commit(digit: char) -> CommitId {
    CommitId::parse(&digit.to_string().repeat(40)).unwrap()
}

fn ok() -> Input<WorkerReport> {
    Input::Committed(Reply::Noted)
}

fn peeked(next: Option<u64>, others: Others) -> Input<WorkerReport> {
    seen(next, None, others)
}

fn seen(next: Option<u64>, gate: Option<Phase>, others: Others) -> Input<WorkerReport> {
    Input::Ended(WorkerReport::Peeked {
        next: next.map(|n| Box::new(task(n, TaskState::Pending))),
        gate,
        in_progress: None,
        waiting: None,
        alerts: Alerts::default(),
        others: Some(Box::new(others)),
        claiming: Claiming::Open,
    })
}

fn based() -> Input<WorkerReport> {
    Input::Ended(WorkerReport::Based(Place::default()))
}

fn claimed(number: u64, intent: Option<Intent>) -> Input<WorkerReport> {
    let task = task(number, claimed_by("w.1", intent));
    let epoch = Epoch(8);
    let claimed = Claimed { task, epoch, is_retry: false, is_reclaim: false };
    Input::Committed(Reply::Claimed(Box::new(claimed)))
}

fn attempted(end: AttemptEnd) -> Input<WorkerReport> {
    Input::Ended(WorkerReport::Attempted(end))
}

fn at_work() -> Others {
    Others { at_work: Some(TaskId::numbered(9)), ..Others::default() }
}

fn land() -> Intent {
    Intent::Land { target: "main".into(), from: commit('f'), to: commit('a') }
}

fn abandoned(intent: Option<Intent>) -> Others {
    let task = Box::new(task(1, claimed_by("dead", intent)));
    Others { abandoned: Some(Abandoned { task, gone: Gone::Dead }), ..Others::default() }
}

#[test]
fn it_works_in_its_own_tree_and_waits_while_others_are_at_work() {
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(1), at_work()), "base task-001"),
            (based(), "claim Ready(task-001)"),
            (claimed(1, None), "open task-001"),
            (Input::Ended(WorkerReport::Opened), "attempt task-001"),
            (attempted(AttemptEnd::Completed { commit: None }), "upkeep"),
            (ok(), "peek"),
            (peeked(None, at_work()), "await"),
            (Input::Ended(WorkerReport::Awaited), "upkeep"),
            (ok(), "peek"),
            (peeked(None, Others::default()), "done complete"),
        ],
    );
}

#[test]
fn what_is_claimed_meanwhile_is_looked_at_again() {
    let not_ready = Refusal::NotReady { task: TaskId::numbered(1) };
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(1), Others::default()), "base task-001"),
            (based(), "claim Ready(task-001)"),
            (Input::Refused(not_ready), "upkeep"),
        ],
    );
}

#[test]
fn a_tree_that_cannot_be_made_ready_costs_no_attempt() {
    let why = "no space left".to_owned();
    let words = "the work tree for task-001 cannot be made ready: no space left";
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(1), Others::default()), "base task-001"),
            (based(), "claim Ready(task-001)"),
            (claimed(1, None), "open task-001"),
            (
                Input::Ended(WorkerReport::NotOpened { why }),
                "release task-001: its work tree could not be made ready",
            ),
            (ok(), &format!("note ENV_SETUP {words}")),
            (ok(), &format!("done env_setup: {words}")),
        ],
    );
}

#[test]
fn the_work_of_a_dead_worker_is_continued_in_the_own_tree() {
    let evidence = Evidence {
        uncommitted: Uncommitted::Changes,
        task_commits: TaskCommits::Missing,
        checkpoints: Checkpoints::Missing,
    };
    let found = Found { evidence, remark: None };
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(2), abandoned(None)), "take over task-001 Dead"),
            (claimed(1, None), "transplant task-001"),
            (
                Input::Ended(WorkerReport::Transplanted(Some(found))),
                "recover task-001 by validate, then commit",
            ),
            (attempted(AttemptEnd::Failed { retryable: true }), "upkeep"),
        ],
    );
    assert_eq!(Action::Judge { commit: CommitWhen::AfterPass }.name(), "validate, then commit");
}

#[test]
fn a_tree_that_is_gone_fails_the_attempt() {
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(None, abandoned(None)), "take over task-001 Dead"),
            (claimed(1, None), "transplant task-001"),
            (
                Input::Ended(WorkerReport::Transplanted(None)),
                "fail task-001 [SESSION_TIMEOUT] Lease expired (claimed_by=dead)",
            ),
            (ok(), "upkeep"),
        ],
    );
}

#[test]
fn a_landing_of_a_dead_worker_is_finished_or_voided() {
    let start = || {
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(None, abandoned(Some(land()))), "take over task-001 Dead"),
            (claimed(1, Some(land())), "resolve task-001"),
        ]
    };
    let mut landed = start();
    let at = format!("complete task-001 at {}", commit('a').short());
    landed.push((Input::Ended(WorkerReport::Resolved(LandedAlready::Yes)), &at));
    landed.push((ok(), "upkeep"));
    check(terms(), landed);
    let mut voided = start();
    voided.push((Input::Ended(WorkerReport::Resolved(LandedAlready::No)), "void task-001"));
    voided.push((ok(), "transplant task-001"));
    check(terms(), voided);
}

#[test]
fn a_task_that_is_left_can_be_taken_at_once() {
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(1), Others::default()), "base task-001"),
            (based(), "claim Ready(task-001)"),
            (claimed(1, None), "open task-001"),
            (Input::Ended(WorkerReport::Opened), "attempt task-001"),
            (Input::Interrupt, "wait"),
            (attempted(AttemptEnd::Left(Stop::interrupted())), "renew task-001 for 0 s"),
            (ok(), "done cancelled"),
        ],
    );
}

#[test]
fn a_worker_that_lost_its_task_or_paused_goes_on() {
    let until_attempt = || {
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (peeked(Some(1), Others::default()), "base task-001"),
            (based(), "claim Ready(task-001)"),
            (claimed(1, None), "open task-001"),
            (Input::Ended(WorkerReport::Opened), "attempt task-001"),
        ]
    };
    let mut lost = until_attempt();
    let words = "warn late result of w.1 refused; `harness rescue list` shows what was saved";
    lost.extend([(attempted(AttemptEnd::Lost), words), (ok(), "upkeep")]);
    check(terms(), lost);
    let mut paused = until_attempt();
    paused.push((attempted(AttemptEnd::Paused), "upkeep"));
    check(terms(), paused);
}

#[test]
fn a_gate_is_tried_by_one_worker() {
    let phase =
        || Phase { name: "Plan".into(), gate: None, approve: true, passed_at: None, held: None };
    let taken = Refusal::GateHeld { phase: "Plan".into() };
    let closed = GateEnd::Closed { why: "red".into(), output: String::new() };
    check(
        terms(),
        vec![
            (Input::Begin, "upkeep"),
            (ok(), "peek"),
            (seen(None, Some(phase()), Others::default()), "take gate plan"),
            (Input::Refused(taken), "await"),
            (Input::Ended(WorkerReport::Awaited), "upkeep"),
            (ok(), "peek"),
            (seen(None, Some(phase()), Others::default()), "take gate plan"),
            (ok(), "gate Plan"),
            (Input::Tick, "take gate plan"),
            (ok(), "wait"),
            (Input::Ended(WorkerReport::Gated(closed)), "release gate plan"),
            (ok(), "done gate, gate of Plan: red"),
        ],
    );
}

#[test]
fn what_stops_one_worker_stops_the_claims_of_all() {
    let stopped = Some(Stop::because(StopReason::Budget));
    let others = Others { stopped, ..at_work() };
    check(
        terms(),
        vec![(Input::Begin, "upkeep"), (ok(), "peek"), (peeked(Some(1), others), "done budget")],
    );
}

#[test]
fn with_once_the_claims_of_all_count() {
    let mut once = terms();
    once.parallel.as_mut().unwrap().when_full = WhenFull::Stop;
    let full = Others { session_claims: 2, ..Others::default() };
    let story =
        vec![(Input::Begin, "upkeep"), (ok(), "peek"), (peeked(Some(1), full), "session full")];
    check(once, story);
}

#[test]
fn the_ends_of_several_workers_are_one() {
    let end = |stop| WorkerEnd { why: WorkerStop::Stopped(stop), alerted: false };
    let complete = || end(Stop::because(StopReason::Complete));
    let broken = end(Stop::config("x"));
    let alerted = WorkerEnd { alerted: true, ..complete() };
    let together = WorkerEnd::together(vec![complete(), broken.clone(), alerted]);
    assert_eq!(together, WorkerEnd { alerted: true, ..broken });
    assert_eq!(WorkerEnd::together(vec![complete(), complete()]), complete());
}

fn concurrent(tasks: &str) -> Ledger {
    let mut ledger = ledger(tasks);
    let mode = ConcurrencyMode::Concurrent;
    apply(&mut ledger, Command::SetMode(SetMode { mode })).unwrap();
    ledger
}

fn apply(ledger: &mut Ledger, command: Command) -> Result<Reply, Refusal> {
    apply_at(ledger, time(NOW), command)
}

fn apply_at(ledger: &mut Ledger, now: Timestamp, command: Command) -> Result<Reply, Refusal> {
    let change = decide(ledger, now, &command)?;
    ledger.put_in(&change);
    Ok(change.reply)
}

fn claim(by: &str, task: &str) -> Command {
    claim_after(by, task, None)
}

/// Returns a claim whose base was read when this many tasks had landed.
fn claim_after(by: &str, task: &str, landed: Option<usize>) -> Command {
    Command::Claim(Claim {
        worker: worker(by),
        via: Via::Run,
        role: None,
        labels: Vec::new(),
        choice: ClaimChoice::Ready(id(task)),
        lease_seconds: 60,
        place: Place { base: Some(commit('b')), worktree: Some("/t".into()), ..Place::default() },
        parallel: Some(ParallelTerms { max_tasks: 2, max_sessions: None, landed }),
    })
}

const THREE: &str = r#"[{"id":"a","title":"a","validation":{"command":"true"}},
    {"id":"b","title":"b","validation":{"command":"true"}},
    {"id":"c","title":"c","validation":{"command":"true"}}]"#;

#[test]
fn a_claim_gets_a_branch_of_its_own_and_a_full_session_makes_room() {
    let mut ledger = concurrent(THREE);
    for (by, task, sessions, claims) in [("x", "a", 0, 1), ("y", "b", 0, 2), ("z", "c", 1, 1)] {
        let Ok(Reply::Claimed(claimed)) = apply(&mut ledger, claim(by, task)) else { panic!() };
        let branch = claimed.task.claim().unwrap().branch.clone().unwrap();
        assert_eq!(branch, format!("harness/{task}.{}", claimed.epoch));
        let Head { session_count, session_claims, .. } = ledger.head();
        assert_eq!((*session_count, *session_claims), (sessions, claims));
    }
}

#[test]
fn the_mode_changes_only_while_no_run_holds_a_task() {
    let mut ledger = concurrent(THREE);
    assert_eq!(ledger.head().needs, ["landing"]);
    apply(&mut ledger, claim("x", "a")).unwrap();
    let back = || Command::SetMode(SetMode { mode: ConcurrencyMode::Exclusive });
    let refused = apply(&mut ledger, back());
    assert_eq!(refused, Err(Refusal::InProgress { task: id("a"), worker: worker("x") }));
    let release = Release { task: id("a"), holder: None, reason: "x".into() };
    apply(&mut ledger, Command::Release(release)).unwrap();
    apply(&mut ledger, back()).unwrap();
    assert!(ledger.head().needs.is_empty());
}

#[test]
fn the_target_stays_while_a_claim_is_open() {
    let mut ledger = concurrent(THREE);
    let set = |branch: &str| Command::SetTarget(SetTarget { branch: branch.into(), remote: None });
    let target = |ledger: &Ledger| ledger.head().session_config.target_branch.clone().unwrap();
    apply(&mut ledger, set("main")).unwrap();
    apply(&mut ledger, set("next")).unwrap();
    assert_eq!(target(&ledger), "next");
    apply(&mut ledger, claim("x", "a")).unwrap();
    apply(&mut ledger, set("main")).unwrap();
    assert_eq!(target(&ledger), "next");
}

#[test]
fn a_task_is_taken_over_under_a_new_epoch_and_the_dead_holder_is_fenced_off() {
    let mut ledger = concurrent(THREE);
    apply(&mut ledger, claim("x", "a")).unwrap();
    let epoch = ledger.task(&id("a")).unwrap().epoch;
    let step =
        |step| Command::Landing(Landing { holder: holder("a", "x"), step, lease_seconds: 60 });
    apply(&mut ledger, step(LandingStep::Join)).unwrap();
    let take = |gone| {
        let (task, worker) = (id("a"), worker("y"));
        let worktree = Some("/y".into());
        Command::TakeOver(TakeOver { task, epoch, gone, worker, lease_seconds: 60, worktree })
    };
    let early = apply(&mut ledger, take(Gone::LeaseRanOut));
    assert_eq!(early, Err(Refusal::NotReady { task: id("a") }));
    let Ok(Reply::Claimed(taken)) = apply(&mut ledger, take(Gone::Dead)) else { panic!() };
    assert!(Some(taken.epoch) > epoch);
    assert!(ledger.head().landing.is_empty(), "the entry of the dead worker is gone");
    let twice = apply(&mut ledger, take(Gone::Dead));
    assert_eq!(twice, Err(Refusal::NotReady { task: id("a") }), "another worker was faster");
    let late = apply(&mut ledger, step(LandingStep::Join)).unwrap_err();
    assert!(late.ends_a_claim(), "{late}");
}

#[test]
fn an_entry_without_a_sign_of_life_loses_its_place() {
    let mut ledger = concurrent(THREE);
    for (by, task) in [("x", "a"), ("y", "b")] {
        apply(&mut ledger, claim(by, task)).unwrap();
    }
    let step = |task: &str, by: &str, step| {
        Command::Landing(Landing { holder: holder(task, by), step, lease_seconds: 60 })
    };
    apply(&mut ledger, step("a", "x", LandingStep::Join)).unwrap();
    apply(&mut ledger, step("b", "y", LandingStep::Join)).unwrap();
    let later = time(NOW).plus(50);
    apply_at(&mut ledger, later, step("b", "y", LandingStep::Renew)).unwrap();
    let later = time(NOW).plus(61);
    apply_at(&mut ledger, later, step("b", "y", LandingStep::Renew)).unwrap();
    let tasks: Vec<_> = ledger.head().landing.iter().map(|entry| entry.task.as_str()).collect();
    assert_eq!(tasks, ["b"]);
    let lost = apply_at(&mut ledger, later, step("a", "x", LandingStep::Renew));
    assert_eq!(lost, Err(Refusal::NotInLine { task: id("a") }));
}

#[test]
fn a_task_on_its_last_attempt_reserves_the_files_of_its_conflict() {
    use harness_core::line;
    let mut ledger = concurrent(
        r#"[{"id":"a","title":"a","attempts":2,"max_attempts":3,"conflicts":["f"],
             "validation":{"command":"true"}},
            {"id":"b","title":"b","attempts":2,"max_attempts":3,"conflicts":["f","g"],
             "validation":{"command":"true"}},
            {"id":"c","title":"c","validation":{"command":"true"}}]"#,
    );
    apply(&mut ledger, claim("z", "c")).unwrap();
    let unclaimed = line::held_back(&ledger, &id("c"), &["f".to_owned()], time(NOW));
    assert_eq!(unclaimed, None, "no worker may be left to claim it");
    apply(&mut ledger, claim_after("x", "a", Some(0))).unwrap();
    let waits = apply(&mut ledger, claim_after("y", "b", Some(0)));
    assert_eq!(waits, Err(Refusal::NotReady { task: id("b") }));
    let touches_at = |task: &str, file: &str, now: u64| {
        line::held_back(&ledger, &id(task), &[file.to_owned()], time(NOW).plus(now))
    };
    let touches = |task: &str, file: &str| touches_at(task, file, 0);
    assert_eq!(touches("c", "f"), Some(&id("a")));
    assert_eq!(touches("c", "h"), None);
    assert_eq!(touches_at("c", "f", 1 << 20), None, "its worker is gone");
    assert_eq!(touches("a", "f"), None, "the first one with a reservation lands");
    assert_eq!(ledger.task(&id("b")).unwrap().status(), Status::Pending);
}

#[test]
fn what_a_task_reserved_for_its_last_attempt_stays_reserved() {
    use harness_core::line;
    let files = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let ledger = concurrent(
        r#"[{"id":"a","title":"a","attempts":2,"max_attempts":3,"conflicts":["f"],
             "validation":{"command":"true"}},
            {"id":"b","title":"b","attempts":1,"max_attempts":3,"conflicts":["f"],
             "validation":{"command":"true"}}]"#,
    );
    let (last, earlier) = (ledger.task(&id("a")).unwrap(), ledger.task(&id("b")).unwrap());
    assert!(line::is_spared(last, &files(&["e", "f"])));
    assert!(!line::is_spared(last, &files(&["e"])), "it had not reserved that file");
    assert!(!line::is_spared(earlier, &files(&["f"])), "it had reserved nothing yet");
    assert_eq!(line::conflicts_after(last, &files(&["e"])), ["e", "f"]);
    assert_eq!(line::conflicts_after(last, &[]), ["f"], "its check may be repeated");
    assert_eq!(line::conflicts_after(earlier, &files(&["e"])), ["e"]);
}

#[test]
fn a_failure_that_does_not_count_leaves_the_attempts_as_they_are() {
    let mut ledger = concurrent(
        r#"[{"id":"a","title":"a","attempts":2,"max_attempts":3,
             "validation":{"command":"true"}}]"#,
    );
    apply(&mut ledger, claim("x", "a")).unwrap();
    let fail = Fail {
        holder: holder("a", "x"),
        category: harness_core::Category::TaskExec,
        message: "Conflict with main in f".into(),
        attempts: Attempts::None,
        rolled_back_to: None,
    };
    let failed = apply(&mut ledger, Command::Fail(fail)).unwrap();
    assert_eq!(failed, Reply::Failed { task: id("a"), retryable: true });
    let task = ledger.task(&id("a")).unwrap();
    assert_eq!((task.attempts, task.error_log.len()), (2, 1));
}

#[test]
fn nothing_lands_in_a_reserved_file_after_the_claim_that_reserves_it() {
    let mut ledger = concurrent(
        r#"[{"id":"a","title":"a","attempts":2,"max_attempts":3,"conflicts":["f"],
             "validation":{"command":"true"}},
            {"id":"b","title":"b","validation":{"command":"true"}},
            {"id":"c","title":"c","validation":{"command":"true"}}]"#,
    );
    let land = |task: &str, by: &str, file: &str| {
        let (from, to) = (commit('b'), commit('c'));
        Command::Intend(Intend {
            holder: holder(task, by),
            intent: Intent::Land { target: "main".into(), from, to },
            check: Some("true".into()),
            files: vec![file.to_owned()],
        })
    };
    for (by, task) in [("y", "b"), ("z", "c")] {
        apply(&mut ledger, claim(by, task)).unwrap();
    }
    let not_ready = Err(Refusal::NotReady { task: id("a") });
    apply(&mut ledger, land("b", "y", "f")).unwrap();
    let early = apply(&mut ledger, claim_after("x", "a", Some(0)));
    assert_eq!(early, not_ready, "the result of b may not have landed yet");
    let done = Complete {
        holder: holder("b", "y"),
        authority: Authority::Holder,
        proof: Proof::Passed { command: "true".into() },
        unchecked: Unchecked::Forbidden,
        commit: Some(commit('c')),
    };
    apply(&mut ledger, Command::Complete(done)).unwrap();
    let old = apply(&mut ledger, claim_after("x", "a", Some(0)));
    assert_eq!(old, not_ready, "the base was read before b landed");
    apply(&mut ledger, claim_after("x", "a", Some(1))).unwrap();
    let held_back = Err(Refusal::NotReady { task: id("c") });
    assert_eq!(apply(&mut ledger, land("c", "z", "f")), held_back);
    apply(&mut ledger, land("c", "z", "g")).unwrap();
}

#[test]
fn a_gate_is_held_by_one_worker_until_its_time_is_up() {
    let mut head = Head::new(time(NOW));
    let gate = Some(Gate { command: "true".into(), timeout_seconds: None });
    let name = "Plan".to_owned();
    head.phases =
        vec![Phase { name, gate: gate.clone(), approve: false, passed_at: None, held: None }];
    let mut ledger = Ledger::new(head, Vec::new()).unwrap();
    let hold = |by: &str, hold| {
        let worker: WorkerId = worker(by);
        Command::HoldGate(HoldGate { phase: "Plan".into(), worker, hold })
    };
    apply(&mut ledger, hold("x", Hold::Take)).unwrap();
    apply(&mut ledger, hold("x", Hold::Take)).unwrap();
    apply(&mut ledger, hold("y", Hold::Take)).unwrap_err();
    apply(&mut ledger, hold("y", Hold::Release)).unwrap();
    apply(&mut ledger, hold("y", Hold::Take)).unwrap_err();
    apply_at(&mut ledger, time(NOW).plus(61), hold("y", Hold::Take)).unwrap();
    apply(
        &mut ledger,
        Command::PassGate(PassGate {
            phase: "Plan".into(),
            gate: gate.clone(),
            asked: false,
            by: None,
        }),
    )
    .unwrap();
    assert_eq!(ledger.head().phases[0].held, None);
    apply(&mut ledger, hold("y", Hold::Take)).unwrap_err();
}
