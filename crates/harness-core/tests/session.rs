//! The machine of a session, with its inputs and steps line by line.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use harness_core::{
    Category, Command, CommitId, Epoch, Refusal, Reply, RunId, Stop, Task, TaskId, Timestamp,
    WorkerId,
    command::{Claimed, Note, OfRun, RunStep},
    machine::{
        Input, Machine, Next,
        attempt::{AttemptEnd, Entry},
        recovery::{Checkpoints, Evidence, TaskCommits, Uncommitted},
        scope::TaskScope,
        session::{
            Alerts, Interrupted, LedgerSession, Prepared, SessionEffect, SessionReport,
            SessionTerms, Survey, WhenFull,
        },
        worker::{WorkerEnd, WorkerStop},
    },
    run::StopReason,
    task::{ActiveClaim, Intent, TaskState},
};

fn described(next: &Next<SessionEffect, Stop>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Adopt(c) => format!("adopt {}: {} because {}", c.task, c.action, c.reason),
            Command::BeginSession(_) => "begin session".into(),
            Command::EndSession(_) => "end session".into(),
            Command::Run(_) => "beat".into(),
            Command::Note(Note::HealthCheck { passed }) => format!("note healthy={passed}"),
            Command::Note(Note::Problem { category, message, .. }) => {
                format!("note {category} {message}")
            }
            Command::Note(Note::Warning { task: Some(task), message }) => {
                format!("warn {task}: {message}")
            }
            other => format!("{other:?}"),
        },
        Next::Start(SessionEffect::Recover { task, entry, .. }) => match entry {
            Entry::Fresh => format!("attempt {}", task.id),
            Entry::Recovered(action) => format!("recover {}: {}", task.id, action.name()),
        },
        Next::Start(SessionEffect::Work(terms)) => format!("work as {}", terms[0].worker),
        Next::Start(SessionEffect::Close(_)) => "close".into(),
        Next::Start(effect) => format!("{effect:?}").to_lowercase(),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(stop) => format!("done {stop}"),
    }
}

fn session(when_full: WhenFull) -> LedgerSession {
    LedgerSession::new(terms(when_full))
}

fn terms(when_full: WhenFull) -> SessionTerms {
    let worker = WorkerId::parse("w").unwrap();
    SessionTerms {
        worker,
        scope: TaskScope::Ledger,
        labels: Vec::new(),
        pid: 7,
        lease_seconds: 1800,
        max_tasks: 1,
        max_sessions: None,
        when_full,
        until: None,
        heartbeat: None,
        crew: None,
    }
}

#[track_caller]
fn check(mut session: LedgerSession, story: &[(Input<SessionReport>, &str)]) {
    for (n, (input, expected)) in story.iter().enumerate() {
        let next = session.step(Timestamp::from_seconds(0), input.clone());
        assert_eq!(described(&next), *expected, "step {n}, after {input:?}");
    }
}

fn task(n: u64) -> Task {
    let mut task = Task::new(TaskId::numbered(n), "one");
    task.validation.command = Some("make test".into());
    task
}

fn ok() -> Input<SessionReport> {
    Input::Committed(Reply::Noted)
}

fn number(number: u64) -> Input<SessionReport> {
    Input::Committed(Reply::Session { number })
}

fn claimed(n: u64) -> Input<SessionReport> {
    let claimed = Claimed { task: task(n), epoch: Epoch(1), is_retry: false, is_reclaim: false };
    Input::Committed(Reply::Claimed(Box::new(claimed)))
}

fn recovered(end: AttemptEnd) -> Input<SessionReport> {
    Input::Ended(SessionReport::Recovered(end))
}

fn completed() -> Input<SessionReport> {
    recovered(AttemptEnd::Completed { commit: Some(CommitId::parse("abcdef0").unwrap()) })
}

fn surveyed(survey: Survey) -> Input<SessionReport> {
    Input::Ended(SessionReport::Surveyed(survey))
}

