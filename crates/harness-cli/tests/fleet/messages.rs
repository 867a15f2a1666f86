//! Agents of one machine and people at another: messages, questions, answers and aborts.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Child,
};

use harness_sim::postgres::TestServer;

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add, start, states},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_question_of_another_machine_is_answered_here",
        a_question_of_another_machine_is_answered_here,
    ),
    (
        "a_message_reaches_an_agent_of_another_machine",
        a_message_reaches_an_agent_of_another_machine,
    ),
    ("an_abort_stops_the_run_of_another_machine", an_abort_stops_the_run_of_another_machine),
    ("an_old_message_stops_no_run", an_old_message_stops_no_run),
    ("a_worker_that_becomes_the_host_is_reached", a_worker_that_becomes_the_host_is_reached),
    ("a_machine_that_does_not_answer_is_named", a_machine_that_does_not_answer_is_named),
    ("an_agent_may_not_abort_other_machines", an_agent_may_not_abort_other_machines),
];

const HARNESS: &str = env!("CARGO_BIN_EXE_harness");

/// Speaks as an ACP agent does. It waits for the word of the test before the end of its turn, and then
/// writes down what it is sent.
const LISTENER: &str = r#"#!/bin/sh
answer() { read -r line; echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
answer 1 '{"protocolVersion":1}'
answer 2 '{"sessionId":"s-1"}'
read -r line
echo ready > "$HOME/ready"
read -r word < "$HOME/go"
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
read -r line
printf '%s\n' "$line" > heard.txt
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"TASK_COMPLETE"}}}}'
echo '{"jsonrpc":"2.0","id":5,"result":{"stopReason":"end_turn"}}'
"#;

/// Makes a named pipe, whose reader waits for a writer and the other way round.
fn fifo(env: &TestEnvironment, name: &str) -> PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn hear(fifo: &Path) -> String {
    let mut said = String::new();
    BufReader::new(fs::File::open(fifo).unwrap()).read_line(&mut said).unwrap();
    said.trim_end().to_owned()
}

/// Adds a task whose agent says that it is at work, and then waits for a word.
fn add_waiting(env: &TestEnvironment, at: &TestEnvironment, id: &str) -> PathBuf {
    let (ready, word) = (fifo(at, "ready"), fifo(at, "word"));
    let (ready_path, word) = (ready.display(), word.display());
    let script =
        format!("echo half > {id}; echo ready > {ready_path}; read x < {word}; echo whole > {id}");
    add(env, id, &script, &format!("grep -q whole {id}"));
    ready
}

/// Waits for the end of a run that was aborted.
fn is_interrupted(run: Child) {
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
}

/// Waits until a statement returns this value.
fn until(fleet: &Fleet, sql: &str, value: &str) {
    while fleet.database.value(sql) != value {
        std::thread::yield_now();
    }
}

fn a_question_of_another_machine_is_answered_here(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b"));
    let ask = format!("{HARNESS} ask 'which one?' --choices red,blue > answer");
    add(&a, "one", &ask, "grep -qx blue answer");
    let run = start(&b, &["run", "--agent", "shell"]);
    until(&fleet, "SELECT count(*) FROM harness.question", "1");
    let listed = a.run(["questions", "--json"]).success().json();
    let question = &listed["questions"][0];
    assert_eq!(question["question"], "which one?", "{listed}");
    let host = question["host"].as_str().unwrap();
    assert!(fleet.database.value("SELECT machine FROM harness.host").starts_with(host), "{host}");
    let id = question["prompt_id"].as_str().unwrap();
    a.run(["questions"]).success().stdout(&format!("{id}: which one? [red, blue] (on {host})"));
    a.run(["status"]).success().stdout_contains("which one?").stdout_contains(id);
    a.run(["reply", id, "green"]).code(1).stderr_contains("choose one of: red, blue");
    a.run(["reply", "prompt-7-0", "blue"]).code(1);
    a.run(["reply", id, "blue"]).success();
    b.ran(run.wait_with_output().unwrap()).success();
    assert_eq!(states(&a), [("one".to_owned(), "completed".to_owned())]);
    // Nothing is left of a question that was answered, and of a host that has ended.
    a.run(["questions"]).success().stderr_contains("no question waits for an answer");
    for table in ["question", "host"] {
        assert_eq!(fleet.database.value(&format!("SELECT count(*) FROM harness.{table}")), "0");
    }
}

