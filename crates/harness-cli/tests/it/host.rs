//! The socket that `harness run` serves: agents that report for themselves, a second terminal, and
//! clients that behave badly.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::{environment::TestEnvironment, page::Page};

pub(crate) fn world() -> TestEnvironment {
    let binary = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([binary].into_iter().chain(std::env::split_paths(&others)));
    let env = TestEnvironment::with_git()
        .with_daemon()
        .variable("HARNESS_WORKER_ID", "w")
        .variable("PATH", path.unwrap());
    env.run(["init"]).success();
    env
}

fn add(env: &TestEnvironment, instructions: &str, validate: &str) {
    let args = ["add", "a task", "--instructions", instructions, "--validate", validate];
    env.run(args).success();
}

/// A run whose agent does something, reports it, and waits for permission to continue.
struct Waiting {
    run: Child,
    go: PathBuf,
}

impl Waiting {
    fn start(env: &TestEnvironment, before: &str, after: &str, validate: &str) -> Self {
        let [ready, go] = ["ready", "go"].map(|name| env.home().join(name));
        for fifo in [&ready, &go] {
            _ = fs::remove_file(fifo);
            assert!(env.program("mkfifo").arg(fifo).status().unwrap().success());
        }
        let script = format!(
            "{before}\necho ready > {ready}\nread go < {go}\n{after}",
            ready = ready.display(),
            go = go.display()
        );
        add(env, &script, validate);
        Self::run(env, &ready, go)
    }

    fn run(env: &TestEnvironment, ready: &Path, go: PathBuf) -> Self {
        let mut command = env.harness(["run", "--agent", "shell"]);
        let log = fs::File::create(env.home().join("run.log")).unwrap();
        let run = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(fs::File::open(ready).unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self { run, go }
    }

    fn go_on(mut self) -> Option<i32> {
        fs::write(&self.go, "go\n").unwrap();
        self.run.wait().unwrap().code()
    }

    fn end(mut self) -> Option<i32> {
        self.run.wait().unwrap().code()
    }
}

pub(crate) fn socket(env: &TestEnvironment) -> PathBuf {
    env.read(".harness/socket").trim_end().into()
}

pub(crate) fn connect(env: &TestEnvironment) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket(env)).unwrap())
}

pub(crate) fn answer(client: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))
}

pub(crate) fn ask(client: &mut BufReader<UnixStream>, line: impl AsRef<[u8]>) -> Value {
    client.get_mut().write_all(line.as_ref()).unwrap();
    client.get_mut().write_all(b"\n").unwrap();
    answer(client)
}

#[test]
fn an_agent_tells_how_far_it_came_and_asks_for_its_check() {
    let env = world();
    let script = "harness task checkpoint --step 1 --total 2 'half' > said && \
                  harness task renew >> said && harness task complete >> said";
    add(&env, script, "test -f said");
    env.run(["run", "--agent", "shell"]).success();
    let done = env.task(0);
    assert_eq!(done["status"], "completed");
    assert_eq!(done["checkpoints"][0]["description"], "half");
    assert!(done["checkpoints"][0]["tree"].is_string(), "{done}");
    let said = env.normalise(&env.read("said"));
    assert_eq!(
        said,
        "Task task-001 is yours until [TIME]\nTask task-001 is yours until [TIME]\n\
         Task task-001: check requested\n"
    );
    assert!(!env.exists(".harness/socket"));
    assert_eq!(fs::read_dir(env.home().join("run")).unwrap().count(), 0, "no socket is left");
}

#[test]
fn an_agent_that_gives_up_is_rolled_back_for_its_reason() {
    let env = world();
    let script = "if [ $HARNESS_ATTEMPT = 2 ]; then touch done; exit; fi; touch junk; \
                  harness task fail --category ENV_SETUP 'no compiler' && exec sleep 600";
    add(&env, script, "test -f done");
    env.run(["run", "--agent", "shell"]).success();
    let done = env.task(0);
    assert_eq!((&done["status"], &done["attempts"]), (&"completed".into(), &2.into()));
    assert_eq!(done["error_log"][0], "[ENV_SETUP] no compiler");
    assert!(!env.exists("junk") && env.exists("done"));
}

