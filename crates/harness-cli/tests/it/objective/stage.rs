//! A project with a ledger, agents that are scripts, and access to the database.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStderr, Stdio},
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::{Map, Value};

use crate::environment::{Ran, TestEnvironment};

/// The start of every scripted agent: its number, its prompt in a file for the test, and a change,
/// because a pause follows a turn without a change.
const PRELUDE: &str = "n=$HARNESS_ITERATION\ncat > \"$HOME/prompt.$n\"\necho $n >> work.txt\n";

pub(crate) fn stage() -> TestEnvironment {
    let env = TestEnvironment::with_git().variable("HARNESS_WORKER_ID", "w");
    env.run(["init"]).success();
    env
}

/// Returns the command line of an agent that runs this script.
pub(crate) fn agent(env: &TestEnvironment, script: &str) -> String {
    bare_agent(env, &format!("{PRELUDE}{script}"))
}

/// Returns the same without the prelude.
pub(crate) fn bare_agent(env: &TestEnvironment, script: &str) -> String {
    let path = (0..).map(|n| env.home().join(format!("agent-{n}.sh"))).find(|p| !p.exists());
    let path = path.unwrap();
    fs::write(&path, format!("{script}\n")).unwrap();
    format!("sh {}", path.display())
}

/// Runs `harness run 'write it'` with that agent, to its end.
pub(crate) fn go(env: &TestEnvironment, script: &str, more: &[&str]) -> Ran {
    let command = agent(env, script);
    go_with(env, &command, more)
}

pub(crate) fn go_with(env: &TestEnvironment, command: &str, more: &[&str]) -> Ran {
    let args = ["run", "write it", "--agent-command", command, "--json"];
    env.run([&args[..], more].concat())
}

/// Checks the exit code, the stop reason and the count, and returns the document.
#[track_caller]
pub(crate) fn came_to(ran: Ran, code: i32, reason: &str, iterations: u64) -> Value {
    let ran = ran.code(code);
    let document = ran.json();
    let found = (document["stop_reason"].as_str(), document["iterations"].as_u64());
    assert_eq!(found, (Some(reason), Some(iterations)), "{ran}");
    assert_eq!(document["exit_code"], code);
    document
}

pub(crate) fn prompt(env: &TestEnvironment, number: u32) -> String {
    env.read(env.home().join(format!("prompt.{number}")))
}

/// Returns the log without times and sessions.
pub(crate) fn log(env: &TestEnvironment) -> String {
    let log = env.read("harness-progress.txt");
    let lines = log.lines().map(|line| line.splitn(3, "] ").nth(2).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns rows as `sqlite3` would show them.
pub(crate) fn rows(env: &TestEnvironment, sql: &str) -> Vec<Value> {
    let path = env.root().join(".harness/harness.db");
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let mut object = Map::new();
        for (n, name) in names.iter().enumerate() {
            let value = match row.get_ref(n)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
                ValueRef::Blob(_) => "blob".into(),
            };
            object.insert(name.clone(), value);
        }
        Ok(Value::Object(object))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Returns the only run without a parent.
#[track_caller]
pub(crate) fn run_row(env: &TestEnvironment) -> Value {
    let found = rows(env, "SELECT * FROM runs WHERE parent_run_id IS NULL");
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

pub(crate) fn iterations(env: &TestEnvironment) -> Vec<Value> {
    rows(env, "SELECT * FROM iterations ORDER BY run_id, number")
}

/// Returns the end of each iteration.
pub(crate) fn outcomes(env: &TestEnvironment) -> Vec<Value> {
    iterations(env).into_iter().map(|row| row["outcome"].clone()).collect()
}

pub(crate) fn fifo(env: &TestEnvironment, name: &str) -> PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// An agent that is at work until the test lets it end.
pub(crate) struct Held {
    pub(crate) command: String,
    ready: PathBuf,
    enough: PathBuf,
}

impl Held {
    pub(crate) fn new(env: &TestEnvironment) -> Self {
        let (ready, enough) = (fifo(env, "ready"), fifo(env, "enough"));
        let (to, from) = (ready.display(), enough.display());
        let script = format!("echo ready > {to}; read word < {from}; echo TASK_COMPLETE");
        Self { command: agent(env, &script), ready, enough }
    }

    /// Waits until the agent is at work.
    pub(crate) fn is_at_work(&self) {
        hear(&self.ready);
    }

    /// Lets the agent end.
    pub(crate) fn release(&self) {
        fs::write(&self.enough, "enough\n").unwrap();
    }
}

/// Waits until a process writes a line into it.
pub(crate) fn hear(fifo: &PathBuf) -> String {
    let mut said = String::new();
    BufReader::new(File::open(fifo).unwrap()).read_line(&mut said).unwrap();
    said.trim_end().to_owned()
}

/// A run beside the test. It ends with the test, even if that fails.
pub(crate) struct Going {
    pub(crate) child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Going {
    pub(crate) fn start(env: &TestEnvironment, args: &[&str]) -> Self {
        let mut command = env.harness(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Reads its output until a line contains `words`.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        let mut said = String::new();
        loop {
            let before = said.len();
            assert!(self.stderr.read_line(&mut said).unwrap() > 0, "no {words:?} in\n{said}");
            if said[before..].contains(words) {
                return said[before..].to_owned();
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end, and returns the exit code, standard output and the rest of standard
    /// error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stderr.read_to_string(&mut err).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns the output of a command at another terminal that asks the run.
pub(crate) fn beside(env: &TestEnvironment, args: &[&str]) -> String {
    let said = env.harness(args).env_remove("HARNESS_DAEMON").output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim_end().to_owned()
}

/// Wakes a run that waits for a usage limit. It tries until one is woken, because the wait is
/// stored and reported before it begins.
pub(crate) fn kick(env: &TestEnvironment) {
    while !beside(env, &["kick"]).contains("the wait has ended") {}
}

/// Returns a time in a month, the same for a whole test. It is later than the end of any test, but
/// still plausible.
pub(crate) fn later() -> &'static str {
    static LATER: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let month = i64::try_from(now.as_secs()).unwrap() + 30 * 24 * 3600;
        harness_core::Timestamp::from_seconds(month).to_string()
    });
    &LATER
}
