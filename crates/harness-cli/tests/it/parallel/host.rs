//! One process is the host of a root: it writes for the others, answers for them, and another one takes
//! its place when it is gone.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    crash::{add_hanging, all_ended, at_work},
    stage::{
        add, add_independent, all_landed_once, ledger, nothing_left, tasks, until_completed, wire,
        world,
    },
};
use crate::{
    environment::TestEnvironment,
    objective::stage::{Going, beside, fifo, hear},
};

/// Adds a task whose agent waits for the test. Returns the pipes that tell that it waits, and that
/// let it go on.
fn add_held(env: &TestEnvironment, n: usize) -> [std::path::PathBuf; 2] {
    let pipes = [fifo(env, &format!("waits{n}")), fifo(env, &format!("go{n}"))];
    let [waits, go] = pipes.each_ref().map(|path| path.display().to_string());
    let script = format!("echo $HARNESS_WORKER_ID > {waits}; read word < {go}; touch g{n}");
    add(env, &script, &format!("test -f g{n}"), &[]);
    pipes
}

fn release(go: &std::path::Path) {
    std::fs::write(go, "go\n").unwrap();
}

/// Returns the process id of the host.
fn host(env: &TestEnvironment) -> Option<u32> {
    beside(env, &["daemon", "status"]).parse().ok()
}

/// Starts a run for the first task alone, which is the host.
fn start_host(env: &TestEnvironment) -> Going {
    Going::start(env, &["run", "--agent", "shell", "--worktree", "--task", "task-001"])
}

fn start_worker(env: &TestEnvironment) -> Going {
    Going::start(env, &["work", "--agent", "shell", "--worker", "second"])
}

/// A transaction through the host leaves its name in the ledger, and one on the files does not.
#[test]
fn the_host_writes_for_the_workers_of_other_processes() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    add_independent(&env, 3, "");
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let work = start_worker(&env);
    ["task-002", "task-003", "task-004"].iter().for_each(|id| until_completed(&env, id));
    let made = ledger(&env)["transactions"].clone();
    assert_eq!(made.as_array().map(Vec::len), Some(1), "{made}");
    assert!(made[0]["number"].as_u64().unwrap() > 10, "{made}");
    release(&go);
    for process in [run, work] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn a_worker_takes_over_when_the_host_is_killed() {
    let env = world();
    let pipes = [add_hanging(&env, 1)];
    let [waits, go] = add_held(&env, 2);
    add_independent(&env, 2, "");
    let mut run = start_host(&env);
    let held = at_work(&pipes);
    let work = start_worker(&env);
    assert_eq!(hear(&waits), "second");
    assert_eq!(host(&env), Some(run.child.id()));
    run.kill();
    crate::mcp::eventually("the worker is the host", || host(&env) == Some(work.child.id()));
    // It answers for its own agent as the host, once.
    let sent = beside(&env, &["send", "hello"]);
    assert!(!sent.contains("2 agents"), "{sent}");
    release(&go);
    let ended = work.end();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
    all_landed_once(&env, "main");
    nothing_left(&env);
    all_ended(&pipes, held);
}

#[test]
fn one_of_several_workers_takes_over_when_the_host_ends() {
    let env = world();
    let pipes = [add_hanging(&env, 1)];
    let run = start_host(&env);
    let held = at_work(&pipes);
    let [waits, go] = add_held(&env, 2);
    let [more_waits, more_go] = add_held(&env, 3);
    let second = start_worker(&env);
    assert_eq!(hear(&waits), "second");
    let third = Going::start(&env, &["work", "--agent", "shell", "--worker", "third"]);
    assert_eq!(hear(&more_waits), "third");
    run.signal(Signal::SIGINT);
    let ended = run.end();
    assert_eq!(ended.0, Some(130), "{}", ended.2);
    all_ended(&pipes, held);
    let others = [second.child.id(), third.child.id()];
    crate::mcp::eventually("one of them is the host", || {
        host(&env).is_some_and(|pid| others.contains(&pid))
    });
    release(&go);
    release(&more_go);
    for process in [second, third] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    all_landed_once(&env, "main");
    nothing_left(&env);
}

#[test]
fn a_frozen_host_stops_no_worker_of_another_process() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    add_independent(&env, 2, "");
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let [work_waits, work_go] = add_held(&env, 2);
    let work = start_worker(&env);
    ["task-002", "task-003"].iter().for_each(|id| until_completed(&env, id));
    assert_eq!(hear(&work_waits), "second");
    run.signal(Signal::SIGSTOP);
    release(&work_go);
    until_completed(&env, "task-004");
    run.signal(Signal::SIGCONT);
    release(&go);
    for process in [run, work] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    all_landed_once(&env, "main");
    nothing_left(&env);
}

