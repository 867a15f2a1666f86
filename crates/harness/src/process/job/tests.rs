//! Tests of a job whose guard fails.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

/// The guard is stopped at once, so the order is never answered.
#[tokio::test]
async fn a_guard_that_never_reports_a_start_does_not_hang_the_job() {
    let (control, silent) = std::os::unix::net::UnixStream::pair().unwrap();
    let started = Started { control, guard: None, is_first_unguarded: false };
    let timeout = Some(Duration::from_millis(50));
    let spec = Spec {
        program: "true".into(),
        args: Vec::new(),
        directory: "/".into(),
        environment: Vec::new(),
        stdin: Stdin::Null,
        limits: Limits { timeout, ..Limits::default() },
        label: "test".to_owned(),
        records: None,
    };
    let mut job = Job::under(started, "a-job-of-nobody".to_owned(), spec).await.unwrap();
    assert_eq!(*job.state(), JobState::Pending);
    let finished = job.wait_for_end().await.unwrap();
    assert_eq!(finished.exit, JobExit::Unknown);
    assert_eq!(finished.stopped_by, Some(StoppedBy::Timeout));
    assert_eq!(finished.left, [0; 0]);
    drop(silent);
}
