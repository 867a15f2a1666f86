//! Clones of one bare repository, with one ledger in a database.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Stdio},
};

use harness_sim::postgres::{TestDatabase, TestServer};
use serde_json::Value;

use crate::environment::TestEnvironment;

/// A database and a bare repository with one commit.
pub(crate) struct Fleet {
    pub(crate) database: TestDatabase,
    origin: TestEnvironment,
}

impl Fleet {
    pub(crate) fn new(server: &TestServer) -> Self {
        let origin = TestEnvironment::new();
        origin.git(["init", "--quiet", "--bare", "--initial-branch=main", "."]);
        let tree = origin.git(["hash-object", "-t", "tree", "-w", "/dev/null"]);
        let commit = origin.git(["commit-tree", "-m", "start", tree.trim()]);
        origin.git(["update-ref", "refs/heads/main", commit.trim()]);
        Self { database: server.fresh(), origin }
    }

    /// Returns the address of the database.
    pub(crate) fn url(&self) -> String {
        self.database.url().to_string()
    }

    /// Makes a clone without a ledger, in which this worker does everything.
    pub(crate) fn clone_for(&self, worker: &str) -> TestEnvironment {
        let env = TestEnvironment::new().variable("HARNESS_WORKER_ID", worker);
        let url = format!("file://{}", self.origin.root().display());
        env.git(["clone", "--quiet", &url, "."]);
        env
    }

    /// Makes the first clone, with the ledger `shop`, and pushes its harness.toml.
    pub(crate) fn first(&self, worker: &str) -> TestEnvironment {
        let env = self.clone_for(worker);
        env.run(["init", "--yes", "--database", &self.url(), "--ledger", "shop"]).success();
        let settings = env.read("harness.toml");
        env.write("harness.toml", format!("{settings}\n[fleet]\nremote = \"origin\"\n"));
        env.git(["add", "harness.toml"]);
        env.git(["commit", "--quiet", "--message", "the ledger"]);
        env.git(["push", "--quiet", "origin", "HEAD:main"]);
        env.run(["trust", "--yes"]).success();
        env
    }

    /// Makes one more clone, which is trusted.
    pub(crate) fn another(&self, worker: &str) -> TestEnvironment {
        let env = self.clone_for(worker);
        env.run(["trust", "--yes"]).success();
        env
    }

    /// Returns the names of the refs of the remote below a folder.
    pub(crate) fn refs(&self, below: &str) -> String {
        self.origin.git(["for-each-ref", "--format=%(refname)", below])
    }

    /// Returns a file of a commit on the remote.
    pub(crate) fn file(&self, commit: &str, path: &str) -> String {
        self.origin.git(["cat-file", "blob", &format!("{commit}:{path}")])
    }

    /// Returns the tasks of the commits on main after the first two, oldest first.
    pub(crate) fn landed(&self) -> Vec<String> {
        let format = "--format=%P|%(trailers:key=Harness-Task,valueonly,separator=%x2C)";
        let log = self.origin.git(["log", "--reverse", format, "main"]);
        let lines = log.lines().skip(2).map(|line| line.split_once('|').unwrap());
        lines
            .inspect(|(parents, _)| assert!(!parents.contains(' '), "not linear: {log}"))
            .map(|(_, task)| task.split('.').next().unwrap().to_owned())
            .collect()
    }
}

/// Adds a task for the shell agent.
pub(crate) fn add(env: &TestEnvironment, id: &str, script: &str, check: &str) {
    env.run(["add", "a task", "--id", id, "--instructions", script, "--validate", check]).success();
}

/// Returns the tasks with their states, as this clone sees them.
pub(crate) fn states(env: &TestEnvironment) -> Vec<(String, String)> {
    let document = env.run(["task", "list", "--json"]).success().json();
    let tasks = document["tasks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    tasks.iter().map(|task| (text(&task["id"]), text(&task["status"]))).collect()
}

/// Starts a command whose output is read at its end.
pub(crate) fn start(env: &TestEnvironment, args: &[&str]) -> Child {
    env.harness(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A command beside the test, whose output is read line by line. It ends with the test.
pub(crate) struct Beside {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Beside {
    pub(crate) fn start(env: &TestEnvironment, args: &[&str]) -> Self {
        let mut child = env.harness(args).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits for a line that contains these words.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let read = self.stdout.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without {words:?}");
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
