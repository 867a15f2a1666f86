//! Workers whose database is away for a while: they reach it through a proxy that is unplugged.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Stdio},
};

use harness_sim::postgres::{Proxy, TestServer};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    Test,
    environment::TestEnvironment,
    stage::{Fleet, add, states},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("an_agent_goes_on_while_its_lease_lasts", an_agent_goes_on_while_its_lease_lasts),
    ("a_worker_that_is_cut_off_for_too_long_loses_its_task", a_worker_loses_its_task),
    ("a_worker_goes_on_when_the_database_is_back_first", a_worker_goes_on),
    ("an_idle_worker_waits_for_the_database", an_idle_worker_waits_for_the_database),
    ("an_interrupt_ends_the_wait_for_the_database", an_interrupt_ends_the_wait),
];

/// The line about a database that is away. It comes when the patience of the store has ended.
const AWAY: &str = "waiting until it is back";
const BACK: &str = "the database is back";

/// A clone that reaches the database through a proxy.
struct Cut {
    env: TestEnvironment,
    proxy: Proxy,
}

impl Cut {
    fn new(fleet: &Fleet, worker: &str, lease_seconds: u64) -> Self {
        let url = fleet.database.url();
        let proxy = Proxy::before(&url);
        let env = fleet
            .clone_for(worker)
            .variable("HARNESS_DATABASE_URL", proxy.url(&url).to_string())
            .variable("HARNESS_LEASE_SECONDS", lease_seconds.to_string());
        env.run(["trust", "--yes"]).success();
        Self { env, proxy }
    }

    fn start(&self, args: &[&str]) -> Going {
        let mut command = self.env.harness(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Going { child, stderr, said: String::new() }
    }
}

/// A worker beside the test. It ends with the test, even if that fails.
struct Going {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Going {
    /// Waits for a line that contains these words.
    #[track_caller]
    fn until(&mut self, words: &str) {
        loop {
            let before = self.said.len();
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert!(read > 0, "no {words:?} in\n{}", self.said);
            if self.said[before..].contains(words) {
                return;
            }
        }
    }

