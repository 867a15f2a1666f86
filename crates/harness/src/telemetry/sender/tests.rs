//! Tests of the sender over a real port.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    sync::mpsc,
};

use harness_core::Epoch;

use super::*;

fn claimed(n: usize) -> Fact {
    Fact::Claimed {
        task: TaskId::parse(&format!("t{n}")).unwrap(),
        title: "title".into(),
        worker: WorkerId::parse("w").unwrap(),
        epoch: Epoch(1),
        base: None,
    }
}

/// Returns a receiver for the messages.
fn messages() -> (Say, mpsc::Receiver<String>) {
    let (said, received) = mpsc::channel();
    (Box::new(move |text: &str| _ = said.send(text.to_owned())), received)
}

#[test]
fn facts_arrive_as_lines_in_order() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (say, said) = messages();
    let telemetry =
        Telemetry::start(listener.local_addr().unwrap().port(), Redactor::default(), say).unwrap();
    let worker = WorkerId::parse("w").unwrap();
    let task = TaskId::parse("t1").unwrap();
    telemetry.emit(&Fact::PlanImported { goal: "g".into(), task_count: 2 });
    telemetry.emit(&Fact::PlanReset { task_count: 2 });
    telemetry.emit(&claimed(1));
    telemetry.emit(&Fact::Completed { task, worker, commit: None });
    let (stream, _) = listener.accept().unwrap();
    telemetry.close();
    let lines: Vec<_> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    assert_eq!(
        lines,
        [
            r#"{"event_type":"plan_import","goal":"g","task_count":2}"#,
            r#"{"event_type":"task_claim","task_id":"t1","worker_id":"w"}"#,
            r#"{"event_type":"task_complete","task_id":"t1"}"#,
        ]
    );
    assert_eq!(said.try_recv().ok(), None, "nothing is said");
}

fn goal() -> Fact {
    Fact::PlanImported { goal: "say very-secret-1".into(), task_count: 2 }
}

/// Returns what a listener receives if `/proc/net/tcp` has this content for its port.
fn got(table: Option<&dyn Fn(u16) -> String>) -> (Vec<String>, Vec<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let proc = tempfile::tempdir().unwrap();
    if let Some(table) = table {
        std::fs::create_dir(proc.path().join("net")).unwrap();
        std::fs::write(proc.path().join("net/tcp"), table(port)).unwrap();
    }
    let (say, said) = messages();
    let secrets = Redactor::from_environment([("A_KEY".into(), "very-secret-1".into())]);
    let place = proc.path().to_owned();
    let telemetry = Telemetry::start_seeing(port, place, secrets, say).unwrap();
    telemetry.emit(&goal());
    let (stream, _) = listener.accept().unwrap();
    telemetry.close();
    let lines = BufReader::new(stream).lines().map(Result::unwrap).collect();
    (lines, said.try_iter().collect())
}

fn listed(port: u16, uid: u32) -> String {
    format!(
        "  sl  local_address rem_address   st\n   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  {uid}        0 1\n"
    )
}

#[test]
fn x_m11_a_listener_of_another_user_receives_nothing() {
    let own = rustix::process::geteuid().as_raw();
    let (lines, said) = got(Some(&|port| listed(port, own + 1)));
    assert!(lines.is_empty(), "{lines:?}");
    assert!(said[0].contains("another user is listening"), "{said:?}");
    let (lines, said) = got(Some(&|port| listed(port, own)));
    let expected = r#"{"event_type":"plan_import","goal":"say [redacted:A_KEY]","task_count":2}"#;
    assert_eq!((lines, said), (vec![expected.to_owned()], Vec::new()));
}

#[test]
fn x_m11_where_the_owner_cannot_be_seen_only_ids_and_counts_are_sent() {
    let (lines, _) = got(None);
    assert_eq!(lines, [r#"{"event_type":"plan_import","task_count":2}"#]);
    let (lines, _) = got(Some(&|port| listed(port ^ 1, 0)));
    assert_eq!(lines, [r#"{"event_type":"plan_import","task_count":2}"#]);
}

#[test]
fn nobody_listening_is_said_once_and_switches_it_off() {
    // This port was free a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let (say, said) = messages();
    let telemetry = Telemetry::start(port, Redactor::default(), say).unwrap();
    telemetry.emit(&claimed(0));
    assert_eq!(said.recv().unwrap(), format!("ACP: Claude Code not available on port {port}"));
    let started = Instant::now();
    (0..10_000).for_each(|n| telemetry.emit(&claimed(n)));
    assert!(started.elapsed() < Duration::from_secs(1), "it does not wait");
    telemetry.close();
    assert_eq!(said.try_recv().ok(), None, "said once");
}

#[test]
fn the_oldest_go_when_the_listener_is_slow_and_that_is_said_once() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (say, said) = messages();
    let telemetry =
        Telemetry::start(listener.local_addr().unwrap().port(), Redactor::default(), say).unwrap();
    // Nothing is taken away while the queue is locked, so it certainly overflows.
    let mut queue = telemetry.shared.lock();
    (0..3 * QUEUE).for_each(|n| drop(queue.waiting.push(Told::of(&claimed(n)).unwrap())));
    assert_eq!(queue.waiting.len(), QUEUE);
    drop(queue);
    telemetry.emit(&claimed(4 * QUEUE));
    let reading = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        BufReader::new(stream).lines().map(Result::unwrap).last().unwrap()
    });
    telemetry.close();
    assert!(reading.join().unwrap().contains(&format!("t{}", 4 * QUEUE)), "the newest is there");
    let said: Vec<_> = said.try_iter().collect();
    assert_eq!(said, ["ACP: too many events at once, the oldest were dropped"]);
}