fn a_message_reaches_an_agent_of_another_machine(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b"));
    let bin = b.home().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("gemini"), LISTENER).unwrap();
    fs::set_permissions(bin.join("gemini"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
    let b = b.variable("PATH", path.unwrap());
    let (ready, go) = (fifo(&b, "ready"), fifo(&b, "go"));
    add(&a, "one", "wait for a word", "grep -q 'leave the parser alone' heard.txt");
    let secret = "hunter2-hunter2";
    let a = a.variable("MY_TOKEN", secret);
    a.run(["send", "too early"]).code(1).stderr_contains("no harness is running");
    let run = start(&b, &["run", "--agent", "gemini"]);
    hear(&ready);
    a.run(["send", "hello", "--agent", "nobody"]).code(1).stderr_contains("no agent received it");
    let text = format!("leave the parser alone, not {secret}");
    a.run(["send", &text]).success().stdout("received by 1 agent");
    let stored = fleet.database.value("SELECT body FROM harness.message ORDER BY id DESC LIMIT 1");
    assert!(stored.contains("leave the parser alone") && !stored.contains(secret), "{stored}");
    a.run(["kick"]).code(1).stderr_contains("no run is waiting for a usage limit");
    fs::write(&go, "go\n").unwrap();
    b.ran(run.wait_with_output().unwrap()).success();
    assert_eq!(states(&a), [("one".to_owned(), "completed".to_owned())]);
}

fn an_abort_stops_the_run_of_another_machine(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b"));
    let ready = add_waiting(&a, &b, "one");
    let run = start(&b, &["run", "--agent", "shell"]);
    hear(&ready);
    a.run(["abort", "--here"]).code(1).stderr_contains("no harness is running");
    a.run(["abort", "wrong branch"]).success();
    is_interrupted(run);
    a.run(["log"]).success().stdout_contains("harness abort on ").stdout_contains("wrong branch");
    assert_eq!(states(&a), [("one".to_owned(), "in_progress".to_owned())]);
    // The next run recovers the task.
    for name in ["ready", "word"] {
        fs::remove_file(b.home().join(name)).unwrap();
        fs::write(b.home().join(name), "go\n").unwrap();
    }
    b.run(["run", "--agent", "shell"]).success();
    assert_eq!(states(&a), [("one".to_owned(), "completed".to_owned())]);
}

/// Sends a message that looks as if its sender had waited for a long time.
fn send_abort(fleet: &Fleet, host: &str, age: &str) {
    fleet.database.sql(&format!(
        "INSERT INTO harness.message (ledger, request, host, sender, kind, body, sent_at) \
         SELECT ledger, gen_random_uuid(), id, 'far', 'abort', '{{\"call\": {{\"command\": \"abort\"}}}}', \
         clock_timestamp() - interval '{age}' FROM harness.host WHERE {host}"
    ));
}

fn an_old_message_stops_no_run(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b"));
    let ready = add_waiting(&a, &b, "one");
    let mut killed = start(&b, &["run", "--agent", "shell"]);
    hear(&ready);
    until(&fleet, "SELECT count(*) FROM harness.host", "1");
    // A message to a run that nobody stops any more must not stop the next one.
    killed.kill().unwrap();
    killed.wait().unwrap();
    send_abort(&fleet, "true", "1 second");
    let run = start(&b, &["run", "--agent", "shell"]);
    hear(&ready);
    until(&fleet, "SELECT count(*) FROM harness.message WHERE answered_at IS NULL", "0");
    until(&fleet, "SELECT count(*) FROM harness.host", "1");
    send_abort(&fleet, "true", "10 minutes");
    until(&fleet, "SELECT count(*) FROM harness.message WHERE answered_at IS NULL", "0");
    let log = a.run(["log"]).success().raw().to_owned();
    assert!(log.contains("it was for an earlier run or daemon, which has ended"), "{log}");
    assert!(
        log.contains("`harness abort` of far, sent 60") && log.contains("it is too old"),
        "{log}"
    );
    a.run(["abort"]).success();
    is_interrupted(run);
}

fn a_machine_that_does_not_answer_is_named(server: &TestServer) {
    let fleet = Fleet::new(server);
    let a = fleet.first("a");
    fleet.database.sql(
        "INSERT INTO harness.host (ledger, id, machine, root, pid, version) \
         SELECT id, gen_random_uuid(), 'far', '/srv/shop', 1, '0' FROM harness.ledger; \
         INSERT INTO harness.question (ledger, id, host, body) SELECT ledger, 'prompt-0-ab', id, \
         '{\"prompt_id\": \"prompt-0-ab\", \"question\": \"q\", \"choices\": [], \"allow_text\": true}' \
         FROM harness.host",
    );
    a.run(["questions"]).success().stdout("prompt-0-ab: q (on far)");
    let words = "sent to far, which has not answered yet";
    a.run(["send", "hello"]).code(1).stderr_contains(words);
    a.run(["reply", "prompt-0-ab", "hello"]).code(1).stderr_contains(words);
    // Beside an answer it is a remark.
    fleet.database.sql("UPDATE harness.host SET seen_at = clock_timestamp()");
    a.run(["kick"]).code(1).stderr_contains(words);
    // A machine that has not reported for a while is not asked, and its questions are not listed.
    fleet
        .database
        .sql("UPDATE harness.host SET seen_at = clock_timestamp() - interval '2 minutes'");
    a.run(["send", "hello"]).code(1).stderr_contains("no harness is running");
    a.run(["questions"]).success().stderr_contains("no question waits for an answer");
}

fn an_agent_may_not_abort_other_machines(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b"));
    let ready = add_waiting(&a, &b, "one");
    add(
        &a,
        "two",
        &format!("! {HARNESS} abort 2> two; ! {HARNESS} send x 2>> two"),
        "grep -q operator two",
    );
    let run = start(&b, &["run", "--agent", "shell", "--task", "one"]);
    hear(&ready);
    let other = start(&a, &["run", "--agent", "shell", "--task", "two"]);
    until(&fleet, "SELECT status FROM harness.task WHERE id = 'two'", "completed");
    assert_eq!(fleet.database.value("SELECT count(*) FROM harness.message"), "0");
    // It waits for the other task. A person may stop both.
    a.run(["abort"]).success();
    is_interrupted(run);
    is_interrupted(other);
}

/// The host passes on what is for other processes of its root. When it dies, one of them takes its place.
fn a_worker_that_becomes_the_host_is_reached(server: &TestServer) {
    let fleet = Fleet::new(server);
    let (a, b) = (fleet.first("a"), fleet.another("b").with_daemon());
    let ready = add_waiting(&a, &b, "one");
    let mut host = start(&b, &["run", "--agent", "shell", "--task", "one"]);
    hear(&ready);
    let ask = format!("{HARNESS} ask 'which one?' > answer");
    add(&a, "two", &ask, "grep -qx blue answer");
    let worker = start(&b, &["work", "--agent", "shell", "--worker", "second"]);
    until(&fleet, "SELECT count(*) FROM harness.question", "1");
    let before = fleet.database.value("SELECT host FROM harness.question");
    host.kill().unwrap();
    host.wait().unwrap();
    let moved = format!("SELECT count(*) FROM harness.question WHERE host <> '{before}'");
    until(&fleet, &moved, "1");
    let listed = a.run(["questions", "--json"]).success().json();
    let id = listed["questions"][0]["prompt_id"].as_str().unwrap();
    a.run(["reply", id, "blue"]).success();
    until(&fleet, "SELECT status FROM harness.task WHERE id = 'two'", "completed");
    a.run(["abort"]).success();
    is_interrupted(worker);
}
