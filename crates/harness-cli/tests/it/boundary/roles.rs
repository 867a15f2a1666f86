//! The permissions of agents of a run, workers, and the operator.

use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    gates::with_approval,
    host::{ask, connect, world},
};

const HINT: &str = "Hint: run it in your own terminal";

fn log(env: &TestEnvironment) -> String {
    env.normalise(&env.read("harness-progress.txt"))
}

/// Adds a task whose agent runs each line, and writes down the output and the exit code.
fn agent_that_tries(env: &TestEnvironment, lines: &[&str], validate: &str) {
    let said = env.home().join("said");
    let tries = lines.iter().map(|line| format!("{{ {line}; }} || echo \"exit $?\"\n"));
    let script = format!("exec > {} 2>&1\n{}", said.display(), tries.collect::<String>());
    let args = ["add", "a task", "--max-attempts", "1", "--validate", validate];
    env.run([&args[..], &["--instructions", &script]].concat()).success();
}

fn said(env: &TestEnvironment) -> String {
    env.normalise(&env.read(env.home().join("said")))
}

#[test]
fn x_c2_an_agent_cannot_change_its_own_check() {
    let env = world();
    let edit = "harness task edit task-001 --validate true";
    let hidden = "setsid env -i PATH=\"$PATH\" HARNESS_STATE_ROOT=\"$HARNESS_STATE_ROOT\" \
                  HARNESS_SOCKET=\"$HARNESS_SOCKET\" harness task edit task-001 --validate true";
    agent_that_tries(&env, &[edit, edit, hidden], "false");
    env.run(["run", "--agent", "shell"]);
    assert_eq!(env.task(0)["validation"]["command"], "false");
    assert_eq!(env.task(0)["status"], "failed");
    assert_eq!(env.task(0)["flags"], json!(["verb"]));
    let refused = format!("Error: only the operator may edit a task\n{HINT}\nexit 1\n");
    assert_eq!(said(&env), refused.repeat(3));
    let warning = "WARN [task-001] refused to agent (pid=[PID]): only the operator may edit a task";
    assert_eq!(log(&env).matches(warning).count(), 1, "{}", log(&env));
}

#[test]
fn x_c2_an_agent_cannot_do_what_only_the_operator_may() {
    let env = world();
    env.run(["add", "another", "--validate", "false", "--priority", "P2"]).success();
    env.write(env.home().join("plan.md"), "```json\n{\"goal\":\"g\",\"tasks\":{}}\n```\n");
    let refused = [
        ("harness task edit task-001 --title x", "edit a task"),
        ("harness task remove task-001", "remove a task"),
        ("harness task retry task-001", "retry a task"),
        ("harness revert task-001", "take back what landed"),
        ("harness gc", "remove what is no longer needed"),
        ("harness task release task-002", "release a claim"),
        ("harness task complete --id task-001 --force", "complete a task by force"),
        ("harness task complete --id task-001", "complete the task of somebody else"),
        ("harness task fail --id task-001 no", "fail the task of somebody else"),
        ("harness task renew --id task-001", "renew the claim of somebody else"),
        ("harness task claim", "claim a task"),
        ("harness plan import --file $HOME/plan.md", "begin a ledger or a plan"),
        ("harness plan import --replace --file $HOME/plan.md", "replace the plan"),
        ("harness plan reset --yes", "reset the plan"),
        ("harness reply prompt-0 yes", "answer a question"),
        ("harness send hello", "send a message to a run"),
        ("harness kick", "end the wait of a run"),
        ("harness abort", "abort a run"),
        ("harness trust", "change what is trusted"),
        ("harness shutdown", "shut the daemon down"),
        ("harness install claude", "install the hooks of an agent"),
        ("harness uninstall claude", "uninstall the hooks of an agent"),
        ("harness init --yes", "begin a ledger or a plan"),
        ("harness run --agent shell", "start a run"),
    ];
    let lines = refused.map(|(line, _)| line);
    agent_that_tries(&env, &lines, "true");
    env.run(["task", "edit", "task-001", "--priority", "P2"]).success();
    env.run(["task", "edit", "task-002", "--priority", "P0"]).success();
    env.run(["run", "--agent", "shell", "--max-tasks-per-session", "1", "--once"]);
    let expected: Vec<String> = refused
        .iter()
        .map(|(_, what)| format!("Error: only the operator may {what}\n{HINT}\nexit 1\n"))
        .collect();
    assert_eq!(said(&env), expected.concat());
    assert_eq!(env.task(1)["status"], "completed", "what it may not do does not end its work");
    let log = log(&env);
    for (_, what) in refused {
        let line =
            format!("[task-002] refused to agent (pid=[PID]): only the operator may {what}\n");
        assert_eq!(log.matches(&line).count(), 1, "{line}{log}");
    }
}