/// Other programs know one socket, that of the host.
#[test]
fn the_host_passes_on_what_concerns_an_attempt_of_another_process() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    let pipes = [add_hanging(&env, 2)];
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let work = start_worker(&env);
    let mut held = at_work(&pipes);
    let about =
        |verb: &str| json!({ "command": verb, "task_id": "task-002", "worker_id": "second" });
    let with = |verb: &str, more: Value| {
        let mut request = about(verb);
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wire(&env, &request)
    };
    let half = json!({ "step": 1, "total": 2, "description": "half" });
    let answer = with("task_checkpoint", half);
    assert_eq!(answer["status"], "ok", "{answer}");
    let checkpoint = &tasks(&env)[1]["checkpoints"][0];
    assert_eq!(checkpoint["description"], "half", "{checkpoint}");
    assert!(checkpoint["tree"].is_string(), "the tree of its own worker: {checkpoint}");
    let answer = with("task_complete", json!({}));
    assert_eq!(answer["data"]["requested"], true, "{answer}");
    let answer = with("task_fail", json!({ "message": "wrong approach" }));
    assert_eq!(answer["data"]["retryable"], true, "{answer}");
    all_ended(&pipes, vec![held.remove(0)]);
    until_completed(&env, "task-002");
    assert!(env.read("harness-progress.txt").contains("[TASK_EXEC] wrong approach"));
    release(&go);
    for process in [run, work] {
        let ended = process.end();
        assert_eq!(ended.0, Some(0), "{}", ended.2);
    }
    all_landed_once(&env, "main");
}

#[test]
fn the_host_answers_for_the_agents_of_every_process() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    let harness = env!("CARGO_BIN_EXE_harness");
    add(&env, &format!("{harness} ask 'which one?' > answer"), "grep -q blue answer", &[]);
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let work = start_worker(&env);
    let mut questions = Value::Null;
    crate::mcp::eventually("the question is listed", || {
        questions = wire(&env, &json!({ "command": "questions" }))["data"].clone();
        questions.as_array().is_some_and(|all| !all.is_empty())
    });
    assert_eq!(questions.as_array().unwrap().len(), 1, "{questions}");
    let sent = wire(&env, &json!({ "command": "send", "content": "hello" }));
    assert_eq!(sent["status"], "ok", "{sent}");
    let prompt = &questions[0]["prompt_id"];
    let reply = json!({ "command": "reply", "prompt_id": prompt, "content": "blue" });
    assert_eq!(wire(&env, &reply)["status"], "ok");
    until_completed(&env, "task-002");
    assert_eq!(wire(&env, &json!({ "command": "kick" }))["data"]["woken"], 0);
    let last = add_held(&env, 3);
    drop(work);
    let work = start_worker(&env);
    assert_eq!(hear(&last[0]), "second");
    let abort = wire(&env, &json!({ "command": "abort" }));
    assert_eq!(abort["status"], "ok", "{abort}");
    for process in [run, work] {
        let ended = process.end();
        assert_eq!(ended.0, Some(130), "{}", ended.2);
    }
    drop(go);
}

#[test]
fn a_run_of_several_workers_serves_the_verbs_of_a_daemon() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    add(&env, "-", "true", &[]);
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let claimed = wire(&env, &json!({ "command": "task_claim", "worker_id": "client" }));
    assert_eq!(claimed["data"]["task"]["id"], "task-002", "{claimed}");
    let about = json!({ "task_id": "task-002", "worker_id": "client" });
    for verb in ["task_renew", "task_complete"] {
        let mut request = about.clone();
        request["command"] = verb.into();
        let answer = wire(&env, &request);
        assert_eq!(answer["status"], "ok", "{verb}: {answer}");
    }
    assert_eq!(tasks(&env)[1]["status"], "completed");
    let plan = "```json\n{\"goal\":\"g\",\"tasks\":{\"extra\":{\"description\":\"more\"}}}\n```";
    for request in [
        json!({ "command": "plan_reset" }),
        json!({ "command": "shutdown" }),
        json!({ "command": "yield" }),
        json!({ "command": "plan_import", "content": plan }),
        json!({ "command": "plan_import", "content": plan, "replace": true }),
    ] {
        let answer = wire(&env, &request);
        let words = format!("Another harness session is active (pid={})", run.child.id());
        assert_eq!(answer["message"], words.as_str(), "{request}: {answer}");
        assert_eq!(answer["code"], "busy", "{request}: {answer}");
    }
    let merge = json!({ "command": "plan_import", "content": plan, "merge": true });
    let answer = wire(&env, &merge);
    assert_eq!(answer["data"]["task_count"], 1, "{answer}");
    let waiting = json!({ "command": "task_claim", "worker_id": "client", "wait_ms": 60_000 });
    let claimed = wire(&env, &waiting);
    assert_eq!(claimed["data"]["task"]["id"], "extra", "{claimed}");
    let fail = json!({ "command": "task_fail", "task_id": "extra", "worker_id": "client",
        "message": "not now" });
    assert_eq!(wire(&env, &fail)["status"], "ok");
    release(&go);
    assert_eq!(run.end().0, Some(0));
}

/// An agent could complete what it likes with it.
#[test]
fn only_the_operator_makes_transactions_through_the_host() {
    let env = world();
    let [waits, go] = add_held(&env, 1);
    let run = start_host(&env);
    assert_eq!(hear(&waits), "w.1");
    let request = json!({ "command": "worker_transaction", "form": "x", "by": "x", "number": 1,
        "commands": [], "as": "agent" });
    let answer = wire(&env, &request);
    assert_eq!(answer["code"], "only_operator", "{answer}");
    let request = json!({ "command": "worker_transaction", "form": "x", "by": "x", "number": 1 });
    let answer = wire(&env, &request);
    assert_eq!(answer["code"], "unknown_command", "{answer}");
    let log = env.read("harness-progress.txt");
    assert!(log.contains("only the operator may make transactions of a worker"), "{log}");
    release(&go);
    assert_eq!(run.end().0, Some(0));
}