#[test]
fn a_second_terminal_changes_the_ledger_while_a_run_works() {
    let env = world();
    let run = Waiting::start(&env, "", "touch one", "test -f one");
    env.run(["ping"]).success().stdout("ok");
    assert_eq!(fs::metadata(socket(&env)).unwrap().permissions().mode() & 0o777, 0o600);
    let two = ["add", "two", "--instructions", "touch two", "--validate", "test -f two"];
    env.run(two).success().stdout("task-002");
    env.run(["add", "three"]).success().stdout("task-003");
    env.run(["task", "edit", "task-002", "--priority", "P0"])
        .success()
        .stdout("Task task-002 changed");
    env.run(["task", "remove", "task-003"]).success().stdout("Task task-003 removed");
    // Refusals are the same as without a host, including the hints.
    env.run(["task", "retry", "task-002"])
        .code(1)
        .stderr_contains("Error: Task task-002 is pending, not failed");
    env.run(["task", "edit", "task-009", "--priority", "P0"])
        .code(1)
        .stderr_contains("Error: Task task-009 not found")
        .stderr_contains("Hint: `harness task list` shows all tasks");
    env.run(["task", "release", "task-001"]).code(1).stderr_contains("is being worked on");
    env.run(["task", "complete", "--id", "task-001", "--worker", "x"])
        .code(1)
        .stderr_contains("Error: Task task-001 is not claimed by x")
        .stderr_contains("Hint: `harness task show task-001` shows the worker that holds it");
    let state = env.run(["get-state"]).success().json();
    assert_eq!(state["tasks"]["task-001"]["status"], "running");
    assert_eq!(run.go_on(), Some(0));
    assert_eq!(env.task(1)["status"], "completed");
    env.run(["daemon", "status"]).code(1).stderr_contains("no daemon is running");
}