#[test]
fn an_agent_may_look_and_add_and_speak_for_its_own_attempt() {
    let env = world();
    let lines = [
        "harness status >/dev/null",
        "harness task list >/dev/null",
        "harness task checkpoint --step 1 --total 1 done >/dev/null",
        "harness task renew >/dev/null",
        "harness add found --validate false --max-attempts 1",
        "harness task complete >/dev/null",
    ];
    agent_that_tries(&env, &lines, "true");
    env.run(["run", "--agent", "shell", "--max-tasks-per-session", "1", "--once"]);
    assert_eq!(said(&env), "task-002\n");
    assert_eq!(env.task(1)["added_by"], "agent task-001.1");
    assert_eq!(env.task(0)["flags"], json!(["no-change"]), "none of what it did is refused");
    // The mark survives all changes of the task.
    env.run(["task", "edit", "task-002", "--title", "other"]).success();
    assert_eq!(env.task(1)["added_by"], "agent task-001.1");
}

#[test]
fn agents_may_be_kept_from_adding_tasks() {
    let env = world();
    env.write("harness.toml", "[tasks]\nagents_may_add = false\n");
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "settings"]);
    env.run(["trust", "--yes"]).success();
    agent_that_tries(&env, &["harness add found"], "true");
    env.run(["run", "--agent", "shell"]);
    assert_eq!(said(&env), format!("Error: only the operator may add a task\n{HINT}\nexit 1\n"));
    env.run(["add", "found"]).success();
    assert_eq!(env.task(1)["added_by"], Value::Null);
}

#[test]
fn x_c2_a_check_is_no_operator_either() {
    let env = world();
    let said = env.home().join("said");
    let check = format!("harness task edit task-001 --title x > {} 2>&1; true", said.display());
    env.run(["add", "one", "--validate", &check]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-001"]).success();
    assert!(self::said(&env).contains("only the operator may edit a task"), "{}", self::said(&env));
    // The same holds without a host. The agent is recognised by its ancestors, not by its
    // environment.
    let env = env.variable("HARNESS_DAEMON", "off");
    let check = format!(
        "env -i PATH=\"$PATH\" HARNESS_DAEMON=off harness task edit task-002 --title x > {} 2>&1; true",
        said.display()
    );
    env.run(["add", "two", "--validate", &check]).success();
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "task-002"]).success();
    assert!(self::said(&env).contains("only the operator may edit a task"), "{}", self::said(&env));
    assert_eq!(env.task(1)["title"], "two");
    let line = "WARN [task-002] refused to agent (pid=[PID]): only the operator may edit a task";
    assert!(log(&env).contains(line), "{}", log(&env));
    assert_eq!(env.task(1)["flags"], json!(["verb"]));
}

#[test]
fn a_check_may_use_harness_in_another_root() {
    let env = world();
    let other = env.home().join("other");
    let used = "harness init --yes && harness add one --validate false && \
                harness task edit task-001 --validate true && harness task claim && \
                harness task complete --id task-001 && harness shutdown";
    for pin in
        ["unset HARNESS_STATE_ROOT HARNESS_TASK_ID HARNESS_EPOCH", "export HARNESS_STATE_ROOT=$PWD"]
    {
        let other = other.display();
        let check = format!(
            "rm -rf {other}; mkdir {other}; cd {other}; unset HARNESS_SOCKET; {pin}; {used}"
        );
        env.run(["add", "uses harness", "--instructions", "true", "--validate", &check]).success();
    }
    env.run(["run", "--agent", "shell"]).success();
    assert_eq!(env.task(0)["status"], "completed");
    assert_eq!(env.task(1)["status"], "completed");
    assert!(!log(&env).contains("refused"), "{}", log(&env));
}

/// Sets the variables of an agent's own interactive session.
fn worker(env: TestEnvironment) -> TestEnvironment {
    env.variable("CLAUDECODE", "1").variable("CLAUDE_CODE_SESSION_ID", "a-session")
}

