//! The machine of a session, told and answered line by line.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use harness_core::{
    Category, Command, CommitId, Epoch, Refusal, Reply, RunId, Stop, Task, TaskId, Timestamp,
    WorkerId,
    command::{Claimed, Note, OfRun, Place, RunStep},
    machine::{
        Input, Machine, Next,
        attempt::{AttemptEnd, Entry},
        recovery::{Checkpoints, Evidence, TaskCommits, Uncommitted},
        work::{Alerts, Effect, Ended, Interrupted, Prepared, Runs, Session, Survey, Work},
    },
    run::StopReason,
    task::{ActiveClaim, Intent, TaskState},
};

fn said(next: &Next<Effect, Stop>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Upkeep => "upkeep".into(),
            Command::Claim(c) => format!("claim {}", c.only.as_ref().unwrap()),
            Command::Adopt(c) => format!("adopt {}: {} because {}", c.task, c.action, c.reason),
            Command::BeginSession(_) => "begin session".into(),
            Command::EndSession(_) => "end session".into(),
            Command::Run(_) => "beat".into(),
            Command::Note(Note::HealthCheck { passed }) => format!("note healthy={passed}"),
            Command::Note(Note::Problem { message, .. }) => format!("note {message}"),
            Command::Note(Note::Warning { task: Some(task), message }) => {
                format!("warn {task}: {message}")
            }
            other => format!("{other:?}"),
        },
        Next::Start(Effect::Attempt { task, entry, .. }) => match entry {
            Entry::Fresh => format!("attempt {}", task.id),
            Entry::Recovered(action) => format!("recover {}: {}", task.id, action.name()),
        },
        Next::Start(Effect::Base { task }) => format!("base {task}"),
        Next::Start(Effect::Gate { phase, until }) => {
            format!("gate {} until {until:?}", phase.name)
        }
        Next::Start(effect) => format!("{effect:?}").to_lowercase(),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(stop) => format!("done {stop}"),
    }
}

fn session(runs: Runs) -> Work {
    Work::new(terms(runs))
}

fn terms(runs: Runs) -> Session {
    let worker = WorkerId::parse("w").unwrap();
    Session {
        worker,
        pid: 7,
        lease_seconds: 1800,
        max_tasks: 1,
        max_sessions: None,
        runs,
        until: None,
        heartbeat: None,
    }
}

#[track_caller]
fn check(mut work: Work, story: &[(Input<Ended>, &str)]) {
    for (n, (input, expected)) in story.iter().enumerate() {
        let next = work.step(Timestamp::from_seconds(0), input.clone());
        assert_eq!(said(&next), *expected, "step {n}, told {input:?}");
    }
}

fn task(n: u64) -> Task {
    let mut task = Task::new(TaskId::numbered(n), "one");
    task.validation.command = Some("make test".into());
    task
}

fn ok() -> Input<Ended> {
    Input::Committed(Reply::Noted)
}

fn number(number: u64) -> Input<Ended> {
    Input::Committed(Reply::Session { number })
}

fn claimed(n: u64) -> Input<Ended> {
    let claimed = Claimed { task: task(n), epoch: Epoch(1), is_retry: false, is_reclaim: false };
    Input::Committed(Reply::Claimed(Box::new(claimed)))
}

fn ended(ended: Ended) -> Input<Ended> {
    Input::Ended(ended)
}

fn completed() -> Input<Ended> {
    let commit = CommitId::parse("abcdef0").unwrap();
    ended(Ended::Attempted(AttemptEnd::Completed { commit: Some(commit) }))
}

fn surveyed(survey: Survey) -> Input<Ended> {
    ended(Ended::Surveyed(survey))
}

fn no_script() -> Input<Ended> {
    ended(Ended::Prepared(Prepared::NoScript))
}

fn peeked(task: Option<Task>) -> Input<Ended> {
    let (in_progress, alerts) = (None, Alerts::default());
    ended(Ended::Peeked { next: task.map(Box::new), gate: None, in_progress, alerts })
}

fn based() -> Input<Ended> {
    ended(Ended::Based(Place::default()))
}

#[test]
fn works_task_after_task_and_session_after_session_until_nothing_is_left() {
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (no_script(), "begin session"),
            (number(1), "upkeep"),
            (ok(), "peek"),
            (peeked(Some(task(1))), "base task-001"),
            (based(), "claim task-001"),
            (claimed(1), "attempt task-001"),
            (completed(), "end session"),
            (number(1), "begin session"),
            (number(2), "upkeep"),
            (ok(), "peek"),
            (peeked(None), "end session"),
            (number(2), "close"),
            (ended(Ended::Closed(Alerts::default())), "done complete"),
        ],
    );
}

