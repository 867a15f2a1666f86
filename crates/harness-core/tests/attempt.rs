//! The machine of one attempt, tested as a list of inputs and the expected steps.

#![allow(clippy::unwrap_used, reason = "clippy only knows #[test] functions")]

use harness_core::{
    Category, Command, CommitId, Holder, Refusal, Reply, Task, TaskId, Timestamp, WorkerId,
    agent::AgentEvent,
    check::Verdict,
    command::{Attempts, Note, Raise},
    machine::{
        Input, Machine, Next,
        attempt::{Attempt, AttemptEnd, Effect, Ended, Entry, Rules},
        judge,
        recovery::{Action, CommitWhen},
    },
    protect::{OnTouch, Protected},
    receipt::CheckRecord,
    run::StopReason,
    stop::{Stop, StopDetail},
    task::{ActiveClaim, Intent, TaskState},
};

#[path = "attempt/tree.rs"]
mod tree;

/// Returns a short text for the step of a machine.
fn described(next: &Next<Effect, AttemptEnd>) -> String {
    match next {
        Next::Commit(command) => match &**command {
            Command::Intend(c) => match &c.intent {
                Intent::Rollback { category, message } => format!("intend {category}: {message}"),
                Intent::Land { .. } => "intend land".into(),
            },
            Command::Fail(c) => {
                let all = if c.attempts == Attempts::All { " for good" } else { "" };
                format!("fail{all} {}: {}", c.category, c.message)
            }
            Command::Complete(_) => "complete".into(),
            Command::Renew(_) => "renew".into(),
            Command::Release(_) => "release".into(),
            Command::Checkpoint(_) => "checkpoint".into(),
            Command::Note(Note::Warning { message, .. }) => format!("warn: {message}"),
            Command::Raise(Raise { message, .. }) => format!("warn: {message}"),
            other => format!("{other:?}"),
        },
        Next::Start(Effect::Work { after_step: None }) => "work".into(),
        Next::Start(Effect::Work { after_step: Some(step) }) => format!("work after {step}"),
        Next::Start(Effect::Cleanup { command }) => format!("clean up: {command}"),
        Next::Start(Effect::Judge(judge::Effect::Check { commit })) => match commit {
            Some(commit) => format!("check {commit}"),
            None => "check".into(),
        },
        Next::Start(Effect::Judge(judge::Effect::Record(receipt))) => {
            let baseline = receipt.baseline.map(|b| format!(" {b:?}")).unwrap_or_default();
            let protected: String = receipt.protected.iter().map(|f| format!(" {f}")).collect();
            format!("record{}{protected}", baseline.to_lowercase())
        }
        Next::Start(Effect::Judge(judge::Effect::Keep { tree })) => {
            tree.as_ref().map_or_else(|| "keep".into(), |tree| format!("keep {tree}"))
        }
        Next::Start(Effect::Judge(judge::Effect::Settle { before })) => {
            format!("settle {}", before.tree)
        }
        Next::Start(Effect::Judge(effect)) => format!("{effect:?}").to_lowercase(),
        Next::Start(effect) => format!("{effect:?}").to_lowercase(),
        Next::Wait => "wait".into(),
        Next::Cancel(cause) => format!("cancel {cause:?}"),
        Next::Done(AttemptEnd::Left(stop)) => format!("done left {stop}"),
        Next::Done(end) => format!("done {end:?}"),
    }
}

fn commit() -> CommitId {
    CommitId::parse("abcdef0").unwrap()
}

fn task() -> Task {
    let mut task = Task::new(TaskId::numbered(1), "one");
    task.validation.command = Some("make test".into());
    task
}

fn finished() -> Input<Ended> {
    worked(StopReason::Complete)
}

fn worked(reason: StopReason) -> Input<Ended> {
    Input::Ended(Ended::Worked(Stop::with_words(reason, "why")))
}

fn of_judge(ended: judge::Ended) -> Input<Ended> {
    Input::Ended(Ended::Judged(ended))
}

fn checked(verdict: Verdict) -> Input<Ended> {
    let record = CheckRecord {
        command: "make test".into(),
        timeout_seconds: 600,
        clean: false,
        exit_code: 0,
        duration_ms: 0,
        output_bytes: 0,
        output_sha256: String::new(),
        output_tail: String::new(),
    };
    let output = "many words\nassertion failed\n".into();
    let around = Box::default();
    of_judge(judge::Ended::Checked { verdict, record: Box::new(record), output, around })
}

