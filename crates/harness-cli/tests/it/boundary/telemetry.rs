//! Telemetry is sent from trusted roots only, and to programs of this user only.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
};

use serde_json::{Value, json};

use super::users::{User, is_root};
use crate::{
    daemon::Foreground,
    environment::TestEnvironment,
    host::{ask, connect},
};

const SECRET: &str = "sk-Quite-Secret-1";

fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("MY_API_KEY", SECRET);
    env.with_daemon().without_variable("HARNESS_ACP")
}

fn plan() -> Value {
    let plan = json!({ "goal": format!("get {SECRET}"), "tasks": { "a": { "description": "A" } } });
    json!({ "command": "plan_import", "content": format!("```json\n{plan}\n```") })
}

#[test]
fn x_m11_an_untrusted_root_chooses_no_port_and_tells_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let env = world();
    env.write("harness.toml", format!("[telemetry]\nport = {port}\n"));
    env.write("harness-tasks.json", r#"{"version":2,"tasks":[{"id":"a","title":"A"}]}"#);
    env.git(["add", "--force", "harness.toml", "harness-tasks.json"]);
    env.git(["commit", "--quiet", "--message", "from somebody else"]);
    let mut daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let claim = json!({ "command": "task_claim", "worker_id": "w" });
    assert_eq!(ask(&mut client, claim.to_string())["status"], "ok");
    // The daemon ends in order, so everything is sent by then.
    ask(&mut client, json!({ "command": "shutdown" }).to_string());
    _ = daemon.child.wait();
    assert!(listener.accept().is_err(), "somebody has connected");
}

#[test]
fn x_m11_a_listener_of_this_user_gets_redacted_text() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let env = world();
    env.write("harness.toml", format!("[telemetry]\nport = {port}\n"));
    let mut daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    assert_eq!(ask(&mut client, plan().to_string())["status"], "ok");
    let (stream, _) = listener.accept().unwrap();
    ask(&mut client, json!({ "command": "shutdown" }).to_string());
    let lines: Vec<_> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    let expected =
        r#"{"event_type":"plan_import","goal":"get [redacted:MY_API_KEY]","task_count":1}"#;
    assert_eq!(lines, [expected]);
    _ = daemon.child.wait();
}

/// This needs root, to act as another user. Elsewhere the tests of the library check the same with
/// tables of sockets.
#[test]
fn x_m11_a_listener_of_another_user_gets_nothing() {
    if !is_root() {
        eprintln!("not root: see telemetry::tests::x_m11 in the library");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let env = world();
    env.write("harness.toml", format!("[telemetry]\nport = {port}\n"));
    env.write("plan.md", plan()["content"].as_str().unwrap());
    let user = User::new(env);
    user.run(["plan", "import", "--file", "plan.md"]).success();
    let (mut stream, _) = listener.accept().unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!(got, "");
    let log = user.env.read(".harness/daemon.log");
    assert!(log.contains(&format!("ACP: another user is listening on port {port}")), "{log}");
    user.run(["shutdown"]).success();
}