#[test]
fn once_is_once_and_max_sessions_is_the_end() {
    let start: [(Input<Ended>, &str); 3] = [
        (Input::Begin, "survey"),
        (surveyed(Survey::default()), "prepare"),
        (no_script(), "begin session"),
    ];
    let mut once = start.to_vec();
    once.extend([
        (number(1), "upkeep"),
        (ok(), "peek"),
        (peeked(Some(task(1))), "base task-001"),
        (based(), "claim task-001"),
        (claimed(1), "attempt task-001"),
        (completed(), "end session"),
        (number(1), "done once"),
    ]);
    check(session(Runs::Once), &once);
    let mut full = start.to_vec();
    let refused = Input::Refused(Refusal::MaxSessions { max_sessions: 5 });
    full.extend([(refused, "end session"), (number(5), "done max_sessions")]);
    check(session(Runs::On), &full);
}

#[test]
fn a_dirty_tree_or_a_live_client_keeps_it_from_starting() {
    let dirty = Survey { dirty: vec!["a.rs".into()], ..Survey::default() };
    check(
        session(Runs::On),
        &[(Input::Begin, "survey"), (surveyed(dirty), "done config, dirty: a.rs")],
    );
    let client = Some((TaskId::numbered(1), WorkerId::parse("bob").unwrap()));
    check(
        session(Runs::On),
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
fn the_init_script_has_two_tries() {
    let failed = || ended(Ended::Prepared(Prepared::Failed));
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (failed(), "note healthy=false"),
            (ok(), "prepare"),
            (ended(Ended::Prepared(Prepared::Passed)), "note healthy=true"),
            (ok(), "begin session"),
        ],
    );
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (failed(), "note healthy=false"),
            (ok(), "prepare"),
            (failed(), "note healthy=false"),
            (ok(), "end session"),
            (number(0), "done env_setup: harness-init.sh failed twice"),
        ],
    );
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
    let remark = Some("a stash is younger than the claim: WIP".to_owned());
    // A dirty tree is explained by an interrupted task.
    Survey {
        dirty: vec!["a.rs".into()],
        interrupted: vec![Interrupted { task, evidence, remark }],
        ..Survey::default()
    }
}

#[test]
fn what_was_left_is_recovered_before_the_session_begins() {
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(interrupted(None)), "prepare"),
            (
                no_script(),
                "adopt task-001: validate, then commit because uncommitted changes found; a stash is \
             younger than the claim: WIP",
            ),
            (claimed(1), "recover task-001: validate, then commit"),
            (completed(), "begin session"),
        ],
    );
    let intent = Intent::Rollback { category: Category::TestFail, message: "red".into() };
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(interrupted(Some(intent))), "prepare"),
            (
                no_script(),
                "adopt task-001: roll back because a rollback was intended (TEST_FAIL); a stash is \
             younger than the claim: WIP",
            ),
        ],
    );
}

/// The epoch that a claim made by hand gets when it is adopted is the one that its attempt names.
#[test]
fn r1_what_is_adopted_is_what_is_attempted() {
    let mut work = session(Runs::On);
    let mut survey = interrupted(None);
    survey.interrupted[0].task.epoch = None;
    let now = Timestamp::from_seconds(0);
    for input in [Input::Begin, surveyed(survey), no_script()] {
        _ = work.step(now, input);
    }
    let mut adopted = task(1);
    adopted.epoch = Some(Epoch(9));
    let reply = Claimed { task: adopted, epoch: Epoch(9), is_retry: false, is_reclaim: true };
    match work.step(now, Input::Committed(Reply::Claimed(Box::new(reply)))) {
        Next::Start(Effect::Attempt { task, holder, .. }) => {
            assert_eq!((task.epoch, holder.epoch), (Some(Epoch(9)), Some(Epoch(9))));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn r1_a_session_that_ends_with_a_task_in_progress_is_not_complete() {
    let left =
        |in_progress, alerts| ended(Ended::Peeked { next: None, gate: None, in_progress, alerts });
    let alert = Alerts { count: 1, last: Some(Timestamp::from_seconds(5)) };
    for (peeked, done) in [
        (left(Some(TaskId::numbered(2)), Alerts::default()), "done crashed, unattended (task-002)"),
        (left(None, alert), "closes"),
        (left(None, Alerts::default()), "closes"),
    ] {
        let alerted =
            matches!(&peeked, Input::Ended(Ended::Peeked { alerts, .. }) if alerts.count > 0);
        let mut story = vec![
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (no_script(), "begin session"),
            (number(1), "upkeep"),
            (ok(), "peek"),
            (peeked, "end session"),
        ];
        if done == "closes" {
            let done = if alerted { "done complete, alerted" } else { "done complete" };
            story.extend([(number(1), "close"), (ended(Ended::Closed(Alerts::default())), done)]);
        } else {
            story.push((number(1), done));
        }
        check(session(Runs::On), &story);
    }
}

#[test]
fn an_alert_at_the_end_of_a_session_counts() {
    let alert = Alerts { count: 1, last: Some(Timestamp::from_seconds(5)) };
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (no_script(), "begin session"),
            (number(1), "upkeep"),
            (ok(), "peek"),
            (peeked(None), "end session"),
            (number(1), "close"),
            (ended(Ended::Closed(alert)), "done complete, alerted"),
        ],
    );
}

#[test]
fn r1_a_lost_claim_ends_loudly() {
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (no_script(), "begin session"),
            (number(1), "upkeep"),
            (ok(), "peek"),
            (peeked(Some(task(1))), "base task-001"),
            (based(), "claim task-001"),
            (claimed(1), "attempt task-001"),
            (
                ended(Ended::Attempted(AttemptEnd::Lost)),
                "warn task-001: its claim was lost: what was done is in no commit of this run, \
                 `harness rescue list` shows what was saved",
            ),
            (ok(), "end session"),
            (number(1), "begin session"),
            (number(2), "upkeep"),
            (ok(), "peek"),
            (peeked(None), "end session"),
            (number(2), "close"),
            (ended(Ended::Closed(Alerts::default())), "done complete, alerted"),
        ],
    );
}

