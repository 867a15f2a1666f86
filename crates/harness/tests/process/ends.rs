//! The start and the end of a job.

use std::time::{Duration, Instant};

use harness::{
    core::agent::StoppedBy,
    process::{Job, JobEvent, JobExit, JobStartError, JobState, Limits, Spec},
};

use crate::stage::{GRACE, LONG, run, spec, to_the_end, until_it_says, within};

const SHORT: Duration = Duration::from_millis(100);

pub(crate) fn exits_and_signals_are_told_as_they_are() {
    for (script, exit) in [
        ("true", JobExit::Code(0)),
        ("exit 3", JobExit::Code(3)),
        ("no-such-command-at-all", JobExit::Code(127)),
        ("kill -KILL $$", JobExit::Signal(9)),
        ("kill -TERM $$", JobExit::Signal(15)),
        ("exit 143", JobExit::Code(143)),
        ("exit 255", JobExit::Code(255)),
    ] {
        let finished = run(spec(script)).finished;
        assert_eq!((finished.exit, finished.stopped_by), (exit, None), "{script}");
        assert!(finished.left.is_empty(), "{script}");
    }
}

pub(crate) fn what_can_not_start_is_said() {
    within(async {
        let start = |spec: Spec| async { Job::start(spec).await.unwrap_err() };
        let records = tempfile::tempdir().unwrap();
        let missing = Spec {
            program: "no-such-program".into(),
            records: Some(records.path().to_owned()),
            ..spec("")
        };
        let error = start(missing).await;
        assert!(matches!(error, JobStartError::NotFound { .. }), "{error}");
        assert_eq!(std::fs::read_dir(records.path()).unwrap().count(), 0);
        let error = start(Spec { directory: "/no/such/place".into(), ..spec("") }).await;
        assert!(matches!(error, JobStartError::Directory { .. }), "{error}");
        let error = start(Spec { directory: "/dev/null".into(), ..spec("") }).await;
        assert!(matches!(error, JobStartError::Directory { .. }), "{error}");
        let error = start(Spec { program: "/dev/null".into(), ..spec("") }).await;
        assert!(matches!(error, JobStartError::Program { .. }), "{error}");
    });
}

pub(crate) fn the_environment_is_what_was_given() {
    let mut given = spec("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort; pwd -P");
    given.environment.push(("HARNESS_RUN_ID".into(), "another".into()));
    given.environment.push(("GREETING".into(), "hi there".into()));
    let ran = run(given);
    let text = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "GREETING=hi there");
    assert!(lines[1].starts_with("HARNESS_JOB="), "{text}");
    assert_eq!(lines[2], "HARNESS_RUN_ID=run-of-a-test");
    assert!(lines[3].starts_with("PATH="), "{text}");
    let folder = std::fs::canonicalize(std::env::temp_dir()).unwrap();
    assert_eq!(lines[4], folder.to_str().unwrap());
}

pub(crate) fn one_that_hears_term_ends_by_it() {
    within(async {
        // The child prints it, once it is a program of its own. A TERM between fork and exec would
        // meet the shell's trap in the child and be lost.
        let mut polite =
            spec("trap 'echo bye; exit 7' TERM; sh -c 'echo on; exec sleep 100' & wait");
        polite.limits.grace = LONG;
        let mut job = Job::start(polite).await.unwrap();
        assert!(matches!(job.state(), JobState::Running { .. }));
        until_it_says(&mut job, "on\n").await;
        job.request_stop(StoppedBy::User);
        let ran = to_the_end(&mut job).await;
        assert_eq!(ran.stdout, b"bye\n");
        assert_eq!(ran.finished.exit, JobExit::Code(7));
        assert_eq!(ran.finished.stopped_by, Some(StoppedBy::User));
        assert!(job.next().await.is_none());
        assert_eq!(job.stop(StoppedBy::Budget).await, Some(&ran.finished));
    });
}

pub(crate) fn one_that_ignores_term_is_killed_after_the_grace() {
    within(async {
        let mut job = Job::start(spec("trap '' TERM; echo on; sleep 100000")).await.unwrap();
        until_it_says(&mut job, "on\n").await;
        let asked = Instant::now();
        let finished = job.stop(StoppedBy::Budget).await.unwrap();
        assert!(asked.elapsed() >= GRACE);
        assert_eq!(finished.exit, JobExit::Signal(9));
        assert_eq!(finished.stopped_by, Some(StoppedBy::Budget));
    });
}

pub(crate) fn a_stopped_one_ends() {
    for (script, exit) in [
        ("echo on; kill -STOP $$; sleep 100000", JobExit::Signal(15)),
        ("trap '' TERM; echo on; kill -STOP $$; sleep 100000", JobExit::Signal(9)),
    ] {
        within(async {
            let mut job = Job::start(spec(script)).await.unwrap();
            until_it_says(&mut job, "on\n").await;
            let finished = job.stop(StoppedBy::Fenced).await.unwrap();
            assert_eq!(finished.exit, exit);
        });
    }
}

pub(crate) fn time_is_up() {
    let mut endless = spec("while :; do echo more; done");
    endless.limits = Limits { timeout: Some(SHORT), stall: None, grace: GRACE };
    let finished = run(endless).finished;
    assert_eq!(finished.stopped_by, Some(StoppedBy::Timeout));
    assert!(finished.duration >= SHORT && finished.duration < LONG / 2);
}

pub(crate) fn silence_is_told_once_and_then_ended() {
    within(async {
        let mut silent = spec("echo one; sleep 100000");
        silent.limits.stall = Some(SHORT);
        let mut job = Job::start(silent).await.unwrap();
        until_it_says(&mut job, "one\n").await;
        let event = job.next().await;
        assert_eq!(event, Some(JobEvent::Stalled { silent: SHORT }));
        assert_eq!(job.next().await, None);
        let JobState::Finished(finished) = job.state() else { panic!("{:?}", job.state()) };
        assert_eq!(finished.stopped_by, Some(StoppedBy::Stall));
    });
}

pub(crate) fn silence_can_be_ignored() {
    within(async {
        let mut silent = spec("sleep 0.5; echo done");
        silent.limits.stall = Some(SHORT);
        let mut job = Job::start(silent).await.unwrap();
        job.ignore_silence();
        let ran = to_the_end(&mut job).await;
        assert_eq!(ran.finished.exit, JobExit::Code(0));
        assert_eq!(ran.finished.stopped_by, None);
    });
}

pub(crate) fn the_first_who_stops_it_is_named() {
    within(async {
        let mut job = Job::start(spec("exec sleep 100000")).await.unwrap();
        job.request_stop(StoppedBy::Fenced);
        let finished = job.stop(StoppedBy::User).await.unwrap();
        assert_eq!(finished.stopped_by, Some(StoppedBy::Fenced));
    });
}

pub(crate) fn the_record_goes_with_the_job() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("not/yet/there");
        let count = || std::fs::read_dir(&records).unwrap().count();
        let mut job =
            Job::start(Spec { records: Some(records.clone()), ..spec("exec sleep 100000") })
                .await
                .unwrap();
        assert_eq!(count(), 1);
        job.stop(StoppedBy::User).await;
        assert_eq!(count(), 0);
    });
}