fn no_script() -> Input<SessionReport> {
    Input::Ended(SessionReport::Prepared(Prepared::NoScript))
}

fn worked(why: WorkerStop) -> Input<SessionReport> {
    Input::Ended(SessionReport::Worked(vec![WorkerEnd { why, alerted: false }]))
}

fn full() -> Input<SessionReport> {
    worked(WorkerStop::SessionFull)
}

fn nothing_left() -> Input<SessionReport> {
    worked(WorkerStop::Stopped(Stop::because(StopReason::Complete)))
}

fn closed(alerts: Alerts) -> Input<SessionReport> {
    Input::Ended(SessionReport::Closed(alerts))
}

/// Returns the beginning of every session without anything to recover.
fn begun() -> Vec<(Input<SessionReport>, &'static str)> {
    vec![
        (Input::Begin, "survey"),
        (surveyed(Survey::default()), "begin session"),
        (number(1), "prepare"),
    ]
}

#[test]
fn goes_on_session_after_session_until_nothing_is_left() {
    let mut story = begun();
    story.extend([
        (no_script(), "work as w"),
        (full(), "end session"),
        (number(1), "begin session"),
        (number(2), "prepare"),
        (no_script(), "work as w"),
        (nothing_left(), "end session"),
        (number(2), "close"),
        (closed(Alerts::default()), "done complete"),
    ]);
    check(session(WhenFull::Continue), &story);
}

#[test]
fn once_is_once_and_max_sessions_is_the_end() {
    let mut once = begun();
    once.extend([(no_script(), "work as w"), (full(), "end session"), (number(1), "done once")]);
    check(session(WhenFull::Stop), &once);
    let refused = || Input::Refused(Refusal::MaxSessions { max_sessions: 5 });
    check(
        session(WhenFull::Continue),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "begin session"),
            (refused(), "end session"),
            (number(5), "done max_sessions"),
        ],
    );
    // A session that has ended is not ended again.
    let mut after_one = begun();
    after_one.extend([
        (no_script(), "work as w"),
        (full(), "end session"),
        (number(1), "begin session"),
        (refused(), "done max_sessions"),
    ]);
    check(session(WhenFull::Continue), &after_one);
}

#[test]
fn what_stops_the_worker_stops_the_session() {
    for (stop, done) in [
        (Stop::interrupted(), "done cancelled"),
        (Stop::config("task-001: no"), "done config: task-001: no"),
        (Stop::with_words(StopReason::Budget, "why"), "done budget: why"),
    ] {
        let mut story = begun();
        story.extend([
            (no_script(), "work as w"),
            (worked(WorkerStop::Stopped(stop)), "end session"),
            (number(1), done),
        ]);
        check(session(WhenFull::Continue), &story);
    }
}

