//! The answers of a daemon on its socket, to clients that behave and to those that do not.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use crate::{
    daemon::Foreground,
    environment::TestEnvironment,
    host::{answer, ask, connect, socket},
    ledgers::assert_leads_with_wire_keys,
    page::Page,
};

fn ok(answer: Value) -> Value {
    assert_eq!(answer["status"], "ok", "{answer}");
    answer["data"].clone()
}

fn error(answer: Value) -> String {
    assert_eq!(answer["status"], "error", "{answer}");
    answer["message"].as_str().unwrap().to_owned()
}

fn send(client: &mut BufReader<UnixStream>, request: &Value) -> Value {
    ask(client, request.to_string())
}

fn block(plan: &Value) -> String {
    format!("```json\n{plan}\n```")
}

fn tasks(tasks: &Value) -> String {
    block(&json!({ "goal": "g", "tasks": tasks }))
}

#[test]
fn every_verb_does_what_the_page_says() {
    let env = TestEnvironment::new().with_daemon();
    let daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let mut say = |request: Value| send(&mut client, &request);
    assert_eq!(
        ok(say(json!({ "command": "ping" }))),
        json!({ "running": true, "pid": daemon.child.id(), "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1 })
    );
    // There is no ledger yet.
    assert_eq!(ok(say(json!({ "command": "get_state" }))), Value::Null);
    let claim = json!({ "command": "task_claim", "worker_id": "w" });
    assert_eq!(ok(say(claim.clone())), json!({ "task": null }));
    assert_eq!(ok(say(json!({ "command": "status" })))["active"], false);
    let cyclic = tasks(&json!({ "a": { "description": "A", "dependencies": ["a"] } }));
    let import = |content: &str| json!({ "command": "plan_import", "content": content });
    assert_eq!(error(say(import(&cyclic))), "Cycle detected at a");
    assert!(!env.exists("harness-tasks.json"), "a plan that is refused leaves nothing behind");

    let plan = tasks(&json!({
        "a": { "description": "A", "instructions": "do", "role": "r", "timeout_seconds": 1.5 },
        "b": { "description": "B", "dependencies": ["a"], "color": "red" },
    }));
    let imported = ok(say(import(&format!("Here:\n{plan}\nbye"))));
    assert_eq!((&imported["goal"], &imported["task_count"]), (&json!("g"), &json!(2)));
    assert!(imported["warnings"][0].as_str().unwrap().contains("color"), "{imported}");
    assert!(env.exists(".harness-active") && env.exists("harness-progress.txt"));
    let state = ok(say(json!({ "command": "get_state" })));
    assert_leads_with_wire_keys(&state["tasks"]["a"]);
    assert_eq!((&state["tasks"]["a"]["timeout_seconds"], &state["goal"]), (&json!(2), &json!("g")));
    assert_eq!(state["tasks"]["b"]["timeout_seconds"], 600);

    assert_eq!(error(say(json!({ "command": "task_claim" }))), "worker_id is required");
    let claimed = ok(say(claim));
    assert_eq!((&claimed["is_retry"], &claimed["is_reclaim"]), (&json!(false), &json!(false)));
    assert_eq!(claimed["task"]["status"], "running");
    let of = |verb: &str| json!({ "command": verb, "task_id": "a", "worker_id": "w" });
    for verb in ["task_renew", "task_complete", "task_fail", "task_checkpoint"] {
        assert_eq!(error(say(json!({ "command": verb }))), "task_id is required");
        let nobody = json!({ "command": verb, "task_id": "a" });
        assert_eq!(error(say(nobody)), "worker_id is required");
        let mut other = of(verb);
        (other["worker_id"], other["message"]) = ("x".into(), "m".into());
        (other["step"], other["total"], other["description"]) = (1.into(), 1.into(), "d".into());
        assert_eq!(error(say(other.clone())), "Task a is not claimed by x");
        (other["worker_id"], other["epoch"]) = ("w".into(), 99.into());
        assert_eq!(error(say(other.clone())), "Task a is not claimed by w", "the epoch is checked");
        other["task_id"] = "zz".into();
        assert_eq!(error(say(other)), "Task zz not found");
    }
    let mut step = of("task_checkpoint");
    (step["step"], step["total"], step["description"]) = (1.into(), 2.into(), "half".into());
    assert!(ok(say(step))["lease_expires_at"].is_string());
    assert_eq!(ok(say(of("task_renew")))["task_id"], "a");
    assert_eq!(ok(say(of("task_complete"))), json!({ "task_id": "a" }));
    assert_eq!(ok(say(of("task_complete"))), json!({ "task_id": "a" }));
    let force =
        json!({ "command": "task_complete", "task_id": "b", "worker_id": "x", "force": true });
    assert_eq!(ok(say(force)), json!({ "task_id": "b" }));
    let log = env.read("harness-progress.txt");
    assert!(log.contains("WARN [b] completed by force by x (claimed by nobody)"), "{log}");

    // A finished ledger is replaced without a question, and archived.
    let plan = tasks(&json!({ "c": { "description": "C" } }));
    let replaced = ok(say(import(&plan)));
    assert_eq!(replaced["task_count"], 1);
    assert!(replaced["archive"].as_str().unwrap().contains(".harness/archive/"), "{replaced}");
    assert_eq!(error(say(import(&plan))), "the ledger has unfinished work (1 of 1 tasks)");
    let more = tasks(&json!({ "d": { "description": "D", "dependencies": ["c"] } }));
    let mut merge = import(&more);
    merge["merge"] = true.into();
    assert_eq!(ok(say(merge))["task_count"], 1);
    let mut replace = import(&plan);
    replace["replace"] = true.into();
    assert_eq!(ok(say(replace))["task_count"], 1);
    ok(say(json!({ "command": "task_claim", "worker_id": "w" })));
    let fail = json!({ "command": "task_fail", "task_id": "c", "worker_id": "w", "message": "no" });
    let mut odd = fail.clone();
    odd["category"] = "ODD".into();
    assert!(error(say(odd)).contains("ODD"));
    assert_eq!(ok(say(fail)), json!({ "task_id": "c", "retryable": true }));
    let status = ok(say(json!({ "command": "status", "event_count": 2 })));
    let types: Vec<_> =
        status["events"].as_array().unwrap().iter().map(|e| &e["event_type"]).collect();
    assert_eq!(types, ["task_claim", "task_fail"]);
    assert_eq!(status["summary"]["failed"], 1);
    let reset = ok(say(json!({ "command": "plan_reset" })));
    assert_eq!(reset["message"], "Plan reset (1 tasks)");
    // A daemon has no agents.
    for verb in ["abort", "send"] {
        let said = error(say(json!({ "command": verb, "content": "x" })));
        assert_eq!(said, "No harness run is active");
    }
    assert_eq!(ok(say(json!({ "command": "shutdown" }))), json!({ "shutdown": true }));
}

#[test]
fn chatty_plans_are_found_or_refused_with_the_reason() {
    let env = TestEnvironment::new().with_daemon();
    let _daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let fenced = "run:\n```sh\ncargo test\n```\nthen stop";
    let good = block(&json!({ "goal": "g", "tasks": { "a": { "description": "A",
        "instructions": fenced } } }));
    let cases = [
        (json!(""), "content required"),
        (Value::Null, "content required"),
        (json!("I could not make a plan."), "No JSON plan block found"),
        (json!("```json\n{\"goal\": }\n```"), "Invalid JSON: "),
        (json!(block(&json!({ "tasks": {} }))), "goal: required, but missing"),
        (json!(tasks(&json!([]))), "tasks: "),
        (json!(tasks(&json!({ "a": {} }))), "tasks.a.description: required, but missing"),
        (json!(tasks(&json!({ "a\u{7}": { "description": "A" } }))), "tasks: "),
        (
            json!(tasks(&json!({ "a": { "description": "A", "timeout_seconds": 0 } }))),
            "tasks.a.timeout_seconds: ",
        ),
        (
            json!(tasks(&json!({ "a": { "description": "A", "dependencies": ["b"] } }))),
            "Missing dependency: b (in a)",
        ),
        (
            json!(tasks(&json!({ "a": { "description": "A", "dependencies": ["b"] },
            "b": { "description": "B", "dependencies": ["a"] } }))),
            "Cycle detected at a",
        ),
        (
            json!(
                "```json\n{\"goal\":\"g\",\"tasks\":{\"a\":{\"description\":\"A\"},\"a\":{\"description\":\"B\"}}}\n```"
            ),
            "",
        ),
        (
            json!(format!(
                "```json\n{{\"goal\":\"g\",\"tasks\":{}{}}}\n```",
                "[".repeat(200),
                "]".repeat(200)
            )),
            "",
        ),
    ];
    for (content, reason) in cases {
        let said =
            error(send(&mut client, &json!({ "command": "plan_import", "content": content })));
        assert!(said.starts_with(reason), "{content}: {said}");
        assert!(!env.exists("harness-tasks.json"), "{said}");
    }
    let chatty =
        format!("Sure! I thought about `{{}}` and\n\n{good}\n\nShall I go on?\n```\nend\n```");
    let imported = send(&mut client, &json!({ "command": "plan_import", "content": chatty }));
    assert_eq!(ok(imported)["task_count"], 1);
    let state = ok(send(&mut client, &json!({ "command": "get_state" })));
    assert_eq!(state["tasks"]["a"]["instructions"], fenced);
}

#[test]
fn it_answers_whatever_clients_do() {
    let env = TestEnvironment::new().with_daemon();
    let _daemon = Foreground::start(&env, &[]);
    let mut idle: Vec<_> = (0..200).map(|_| UnixStream::connect(socket(&env)).unwrap()).collect();
    for (n, client) in idle.iter_mut().enumerate() {
        let begun: &[u8] = [&b"{\"command\":"[..], b"", b"\x00\xff\xfe\n", b"[[[[\n"][n % 4];
        client.write_all(begun).unwrap();
    }
    idle.drain(..100);
    let mut client = connect(&env);
    for (line, said) in [
        (&b""[..], "Invalid JSON: "),
        (b"{", "Invalid JSON: "),
        (b"\xff\xfe", "Invalid UTF-8"),
        (b"[]", "A request is a JSON object"),
        (b"7", "A request is a JSON object"),
        (b"{}", "Missing command"),
        (b"{\"command\":7}", "Missing command"),
        (b"{\"command\":\"exec\"}", "Unknown command: exec"),
        (b"{\"command\":\"ping\",\"root\":\"/elsewhere\"}", "This socket serves another root: "),
    ] {
        let message = error(ask(&mut client, line));
        assert!(message.starts_with(said), "{message}");
    }
    assert!(error(ask(&mut client, "x".repeat(8 * 1024 * 1024 + 1))).contains("8388608"));
    // These clients leave an unread answer, a waiting request and half a subscription.
    for line in [
        r#"{"command":"get_state"}"#,
        r#"{"command":"subscribe"}"#,
        r#"{"command":"task_claim","worker_id":"w","wait_ms":600000}"#,
    ] {
        let mut dying = UnixStream::connect(socket(&env)).unwrap();
        writeln!(dying, "{line}").unwrap();
    }
    for verb in Page::open("PROTOCOL.md").named("### Verbs") {
        if !["shutdown", "subscribe", "yield"].contains(&verb.as_str()) {
            let said = ask(&mut client, json!({ "command": verb }).to_string());
            assert_ne!(said["message"], format!("Unknown command: {verb}"));
        }
    }
    assert_eq!(ok(ask(&mut client, r#"{"command":"ping"}"#))["running"], true);
    // There are more than the daemon accepts. The client that was idle longest makes room.
    let many: Vec<_> = (0..600).map(|_| UnixStream::connect(socket(&env)).unwrap()).collect();
    let mut last = connect(&env);
    assert_eq!(ok(ask(&mut last, r#"{"command":"ping"}"#))["running"], true);
    let mut rest = String::new();
    assert_eq!(BufReader::new(&many[0]).read_line(&mut rest).unwrap(), 0, "it was let go");
}

#[test]
fn events_of_claims_stream_and_can_be_resumed() {
    let env = TestEnvironment::new().with_daemon();
    let daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let plan = tasks(&json!({ "a": { "description": "A" }, "b": { "description": "B" } }));
    ok(send(&mut client, &json!({ "command": "plan_import", "content": plan })));
    ok(send(&mut client, &json!({ "command": "task_claim", "worker_id": "w" })));
    let mut all = connect(&env);
    // The id is unknown, so all stored events follow a note that some may be missing.
    let since = "018f0000-0000-7000-8000-000000000000";
    let subscribe = json!({ "command": "subscribe", "since": since, "filter": "task:*" });
    writeln!(all.get_mut(), "{subscribe}").unwrap();
    assert_eq!(answer(&mut all)["type"], "lagged");
    let start = answer(&mut all);
    assert_eq!(
        (&start["event"]["type"], &start["event"]["taskId"]),
        (&json!("task:start"), &json!("a"))
    );
    let done = json!({ "command": "task_complete", "task_id": "a", "worker_id": "w" });
    ok(send(&mut client, &done));
    assert_eq!(answer(&mut all)["event"]["type"], "task:complete");
    let mut again = connect(&env);
    let subscribe = json!({ "command": "subscribe", "since": start["id"], "filter": "task:*" });
    writeln!(again.get_mut(), "{subscribe}").unwrap();
    assert_eq!(answer(&mut again)["event"]["type"], "task:complete", "what came later");
    ok(send(&mut client, &json!({ "command": "shutdown" })));
    let mut rest = String::new();
    all.read_line(&mut rest).unwrap();
    assert_eq!(rest, "", "the stream ends with the host");
    drop(daemon);
}

#[test]
fn telemetry_reaches_whoever_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let env = TestEnvironment::new()
        .with_daemon()
        .without_variable("HARNESS_ACP")
        .variable("HARNESS_ACP_PORT", &port);
    let daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let plan = tasks(&json!({ "a": { "description": "A" } }));
    ok(send(&mut client, &json!({ "command": "plan_import", "content": plan })));
    ok(send(&mut client, &json!({ "command": "task_claim", "worker_id": "w" })));
    let done = json!({ "command": "task_complete", "task_id": "a", "worker_id": "w" });
    ok(send(&mut client, &done));
    let (stream, _) = listener.accept().unwrap();
    ok(send(&mut client, &json!({ "command": "shutdown" })));
    let lines: Vec<_> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    assert_eq!(
        lines,
        [
            r#"{"event_type":"plan_import","goal":"g","task_count":1}"#,
            r#"{"event_type":"task_claim","task_id":"a","worker_id":"w"}"#,
            r#"{"event_type":"task_complete","task_id":"a"}"#,
        ]
    );
    drop(daemon);
}

#[test]
fn nobody_listening_for_telemetry_is_one_line() {
    // This port was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let env = TestEnvironment::new()
        .with_daemon()
        .without_variable("HARNESS_ACP")
        .variable("HARNESS_ACP_PORT", port.to_string());
    let mut daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    for n in 0..20 {
        let plan = tasks(&json!({ format!("t{n}"): { "description": "T" } }));
        let import = json!({ "command": "plan_import", "content": plan, "replace": true });
        ok(send(&mut client, &import));
        ok(send(&mut client, &json!({ "command": "task_claim", "worker_id": "w" })));
    }
    ok(send(&mut client, &json!({ "command": "shutdown" })));
    assert!(daemon.child.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut daemon.said, &mut said).unwrap();
    assert_eq!(said, format!("ACP: Claude Code not available on port {port}\n"));
}

#[test]
fn a_refused_plan_carries_the_hints_that_the_command_prints() {
    let env = TestEnvironment::new().with_daemon();
    let _daemon = Foreground::start(&env, &[]);
    let mut client = connect(&env);
    let mut hints = |content: &str| {
        let request = json!({ "command": "plan_import", "content": content });
        let answer = send(&mut client, &request);
        assert_eq!(answer["status"], "error", "{answer}");
        answer["hints"].to_string()
    };
    let said = hints("no plan here");
    assert!(said.contains("plan template"), "{said}");
    let plan = tasks(&json!({ "a": { "description": "A" } }));
    let mut other = connect(&env);
    ok(send(&mut other, &json!({ "command": "plan_import", "content": plan })));
    let said = hints(&plan);
    assert!(said.contains("replace") && said.contains("merge"), "{said}");
}
