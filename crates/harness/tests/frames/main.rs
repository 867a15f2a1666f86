//! Conversations that were recorded when the socket's format was fixed. A host answers the recorded
//! requests with the recorded answers.
//!
//! A recording is a text: `NAME> REQUEST` sends a line on the connection NAME, `NAME< ANSWER` reads
//! one, `NAME? REQUEST` asks until the answer is not an empty list, and `clock SECONDS` moves the
//! clock. Values that differ from run to run have placeholders. `RECORD_FRAMES=1` writes the
//! answers again, which is right only if PROTOCOL.md changes too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod client;
#[path = "../served/mod.rs"]
mod served;

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use harness::{
    process::Redactor,
    protocol::{Answer, Call, Refused, Verb},
};
use serde_json::{Value, json};
use served::{Kind, Served, with_own_environment};

const ANSWER_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn a_daemon_answers_recorded_requests_as_it_did() {
    with_own_environment("a_daemon_answers_recorded_requests_as_it_did", || {
        replay("daemon.frames", Kind::Daemon);
    });
}

#[test]
fn a_run_answers_recorded_requests_as_it_did() {
    with_own_environment("a_run_answers_recorded_requests_as_it_did", || {
        replay("run.frames", Kind::Run);
    });
}

/// The recording has every command of the binary that asked a host at that time.
#[test]
fn a_client_sends_the_requests_that_were_recorded() {
    for line in fs::read_to_string(file("client.jsonl")).unwrap().lines() {
        let call = Call::parse(line.as_bytes(), &Redactor::default()).unwrap();
        let request = call.request().unwrap();
        let root = call.root().unwrap().unwrap();
        let sent = Call::line(&request, Path::new(&root), call.speaks_as().unwrap());
        assert_eq!(said(Value::Object(sent)), said(serde_json::from_str(line).unwrap()));
    }
}

/// Returns the request without defaults: null, false and no choices.
fn said(mut request: Value) -> Value {
    let fields = request.as_object_mut().unwrap();
    fields.retain(|name, value| {
        !(value.is_null() || *value == false || (name == "choices" && *value == json!([])))
    });
    request
}

#[test]
fn recorded_answers_are_read_and_lose_nothing() {
    for name in ["daemon.frames", "run.frames"] {
        let mut asked: HashMap<String, Value> = HashMap::new();
        for line in fs::read_to_string(file(name)).unwrap().lines() {
            let Some((connection, said)) = line.split_once(['>', '<']) else { continue };
            let Ok(said) = serde_json::from_str::<Value>(said.trim()) else { continue };
            if said["status"] == "ok" {
                let verb = asked[connection]["command"].as_str().and_then(Verb::parse).unwrap();
                let answer = Answer::read(verb, said["data"].clone()).expect(line);
                assert_eq!(answer.line().unwrap(), said.to_string());
            } else if said["status"] == "error" {
                assert_eq!(Refused::read(&said).unwrap().line(), said);
            } else {
                asked.insert(connection.to_owned(), said);
            }
        }
    }
}

#[test]
fn fields_of_a_newer_host_are_ignored() {
    let data =
        json!({ "task_id": "a", "lease_expires_at": "2025-06-15T15:06:40Z", "mood": "good" });
    assert!(matches!(Answer::read(Verb::TaskRenew, data), Some(Answer::Lease(_))));
    let data = json!({ "task_id": "a", "mood": "good" });
    assert!(matches!(Answer::read(Verb::TaskComplete, data), Some(Answer::Completed(_))));
    assert_eq!(Answer::read(Verb::TaskFail, json!({ "task_id": "a" })), None);
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/frames").join(name)
}

fn replay(name: &str, kind: Kind) {
    let recording = std::env::var_os("RECORD_FRAMES").is_some();
    let text = fs::read_to_string(file(name)).unwrap();
    let served = Served::start(kind);
    let mut talk = Talk { served: &served, connections: HashMap::new(), names: Vec::new() };
    let mut written = String::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        match talk.step(line) {
            None => _ = writeln!(written, "{line}"),
            Some((prefix, answer)) => {
                if !recording {
                    let recorded: Value =
                        serde_json::from_str(&line[prefix.len()..]).expect(&place);
                    assert_eq!(without_new_hints(answer.clone(), &recorded), recorded, "{place}");
                }
                _ = writeln!(written, "{prefix}{answer}");
            }
        }
    }
    if recording {
        fs::write(file(name), written).unwrap();
    }
}

/// Removes hints that a newer host adds.
fn without_new_hints(mut answer: Value, recorded: &Value) -> Value {
    if recorded.get("hints").is_none()
        && let Some(fields) = answer.as_object_mut()
    {
        fields.remove("hints");
    }
    answer
}

struct Talk<'a> {
    served: &'a Served,
    connections: HashMap<String, BufReader<UnixStream>>,
    /// The values of placeholders, learned from answers.
    names: Vec<(String, String)>,
}

impl Talk<'_> {
    /// Returns the answer, if the line has one, and the text before it.
    fn step(&mut self, line: &str) -> Option<(String, Value)> {
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        if let Some(seconds) = line.strip_prefix("clock ") {
            self.served.pass(seconds.parse().unwrap());
            return None;
        }
        let (name, rest) = line.split_at(line.find(['>', '<', '?']).unwrap());
        let said = rest[1..].trim_start();
        match &rest[..1] {
            ">" => self.send(name, said),
            "?" => loop {
                self.send(name, said);
                let answer = self.receive(name);
                if answer["data"].as_array().is_some_and(|list| !list.is_empty()) {
                    self.learn(&answer);
                    break;
                }
                std::thread::yield_now();
            },
            _ => {
                let answer = self.receive(name);
                return Some((format!("{name}< "), self.hidden(answer)));
            }
        }
        None
    }

    fn connection(&mut self, name: &str) -> &mut BufReader<UnixStream> {
        let socket = self.served.socket();
        self.connections.entry(name.to_owned()).or_insert_with(|| {
            let stream = UnixStream::connect(socket).unwrap();
            stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
            BufReader::new(stream)
        })
    }

    fn send(&mut self, name: &str, said: &str) {
        let mut line = said.replace("$ROOT", self.served.root().to_str().unwrap());
        for (placeholder, value) in &self.names {
            line = line.replace(placeholder, value);
        }
        line.push('\n');
        self.connection(name).get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn receive(&mut self, name: &str) -> Value {
        let mut line = String::new();
        self.connection(name).read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect(&line)
    }

    fn learn(&mut self, answer: &Value) {
        let id = answer["data"][0]["prompt_id"].as_str().unwrap().to_owned();
        self.names.push(("$PROMPT".to_owned(), id));
    }

    /// Replaces values that differ from run to run with placeholders.
    fn hidden(&self, mut answer: Value) -> Value {
        if answer["data"]["pid"].is_u64() {
            answer["data"]["pid"] = json!(1);
            answer["data"]["version"] = json!("0.0.0");
        }
        for name in ["id", "timestamp"] {
            if answer["event"].is_object() {
                answer[name] = json!(format!("${name}"));
            }
        }
        let mut text = answer.to_string();
        let pid = format!("(pid={})", std::process::id());
        text = text.replace(self.served.root().to_str().unwrap(), "$ROOT").replace(&pid, "(pid=1)");
        for (placeholder, value) in &self.names {
            text = text.replace(value, placeholder);
        }
        serde_json::from_str(&text).unwrap()
    }
}