#[test]
fn a_worker_gets_what_it_needs_of_the_session() {
    let until = Some(Timestamp::from_seconds(100));
    let terms = SessionTerms { until, max_tasks: 3, ..terms(WhenFull::Continue) };
    let mut session = LedgerSession::new(terms);
    let alerts = Alerts { count: 2, last: Some(Timestamp::from_seconds(5)) };
    let survey = Survey { alerts: alerts.clone(), ..Survey::default() };
    let now = Timestamp::from_seconds(0);
    for input in [Input::Begin, surveyed(survey), number(1)] {
        _ = session.step(now, input);
    }
    match session.step(now, no_script()) {
        Next::Start(SessionEffect::Work(given)) => {
            let [given] = &given[..] else { panic!("{given:?}") };
            assert_eq!((given.until, given.max_tasks), (until, 3));
            assert_eq!(given.alerts, alerts);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dirty_tree_or_a_live_client_keeps_it_from_starting() {
    let dirty = Survey { dirty: vec!["a.rs".into()], ..Survey::default() };
    check(
        session(WhenFull::Continue),
        &[(Input::Begin, "survey"), (surveyed(dirty), "done config, dirty: a.rs")],
    );
    let client = Some((TaskId::numbered(1), WorkerId::parse("bob").unwrap()));
    check(
        session(WhenFull::Continue),
        &[
            (Input::Begin, "survey"),
            (
                surveyed(Survey { client, ..Survey::default() }),
                "done config, held by bob (task-001)",
            ),
        ],
    );
}

#[test]
fn the_init_script_has_two_tries_in_every_session() {
    let failed = || Input::Ended(SessionReport::Prepared(Prepared::Failed));
    let passed = || Input::Ended(SessionReport::Prepared(Prepared::Passed));
    let mut story = begun();
    story.extend([
        (failed(), "note healthy=false"),
        (ok(), "prepare"),
        (passed(), "note healthy=true"),
        (ok(), "work as w"),
        (full(), "end session"),
        (number(1), "begin session"),
        (number(2), "prepare"),
        (passed(), "note healthy=true"),
        (ok(), "work as w"),
    ]);
    check(session(WhenFull::Continue), &story);
    let mut story = begun();
    story.extend([
        (failed(), "note healthy=false"),
        (ok(), "prepare"),
        (failed(), "note healthy=false"),
        (ok(), "note ENV_SETUP harness-init.sh failed twice"),
        (ok(), "end session"),
        (number(1), "done env_setup: harness-init.sh failed twice"),
    ]);
    check(session(WhenFull::Continue), &story);
}

fn interrupted(intent: Option<Intent>) -> Survey {
    let mut task = task(1);
    task.epoch = Some(Epoch(3));
    task.state = TaskState::Claimed(Box::new(ActiveClaim { intent, ..ActiveClaim::default() }));
    let evidence = Evidence {
        uncommitted: Uncommitted::Changes,
        task_commits: TaskCommits::Missing,
        checkpoints: Checkpoints::Missing,
    };
    let remark = Some("a stash was made after the claim: WIP".to_owned());
    // A dirty tree is explained by an interrupted task.
    Survey {
        dirty: vec!["a.rs".into()],
        interrupted: vec![Interrupted { task, evidence, remark }],
        ..Survey::default()
    }
}

const ADOPTED: &str = "adopt task-001: validate, then commit because uncommitted changes found; a \
                       stash was made after the claim: WIP";

/// Returns a session with one interrupted attempt, up to its recovery.
fn recovering() -> Vec<(Input<SessionReport>, &'static str)> {
    vec![
        (Input::Begin, "survey"),
        (surveyed(interrupted(None)), "begin session"),
        (number(1), "prepare"),
        (no_script(), ADOPTED),
        (claimed(1), "recover task-001: validate, then commit"),
    ]
}

#[test]
fn r18_what_was_left_is_recovered_by_the_session_that_has_begun() {
    let mut story = recovering();
    story.push((completed(), "work as w"));
    check(session(WhenFull::Continue), &story);
    let intent = Intent::Rollback { category: Category::TestFail, message: "red".into() };
    check(
        session(WhenFull::Continue),
        &[
            (Input::Begin, "survey"),
            (surveyed(interrupted(Some(intent))), "begin session"),
            (number(1), "prepare"),
            (
                no_script(),
                "adopt task-001: roll back because a rollback was intended (TEST_FAIL); a stash was \
                 made after the claim: WIP",
            ),
        ],
    );
}

#[test]
fn what_was_left_is_recovered_even_if_no_session_may_begin() {
    check(
        session(WhenFull::Continue),
        &[
            (Input::Begin, "survey"),
            (surveyed(interrupted(None)), "begin session"),
            (Input::Refused(Refusal::MaxSessions { max_sessions: 5 }), "prepare"),
            (no_script(), ADOPTED),
            (claimed(1), "recover task-001: validate, then commit"),
            (completed(), "end session"),
            (number(5), "done max_sessions"),
        ],
    );
}

#[test]
fn r6_a_recovery_that_the_environment_stops_is_in_the_log() {
    let mut story = recovering();
    let stop = Stop::with_words(StopReason::EnvSetup, "no make");
    story.extend([
        (recovered(AttemptEnd::Left(stop)), "note ENV_SETUP no make"),
        (ok(), "end session"),
        (number(1), "done env_setup: no make"),
    ]);
    check(session(WhenFull::Continue), &story);
}

/// The attempt uses the epoch that a claim made by hand gets at its adoption.
#[test]
fn r1_what_is_adopted_is_what_is_attempted() {
    let mut session = self::session(WhenFull::Continue);
    let mut survey = interrupted(None);
    survey.interrupted[0].task.epoch = None;
    let now = Timestamp::from_seconds(0);
    for input in [Input::Begin, surveyed(survey), number(1), no_script()] {
        _ = session.step(now, input);
    }
    let mut adopted = task(1);
    adopted.epoch = Some(Epoch(9));
    let reply = Claimed { task: adopted, epoch: Epoch(9), is_retry: false, is_reclaim: true };
    match session.step(now, Input::Committed(Reply::Claimed(Box::new(reply)))) {
        Next::Start(SessionEffect::Recover { task, holder, .. }) => {
            assert_eq!((task.epoch, holder.epoch), (Some(Epoch(9)), Some(Epoch(9))));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_alert_of_the_worker_or_at_the_end_of_a_session_counts() {
    let alert = Alerts { count: 1, last: Some(Timestamp::from_seconds(5)) };
    for (alerted, at_the_end, done) in [
        (true, Alerts::default(), "done complete, alerted"),
        (false, alert, "done complete, alerted"),
        (false, Alerts::default(), "done complete"),
    ] {
        let why = WorkerStop::SessionFull;
        let mut story = begun();
        story.extend([
            (no_script(), "work as w"),
            (Input::Ended(SessionReport::Worked(vec![WorkerEnd { why, alerted }])), "end session"),
            (number(1), "begin session"),
            (number(2), "prepare"),
            (no_script(), "work as w"),
            (nothing_left(), "end session"),
            (number(2), "close"),
            (closed(at_the_end), done),
        ]);
        check(session(WhenFull::Continue), &story);
    }
}

#[test]
fn a_recovery_that_loses_its_claim_is_an_alert() {
    let mut story = recovering();
    story.extend([
        (
            recovered(AttemptEnd::Lost),
            "warn task-001: its claim was lost: what was done is in no commit of this run, \
             `harness rescue list` shows what was saved",
        ),
        (ok(), "work as w"),
        (nothing_left(), "end session"),
        (number(1), "close"),
        (closed(Alerts::default()), "done complete, alerted"),
    ]);
    check(session(WhenFull::Continue), &story);
}

#[test]
fn when_its_time_is_up_no_worker_begins() {
    let until = Some(Timestamp::from_seconds(100));
    let mut session = LedgerSession::new(SessionTerms { until, ..terms(WhenFull::Continue) });
    let mut story: Vec<_> = begun().into_iter().map(|(input, next)| (0, input, next)).collect();
    story.extend([
        (100, no_script(), "end session"),
        (100, number(1), "done budget: the time limit"),
    ]);
    for (now, input, expected) in story {
        let next = session.step(Timestamp::from_seconds(now), input.clone());
        assert_eq!(described(&next), expected, "at {now}, after {input:?}");
    }
}

#[test]
fn the_row_of_the_run_is_kept_while_something_goes_on() {
    let run = RunId::of_bits(1);
    let beat = OfRun { run: run.clone(), by: None, step: RunStep::Beat { lease_seconds: 300 } };
    check(
        LedgerSession::new(SessionTerms { heartbeat: Some(beat), ..terms(WhenFull::Continue) }),
        &[
            (Input::Begin, "survey"),
            (Input::Tick, "beat"),
            (ok(), "wait"),
            (Input::Tick, "beat"),
            (Input::Refused(Refusal::RunNotFound { run }), "wait"),
            (surveyed(Survey::default()), "begin session"),
        ],
    );
}
