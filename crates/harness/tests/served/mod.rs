//! A host in this process, on a socket in a folder of its own, until it is dropped.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::Duration,
};

use harness::{
    Hub,
    agent::Desk,
    client::Connection,
    clock::Clock,
    host::{
        Daemon, Duty, Ended, Host, Settings, Surroundings, serve, serve_alone,
        socket::{self, Places},
    },
    process::Redactor,
    store::{Applied, FileStore, Locking, Observers, Store, StoreError, Writer, lock::Wait},
    workspace::{Bring, Filters},
};
use harness_core::{
    Command, Ledger, Refusal, Reply, Timestamp,
    command::Unchecked,
    machine::judge::Rules,
    protect::{OnTouch, Protected},
    role::Adding,
};
use tokio_util::sync::CancellationToken;

pub(crate) const WAIT: Wait = Wait::For(Duration::from_secs(60));
pub(crate) const LEASE: u64 = 1800;
const KEPT_EVENTS: usize = 4096;

/// Variables that make this process something else than the operator.
const OF_AN_AGENT: [&str; 5] =
    ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SANDBOX", "HARNESS_JOB"];

/// Runs `test` if no agent is around this process. Otherwise the test starts again with an
/// environment of its own.
pub(crate) fn with_own_environment(name: &str, test: impl FnOnce()) {
    if !OF_AN_AGENT.iter().any(|name| std::env::var_os(name).is_some()) {
        return test();
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name]);
    OF_AN_AGENT.iter().for_each(|name| _ = again.env_remove(name));
    assert!(again.status().unwrap().success());
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is no ledger yet.
    Daemon,
    /// There is an empty ledger.
    DaemonOfLedger,
    /// There is an empty ledger.
    Run,
}

/// A clock that moves only when a test moves it.
pub(crate) struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) type History = Arc<Mutex<Vec<(Timestamp, Vec<Command>, Vec<Result<Reply, Refusal>>)>>>;

/// A store that records decisions in the order in which they were committed.
struct Recorded {
    store: FileStore,
    history: History,
}

impl Store for Recorded {
    fn apply(&mut self, now: Timestamp, commands: &[Command]) -> Result<Applied, StoreError> {
        let applied = self.store.apply(now, commands)?;
        let replies = applied.replies.clone();
        self.history.lock().unwrap().push((now, commands.to_vec(), replies));
        Ok(applied)
    }

    fn ledger(&mut self) -> Result<&Ledger, StoreError> {
        self.store.ledger()
    }
}

pub(crate) struct Served {
    _folder: tempfile::TempDir,
    root: PathBuf,
    clock: Arc<Hand>,
    history: History,
    stop: CancellationToken,
    serving: Option<thread::JoinHandle<Option<Ended>>>,
}

impl Served {
    pub(crate) fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let clock = Arc::new(Hand(AtomicI64::new(1_750_000_000)));
        match kind {
            Kind::Daemon => {}
            Kind::DaemonOfLedger | Kind::Run => {
                FileStore::open(&root, Locking::Each(WAIT)).unwrap().create(clock.now()).unwrap();
            }
        }
        let history = History::default();
        let stop = CancellationToken::new();
        let bound = socket::bind(&root, &places(&root)).unwrap();
        let daemon = Arc::new(Daemon::new(root.clone(), surroundings(), clock.clone(), WAIT));
        let hub = Hub::keeping("test", KEPT_EVENTS);
        hub.start_session();
        let mut observers = Observers::default().with(hub.clone());
        observers.add(daemon.clone());
        let store = Recorded {
            store: FileStore::open(&root, Locking::Each(WAIT)).unwrap(),
            history: Arc::clone(&history),
        };
        let writer = Arc::new(Writer::start(store, clock.clone(), observers).unwrap());
        let host = Host {
            budget: None,
            root: root.clone(),
            writer,
            hub,
            workspace: None,
            desk: Desk::default(),
            lease_seconds: LEASE,
            duty: match kind {
                Kind::Daemon | Kind::DaemonOfLedger => Duty::Daemon(Arc::clone(&daemon)),
                Kind::Run => Duty::Run,
            },
            secrets: Redactor::default(),
            adding: Adding::Allowed,
        };
        let asked = stop.clone();
        let serving = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                match kind {
                    Kind::Daemon | Kind::DaemonOfLedger => {
                        let asked = asked.cancelled_owned();
                        Some(serve_alone(bound, host, &daemon, None, asked).await.unwrap())
                    }
                    Kind::Run => {
                        let server = serve(bound, host).unwrap();
                        asked.cancelled().await;
                        server.end().await;
                        None
                    }
                }
            })
        });
        Self { _folder: folder, root, clock, history, stop, serving: Some(serving) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("s")
    }

    /// Returns the decisions in the order in which they were committed.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn client(&self) -> Connection {
        Connection::find(&self.root, &places(&self.root)).unwrap()
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.serving.take().unwrap().join();
        let hash = harness::home::root_hash(&self.root);
        _ = std::fs::remove_file(format!("/tmp/harness-{hash}.lock.guard"));
        if !thread::panicking()
            && let Some(ended) = ended.unwrap()
        {
            assert_eq!(ended, Ended::Asked);
            assert!(!self.root.join("s").exists());
        }
    }
}

pub(crate) fn places(root: &Path) -> Places {
    Places { socket: Some(root.join("s")), runtime_dir: None }
}

fn surroundings() -> Surroundings {
    Surroundings {
        claims: None,
        settings: Box::new(|| {
            let protected = Protected::new(&[], OnTouch::Flag).map_err(|e| e.to_string())?;
            let rules = Rules { protected, ..Rules::default() };
            Ok(Settings { rules, unchecked: Unchecked::Allowed, bring: Bring::default() })
        }),
        may_run: Box::new(|_, _| Ok(())),
        filters: Box::new(|| Filters::Run),
        made: Box::new(|| {}),
        warn: Box::new(|text| println!("{text}")),
        state_home: None,
        records: None,
    }
}