fn red() -> Input<Ended> {
    checked(Verdict::Red { why: "exit code 1".into() })
}

fn ok() -> Input<Ended> {
    Input::Committed(Reply::Task(TaskId::numbered(1)))
}

fn lease() -> Input<Ended> {
    let expires_at = Timestamp::from_seconds(9);
    Input::Committed(Reply::Lease { task: TaskId::numbered(1), expires_at })
}

fn failed() -> Input<Ended> {
    Input::Committed(Reply::Failed { task: TaskId::numbered(1), retryable: true })
}

fn undone() -> Input<Ended> {
    Input::Ended(Ended::Undone { base: Some(commit()), put_back: Vec::new(), remark: None })
}

fn taken() -> Input<Ended> {
    let worker = WorkerId::parse("w").unwrap();
    Input::Refused(Refusal::NotClaimedBy { task: TaskId::numbered(1), worker })
}

/// Passes each input to the machine and compares its steps.
#[track_caller]
fn check(task: Task, entry: Entry, story: &[(Input<Ended>, &str)]) {
    check_by(Rules::default(), task, entry, story);
}

#[track_caller]
fn check_by(rules: Rules, task: Task, entry: Entry, story: &[(Input<Ended>, &str)]) {
    let worker = WorkerId::parse("w").unwrap();
    let holder = Holder { task: task.id.clone(), worker, epoch: task.epoch };
    let mut attempt = Attempt::new(task, holder, 1800, entry).judged_by(rules);
    let now = Timestamp::from_seconds(0);
    for (n, (input, expected)) in story.iter().enumerate() {
        let next = attempt.step(now, input.clone());
        assert_eq!(described(&next), *expected, "step {n}, told {input:?}");
    }
}

const RED: &str = "The check failed (exit code 1): assertion failed";

#[test]
fn green_is_kept_and_completed() {
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (checked(Verdict::Passed), "keep"),
            (
                of_judge(judge::Ended::Kept {
                    commit: commit(),
                    hidden: Vec::new(),
                    settings: Vec::new(),
                }),
                "record",
            ),
            (of_judge(judge::Ended::Recorded), "complete"),
            (ok(), "done Completed { commit: Some(abcdef0) }"),
        ],
    );
}

#[test]
fn red_is_intended_undone_cleaned_up_and_failed_in_that_order() {
    let mut with_cleanup = task();
    with_cleanup.cleanup = Some("make clean".into());
    check(
        with_cleanup,
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (undone(), "clean up: make clean"),
            (Input::Ended(Ended::CleanedUp(None)), &format!("fail TEST_FAIL: {RED}")),
            (failed(), "done Failed { retryable: true }"),
        ],
    );
}

#[test]
fn how_an_agent_ends_says_what_follows() {
    for (reason, next) in [
        (StopReason::Cancelled, "look"),
        (StopReason::Budget, "look"),
        (StopReason::Limit, "look"),
        (StopReason::EnvSetup, "look"),
        (StopReason::Config, "look"),
        (StopReason::MaxIterations, "intend TASK_EXEC: why"),
        (StopReason::Stalled, "intend TASK_EXEC: why"),
        (StopReason::Crashed, "intend TASK_EXEC: why"),
    ] {
        check(task(), Entry::Fresh, &[(Input::Begin, "work"), (worked(reason), next)]);
    }
    let detail = StopDetail::OutOfTime(String::new());
    let late = Stop { detail, ..Stop::because(StopReason::Crashed) };
    let late = Input::Ended(Ended::Worked(late));
    let next = "intend TIMEOUT: The attempt took longer than 0 s";
    check(task(), Entry::Fresh, &[(Input::Begin, "work"), (late, next)]);
}

#[test]
fn a_check_that_is_not_there_is_looked_for_twice_and_not_blamed_on_the_work() {
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (checked(Verdict::Missing), "prepare"),
            (of_judge(judge::Ended::Prepared), "check"),
            (
                checked(Verdict::Missing),
                "done left env_setup: the check cannot be run here: make test",
            ),
        ],
    );
}

