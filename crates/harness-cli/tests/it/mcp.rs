//! `harness mcp` for an agent: lines of JSON-RPC on its standard streams.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// A time limit that no step reaches.
const LONG: Duration = Duration::from_secs(60);

/// A client of one server.
struct Client {
    server: Child,
    stdin: Option<ChildStdin>,
    said: mpsc::Receiver<Value>,
    /// Messages that came while the client waited for another one.
    kept: Vec<Value>,
    asked: u64,
}

impl Client {
    fn start(env: &TestEnvironment) -> Self {
        Self::of(env.harness(["mcp"]))
    }

    /// Starts the server, and performs the handshake.
    fn of(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let stdin = server.stdin.take();
        let out = BufReader::new(server.stdout.take().unwrap());
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let line = line.unwrap();
                let value = serde_json::from_str(&line);
                let value =
                    value.unwrap_or_else(|why| panic!("not of the protocol: {line}: {why}"));
                _ = tell.send(value);
            }
        });
        let mut client = Self { server, stdin, said, kept: Vec::new(), asked: 0 };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let answer = client.request("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "harness", "{answer}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.say(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Returns the first message that fits, of those that came and those that will come.
    fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&fits) {
            return self.kept.remove(at);
        }
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let said = self.said.recv_timeout(left);
            let said = said.unwrap_or_else(|_| panic!("no {what}, only {:?}", self.kept));
            if fits(&said) {
                return said;
            }
            self.kept.push(said);
        }
    }

    fn answer(&mut self, id: u64) -> Value {
        self.wait_for(&format!("answer to {id}"), |said| said["id"] == id)
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Returns the result of a tool that succeeded.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Returns the text of a tool that refused.
    #[track_caller]
    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Returns its exit code, after its standard input has ended.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.server.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn world() -> TestEnvironment {
    TestEnvironment::of_worker()
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

fn fifo(env: &TestEnvironment, name: &str) -> PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waits until a process writes into it.
fn read_pipe(fifo: &Path) -> String {
    fs::read_to_string(fifo).unwrap()
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_true() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn the_tools_say_what_they_are_for() {
    let env = TestEnvironment::new();
    let mut client = Client::start(&env);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let mut text = String::new();
    for tool in tools.as_array().unwrap() {
        let hints = &tool["annotations"];
        let effect = ["readOnly", "destructive", "idempotent"]
            .into_iter()
            .filter(|hint| hints[format!("{hint}Hint")] == true)
            .collect::<Vec<_>>();
        text += &format!("{} [{}]\n", tool["name"].as_str().unwrap(), effect.join(" "));
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        let required: Vec<_> =
            tool["inputSchema"]["required"].as_array().into_iter().flatten().collect();
        for (name, field) in tool["inputSchema"]["properties"].as_object().unwrap() {
            let needed = if required.contains(&&json!(name)) { "" } else { "?" };
            text += &format!("  {name}{needed}: {}\n", field["type"].as_str().unwrap());
            assert!(field["description"].is_string(), "{tool}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        // Replacing a plan is reserved for the operator. It is not offered, and an old caller gets
        // the reason.
        if tool["name"] == "plan_import" {
            let mode = &tool["inputSchema"]["properties"]["mode"];
            assert_eq!(mode["enum"], json!(["if_finished", "merge"]), "{tool}");
        }
    }
    assert_snapshot!(text, @"
    harness_status [readOnly idempotent]
    task_claim [idempotent]
      role?: string
      labels?: array
      wait_seconds?: integer
    task_checkpoint []
      step: integer
      total: integer
      description: string
      task_id?: string
    task_complete [idempotent]
      task_id?: string
    task_fail []
      message: string
      category?: string
      task_id?: string
    task_add []
      title: string
      validate?: string
      instructions?: string
      priority?: string
      depends_on?: array
      protected?: array
      role?: string
      requires?: array
      phase?: string
      max_attempts?: integer
      task_id?: string
    plan_import [destructive]
      content: string
      mode?: string
    handoff_write [idempotent]
      phase?: string
      completed?: array
      next_step?: string
      critical_files?: array
      memory_notes?: string
    finalize_research [idempotent]
      task_id?: string
    ask_user []
      question: string
      choices?: array
      allow_text?: boolean
      timeout_seconds?: integer
    ");
    assert_eq!(client.end(), Some(0));
}

/// Performs everything that a worker does, and checks the ledger and the log. `env` determines
/// whether a daemon serves it.
fn a_worker_works(env: &TestEnvironment) {
    let mut client = Client::start(env);
    let plan = json!({ "goal": "A shop", "tasks": {
        "one": { "description": "First", "validation": { "command": "test -f one" } } } });
    let imported =
        client.call("plan_import", json!({ "content": format!("```json\n{plan}\n```") }));
    assert_eq!((&imported["task_count"], &imported["goal"]), (&1.into(), &"A shop".into()));
    let added = client.call(
        "task_add",
        json!({ "title": "Second", "depends_on": ["one"], "instructions": "-", "priority": "P0" }),
    );
    assert_eq!(added["task_id"], "task-001");
    // `-`, for which the command line reads standard input, is an ordinary text here.
    assert_eq!(env.task(1)["instructions"], "-");
    let claimed = client.call("task_claim", json!({}));
    assert_eq!(claimed["task"]["id"], "one", "{claimed}");
    let step = json!({ "task_id": "one", "step": 1, "total": 2, "description": "half of it" });
    let lease = client.call("task_checkpoint", step);
    assert_eq!(lease["task_id"], "one");
    assert_eq!(env.task(0)["checkpoints"][0]["description"], "half of it");
    assert!(log(env).contains("half of it"), "{}", log(env));

    let not_yet = client.refused("task_complete", json!({ "task_id": "one" }));
    assert!(not_yet.contains("one") && !not_yet.is_empty(), "{not_yet}");
    assert_eq!(env.task(0)["status"], "in_progress");
    env.write("one", "");
    let done = client.call("task_complete", json!({ "task_id": "one" }));
    assert_eq!(done, json!({ "task_id": "one" }));
    assert!(log(env).contains("Completed [one]"), "{}", log(env));

    assert_eq!(client.call("task_claim", json!({}))["task"]["id"], "task-001");
    let gave_up =
        json!({ "task_id": "task-001", "message": "no compiler", "category": "ENV_SETUP" });
    assert_eq!(client.call("task_fail", gave_up)["task_id"], "task-001");
    assert_eq!(env.task(1)["error_log"][0], "[ENV_SETUP] no compiler");

    let id = client.begin_call("harness_status", json!({}));
    let text = client.answer(id)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("A shop") && text.contains("task-001"), "{text}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_worker_works_on_the_files() {
    let env = world();
    a_worker_works(&env);
    assert!(!env.exists(".harness/socket"));
}

#[test]
fn a_worker_works_with_a_daemon() {
    let env = world().with_daemon();
    env.run(["daemon", "start"]).success();
    a_worker_works(&env);
    env.run(["ping"]).success();
}

#[test]
fn the_task_of_the_environment_is_meant() {
    let env = world();
    env.run(["add", "one", "--id", "one"]).success();
    env.run(["task", "claim"]).success();
    let mut command = env.harness(["mcp"]);
    command.env("HARNESS_TASK_ID", "one").env("HARNESS_EPOCH", "1");
    let mut client = Client::of(command);
    let step = json!({ "step": 1, "total": 1, "description": "all" });
    assert_eq!(client.call("task_checkpoint", step.clone())["task_id"], "one");
    env.run(["task", "release", "one"]).success();
    env.run(["task", "claim"]).success();
    // The claim that it was started for is over.
    client.refused("task_checkpoint", step.clone());
    let mut without = Client::start(&env);
    let said = without.refused("task_checkpoint", step);
    assert_eq!(
        said,
        "no task was named\nHint: name it (its id, or `task_id` of the tool), or set HARNESS_TASK_ID"
    );
}

#[test]
fn what_the_next_context_needs_is_written_down() {
    let env = world();
    let mut client = Client::start(&env);
    let told = json!({ "phase": "build", "completed": ["a"], "next_step": "b",
        "critical_files": ["src/x.rs", "/etc/passwd"] });
    let written = client.call("handoff_write", told);
    assert_eq!(written["handoff"]["critical_files"], json!(["src/x.rs"]));
    assert!(written["warnings"].to_string().contains("/etc/passwd"), "{written}");
    let file: Value = serde_json::from_str(&env.read("state/handoff.json")).unwrap();
    assert_eq!((&file["phase"], &file["next_step"]), (&"build".into(), &"b".into()));
    client.refused("handoff_write", json!({}));
    assert!(env.read("state/handoff.json").contains("build"));

    env.write("search_results/a.json", r#"[{"url":"https://example.com/a","title":"A"}]"#);
    let done = client.call("finalize_research", json!({ "task_id": "survey" }));
    assert_eq!((&done["added"], &done["task_id"]), (&1.into(), &"survey".into()));
    assert!(env.exists("tasks/survey/research_overview.md"));
}

#[test]
fn what_is_wrong_is_said_and_the_server_goes_on() {
    let env = TestEnvironment::new();
    let mut client = Client::start(&env);
    for (line, code) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700),
        ("[1,2]", -32600),
        ("{\"id\":null}", -32600),
        ("\u{0}\u{1b}[2J", -32700),
    ] {
        client.say(line);
        let said = client.wait_for("error", |said| said.get("error").is_some());
        assert_eq!((&said["error"]["code"], &said["id"]), (&code.into(), &Value::Null), "{line}");
    }
    // A notification gets no answer.
    client.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/of_tomorrow\",\"params\":[]}");
    for (method, params, code) in [
        ("of/tomorrow", json!({}), -32601),
        ("tools/call", json!({ "name": "rm" }), -32602),
        ("tools/call", json!({ "name": 5 }), -32602),
        ("tools/call", json!({ "name": "task_add", "arguments": "x" }), -32602),
        ("tools/call", json!(null), -32602),
    ] {
        let answer = client.request(method, params.clone());
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    // A model can fix these errors, so it receives them.
    for (tool, arguments, says) in [
        ("task_add", json!({ "title": 5 }), "task_add: invalid type: integer `5`"),
        ("task_add", json!({ "titel": "x" }), "unknown field `titel`"),
        ("task_checkpoint", json!({ "step": 1 }), "missing field `total`"),
        ("task_add", json!({ "title": "x", "depends_on": ["../x"] }), "../x"),
        ("task_fail", json!({ "message": "x", "category": "BAD" }), "BAD"),
        ("harness_status", json!({}), "Hint: create one with `harness init`"),
        ("plan_import", json!({ "content": "no plan" }), "harness plan template"),
        ("ask_user", json!({ "question": "?" }), "harness init"),
    ] {
        let said = client.refused(tool, arguments);
        assert!(said.contains(says), "{tool}: {said}");
    }
    assert!(client.request("ping", json!({}))["result"].is_object());
    assert_eq!(client.end(), Some(0));
}

#[test]
fn x_c2_a_tool_speaks_for_a_worker_even_if_the_operator_started_the_server() {
    for daemon in [false, true] {
        let env = world();
        let env = if daemon { env.with_daemon() } else { env };
        env.run(["add", "one"]).success();
        let mut client = Client::start(&env);
        client.call("task_add", json!({ "title": "found" }));
        assert_eq!(env.task(1)["added_by"], "worker");
        let content = "```json\n{\"goal\":\"g\",\"tasks\":{}}\n```";
        let replace = json!({ "content": content, "mode": "replace" });
        let said = client.refused("plan_import", replace);
        assert!(said.contains("only the operator may replace the plan"), "{said}");
        assert_eq!(env.task(0)["title"], "one");
        let line = "refused to worker (pid=[PID]): only the operator may replace the plan";
        assert!(env.normalise(&log(&env)).contains(line), "{}", log(&env));
    }
}

#[test]
fn nothing_but_an_end_of_input_is_an_end_too() {
    let env = TestEnvironment::new();
    env.run(["mcp"]).code(0).stdout("").stderr("");
    env.run_with_input("garbage without end", ["mcp"]).code(0).stdout_contains("-32700");
    // Requests before the end are answered.
    let asked = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    env.run_with_input(asked, ["mcp"]).code(0).stdout_contains("ask_user");
    let client = Client::start(&env);
    let pid = Pid::from_raw(i32::try_from(client.server.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let mut client = client;
    assert_eq!(client.server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_check_holds_up_nobody_and_tells_that_it_runs() {
    let env = world();
    let [ready, go] = ["ready", "go"].map(|name| fifo(&env, name));
    let check = format!("echo ready > {}; read go < {}", ready.display(), go.display());
    env.run(["add", "one", "--id", "one", "--validate", &check]).success();
    let mut client = Client::start(&env);
    client.call("task_claim", json!({}));
    let params = json!({ "name": "task_complete", "arguments": { "task_id": "one" },
        "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params);
    assert_eq!(read_pipe(&ready), "ready\n");
    let step = json!({ "task_id": "one", "step": 1, "total": 1, "description": "checking" });
    client.call("task_checkpoint", step);
    let progress = client.wait_for("progress", |said| said["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    assert_eq!(progress["params"]["message"], "waiting for the check");
    fs::write(&go, "go\n").unwrap();
    assert_eq!(client.answer(id)["result"]["isError"], false);
    assert_eq!(env.task(0)["status"], "completed");
}

/// Returns a check that runs until it is ended, and reports its start and its end.
fn endless_check(env: &TestEnvironment) -> (PathBuf, String) {
    let ready = fifo(env, "ready");
    let check = format!("echo $$ > {}; exec sleep 600", ready.display());
    (ready, check)
}

fn is_running(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn a_check_that_nobody_waits_for_any_more_is_ended() {
    for with_daemon in [false, true] {
        let env = world();
        let env = if with_daemon { env.with_daemon() } else { env };
        let (ready, check) = endless_check(&env);
        env.run(["add", "one", "--id", "one", "--validate", &check]).success();
        let mut client = Client::start(&env);
        client.call("task_claim", json!({}));
        let id = client.begin_call("task_complete", json!({ "task_id": "one" }));
        let pid = read_pipe(&ready);
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "the user pressed escape" } });
        client.say(&cancel.to_string());
        eventually("the check is ended", || !is_running(&pid));
        assert_eq!(env.task(0)["status"], "in_progress");
        // The same happens when the client is gone.
        client.begin_call("task_complete", json!({ "task_id": "one" }));
        let pid = read_pipe(&ready);
        assert_eq!(client.end(), Some(0));
        eventually("the check is ended", || !is_running(&pid));
        assert_eq!(env.task(0)["attempts"], 0);
    }
}

#[test]
fn a_person_is_asked_and_answers() {
    let env = world().with_daemon();
    env.run(["daemon", "start"]).success();
    let mut client = Client::start(&env);
    let question = json!({ "question": "Which database?", "choices": ["sqlite", "postgres"] });
    let first = client.begin_call("ask_user", question.clone());
    let open = || env.run(["questions"]).success().raw().to_owned();
    eventually("it is asked", || open().contains(": Which database? [sqlite, postgres]"));
    // Other calls do not wait for that.
    client.call("task_add", json!({ "title": "meanwhile" }));
    let id = open().split(':').next().unwrap().to_owned();
    env.run(["reply", &id, "postgres"]).success();
    let answer = client.answer(first);
    assert_eq!(answer["result"]["structuredContent"]["content"], "postgres", "{answer}");

    let second = client.begin_call("ask_user", question.clone());
    eventually("it is asked again", || !open().is_empty());
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": second } });
    client.say(&cancel.to_string());
    eventually("the question is withdrawn", || open().is_empty());

    client.begin_call("ask_user", question);
    eventually("it is asked once more", || !open().is_empty());
    assert_eq!(client.end(), Some(0));
    eventually("the question goes with the agent", || open().is_empty());
}

#[test]
fn two_workers_get_two_tasks() {
    let env = world();
    for title in ["one", "two"] {
        env.run(["add", title]).success();
    }
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    ledger["session_config"]["concurrency_mode"] = "concurrent".into();
    env.write("harness-tasks.json", ledger.to_string());
    let mut clients: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|worker| {
            let mut command = env.harness(["mcp"]);
            command.env("HARNESS_WORKER_ID", worker);
            Client::of(command)
        })
        .collect();
    let asked: Vec<_> =
        clients.iter_mut().map(|client| client.begin_call("task_claim", json!({}))).collect();
    let mut given: Vec<_> = clients
        .iter_mut()
        .zip(asked)
        .map(|(client, id)| client.answer(id)["result"]["structuredContent"]["task"]["id"].clone())
        .collect();
    given.sort_by_key(Value::to_string);
    assert_eq!(given, ["task-001", "task-002"]);
}

/// Codex sets no variable of the session for its servers, but names the thread with each call.
#[test]
fn a_thread_of_codex_is_the_same_worker_in_the_shell() {
    let env = world().without_variable("HARNESS_WORKER_ID");
    for title in ["one", "two"] {
        env.run(["add", title]).success();
    }
    let mut client = Client::start(&env);
    let mut call = |tool: &str, arguments: Value| {
        let meta = json!({ "callId": "c", "threadId": "t",
            "x-codex-turn-metadata": { "session_id": "s", "thread_id": "t", "turn_id": "u" } });
        let call = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let answer = client.request("tools/call", call);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    };
    assert_eq!(call("task_claim", json!({}))["task"]["id"], "task-001");
    let env = env.variable("CODEX_THREAD_ID", "t");
    env.run(["task", "complete", "--id", "task-001"]).success();
    env.run(["task", "claim"]).success().stdout_contains("task-002");
    call("task_complete", json!({ "task_id": "task-002" }));
}
