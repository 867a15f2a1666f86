//! Many processes at once on one ledger.

use std::{collections::BTreeSet, process::Stdio, thread};

use serde_json::Value;

use crate::environment::TestEnvironment;

fn ids(env: &TestEnvironment) -> Vec<String> {
    let ledger: Value = serde_json::from_str(&env.read("harness-tasks.json")).unwrap();
    let tasks = ledger["tasks"].as_array().unwrap();
    tasks.iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn eighty_adds_at_once_are_eighty_tasks() {
    // Eighty processes start on two cores, so the last one may wait longer than usual.
    let env = TestEnvironment::new().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "60");
    env.run(["init", "--yes"]).success();
    let start = |n: usize| {
        let mut command = env.harness(["add".to_owned(), format!("number {n}")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..80).map(start).collect();
    let ends: Vec<_> = started.into_iter().map(|c| c.wait_with_output().unwrap()).collect();
    let mut said = BTreeSet::new();
    for end in ends {
        assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
        said.insert(String::from_utf8(end.stdout).unwrap().trim().to_owned());
    }
    assert_eq!(said.len(), 80, "two were given the same id");
    assert_eq!(ids(&env).into_iter().collect::<BTreeSet<_>>(), said);
}

#[test]
fn a_dozen_workers_never_hold_the_same_task() {
    let env = TestEnvironment::new().variable("HARNESS_LOCK_TIMEOUT_SECONDS", "60");
    env.run(["init", "--yes"]).success();
    for n in 0..24 {
        env.run(["add".to_owned(), format!("number {n}")]).success();
    }
    let mut claimed: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..12)
            .map(|n| {
                let env = &env;
                scope.spawn(move || {
                    let worker = format!("w{n}");
                    let mut mine = Vec::new();
                    loop {
                        let said = env.run(["task", "claim", "--worker", &worker]).success().json();
                        let Some(id) = said["task"]["id"].as_str() else { return mine };
                        let done = ["task", "complete", "--worker", &worker, "--id", id];
                        env.run(done).success();
                        mine.push(id.to_owned());
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    claimed.sort();
    assert_eq!(claimed, ids(&env), "each task was claimed and completed once");
    let log = env.read("harness-progress.txt");
    for id in &claimed {
        assert_eq!(log.matches(&format!("Completed [{id}]")).count(), 1);
    }
}