#[test]
fn each_row_of_the_recovery_matrix_enters_the_same_way() {
    let judged = |commit| Entry::Recovered(Action::Judge { commit });
    let no_progress = "intend SESSION_TIMEOUT: No progress detected";
    check(
        task(),
        Entry::Recovered(Action::FailNoProgress),
        &[
            (Input::Begin, "look"),
            (Input::Ended(Ended::Looked { changed: true }), no_progress),
            (ok(), "undo"),
            (undone(), "fail SESSION_TIMEOUT: No progress detected"),
        ],
    );
    // There is nothing to undo, so no rollback happens and one attempt is counted.
    check(
        task(),
        Entry::Recovered(Action::FailNoProgress),
        &[
            (Input::Begin, "look"),
            (
                Input::Ended(Ended::Looked { changed: false }),
                "fail SESSION_TIMEOUT: No progress detected",
            ),
        ],
    );
    check(task(), Entry::Recovered(Action::Resume { step: 2 }), &[(Input::Begin, "work after 2")]);
    check(
        task(),
        judged(CommitWhen::Never),
        &[(Input::Begin, "check"), (checked(Verdict::Passed), "keep")],
    );
    check(
        task(),
        judged(CommitWhen::AfterPass),
        &[(Input::Begin, "check"), (red(), &format!("intend TEST_FAIL: {RED}"))],
    );
    check(
        task(),
        judged(CommitWhen::BeforeCheck),
        &[
            (Input::Begin, "keep"),
            (
                of_judge(judge::Ended::Kept {
                    commit: commit(),
                    hidden: Vec::new(),
                    settings: Vec::new(),
                }),
                "check",
            ),
            (checked(Verdict::Passed), "keep"),
            (
                of_judge(judge::Ended::Kept {
                    commit: commit(),
                    hidden: Vec::new(),
                    settings: Vec::new(),
                }),
                "record",
            ),
            (of_judge(judge::Ended::Recorded), "complete"),
        ],
    );
}

#[test]
fn an_intent_is_finished_whatever_the_matrix_says() {
    let mut intended = task();
    let intent = Intent::Rollback { category: Category::Timeout, message: "first".into() };
    let claim = ActiveClaim { intent: Some(intent), ..ActiveClaim::default() };
    intended.state = TaskState::Claimed(Box::new(claim));
    check(
        intended,
        Entry::Recovered(Action::Judge { commit: CommitWhen::Never }),
        &[
            (Input::Begin, "undo"),
            (undone(), "fail TIMEOUT: first"),
            (failed(), "done Failed { retryable: true }"),
        ],
    );
}

#[test]
fn a_base_that_is_gone_fails_for_good() {
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (Input::Ended(Ended::NoBase), &format!("fail for good TEST_FAIL: {RED}")),
        ],
    );
}

#[test]
fn the_lease_is_renewed_beside_the_work_and_a_lost_claim_stops_it() {
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (Input::Tick, "renew"),
            (lease(), "wait"),
            (Input::Tick, "renew"),
            (taken(), "cancel Fenced"),
            (Input::Tick, "wait"),
            (worked(StopReason::Cancelled), "rescue"),
            (Input::Ended(Ended::Rescued), "done Lost"),
        ],
    );
}

#[test]
fn ticks_can_be_more_frequent_than_renewals() {
    let worker = WorkerId::parse("w").unwrap();
    let holder = Holder { task: TaskId::numbered(1), worker, epoch: None };
    let mut machine = Attempt::new(task(), holder, 1800, Entry::Fresh).renewing_every(3);
    let now = Timestamp::from_seconds(0);
    let mut step = |input| described(&machine.step(now, input));
    assert_eq!(step(Input::Begin), "work");
    for _ in 0..2 {
        assert_eq!(step(Input::Tick), "wait");
        assert_eq!(step(Input::Tick), "wait");
        assert_eq!(step(Input::Tick), "renew");
        assert_eq!(step(lease()), "wait");
    }
}

#[test]
fn a_result_that_comes_too_late_is_rescued_and_not_recorded() {
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (checked(Verdict::Passed), "keep"),
            (
                of_judge(judge::Ended::Kept {
                    commit: commit(),
                    hidden: Vec::new(),
                    settings: Vec::new(),
                }),
                "record",
            ),
            (of_judge(judge::Ended::Recorded), "complete"),
            (taken(), "rescue"),
            (Input::Ended(Ended::Rescued), "done Lost"),
        ],
    );
}

#[test]
fn checkpoints_of_the_agent_are_stored_and_a_senseless_one_is_ignored() {
    let told =
        || Input::Told(AgentEvent::Checkpoint { step: 1, total: 2, description: "half".into() });
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (told(), "checkpoint"),
            (lease(), "wait"),
            (told(), "checkpoint"),
            (Input::Refused(Refusal::BadValue("step 3 of 2".into())), "wait"),
            (Input::Told(AgentEvent::Text("hm".into())), "wait"),
        ],
    );
}