#[test]
fn the_wire_answers_every_line_and_outlives_every_client() {
    let env = world();
    let run = Waiting::start(&env, "", "touch one", "test -f one");
    let mut idle: Vec<_> = (0..200).map(|_| UnixStream::connect(socket(&env)).unwrap()).collect();
    for (n, client) in idle.iter_mut().enumerate() {
        // Half of them die in the middle of a line.
        client.write_all(if n % 2 == 0 { b"{\"command\":" } else { b"" }).unwrap();
    }
    idle.drain(..100);
    let mut client = connect(&env);
    let message = |answer: Value| {
        assert_eq!(answer["status"], "error");
        answer["message"].as_str().unwrap().to_owned()
    };
    assert!(message(ask(&mut client, "")).starts_with("Invalid JSON: "));
    assert!(message(ask(&mut client, "{")).starts_with("Invalid JSON: "));
    assert_eq!(message(ask(&mut client, b"\xff\xfe")), "Invalid UTF-8");
    assert_eq!(message(ask(&mut client, "[]")), "A request is a JSON object");
    assert_eq!(message(ask(&mut client, "{}")), "Missing command");
    assert_eq!(message(ask(&mut client, r#"{"command":"x"}"#)), "Unknown command: x");
    let busy = format!("Another harness session is active (pid={})", run.run.id());
    for verb in ["task_claim", "plan_import", "plan_reset", "shutdown"] {
        assert_eq!(message(ask(&mut client, json!({ "command": verb }).to_string())), busy);
    }
    assert_eq!(message(ask(&mut client, r#"{"command":"task_renew"}"#)), "task_id is required");
    assert_eq!(
        message(ask(&mut client, r#"{"command":"task_renew","task_id":"task-001"}"#)),
        "worker_id is required"
    );
    // Every verb of the page is known.
    for verb in Page::open("PROTOCOL.md").named("### Verbs") {
        if !["abort", "subscribe"].contains(&verb.as_str()) {
            let answer = ask(&mut client, json!({ "command": verb }).to_string());
            let unknown = format!("Unknown command: {verb}");
            assert_ne!(answer["message"], unknown);
        }
    }
    let longer = "x".repeat(8 * 1024 * 1024 + 1);
    assert!(message(ask(&mut client, longer)).contains("8388608"));
    let pong = ask(&mut client, r#"{"command":"ping"}"#);
    assert_eq!(
        pong,
        json!({"status":"ok","data":{"running":true,"pid":run.run.id(),
            "version":env!("CARGO_PKG_VERSION"),"protocol":1}})
    );
    let status = ask(&mut client, r#"{"command":"status","event_count":9}"#);
    assert_eq!(status["data"]["summary"]["running"], 1);
    assert_eq!(status["data"]["active_workers"], json!(["w"]));
    let events = status["data"]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["event_type"] == "task_claim"), "{events:?}");
    // This is a last line without a newline, from a client that sends no more.
    let mut last = UnixStream::connect(socket(&env)).unwrap();
    last.write_all(br#"{"command":"ping"}"#).unwrap();
    last.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    last.read_to_string(&mut said).unwrap();
    assert!(said.starts_with(r#"{"status":"ok""#) && said.ends_with('\n'), "{said}");
    assert_eq!(run.go_on(), Some(0));
}

#[test]
fn a_question_of_an_agent_is_answered_from_another_terminal() {
    let env = world();
    // The question is asked in the background, so that `ready` comes while it is open or about to
    // be.
    let run = Waiting::start(
        &env,
        "harness ask 'Which one?' --choices a,b > answer &",
        "wait; cp answer chosen",
        "grep -qx b chosen",
    );
    let mut client = connect(&env);
    let open = loop {
        let open = ask(&mut client, r#"{"command":"questions"}"#)["data"].clone();
        if open.as_array().is_some_and(|open| !open.is_empty()) {
            break open;
        }
    };
    assert_eq!(open[0]["choices"], json!(["a", "b"]));
    let id = open[0]["prompt_id"].as_str().unwrap();
    assert!(id.starts_with("prompt-0-"), "{id}");
    env.run(["questions"]).success().stdout(&format!("{id}: Which one? [a, b]"));
    let (asks, reply) =
        (format!("QUESTION {id}: Which one? [a, b]"), format!("harness reply {id} ANSWER"));
    for command in ["status", "report"] {
        env.run([command]).success().stdout_contains(&asks).stdout_contains(&reply);
    }
    assert_eq!(open[0]["task_id"], "task-001");
    env.run(["why", "task-001"])
        .success()
        .stdout_contains("It asks: Which one?")
        .stdout_contains(&reply);
    env.run(["reply", id, "c"]).code(1).stderr_contains("choose one of: a, b");
    env.run(["reply", "prompt-7", "b"]).code(1).stderr_contains("Question prompt-7 not found");
    env.run(["reply", id, "b"]).success();
    // The `shell` agent reads no messages, and the sender learns that.
    env.run(["send", "well done"]).code(1).stderr_contains("no agent received it");
    assert_eq!(run.go_on(), Some(0));
    assert_eq!(env.task(0)["status"], "completed");
}

#[test]
fn events_stream_to_whoever_asks_and_can_be_resumed() {
    let env = world();
    let run = Waiting::start(&env, "", "touch one", "test -f one");
    let mut client = connect(&env);
    let subscribe = json!({ "command": "subscribe", "filter": ["task:*", "session:message"] });
    writeln!(client.get_mut(), "{subscribe}").unwrap();
    // This repeats until an event arrives, because the subscription has no answer of its own.
    let mut other = connect(&env);
    let mut since = Value::Null;
    while since.is_null() {
        ask(&mut other, r#"{"command":"send","content":"hello"}"#);
        let event = answer(&mut client);
        assert_eq!(event["event"]["type"], "session:message");
        since = event["id"].clone();
    }
    let holder = r#"{"command":"task_checkpoint","task_id":"task-001","worker_id":"w","step":1,"total":1,"description":"d"}"#;
    assert_eq!(ask(&mut other, holder)["status"], "ok");
    let mut again = connect(&env);
    writeln!(again.get_mut(), "{}", json!({ "command": "subscribe", "since": since })).unwrap();
    let unknown =
        json!({ "command": "subscribe", "since": "018f0000-0000-7000-8000-000000000000" });
    let mut late = connect(&env);
    writeln!(late.get_mut(), "{unknown}").unwrap();
    assert_eq!(answer(&mut late)["type"], "lagged");
    assert_eq!(run.go_on(), Some(0));
    let kinds = |client: BufReader<UnixStream>| -> Vec<String> {
        let lines = client.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        lines.map(|event: Value| event["event"]["type"].as_str().unwrap().to_owned()).collect()
    };
    let heard = kinds(client);
    assert!(heard.ends_with(&["task:checkpoint".into(), "task:complete".into()]), "{heard:?}");
    let resumed = kinds(again);
    assert!(resumed.contains(&"task:checkpoint".to_owned()), "{resumed:?}");
    assert!(kinds(late).contains(&"task:start".to_owned()));
}

#[test]
fn an_abort_from_another_terminal_is_an_orderly_stop() {
    let env = world();
    let run = Waiting::start(&env, "touch half", "touch one", "test -f one");
    env.run(["abort", "wrong branch"]).success();
    assert_eq!(run.end(), Some(130));
    assert_eq!(env.task(0)["status"], "in_progress");
    assert!(env.read("harness-progress.txt").trim_end().ends_with("LOCK released"));
    assert!(!env.exists(".harness/socket"));
}

#[test]
fn a_killed_run_leaves_a_socket_that_nobody_minds() {
    let env = world();
    let mut run = Waiting::start(&env, "touch one", "", "test -f one");
    let left = socket(&env);
    run.run.kill().unwrap();
    run.run.wait().unwrap();
    assert!(left.exists());
    env.run(["daemon", "status"]).code(1);
    env.run(["add", "by the files", "--validate", "true", "--instructions", "true"]).success();
    env.run(["run", "--agent", "shell"]).success();
    assert!(!left.exists() && !env.exists(".harness/socket"));
}

/// There are two ways to one ledger. The output of a command does not show which one it used.
#[test]
fn without_a_host_the_files_are_used_and_the_words_are_the_same() {
    let told = |env: &TestEnvironment| {
        let commands: [&[&str]; 6] = [
            &["add", "new", "--id", "mine", "--priority", "P2"],
            &["add", "new", "--id", "mine"],
            &["add", "bad", "--priority", "P9"],
            &["add", "bad", "--depends-on", "nothing"],
            &["task", "edit", "mine", "--title", "other", "--json"],
            &["task", "remove", "mine"],
        ];
        commands.map(|args| env.run(args).to_string())
    };
    let env = world();
    let by_files = told(&env);
    let run = Waiting::start(&env, "", "touch one", "test -f one");
    assert_eq!(told(&env), by_files);
    assert_eq!(run.go_on(), Some(0));
}

#[test]
fn work_goes_on_after_its_checkpoint_when_the_run_was_killed() {
    let env = world();
    let before = "if [ -f .git/half ]; then touch one; exit; fi; touch .git/half; \
                  harness task checkpoint --step 1 --total 2 'half'";
    let mut run = Waiting::start(&env, before, "", "test -f one");
    run.run.kill().unwrap();
    run.run.wait().unwrap();
    env.run(["run", "--agent", "shell"]).success();
    let log = env.read("harness-progress.txt");
    assert!(log.contains("action=\"resume\""), "{log}");
    let done = env.task(0);
    assert_eq!((&done["status"], &done["attempts"]), (&"completed".into(), &1.into()));
}

#[test]
fn a_run_says_why_it_can_not_listen() {
    let env = world();
    add(&env, "touch one", "test -f one");
    let env = env.variable("HARNESS_SOCKET", "notes.txt");
    env.write("notes.txt", "mine");
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("notes.txt is not a socket");
    assert_eq!(env.read("notes.txt"), "mine");
    let env = env.variable("HARNESS_SOCKET", format!("/tmp/{}", "x".repeat(120)));
    env.run(["run", "--agent", "shell"]).code(5).stderr_contains("more than 107");
    assert_eq!(env.task(0)["status"], "pending");
}