#[test]
fn a_task_without_a_check_is_never_started() {
    let mut bare = task(1);
    bare.validation.command = None;
    check(
        session(Runs::On),
        &[
            (Input::Begin, "survey"),
            (surveyed(Survey::default()), "prepare"),
            (no_script(), "begin session"),
            (number(1), "upkeep"),
            (ok(), "peek"),
            (peeked(Some(bare)), "note Missing validation.command"),
            (ok(), "end session"),
            (number(1), "done config: task-001: Missing validation.command"),
        ],
    );
}

#[test]
fn what_stops_an_attempt_stops_the_session() {
    let until_attempt: [(Input<Ended>, &str); 7] = [
        (Input::Begin, "survey"),
        (surveyed(Survey::default()), "prepare"),
        (no_script(), "begin session"),
        (number(1), "upkeep"),
        (ok(), "peek"),
        (peeked(Some(task(1))), "base task-001"),
        (based(), "claim task-001"),
    ];
    for (why, done) in [
        (Stop::interrupted(), "done cancelled"),
        (Stop::with_words(StopReason::EnvSetup, "x"), "done env_setup: x"),
        (Stop::with_words(StopReason::Limit, "why"), "done limit: why"),
        (Stop::with_words(StopReason::Budget, "why"), "done budget: why"),
    ] {
        let mut story = until_attempt.to_vec();
        story.extend([
            (claimed(1), "attempt task-001"),
            (ended(Ended::Attempted(AttemptEnd::Left(why))), "end session"),
            (number(1), done),
        ]);
        check(session(Runs::On), &story);
    }
    // A claim that lost a race looks again; an interrupt lets nothing new begin.
    let mut story = until_attempt.to_vec();
    story.extend([
        (Input::Refused(Refusal::NotNext { task: TaskId::numbered(1) }), "upkeep"),
        (ok(), "peek"),
        (Input::Interrupt, "wait"),
        (peeked(Some(task(2))), "end session"),
        (number(1), "done cancelled"),
    ]);
    check(session(Runs::On), &story);
}

#[test]
fn when_its_time_is_up_nothing_is_begun_and_no_gate_goes_on() {
    use harness_core::{ledger::Phase, machine::gate};
    let until = Some(Timestamp::from_seconds(100));
    let phase = Phase { name: "Plan".into(), gate: None, approve: true, passed_at: None };
    let waits = |gate| {
        let (in_progress, alerts) = (None, Alerts::default());
        ended(Ended::Peeked { next: None, gate, in_progress, alerts })
    };
    let begun = [
        (0, Input::Begin, "survey"),
        (0, surveyed(Survey::default()), "prepare"),
        (0, no_script(), "begin session"),
    ];
    let between_tasks = [(100, number(1), "end session")];
    let at_a_gate = [
        (0, number(1), "upkeep"),
        (99, ok(), "peek"),
        (99, waits(Some(phase)), "gate Plan until Some(1970-01-01T00:01:40Z)"),
        (100, ended(Ended::Gated(gate::GateEnd::Interrupted)), "end session"),
    ];
    let over = [(100, number(1), "done budget: its time")];
    for story in [&between_tasks[..], &at_a_gate] {
        let mut work = Work::new(Session { until, ..terms(Runs::On) });
        for (now, input, expected) in begun.iter().chain(story).chain(&over) {
            let next = work.step(Timestamp::from_seconds(*now), input.clone());
            assert_eq!(said(&next), *expected, "at {now}, told {input:?}");
        }
    }
}

#[test]
fn the_row_of_the_run_is_kept_while_something_goes_on() {
    let run = RunId::of_bits(1);
    let beat = OfRun { run: run.clone(), by: None, step: RunStep::Beat { lease_seconds: 300 } };
    check(
        Work::new(Session { heartbeat: Some(beat), ..terms(Runs::On) }),
        &[
            (Input::Begin, "survey"),
            (Input::Tick, "beat"),
            (ok(), "wait"),
            (Input::Tick, "beat"),
            (Input::Refused(Refusal::RunNotFound { run }), "wait"),
            (surveyed(Survey::default()), "prepare"),
        ],
    );
}