#[test]
fn an_interrupt_finishes_nothing_new() {
    let user = || worked(StopReason::Cancelled);
    // Nothing was changed: the task returns to pending, and no attempt is counted.
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (Input::Interrupt, "cancel User"),
            (user(), "look"),
            (Input::Ended(Ended::Looked { changed: false }), "release"),
            (ok(), "done left cancelled"),
        ],
    );
    // Something was changed: the next session recovers it, even if the agent reported success.
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (Input::Interrupt, "cancel User"),
            (finished(), "look"),
            (Input::Ended(Ended::Looked { changed: true }), "done left cancelled"),
        ],
    );
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (Input::Interrupt, "cancel User"),
            (checked(Verdict::Cancelled), "done left cancelled"),
        ],
    );
    // Nothing else reports settings that stay changed.
    let setting = judge::Setting { name: "x".into(), message: "x was changed".into(), sight: true };
    let around = judge::Around { settings: vec![setting], before: None };
    let stays = match checked(Verdict::Cancelled) {
        Input::Ended(Ended::Judged(judge::Ended::Checked { verdict, record, output, .. })) => {
            let around = Box::new(around);
            of_judge(judge::Ended::Checked { verdict, record, output, around })
        }
        other => other,
    };
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (Input::Interrupt, "cancel User"),
            (stays, "warn: x was changed"),
            (ok(), "done left cancelled"),
        ],
    );
    // A second interrupt waits for nothing.
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (Input::Interrupt, "cancel User"),
            (Input::Interrupt, "done left cancelled"),
        ],
    );
    // A rollback that has begun is finished.
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (Input::Interrupt, "wait"),
            (undone(), &format!("fail TEST_FAIL: {RED}")),
        ],
    );
}

#[test]
fn an_agent_that_gives_up_is_stopped_and_rolled_back_for_its_reason() {
    let gave_up = |message: &str| {
        Input::Told(AgentEvent::GaveUp { category: Category::EnvSetup, message: message.into() })
    };
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (gave_up("no compiler"), "cancel User"),
            // The first reason is the cause. The end of the agent may still look like a success.
            (gave_up("nor a disk"), "cancel User"),
            (finished(), "intend ENV_SETUP: no compiler"),
            (ok(), "undo"),
            (undone(), "fail ENV_SETUP: no compiler"),
        ],
    );
    // A later interrupt does not withdraw it.
    check(
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (gave_up("no compiler"), "cancel User"),
            (Input::Interrupt, "cancel User"),
            (worked(StopReason::Cancelled), "intend ENV_SETUP: no compiler"),
        ],
    );
    // An agent cannot give up work that is being checked.
    check(
        task(),
        Entry::Fresh,
        &[(Input::Begin, "work"), (finished(), "check"), (gave_up("late"), "wait")],
    );
}

fn recorded() -> Input<Ended> {
    of_judge(judge::Ended::Recorded)
}

fn kept() -> Input<Ended> {
    of_judge(judge::Ended::Kept { commit: commit(), hidden: Vec::new(), settings: Vec::new() })
}

#[test]
fn clean_judges_the_commit_that_is_completed() {
    let clean = Rules { clean: true, ..Rules::default() };
    let begin = [(Input::Begin, "work"), (finished(), "keep"), (kept(), "check abcdef0")];
    let green = [
        (checked(Verdict::Passed), "record"),
        (recorded(), "complete"),
        (ok(), "done Completed { commit: Some(abcdef0) }"),
    ];
    check_by(clean.clone(), task(), Entry::Fresh, &[&begin[..], &green].concat());
    let intended = format!("intend TEST_FAIL: {RED}");
    let red = [(red(), intended.as_str()), (ok(), "undo")];
    check_by(clean.clone(), task(), Entry::Fresh, &[&begin[..], &red].concat());
    // The second check after the init script judges the same commit.
    let missing = [
        (checked(Verdict::Missing), "prepare"),
        (of_judge(judge::Ended::Prepared), "check abcdef0"),
        (checked(Verdict::Passed), "record"),
    ];
    check_by(clean.clone(), task(), Entry::Fresh, &[&begin[..], &missing].concat());
    // A task may override the rule, and recovery judges by the same rules.
    let mut in_place = task();
    in_place.validation.clean = Some(false);
    check_by(
        clean.clone(),
        in_place,
        Entry::Fresh,
        &[(Input::Begin, "work"), (finished(), "check")],
    );
    let found = Entry::Recovered(Action::Judge { commit: CommitWhen::AfterPass });
    check_by(clean, task(), found, &[(Input::Begin, "keep"), (kept(), "check abcdef0")]);
}