    /// Waits for its end, and returns the exit code and everything that it said.
    fn end(mut self) -> (Option<i32>, String) {
        self.stderr.read_to_string(&mut self.said).unwrap();
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.said))
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn fifo(env: &TestEnvironment, name: &str) -> PathBuf {
    let path = env.home().join(name);
    assert!(env.program("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waits until a process writes a line into it.
fn hear(fifo: &Path) {
    BufReader::new(File::open(fifo).unwrap()).read_line(&mut String::new()).unwrap();
}

/// Returns the command line of an agent that runs this script.
fn agent(env: &TestEnvironment, script: &str) -> String {
    let path = env.home().join("agent.sh");
    fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

/// The pipes of a script that hangs in its first life, and ends the task in any later one.
struct Hanging {
    ready: PathBuf,
    alive: PathBuf,
}

impl Hanging {
    /// Adds the task, whose pipes are in the home of this clone.
    fn add(env: &TestEnvironment) -> Self {
        let (ready, alive) = (fifo(env, "ready"), fifo(env, "alive"));
        let script = format!(
            "if ! [ -e {once} ]; then\n\
               touch {once}; echo half > part; exec 9> {alive}; echo ready > {ready}; exec sleep 600\n\
             fi\n\
             echo whole > one",
            once = env.home().join("once").display(),
            alive = alive.display(),
            ready = ready.display(),
        );
        add(env, "one", &script, "test -f one");
        Self { ready, alive }
    }

    /// Waits until the agent is at work, and returns the pipe that it holds open.
    fn at_work(&self) -> File {
        let held = File::options().read(true).write(true).open(&self.alive).unwrap();
        hear(&self.ready);
        held
    }

    /// Waits until the agent and everything that it started has ended.
    fn ended(&self, held: File) {
        // It opens at once, because `held` writes. Then only the processes of the agent are left.
        let mut reader = File::open(&self.alive).unwrap();
        drop(held);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "the end of the pipe");
    }
}

/// Waits until the remote has a snapshot of the unfinished work.
fn wait_for_snapshot(fleet: &Fleet) {
    loop {
        let refs = fleet.refs("refs/harness/work");
        if let Some(snapshot) = refs.lines().find(|name| name.contains("/one.")) {
            assert_eq!(fleet.file(snapshot, "part").trim(), "half");
            return;
        }
    }
}

/// The agent uses something before, while and after the database is away. It is neither stopped nor
/// counted twice.
fn an_agent_goes_on_while_its_lease_lasts(server: &TestServer) {
    let fleet = Fleet::new(server);
    let first = fleet.first("first");
    // The patience of the store and the interval of renewals are together less than four fifths of it.
    let a = Cut::new(&fleet, "a", 50);
    add(&first, "one", "-", "test -f one");
    let pipe = |name: &str| fifo(&a.env, name).display().to_string();
    let (ready, go) = (pipe("ready"), pipe("go"));
    let script = format!(
        "cat > /dev/null\n\
         use() {{ echo \"{{\\\"type\\\":\\\"usage\\\",\\\"input_tokens\\\":$1}}\" >> $HARNESS_EVENTS; }}\n\
         echo start >> $HOME/starts\n\
         use 60; echo ready > {ready}; read word < {go}\n\
         use 7; use 8; echo ready > {ready}; read word < {go}\n\
         use 100; echo > one; echo TASK_COMPLETE\n"
    );
    let command = agent(&a.env, &script);
    let mut work = a.start(&["work", "--agent-command", &command]);
    hear(Path::new(&ready));
    a.proxy.unplug();
    fs::write(&go, "go\n").unwrap();
    hear(Path::new(&ready));
    work.until(AWAY);
    a.proxy.plug_in();
    work.until(BACK);
    fs::write(&go, "go\n").unwrap();
    let (code, said) = work.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(AWAY).count(), 1, "it is said once: {said}");
    assert_eq!(fleet.landed(), ["one"]);
    let starts = fs::read_to_string(a.env.home().join("starts")).unwrap();
    assert_eq!(starts, "start\n", "the agent was not stopped");
    for parents in ["IS NULL", "IS NOT NULL"] {
        let sql = format!(
            "SELECT entry::json -> 'usage' ->> 'input_tokens' FROM harness.run WHERE parent {parents}"
        );
        assert_eq!(fleet.database.value(&sql), "175", "parent {parents}");
    }
}

fn a_worker_loses_its_task(server: &TestServer) {
    let fleet = Fleet::new(server);
    let b = fleet.first("b").variable("HARNESS_LEASE_SECONDS", "20");
    let a = Cut::new(&fleet, "a", 20);
    let hanging = Hanging::add(&b);
    let mut work = a.start(&["work", "--agent", "shell"]);
    let held = hanging.at_work();
    a.proxy.unplug();
    hanging.ended(held);
    // Nobody else may have taken it by now.
    let task = b.run(["task", "show", "one", "--json"]).success().json()["task"].clone();
    assert_eq!(task["status"], "in_progress", "{task}");
    let end = task["lease_expires_at"].as_str().unwrap();
    let left = fleet.database.value(&format!("SELECT clock_timestamp() < '{end}'"));
    assert_eq!(left, "t", "the agent is stopped before the lease ends: {task}");
    wait_for_snapshot(&fleet);
    work.until(AWAY);
    let ran = b.run(["work", "--agent", "shell"]).success();
    assert!(ran.errors().contains("the lease ran out (claimed_by=a)"), "{}", ran.errors());
    assert_eq!(fleet.landed(), ["one"]);
    a.proxy.plug_in();
    let (code, said) = work.end();
    assert_eq!(code, Some(4), "a person should look: {said}");
    assert!(said.contains("[one] late result of a refused"), "{said}");
    let rescues = a.env.git(["for-each-ref", "--format=%(refname)", "refs/harness/rescue/one"]);
    assert!(!rescues.is_empty(), "its work is kept");
    assert_eq!(fleet.landed(), ["one"], "nothing lands twice");
}

fn a_worker_goes_on(server: &TestServer) {
    let fleet = Fleet::new(server);
    let first = fleet.first("first");
    let a = Cut::new(&fleet, "a", 10);
    let hanging = Hanging::add(&first);
    let mut work = a.start(&["work", "--agent", "shell"]);
    let held = hanging.at_work();
    a.proxy.unplug();
    hanging.ended(held);
    wait_for_snapshot(&fleet);
    work.until(AWAY);
    a.proxy.plug_in();
    let (code, said) = work.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(BACK), "{said}");
    assert_eq!(fleet.landed(), ["one"]);
}

fn an_idle_worker_waits_for_the_database(server: &TestServer) {
    let fleet = Fleet::new(server);
    let first = fleet.first("first");
    let a = Cut::new(&fleet, "a", 60);
    let mut work = a.start(&["work", "--agent", "shell", "--wait"]);
    let sql = "SELECT count(*) FROM harness.worker WHERE id = 'a'";
    while fleet.database.value(sql) != "1" {}
    a.proxy.unplug();
    work.until(AWAY);
    a.proxy.plug_in();
    work.until(BACK);
    add(&first, "one", "echo > one", "test -f one");
    let is_done = || states(&first) == [("one".to_owned(), "completed".to_owned())];
    while !is_done() {}
    first.run(["workers", "drain", "a"]).success();
    let (code, said) = work.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fleet.landed(), ["one"]);
}

fn an_interrupt_ends_the_wait(server: &TestServer) {
    let fleet = Fleet::new(server);
    _ = fleet.first("first");
    let a = Cut::new(&fleet, "a", 60);
    let mut work = a.start(&["work", "--agent", "shell", "--wait"]);
    let sql = "SELECT count(*) FROM harness.worker WHERE id = 'a'";
    while fleet.database.value(sql) != "1" {}
    a.proxy.unplug();
    work.until(AWAY);
    kill(Pid::from_raw(i32::try_from(work.child.id()).unwrap()), Signal::SIGINT).unwrap();
    // The database stays away.
    let (code, said) = work.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot reach the database 127.0.0.1:"), "{said}");
}
