//! Tasks for several workers, and what must hold of every result.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::Value;

use crate::environment::TestEnvironment;

/// Creates a repository with one committed file and an empty ledger.
pub(super) fn world() -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.write("shared", "line\n");
    env.git(["add", "shared"]);
    env.git(["commit", "--quiet", "--message", "a file"]);
    env.run(["init"]).success();
    env
}

/// Adds a task for the shell agent, and returns its id.
pub(super) fn add(env: &TestEnvironment, script: &str, check: &str, more: &[&str]) -> String {
    let usual = ["add", "a task", "--instructions", script, "--validate", check];
    let ran = env.run(usual.iter().chain(more)).success();
    ran.raw().trim().to_owned()
}

/// Adds tasks that each make a file of their own: `f1`, `f2`, …
pub(super) fn add_independent(env: &TestEnvironment, count: usize, before: &str) {
    for n in 1..=count {
        add(env, &format!("{before}\necho {n} > f{n}"), &format!("test -f f{n}"), &[]);
    }
}

/// Returns the ledger.
pub(super) fn ledger(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read("harness-tasks.json")).unwrap()
}

pub(super) fn tasks(env: &TestEnvironment) -> Vec<Value> {
    ledger(env)["tasks"].as_array().unwrap().clone()
}

/// Returns the commits that a branch has since the first two, oldest first, with their trailers.
fn landed(env: &TestEnvironment, branch: &str) -> Vec<(String, String)> {
    let format = "--format=%H %P|%(trailers:key=Harness-Task,valueonly,separator=%x2C)";
    let log = env.git(["log", "--reverse", format, branch]);
    let lines: Vec<&str> = log.lines().collect();
    for (n, line) in lines.iter().enumerate() {
        let parents = line.split('|').next().unwrap().split(' ').filter(|p| !p.is_empty()).count();
        assert_eq!(parents - 1, usize::from(n > 0), "the history is not linear: {log}");
    }
    let parts = lines[2..].iter().map(|line| {
        let (commits, trailer) = line.split_once('|').unwrap();
        (commits.split(' ').next().unwrap().to_owned(), trailer.to_owned())
    });
    parts.collect()
}

/// Checks that every task is completed once and landed once on `branch`, by the commit that its check
/// passed on.
#[track_caller]
pub(super) fn all_landed_once(env: &TestEnvironment, branch: &str) {
    let landed = landed(env, branch);
    let log = env.read("harness-progress.txt");
    let receipts: BTreeMap<String, Value> = fs::read_dir(env.root().join(".harness/receipts"))
        .unwrap()
        .map(|entry| {
            let text = fs::read(entry.unwrap().path()).unwrap();
            let receipt: Value = serde_json::from_slice(&text).unwrap();
            (format!("{}.{}", receipt["task"].as_str().unwrap(), receipt["epoch"]), receipt)
        })
        .collect();
    let tasks = tasks(env);
    assert_eq!(landed.len(), tasks.len(), "{landed:?}\n{log}");
    for task in &tasks {
        let id = task["id"].as_str().unwrap();
        assert_eq!(task["status"], "completed", "{id}\n{log}");
        let completed = log.matches(&format!("Completed [{id}]")).count();
        assert_eq!(completed, 1, "{id}\n{log}");
        let of_task: Vec<_> =
            landed.iter().filter(|(_, of)| of.starts_with(&format!("{id}."))).collect();
        let [(commit, attempt)] = of_task[..] else { panic!("{id}: {landed:?}") };
        let words = format!("Completed [{id}] (commit {})", &commit[..7]);
        assert!(log.contains(&words), "{words}\n{log}");
        let receipt = &receipts[attempt];
        assert_eq!(receipt["commit"].as_str(), Some(commit.as_str()), "{id}: {receipt}");
    }
}

/// Checks that nothing of the workers is left: no work tree, no branch, no token, no file.
#[track_caller]
pub(super) fn nothing_left(env: &TestEnvironment) {
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
    let folder = env.root().join(".harness/worktrees");
    let left: Vec<_> = fs::read_dir(folder).map(|all| all.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    let refs = env.git(["for-each-ref", "--format=%(refname)"]);
    let strange = |name: &&str| !name.starts_with("refs/harness/rescue/");
    let strange: Vec<&str> = refs.lines().filter(strange).collect();
    assert_eq!(strange, ["refs/heads/main"], "{refs}");
    assert_eq!(workers(env), Vec::<String>::new());
    assert_eq!(ledger(env)["landing"].as_array().map_or(0, Vec::len), 0);
}

/// Sends a request to the host as any program may, and returns its answer.
#[track_caller]
pub(super) fn wire(env: &TestEnvironment, request: &Value) -> Value {
    let path = env.read(".harness/socket");
    let mut host = BufReader::new(UnixStream::connect(path.trim_end()).unwrap());
    host.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    host.read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// Waits until the log says that a task is completed.
#[track_caller]
pub(super) fn until_completed(env: &TestEnvironment, id: &str) {
    crate::mcp::eventually("the task is completed", || {
        env.read("harness-progress.txt").contains(&format!("Completed [{id}]"))
    });
}

/// Returns the ids of the registered workers.
pub(super) fn workers(env: &TestEnvironment) -> Vec<String> {
    let folder = fs::read_dir(env.root().join(".harness/workers"));
    let files = folder.into_iter().flatten().map(|entry| entry.unwrap().path());
    let record = |path| serde_json::from_str::<Value>(&fs::read_to_string(path).ok()?).ok();
    let mut ids: Vec<String> = files
        .filter_map(record)
        .filter_map(|record| Some(record.get("id")?.as_str()?.to_owned()))
        .collect();
    ids.sort();
    ids
}
