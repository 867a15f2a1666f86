//! The store over the host of a root: the suite of all stores, and answers that get lost on the way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use harness::{
    Hub,
    agent::Desk,
    client::{Connection, HostSeat, HostStore},
    clock::SystemClock,
    host::{Duty, Host, serve, socket, socket::Places},
    process::Redactor,
    protocol::TRANSACTION_FORM,
    store::{FileStore, Locking, Observers, Store, Writer, lock::Wait},
};
use harness_core::{
    Command, Reply, TaskId, command::SetMode, ledger::ConcurrencyMode, role::Adding,
};
use harness_sim::conformance::store::{add, at, claim, suite};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Variables that make this process something else than the operator.
const OF_AN_AGENT: [&str; 5] =
    ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SANDBOX", "HARNESS_JOB"];

/// Runs `test` if no agent is around this process. Otherwise the test starts again with an
/// environment of its own.
fn as_operator(name: &str, test: impl FnOnce()) {
    if !OF_AN_AGENT.iter().any(|name| std::env::var_os(name).is_some()) {
        return test();
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name]);
    OF_AN_AGENT.iter().for_each(|name| _ = again.env_remove(name));
    assert!(again.status().unwrap().success());
}

/// A host in this process, until it is dropped.
struct Served {
    _folder: tempfile::TempDir,
    root: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<thread::JoinHandle<()>>,
}

fn each() -> Locking {
    Locking::Each(Wait::For(Duration::from_secs(20)))
}

fn files(root: &Path) -> FileStore {
    FileStore::open(root, each()).unwrap()
}

fn places(root: &Path, name: &str) -> Places {
    Places { socket: Some(root.join(name)), runtime_dir: None }
}

impl Served {
    /// Serves a ledger with `tasks` tasks, on which several workers may work.
    fn start(tasks: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut store = files(&root);
        _ = store.create(at(0)).unwrap();
        let mut commands: Vec<Command> = (0..tasks).map(|n| add(&format!("t{n}"))).collect();
        commands.push(Command::SetMode(SetMode { mode: ConcurrencyMode::Concurrent }));
        _ = store.apply(at(0), &commands).unwrap();
        let bound = socket::bind(&root, &places(&root, "s")).unwrap();
        let hub = Hub::new("test");
        let writer = Writer::start(store, Arc::new(SystemClock), Observers::default()).unwrap();
        let host = Host {
            root: root.clone(),
            writer: Arc::new(writer),
            hub,
            workspace: None,
            desk: Desk::default(),
            lease_seconds: 60,
            duty: Duty::Run,
            secrets: Redactor::default(),
            adding: Adding::Allowed,
            budget: None,
        };
        let (stop, asked) = oneshot::channel();
        let serving = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = serve(bound, host).unwrap();
                _ = asked.await;
                server.end().await;
            });
        });
        Self { _folder: folder, root, stop: Some(stop), serving: Some(serving) }
    }

    /// Opens a store that asks the listener of this name.
    fn store(&self, socket: &str) -> HostStore<FileStore> {
        let seat = HostSeat::default();
        HostStore::new(&self.root, places(&self.root, socket), files(&self.root), seat)
    }

    /// Returns how many processes have made a transaction through a host, or in its place.
    fn processes(&self) -> usize {
        let text = std::fs::read_to_string(self.root.join("harness-tasks.json")).unwrap();
        let ledger: Value = serde_json::from_str(&text).unwrap();
        ledger["transactions"].as_array().map_or(0, Vec::len)
    }

    fn titles(&self) -> Vec<String> {
        files(&self.root).ledger().unwrap().tasks().map(|task| task.title.clone()).collect()
    }

    /// Answers each connection on the socket `name` with `answer`, which has the request and the
    /// answer of the real host at hand. Returns the number of connections so far.
    fn between(
        &self,
        name: &str,
        answer: impl Fn(&str, &dyn Fn() -> String) -> Option<String> + Send + 'static,
    ) -> Arc<AtomicUsize> {
        let listener = UnixListener::bind(self.root.join(name)).unwrap();
        let (host, count) = (self.root.join("s"), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&count);
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                counted.fetch_add(1, Ordering::SeqCst);
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let ask = || {
                    let mut real = BufReader::new(UnixStream::connect(&host).unwrap());
                    real.get_mut().write_all(line.as_bytes()).unwrap();
                    let mut answer = String::new();
                    real.read_line(&mut answer).unwrap();
                    answer
                };
                if let Some(text) = answer(&line, &ask) {
                    stream.get_mut().write_all(text.as_bytes()).unwrap();
                }
            }
        });
        count
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        _ = self.serving.take().unwrap().join();
        let hash = harness::home::root_hash(&self.root);
        _ = std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    }
}

#[test]
fn it_behaves_as_every_store() {
    as_operator("it_behaves_as_every_store", || {
        suite(|| {
            let served = Arc::new(Served::start(0));
            move || served.store("s")
        });
        // It did not fall back to the files.
        let served = Served::start(0);
        _ = served.store("s").apply(at(0), &[add("one")]).unwrap();
        assert_eq!((served.processes(), served.titles()), (1, vec!["one".to_owned()]));
    });
}

