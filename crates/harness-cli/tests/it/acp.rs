//! `harness acp`: the messages of the protocol, line by line. The official client drives it in
//! `tests/real`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// An editor that speaks with `harness acp`.
struct Editor {
    process: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
    /// The updates so far.
    updates: Vec<Value>,
    count: u64,
}

impl Editor {
    fn open(env: &TestEnvironment, options: &[&str]) -> Self {
        let mut command = env.harness([&["acp", "--"], options].concat());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, to, from, updates: Vec::new(), count: 0 }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.count += 1;
        let id = self.count;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Returns the next message that is no update.
    fn next(&mut self) -> Value {
        loop {
            let line = self.from.next().expect("harness has ended").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] != "session/update" {
                return message;
            }
            self.updates.push(message["params"]["update"].clone());
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn session(&mut self, env: &TestEnvironment) -> String {
        let params = json!({ "cwd": env.root(), "mcpServers": [] });
        let answer = self.ask("session/new", params);
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    fn text(&self) -> String {
        let said = self.updates.iter().filter(|u| u["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    fn leave(mut self) {
        drop(self.to.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

fn world(script: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::of_worker().without_variable("HARNESS_DAEMON");
    let agent = env.home().join("agent");
    fs::write(&agent, format!("#!/bin/sh\ncat > /dev/null\n{script}\n")).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    (env, agent)
}

#[test]
fn an_objective_is_a_turn_and_a_session_is_loaded_again() {
    let (env, agent) = world("touch made\necho did it\necho TASK_COMPLETE");
    let options = ["--agent-command", &agent, "--verify", "test -f made"];
    let mut editor = Editor::open(&env, &options);
    let greeting = editor.ask("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(greeting["result"]["protocolVersion"], 1);
    assert_eq!(greeting["result"]["agentInfo"]["name"], "harness");
    let session = editor.session(&env);
    let answer = editor.ask("session/prompt", prompt(&session, "make it"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = editor.text();
    assert!(said.contains("did it") && said.contains("The run is complete."), "{said}");
    editor.leave();
    let mut editor = Editor::open(&env, &options);
    let params = json!({ "sessionId": session, "cwd": env.root(), "mcpServers": [] });
    assert_eq!(editor.ask("session/load", params)["result"], json!({}));
    let first = &editor.updates[0];
    assert_eq!(
        (&first["sessionUpdate"], &first["content"]["text"]),
        (&"user_message_chunk".into(), &"make it".into())
    );
    assert!(editor.text().contains("The run is complete."));
    editor.leave();
}

#[test]
fn a_question_without_choices_is_answered_by_the_next_message() {
    let harness = env!("CARGO_BIN_EXE_harness");
    let (env, agent) =
        world(&format!("'{harness}' ask 'Which name?' > answer\necho TASK_COMPLETE"));
    let mut editor = Editor::open(&env, &["--agent-command", &agent]);
    let session = editor.session(&env);
    let answer = editor.ask("session/prompt", prompt(&session, "name it"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(editor.text().contains("Which name?"), "{}", editor.text());
    let answer = editor.ask("session/prompt", prompt(&session, "Ada"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(editor.text().contains("The run is complete."), "{}", editor.text());
    assert!(env.read("answer").contains("Ada"));
    editor.leave();
}

#[test]
fn a_question_with_choices_asks_for_permission_and_a_turn_can_be_cancelled() {
    let harness = env!("CARGO_BIN_EXE_harness");
    let ask = format!("'{harness}' ask 'Go on?' --choices yes,no > answer");
    let (env, agent) = world(&format!("{ask}\necho at work\nexec sleep 600"));
    let mut editor = Editor::open(&env, &["--agent-command", &agent]);
    let session = editor.session(&env);
    let turn = editor.send("session/prompt", prompt(&session, "wait"));
    let asked = editor.next();
    assert_eq!(asked["method"], "session/request_permission", "{asked}");
    assert_eq!(asked["params"]["options"][1]["kind"], "reject_once");
    let busy = editor.ask("session/prompt", prompt(&session, "more"));
    assert_eq!(busy["error"]["message"], "a turn is in progress");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    editor.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome }));
    // The file is there when the agent got its answer.
    while !env.root().join("answer").metadata().is_ok_and(|file| file.len() > 0) {
        std::thread::yield_now();
    }
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    editor.say(&cancel);
    let answer = editor.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["stopReason"]),
        (&turn.into(), &"cancelled".into())
    );
    editor.leave();
}

#[test]
fn what_cannot_be_served_is_refused_and_the_server_goes_on() {
    let (env, _) = world("true");
    let mut editor = Editor::open(&env, &[]);
    editor.say(&json!("no message"));
    assert_eq!(editor.next()["error"]["code"], -32700);
    for (method, params, words) in [
        ("session/new", json!({ "cwd": "relative" }), "is not the absolute path of a folder"),
        ("session/load", json!({ "sessionId": "x", "cwd": env.root() }), "there is no session"),
        ("session/prompt", prompt("x", "hello"), "there is no session"),
        ("session/dance", json!({}), "harness does not know session/dance"),
    ] {
        let message = editor.ask(method, params)["error"]["message"].to_string();
        assert!(message.contains(words), "{message}");
    }
    let session = editor.session(&env);
    let empty = editor.ask("session/prompt", prompt(&session, "  "));
    assert_eq!(empty["error"]["message"], "the prompt has no text");
    // A run that cannot begin says why.
    env.write("untracked-agent", "");
    let answer = editor.ask("session/prompt", prompt(&session, "/tasks"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    editor.leave();
}
