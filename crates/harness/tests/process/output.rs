//! The input and output of a job.

use std::{future::Future as _, pin::pin, task::Poll};

use harness::{
    core::agent::StoppedBy,
    process::{Job, JobEvent, JobExit, Lines, OutputSource, Redactor, Spec, Stdin, Transcript},
};

use crate::stage::{run, spec, to_the_end, until_it_says, within};

const TEN_MEGABYTES: usize = 10_000_000;

pub(crate) fn both_streams_come_apart() {
    let ran = run(spec("echo one; echo two >&2; echo three; cat"));
    assert_eq!(ran.stdout, b"one\nthree\n");
    assert_eq!(ran.stderr, b"two\n");
}

pub(crate) fn bytes_that_are_no_text_come_as_they_are() {
    let ran = run(spec("printf '\\377\\000\\n\\303'"));
    assert_eq!(ran.stdout, b"\xff\0\n\xc3");
    let mut lines = Lines::default();
    let mut all: Vec<String> = lines.push(&ran.stdout).map(|line| line.text()).collect();
    all.extend(lines.finish().map(|line| line.text()));
    assert_eq!(all, ["\u{fffd}\0", "\u{fffd}"]);
}

pub(crate) fn standard_input_is_written_while_output_is_read() {
    let bytes: Vec<u8> = (0..TEN_MEGABYTES).map(|n| (n % 251) as u8).collect();
    let ran = run(Spec { stdin: Stdin::Bytes(bytes.clone()), ..spec("cat") });
    assert!(ran.stdout == bytes);
    let ran = run(Spec { stdin: Stdin::Bytes(Vec::new()), ..spec("cat; echo end") });
    assert_eq!(ran.stdout, b"end\n");
}

pub(crate) fn one_that_never_reads_its_input_does_not_hang_us() {
    let input = || Stdin::Bytes(vec![b'x'; TEN_MEGABYTES]);
    let ran = run(Spec { stdin: input(), ..spec("echo done") });
    assert_eq!(
        (ran.stdout.as_slice(), ran.finished.exit),
        (b"done\n".as_slice(), JobExit::Code(0))
    );
    within(async {
        let mut job = Job::start(Spec { stdin: input(), ..spec("echo on; exec sleep 100000") })
            .await
            .unwrap();
        until_it_says(&mut job, "on\n").await;
        assert_eq!(job.stop(StoppedBy::User).await.unwrap().exit, JobExit::Signal(15));
    });
}

pub(crate) fn a_line_of_100_megabytes_is_cut() {
    within(async {
        let script = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo next";
        let mut job = Job::start(spec(script)).await.unwrap();
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        while let Some(event) = job.next().await {
            if let JobEvent::Output(chunk) = event {
                all.extend(lines.push(&chunk.bytes));
            }
        }
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].bytes.len(), Lines::LINE_BYTES_MAX);
        assert_eq!(all[0].cut_bytes as usize, 100_000_000 - Lines::LINE_BYTES_MAX);
        assert!(all[0].text().ends_with("xx[harness: 98951424 bytes cut]"));
        assert_eq!(all[1].text(), "next");
    });
}

pub(crate) fn only_three_descriptors_are_inherited() {
    // The descriptor has no close-on-exec flag, like a lock of a careless program.
    let careless = rustix::io::dup(rustix::stdio::stderr()).unwrap();
    let ran = run(spec("exec ls /dev/fd/"));
    drop(careless);
    // The fourth descriptor is that of the listing.
    let listed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(listed.split_ascii_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

pub(crate) fn secrets_are_not_in_the_transcript() {
    let secret = "sk-live-0123456789";
    let mut talkative =
        spec("i=0; while [ $i -lt 20000 ]; do printf \"a$MY_KEY-\"; i=$((i+1)); done");
    talkative.environment.push(("MY_KEY".into(), secret.into()));
    let folder = tempfile::tempdir().unwrap();
    let redactor = Redactor::from_environment(talkative.environment.clone());
    let mut transcript =
        Transcript::create(folder.path(), "run", &redactor, Transcript::BYTES_MAX).unwrap();
    within(async {
        let mut job = Job::start(talkative).await.unwrap();
        while let Some(event) = job.next().await {
            if let JobEvent::Output(chunk) = event {
                assert_eq!(chunk.source, OutputSource::Stdout);
                transcript.write(&chunk).unwrap();
            }
        }
    });
    let path = transcript.path().to_owned();
    transcript.finish().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, "a[redacted:MY_KEY]-".repeat(20000));
}

pub(crate) fn giving_up_a_wait_loses_nothing() {
    within(async {
        let script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done";
        let mut job = Job::start(spec(script)).await.unwrap();
        let mut all = Vec::new();
        // Every wait is polled once and dropped, as a `select!` with a busy other branch does.
        loop {
            let once = {
                let mut next = pin!(job.next());
                std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await
            };
            match once {
                Poll::Ready(Some(JobEvent::Output(chunk))) => all.extend(chunk.bytes),
                Poll::Ready(Some(JobEvent::Stalled { .. })) => {}
                Poll::Ready(None) => break,
                Poll::Pending => tokio::task::yield_now().await,
            }
        }
        let expected: String = (0..3000).map(|n| format!("{n}\n")).collect();
        assert_eq!(String::from_utf8(all).unwrap(), expected);
        assert_eq!(to_the_end(&mut job).await.finished.exit, JobExit::Code(0));
    });
}