#[test]
fn a_worker_in_a_session_of_an_agent_works_but_does_not_judge() {
    for daemon in [true, false] {
        let env = world();
        let env = if daemon { env } else { env.variable("HARNESS_DAEMON", "off") };
        env.run(["add", "one", "--validate", "false"]).success();
        let env = worker(env);
        env.run(["task", "claim"]).success();
        env.run(["add", "found"]).success();
        assert_eq!(env.task(1)["added_by"], "worker");
        for (args, what) in [
            (&["task", "edit", "task-001", "--validate", "true"][..], "edit a task"),
            (&["task", "edit", "task-001", "--validate", "true"], "edit a task"),
            (&["task", "release", "task-001"], "release a claim"),
            (&["task", "complete", "--force", "--id", "task-001"], "complete a task by force"),
            (&["plan", "reset", "--yes"], "reset the plan"),
            (&["trust", "--yes"], "change what is trusted"),
        ] {
            let refused = format!("Error: only the operator may {what}");
            env.run(args).code(1).stderr_contains(&refused).stderr_contains(HINT);
        }
        let line =
            "WARN [task-001] refused to worker (pid=[PID]): only the operator may edit a task";
        assert_eq!(log(&env).matches(line).count(), 1, "{}", log(&env));
        assert_eq!(env.task(0)["flags"], json!(["verb"]));
        env.write(
            "plan.md",
            "```json\n{\"goal\":\"g\",\"tasks\":{\"n\":{\"description\":\"N\"}}}\n```\n",
        );
        env.run(["plan", "import", "--merge", "--file", "plan.md"]).success();
        assert_eq!(env.task(2)["added_by"], "worker");
        let env = env.without_variable("CLAUDECODE").without_variable("CLAUDE_CODE_SESSION_ID");
        env.run(["task", "edit", "task-001", "--validate", "true"]).success();
        let line = "WARN [task-001] check changed by operator (pid=[PID]): \"false\" -> \"true\"";
        assert_eq!(log(&env).matches(line).count(), 1, "{}", log(&env));
        assert!(env.run(["task", "release", "task-001"]).ended_with(&[0]));
    }
}

#[test]
fn the_table_of_roles_holds_on_the_socket() {
    let env = world();
    env.run(["add", "one"]).success();
    env.run(["daemon", "start"]).success();
    let mut client = connect(&env);
    let task = |command: &str| json!({ "command": command, "task_id": "task-001" });
    let with = |mut request: Value, name: &str, value: Value| {
        request[name] = value;
        request
    };
    let plan = |name: &str| json!({ "command": "plan_import", "content": "none", name: true });
    let may = |word: &str| json!({ "command": "may", "operation": word });
    let refused_to_both = [
        task("task_edit"),
        task("task_remove"),
        task("task_retry"),
        task("task_release"),
        with(task("task_complete"), "force", json!(true)),
        plan("replace"),
        json!({ "command": "plan_reset" }),
        json!({ "command": "reply" }),
        json!({ "command": "send" }),
        json!({ "command": "kick" }),
        json!({ "command": "abort" }),
        json!({ "command": "ack" }),
        json!({ "command": "shutdown" }),
        may("trust"),
        may("uninstall"),
        may("pause"),
        may("budget"),
        may("config"),
        may("drain"),
        may("gc"),
        may("store"),
        may("web"),
        may("notify"),
        may("purge"),
    ];
    let refused_to_agents = [
        json!({ "command": "task_claim" }),
        json!({ "command": "plan_import" }),
        plan("merge"),
        json!({ "command": "yield" }),
        may("install"),
        may("run"),
        may("work"),
        may("rescue_restore"),
        with(task("task_renew"), "worker_id", json!("w")),
    ];
    let mut code = |request: &Value, role: &str| {
        let request = with(request.clone(), "as", json!(role));
        ask(&mut client, request.to_string())["code"].as_str().unwrap_or("ok").to_owned()
    };
    for request in &refused_to_both {
        assert_eq!(code(request, "agent"), "only_operator", "{request}");
        assert_eq!(code(request, "worker"), "only_operator", "{request}");
    }
    for request in &refused_to_agents {
        assert_eq!(code(request, "agent"), "only_operator", "{request}");
    }
    for allowed in ["ping", "get_state", "status", "questions", "task_add", "ask"] {
        for role in ["agent", "worker"] {
            assert_ne!(code(&json!({ "command": allowed }), role), "only_operator", "{allowed}");
        }
    }
    for allowed in ["task_claim", "plan_import"] {
        assert_eq!(code(&json!({ "command": allowed }), "worker"), "bad_request", "{allowed}");
    }
    assert_eq!(
        code(&json!({ "command": "ping" }), "operator"),
        "bad_request",
        "nobody gains by it"
    );
    assert_eq!(code(&json!({ "command": "dance" }), "worker"), "unknown_command");
    let refusal = ask(&mut client, r#"{"command":"task_edit","task_id":"task-001","as":"agent"}"#);
    assert_eq!(
        refusal,
        json!({ "status": "error", "message": "only the operator may edit a task",
            "code": "only_operator", "hints": ["run it in your own terminal"] })
    );
}

#[test]
fn a_worker_takes_back_only_a_claim_that_has_run_out() {
    let env = world();
    env.run(["add", "one"]).success();
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    let task = &mut ledger["tasks"][0];
    task["status"] = "in_progress".into();
    task["claimed_by"] = "gone".into();
    task["via"] = "client".into();
    for (lease, code) in [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 0)] {
        ledger["tasks"][0]["lease_expires_at"] = lease.into();
        env.write("harness-tasks.json", ledger.to_string());
        let mut release = env.harness(["task", "release", "task-001"]);
        let ran = env.ran(release.env("CLAUDECODE", "1").output().unwrap());
        assert!(ran.ended_with(&[code]), "{ran}");
    }
}