#[test]
fn a_baseline_is_asked_for_once_and_a_green_one_is_flagged() {
    let rules = || Rules { baseline: true, ..Rules::default() };
    let based = |verdict| Input::Ended(Ended::Based(verdict));
    let told = "warn: the check passed before any work, so that it passes proves nothing";
    check_by(
        rules(),
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "baseline"),
            (based(Verdict::Passed), told),
            (Input::Committed(Reply::Noted), "work"),
            (finished(), "check"),
            (checked(Verdict::Passed), "keep"),
            (kept(), "record green"),
        ],
    );
    let red = Verdict::Red { why: "exit code 1".into() };
    check_by(
        rules(),
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "baseline"),
            (based(red), "work"),
            (finished(), "check"),
            (checked(Verdict::Passed), "keep"),
            (kept(), "record red"),
        ],
    );
    let second = Task { attempts: 1, ..task() };
    check_by(rules(), second, Entry::Fresh, &[(Input::Begin, "work")]);
    check_by(
        rules(),
        task(),
        Entry::Fresh,
        &[
            (Input::Begin, "baseline"),
            (Input::Interrupt, "cancel User"),
            (based(Verdict::Cancelled), "look"),
            (Input::Ended(Ended::Looked { changed: false }), "release"),
        ],
    );
}

#[test]
fn protected_files_are_flagged_or_refused_before_anything_is_checked() {
    let rules = |on_touch| Rules {
        protected: Protected::new(&["tests/".to_owned()], on_touch).unwrap(),
        ..Rules::default()
    };
    let touched = |file: &str| {
        of_judge(judge::Ended::Touched {
            files: vec!["a".to_owned(), file.to_owned()],
            settings: Vec::new(),
        })
    };
    let begin = [(Input::Begin, "work"), (finished(), "touched")];
    let unharmed =
        [(touched("src/x"), "check"), (checked(Verdict::Passed), "keep"), (kept(), "record")];
    check_by(rules(OnTouch::Refuse), task(), Entry::Fresh, &[&begin[..], &unharmed].concat());
    let flagged = [
        (touched("tests/x"), "warn: touched protected files: tests/x"),
        (Input::Committed(Reply::Noted), "check"),
        (checked(Verdict::Passed), "keep"),
        (kept(), "record tests/x"),
    ];
    check_by(rules(OnTouch::Flag), task(), Entry::Fresh, &[&begin[..], &flagged].concat());
    let refused = [
        (touched("tests/x"), "intend TASK_EXEC: touched protected files: tests/x"),
        (ok(), "undo"),
    ];
    check_by(rules(OnTouch::Refuse), task(), Entry::Fresh, &[&begin[..], &refused].concat());
    let found = Entry::Recovered(Action::Judge { commit: CommitWhen::BeforeCheck });
    let recovered = [(Input::Begin, "touched"), (touched("b"), "keep"), (kept(), "check")];
    check_by(rules(OnTouch::Refuse), task(), found, &recovered);
}

#[test]
fn what_a_rollback_put_back_and_a_cleanup_that_failed_are_said() {
    let put_back = vec!["mine.txt".to_owned()];
    let mut with_cleanup = task();
    with_cleanup.cleanup = Some("make clean".into());
    check(
        with_cleanup,
        Entry::Fresh,
        &[
            (Input::Begin, "work"),
            (finished(), "check"),
            (red(), &format!("intend TEST_FAIL: {RED}")),
            (ok(), "undo"),
            (
                Input::Ended(Ended::Undone { base: Some(commit()), put_back, remark: None }),
                "warn: put back as before the claim: mine.txt",
            ),
            (Input::Committed(Reply::Noted), "clean up: make clean"),
            (
                Input::Ended(Ended::CleanedUp(Some("exit code 2".into()))),
                "warn: the cleanup failed (exit code 2)",
            ),
            (Input::Committed(Reply::Noted), &format!("fail TEST_FAIL: {RED}")),
        ],
    );
}