#[test]
fn facts_log_and_warnings_are_those_of_the_file_store() {
    as_operator("facts_log_and_warnings_are_those_of_the_file_store", || {
        let (served, alone) = (Served::start(0), tempfile::tempdir().unwrap());
        let root = alone.path().canonicalize().unwrap();
        let mut file = files(&root);
        _ = file.create(at(0)).unwrap();
        let commands = [add("one"), add("two"), claim("w")];
        let one = file.apply(at(0), &commands).unwrap();
        let other = served.store("s").apply(at(0), &commands).unwrap();
        let names = |facts: &[harness_core::Fact]| -> Vec<&'static str> {
            facts.iter().map(|fact| fact.event().0).collect()
        };
        assert_eq!(names(&one.facts), names(&other.facts));
        assert_eq!(one.warnings, other.warnings);
        let words = |log: &str| log.split_once("Starting").map(|(_, rest)| rest.to_owned());
        assert_eq!(words(&one.log), words(&other.log), "{} {}", one.log, other.log);
        let hash = harness::home::root_hash(&root);
        _ = std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
    });
}

#[test]
fn an_answer_that_gets_lost_is_found_in_the_ledger() {
    as_operator("an_answer_that_gets_lost_is_found_in_the_ledger", || {
        let served = Served::start(0);
        let asked = served.between("lossy", |_, ask| {
            _ = ask();
            None
        });
        let mut store = served.store("lossy");
        let applied = store.apply(at(0), &[add("one"), claim("w")]).unwrap();
        assert_eq!(applied.replies[0], Ok(Reply::Task(TaskId::numbered(1))));
        let Ok(Reply::Claimed(claimed)) = &applied.replies[1] else { panic!("{applied:?}") };
        assert_eq!(claimed.task.title, "one");
        assert!(asked.load(Ordering::SeqCst) > 0);
        assert_eq!((served.titles(), served.processes()), (vec!["one".to_owned()], 1));
    });
}

#[test]
fn a_request_that_gets_lost_is_made_on_the_files_and_not_a_second_time() {
    as_operator("a_request_that_gets_lost_is_made_on_the_files_and_not_a_second_time", || {
        let served = Served::start(0);
        // The request reaches the host late, as if the host had been frozen.
        let late = Arc::new(std::sync::Mutex::new(String::new()));
        let kept = Arc::clone(&late);
        served.between("deaf", move |line, _| {
            if line.contains("Add") {
                line.clone_into(&mut kept.lock().unwrap());
            }
            None
        });
        let applied = served.store("deaf").apply(at(0), &[add("one")]).unwrap();
        assert_eq!(applied.replies, [Ok(Reply::Task(TaskId::numbered(1)))]);
        let line: Value = serde_json::from_str(&late.lock().unwrap()).unwrap();
        let mut host = Connection::find(&served.root, &places(&served.root, "s")).unwrap();
        let answer = host.ask(&line, Some(Duration::from_secs(20))).unwrap();
        assert_eq!(answer["repeated"], true, "{answer}");
        assert_eq!(served.titles(), ["one"]);
    });
}

#[test]
fn a_host_that_does_not_know_the_verb_is_left_alone() {
    as_operator("a_host_that_does_not_know_the_verb_is_left_alone", || {
        let served = Served::start(0);
        let asked = served.between("old", |_, _| {
            let message = "Unknown command: worker_transaction";
            Some(format!("{}\n", json!({ "status": "error", "message": message })))
        });
        let mut store = served.store("old");
        for n in 1..=3 {
            let applied = store.apply(at(n), &[add("x")]).unwrap();
            assert_eq!(applied.replies, [Ok(Reply::Task(TaskId::numbered(n.unsigned_abs())))]);
            assert_eq!(store.ledger().unwrap().len(), usize::try_from(n).unwrap());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "it is not asked each time");
        let line = json!({ "command": "worker_transaction", "root": served.root, "form": "0/0",
            "by": "x", "number": 1, "commands": [] });
        let mut host = Connection::find(&served.root, &places(&served.root, "s")).unwrap();
        let refused = host.ask(&line, Some(Duration::from_secs(20))).unwrap_err().to_string();
        assert!(refused.starts_with("Unknown command: "), "{refused}");
    });
}

/// The whole ledger is sent once. After that, an answer has the changed tasks only, whatever the
/// number of tasks.
#[test]
fn a_change_of_a_large_ledger_costs_as_little_as_that_of_a_small_one() {
    as_operator("a_change_of_a_large_ledger_costs_as_little_as_that_of_a_small_one", || {
        let served = Served::start(10_000);
        let mut host = Connection::find(&served.root, &places(&served.root, "s")).unwrap();
        let mut number = 0;
        let mut ask = |commands: &[Command], since: Option<&Value>| {
            number += 1;
            let line = json!({ "command": "worker_transaction", "root": served.root,
                "form": TRANSACTION_FORM, "by": "x", "number": number, "commands": commands,
                "since": since });
            host.ask(&line, Some(Duration::from_secs(60))).unwrap()
        };
        let whole = ask(&[], None);
        assert_eq!(whole["news"]["rows"].as_array().unwrap().len(), 10_000);
        let same = ask(&[], Some(&whole["version"]));
        assert!(same.to_string().len() < 500, "{same}");
        let claimed = ask(&[claim("w")], Some(&whole["version"]));
        assert_eq!(claimed["news"]["rows"].as_array().unwrap().len(), 1);
        assert!(claimed.to_string().len() < 10_000, "{claimed}");
        // What others write into the files is seen too.
        _ = files(&served.root).apply(at(0), &[add("by hand")]).unwrap();
        let after = ask(&[], Some(&claimed["version"]));
        assert_eq!(after["news"]["whole"], true);
        assert_eq!(after["news"]["rows"].as_array().unwrap().len(), 10_001);
    });
}