#[test]
fn a_peer_of_another_pid_namespace_is_a_worker() {
    let env = world();
    env.run(["add", "one"]).success();
    env.run(["daemon", "start"]).success();
    let contained = |args: &[&str]| {
        let mut command = env.program("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).args(args);
        env.ran(command.output().unwrap())
    };
    if !contained(&["true"]).ended_with(&[0]) {
        // This machine forbids new namespaces.
        return;
    }
    let ran = contained(&["harness", "task", "edit", "task-001", "--title", "x"]);
    assert!(ran.ended_with(&[1]), "{ran}");
    assert_eq!(env.task(0)["title"], "one");
}

#[test]
fn x_h8_an_agent_cannot_approve_for_a_person() {
    let env = world();
    with_approval(&env);
    env.run(["task", "claim"]).success();
    env.run(["task", "complete", "--id", "plan"]).success();
    assert_eq!(env.run(["task", "claim"]).success().json()["task"], Value::Null);
    let asked = env.run(["questions"]).success().raw().to_owned();
    let id = asked.split(':').next().unwrap().to_owned();
    let digits = id.strip_prefix("prompt-0-").unwrap();
    assert!(digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    let mut reply = env.harness(["reply", &id, "approve"]);
    let ran = env.ran(reply.env("CLAUDECODE", "1").output().unwrap());
    ran.code(1).stderr_contains("Error: only the operator may answer a question");
    // A guessed id does not answer the question.
    env.run(["reply", "prompt-0", "approve"]).code(1).stderr_contains("not found");
    env.run(["reply", "prompt-0-00000000", "approve"]).code(1).stderr_contains("not found");
    env.run(["reply", &id, "approve"]).success();
    let claimed = env.run(["task", "claim", "--wait"]).success().json();
    assert_eq!(claimed["task"]["id"], "build");
    let line = "Gate passed: Plan, approved by operator (pid=[PID])";
    assert!(log(&env).contains(line), "{}", log(&env));
}

#[test]
fn x_h8_an_agent_of_a_run_cannot_approve_what_it_waits_for() {
    let env = world();
    with_approval(&env);
    let mut ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    // This process is left by the first phase, waits for the question and answers it. It ends with
    // the agent.
    let said = env.home().join("said");
    let deserter = "(setsid sh -c 'until harness questions | grep -q prompt; do :; done; \
        harness reply $(harness questions | cut -d: -f1) approve' >/dev/null 2>&1 &)";
    for task in ledger["tasks"].as_array_mut().unwrap() {
        task["instructions"] = deserter.into();
        task["validation"] = json!({ "command": format!("harness reply prompt-0 approve > {} 2>&1; true", said.display()) });
    }
    env.write("harness-tasks.json", ledger.to_string());
    let ran = env.run(["run", "--agent", "shell", "--max-duration", "4s"]);
    assert!(!ran.ended_with(&[0]), "{ran}");
    assert!(
        self::said(&env).contains("only the operator may answer a question"),
        "{}",
        self::said(&env)
    );
    assert!(!log(&env).contains("Gate passed"), "{}", log(&env));
}
