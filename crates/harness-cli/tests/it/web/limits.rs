//! The limits of the server. A client that reaches one gets a short answer, and others go on.

use std::{
    fs,
    io::{Read as _, Write as _},
};

use super::{
    client::{connect, get, post, raw},
    server::Server,
};
use crate::environment::TestEnvironment;

fn project() -> TestEnvironment {
    TestEnvironment::of_worker()
}

#[test]
fn heads_and_bodies_have_a_size() {
    let env = project();
    let server = Server::start(&env);
    let (port, bearer) = (server.port, server.bearer());
    let large = get("/api/status").header("X-Large", "x".repeat(20_000)).send(port);
    assert_eq!(large.status, 431);
    let many =
        (0..100).fold(get("/api/status"), |request, n| request.header(&format!("X-{n}"), "1"));
    assert_eq!(many.send(port).status, 431);
    let body = format!(r#"{{"command":"send","content":"{}"}}"#, "x".repeat(1024 * 1024));
    let large = server.send(post("/api/command", body).header("X-Harness", "1"));
    assert_eq!(large.status, 413);
    let head = format!(
        "POST /api/command HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {bearer}\r\n\
         X-Harness: 1\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n"
    );
    assert_eq!(raw(port, head.as_bytes()).status, 413, "it is refused before it is read");
    assert_eq!(server.send(get("/api/status")).status, 200);
}

#[test]
fn a_client_that_never_ends_its_request_is_left() {
    let env = project();
    let server = Server::start(&env);
    let mut slow = connect(server.port);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut rest = Vec::new();
    // The connection is closed, with or without an answer.
    _ = slow.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    assert_eq!(server.send(get("/api/status")).status, 200);
}

#[test]
fn streams_are_limited_and_idle_ones_cost_next_to_nothing() {
    let env = project();
    let server = Server::start(&env);
    let live = || get(format!("{}live", server.base));
    let before = Cost::of(server.pid());
    let mut streams: Vec<_> = (0..200).map(|_| server.stream(live())).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    env.run(["add", "One more", "--validate", "true"]).success();
    for stream in &mut streams {
        assert_eq!(stream.next().event.as_deref(), Some("change"));
    }
    let after = Cost::of(server.pid());
    let kib = after.resident_kib.saturating_sub(before.resident_kib);
    assert!(kib < 16 * 1024, "200 streams take {kib} KiB");
    let ticks = after.ticks - before.ticks;
    assert!(ticks < 200, "200 streams take {ticks} hundredths of a second");
    let more: Vec<_> = (0..60).map(|_| server.stream(live()).status).collect();
    assert_eq!(
        more.iter().filter(|status| **status == 503).count(),
        0,
        "those were closed at once"
    );
    let held: Vec<_> = (0..60).map(|_| server.stream(live())).collect();
    let refused = held.iter().filter(|stream| stream.status == 503).count();
    assert!(refused >= 4, "{refused} of 260 are refused");
    drop(streams);
    assert_eq!(server.send(get("/api/status")).status, 200);
}

/// What a process has used.
struct Cost {
    resident_kib: u64,
    /// The processor time in hundredths of a second.
    ticks: u64,
}

impl Cost {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident_kib = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = [11, 12].map(|n: usize| fields[n].parse::<u64>().unwrap()).iter().sum();
        Self { resident_kib, ticks }
    }
}
