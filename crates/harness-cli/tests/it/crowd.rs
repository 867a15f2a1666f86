//! Many clients of one daemon, and a daemon that is killed among them.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use crate::{daemon::Foreground, environment::TestEnvironment, host::socket};

const TASKS: usize = 300;

fn world(tasks: usize) -> TestEnvironment {
    let env = TestEnvironment::new().with_daemon().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "60");
    let tasks: serde_json::Map<String, Value> =
        (0..tasks).map(|n| (format!("t{n}"), json!({ "description": "T" }))).collect();
    let plan = json!({ "goal": "g", "tasks": tasks });
    env.write("plan.md", format!("```json\n{plan}\n```\n"));
    let import = env.harness(["plan", "import", "--file", "plan.md"]);
    let mut import = import;
    assert!(import.env("HARNESS_DAEMON", "off").output().unwrap().status.success());
    env
}

/// Returns the answer; `None` if there is no daemon, or if it ends before it has answered.
fn ask(
    client: &mut Option<BufReader<UnixStream>>,
    path: &std::path::Path,
    request: &Value,
) -> Option<Value> {
    if client.is_none() {
        *client = UnixStream::connect(path).ok().map(BufReader::new);
    }
    let stream = client.as_mut()?;
    let mut line = String::new();
    let asked = writeln!(stream.get_mut(), "{request}").and_then(|()| stream.read_line(&mut line));
    if asked.is_err() || !line.ends_with('\n') {
        *client = None;
        return None;
    }
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["status"], "ok", "{answer}");
    Some(answer["data"].clone())
}

/// Claims and completes until nothing is left. Returns the tasks whose completion was confirmed.
fn work(path: &std::path::Path, worker: &str, done: &AtomicUsize) -> Vec<String> {
    let mut client = None;
    let mut completed = Vec::new();
    loop {
        let claim = json!({ "command": "task_claim", "worker_id": worker });
        let Some(claimed) = ask(&mut client, path, &claim) else {
            thread::yield_now();
            continue;
        };
        let Some(id) = claimed["task"]["id"].as_str() else { return completed };
        let epoch = &claimed["task"]["epoch"];
        let complete = json!({ "command": "task_complete", "task_id": id, "worker_id": worker,
            "epoch": epoch });
        // A repeated request after a crash gets the same answer.
        while ask(&mut client, path, &complete).is_none() {}
        completed.push(id.to_owned());
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn check(env: &TestEnvironment, told: Vec<Vec<String>>, tasks: usize) {
    let told: Vec<String> = told.into_iter().flatten().collect();
    assert_eq!(told.len(), tasks, "each is completed once");
    assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), tasks, "none twice");
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    for task in ledger["tasks"].as_array().unwrap() {
        assert_eq!(
            (&task["status"], &task["attempts"]),
            (&json!("completed"), &json!(1)),
            "{task}"
        );
    }
    let log = env.read("harness-progress.txt");
    for id in told {
        assert_eq!(log.matches(&format!("Completed [{id}] ")).count(), 1, "{id}");
        assert_eq!(log.matches(&format!("Starting [{id}] ")).count(), 1, "{id}");
    }
}

#[test]
fn a_hundred_workers_lose_nothing_and_share_nothing() {
    let env = world(TASKS);
    let _daemon = Foreground::start(&env, &[]);
    let (path, done) = (socket(&env), AtomicUsize::new(0));
    let told = thread::scope(|scope| {
        let (path, done) = (&path, &done);
        let workers: Vec<_> =
            (0..100).map(|n| scope.spawn(move || work(path, &format!("w{n}"), done))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    check(&env, told, TASKS);
}

/// Answers that a worker received before the daemon was killed hold afterwards.
#[test]
fn a_daemon_that_is_killed_loses_nothing_that_it_said() {
    let tasks = 120;
    let env = world(tasks);
    let mut daemon = Some(Foreground::start(&env, &[]));
    let (path, done) = (socket(&env), AtomicUsize::new(0));
    let mut kills = 0;
    let told = thread::scope(|scope| {
        let (path, done) = (&path, &done);
        let workers: Vec<_> =
            (0..8).map(|n| scope.spawn(move || work(path, &format!("w{n}"), done))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if done.load(Ordering::Relaxed) / 15 > kills {
                kills += 1;
                // Dropping it kills it, in the middle of its work.
                drop(daemon.take());
                daemon = Some(Foreground::start(&env, &[]));
            }
            thread::yield_now();
        }
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    drop(daemon);
    assert!(kills >= 3, "{kills} kills");
    check(&env, told, tasks);
}
