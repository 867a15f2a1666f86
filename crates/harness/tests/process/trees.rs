//! Trees of processes: none of them outlives its job.

use harness::{
    core::agent::StoppedBy,
    process::{Job, JobExit},
};
use rustix::process::Signal;

use crate::stage::{LONG, Roll, run, signal, spec, to_the_end, until_it_says, within};

pub(crate) fn children_that_outlive_the_agent_are_ended() {
    let mut roll = Roll::new();
    let script = format!(
        "{}(linger child) >/dev/null 2>&1 &\n{}cat {}/said; exit 5",
        roll.prelude(),
        roll.detached("far"),
        roll.folder.path().display()
    );
    // The agent ends when both are there.
    let said = roll.folder.path().join("said");
    assert!(std::process::Command::new("mkfifo").arg(&said).status().unwrap().success());
    let finished = std::thread::scope(|scope| {
        let job = scope.spawn(|| run(spec(&script)).finished);
        roll.wait_for(2);
        std::fs::write(&said, "go").unwrap();
        job.join().unwrap()
    });
    assert!(roll.is_empty());
    assert_eq!((finished.exit, finished.stopped_by), (JobExit::Code(5), None));
    assert!(finished.left.is_empty());
}

pub(crate) fn one_that_holds_the_output_open_does_not_hang_us() {
    let ran =
        run(spec("(setsid sh -c 'trap \"\" TERM; echo held; exec sleep 100000' &); echo out"));
    assert!(std::str::from_utf8(&ran.stdout).unwrap().lines().any(|line| line == "out"));
    assert_eq!(ran.finished.exit, JobExit::Code(0));
}

fn family(roll: &Roll) -> String {
    format!("{}(linger child) &\n{}linger agent", roll.prelude(), roll.detached("far"))
}

pub(crate) fn a_stop_reaches_those_who_left_the_session() {
    let mut roll = Roll::new();
    within(async {
        let script = format!("{}{}", roll.nameless("nobody"), family(&roll));
        let mut job = Job::start(spec(&script)).await.unwrap();
        roll.wait_for(4);
        let finished = job.stop(StoppedBy::User).await.unwrap();
        assert_eq!(finished.exit, JobExit::Signal(9));
        assert!(finished.left.is_empty());
        assert!(roll.is_empty());
    });
}

pub(crate) fn dropping_the_job_ends_the_tree() {
    let mut roll = Roll::new();
    within(async {
        let mut long = spec(&family(&roll));
        long.limits.grace = LONG;
        let job = Job::start(long).await.unwrap();
        roll.wait_for(3);
        drop(job);
        roll.wait_for_end();
    });
}

pub(crate) fn giving_up_the_start_ends_the_tree() {
    let mut roll = Roll::new();
    let script = family(&roll);
    within(async {
        // The start is cancelled at every point.
        for polls in 1..12 {
            let mut start = std::pin::pin!(Job::start(spec(&script)));
            for _ in 0..polls {
                let once = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(std::future::Future::poll(start.as_mut(), cx))
                });
                if once.await.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // The pipe is opened for writing, so that there is an end to wait for even if no process
        // has opened it.
        drop(std::fs::File::options().write(true).open(roll.path()).unwrap());
        roll.wait_for_end();
    });
}

pub(crate) fn a_killed_guard_leaves_nothing() {
    let mut roll = Roll::new();
    within(async {
        let mut job = Job::start(spec(&family(&roll))).await.unwrap();
        roll.wait_for(3);
        signal(job.guard().unwrap(), Signal::KILL);
        let ran = to_the_end(&mut job).await;
        assert_eq!(ran.finished.exit, JobExit::Unknown);
        assert!(ran.finished.left.is_empty());
        assert!(roll.is_empty());
    });
}

pub(crate) fn a_guard_that_is_asked_to_end_takes_the_tree_with_it() {
    let mut roll = Roll::new();
    within(async {
        let mut job = Job::start(spec(&family(&roll))).await.unwrap();
        roll.wait_for(3);
        signal(job.guard().unwrap(), Signal::TERM);
        let ran = to_the_end(&mut job).await;
        assert_eq!(ran.finished.exit, JobExit::Signal(9));
        assert!(roll.is_empty());
    });
}

pub(crate) fn a_guard_that_does_not_answer_is_replaced() {
    let mut roll = Roll::new();
    within(async {
        let mut job = Job::start(spec(&family(&roll))).await.unwrap();
        roll.wait_for(3);
        signal(job.guard().unwrap(), Signal::STOP);
        let finished = job.stop(StoppedBy::User).await.unwrap();
        assert_eq!(finished.exit, JobExit::Unknown);
        assert_eq!(finished.stopped_by, Some(StoppedBy::User));
        assert!(roll.is_empty());
    });
}

pub(crate) fn orphans_are_reaped_while_the_agent_runs() {
    within(async {
        let script =
            "i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; echo on; exec sleep 100000";
        let mut job = Job::start(spec(script)).await.unwrap();
        until_it_says(&mut job, "on\n").await;
        let guard = job.guard().unwrap();
        let children = format!("/proc/{guard}/task/{guard}/children");
        let count = || std::fs::read_to_string(&children).unwrap().split_ascii_whitespace().count();
        while count() > 1 {
            tokio::task::yield_now().await;
        }
        job.stop(StoppedBy::User).await;
    });
}
