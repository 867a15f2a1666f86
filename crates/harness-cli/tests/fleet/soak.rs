//! Several hosts at work while they are killed, their connections are cut and the server crashes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use harness::store::{
    Store as _,
    postgres::{Database, Follower},
};
use harness_core::task::Status;
use harness_sim::{
    postgres::{Cluster, TestServer},
    random::Random,
};

use crate::{
    Test,
    environment::{Ran, TestEnvironment},
    stage::Fleet,
};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("every_task_lands_once_whatever_fails", every_task_lands_once_whatever_fails)];

/// `full` asks for the whole size, which takes many minutes. Otherwise it is a tenth of it.
const SIZE: &str = "HARNESS_SOAK";
const SEED: &str = "HARNESS_SOAK_SEED";
/// The longest time in which no task is completed. Leases are shorter.
const STUCK: Duration = Duration::from_secs(120);
/// The interval of looks at the runs.
const LOOK: Duration = Duration::from_millis(200);
/// The number of tasks that are added after the start.
const LATE: u64 = 5;
const LEASE_SECONDS: &str = "10";

struct Size {
    workers: u64,
    tasks: u64,
    /// The largest number of changes of the ledger between two faults.
    gap: usize,
    faults: u64,
}

impl Size {
    fn wanted() -> Self {
        match std::env::var(SIZE).as_deref() {
            Ok("full") => Self { workers: 8, tasks: 300, gap: 60, faults: 100 },
            _ => Self { workers: 2, tasks: 30, gap: 24, faults: 10 },
        }
    }
}

/// A machine: its clone, and the run in progress there.
struct Host {
    env: TestEnvironment,
    run: Option<Child>,
}

impl Host {
    /// Starts a run unless one is in progress. A run ends early if it is killed, or cut off for too long.
    fn keep_running(&mut self, workers: u64) {
        let has_ended = |run: &mut Child| run.try_wait().unwrap().is_some();
        if !self.run.as_mut().is_none_or(has_ended) {
            return;
        }
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let run = ["run", "--agent", "shell", "--workers", &workers.to_string()];
        let mut command = self.env.harness(run);
        self.run = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut run) = self.run.take() {
            _ = run.kill();
            run.wait().unwrap();
        }
    }

    fn log(&self) -> std::path::PathBuf {
        self.env.home().join("run.log")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("--- {}", self.env.root().display());
            last.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// What happens to the fleet, by chance.
struct Chaos<'a> {
    cluster: &'a Cluster,
    fleet: &'a Fleet,
    random: Random,
    /// The number of times of each fault.
    faults: BTreeMap<&'static str, u64>,
    /// The tasks that were added meanwhile, with an answer that said so.
    acknowledged: Vec<String>,
}

impl Chaos<'_> {
    fn strike(&mut self, hosts: &mut [Host]) {
        let one = self.random.below(hosts.len());
        let fault = match self.random.below(6) {
            0 | 1 => {
                hosts[one].kill();
                "kills"
            }
            2 => {
                self.cluster.crash().unwrap();
                "crashes of the server"
            }
            _ => {
                let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE pid <> pg_backend_pid() AND datname = current_database()";
                self.fleet.database.sql(cut);
                "cuts"
            }
        };
        *self.faults.entry(fault).or_default() += 1;
        let count = self.faults.values().sum::<u64>();
        if count <= LATE {
            self.add_meanwhile(&hosts[one].env, &format!("late{count}"));
        }
    }

    /// Adds a task, whether the server is there or not.
    fn add_meanwhile(&mut self, env: &TestEnvironment, id: &str) {
        if add_task(env, id).ended_with(&[0]) {
            self.acknowledged.push(id.to_owned());
        }
    }
}

/// Adds a task that no number of lost machines fails for good.
fn add_task(env: &TestEnvironment, id: &str) -> Ran {
    let (script, check) = (format!("echo > {id}"), format!("test -f {id}"));
    let args = ["add", "a task", "--id", id, "--instructions", &script, "--validate", &check];
    env.run([&args[..], &["--max-attempts", "99"]].concat())
}

fn every_task_lands_once_whatever_fails(_: &TestServer) {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let seed = seed.unwrap_or_else(now);
    eprintln!("{SEED}={seed}");
    let size = Size::wanted();
    let cluster = Cluster::temporary("").unwrap();
    let fleet = Fleet::new(&cluster.server());
    let clones = [fleet.first("h0"), fleet.another("h1"), fleet.another("h2")];
    let leased = |env: TestEnvironment| env.variable("HARNESS_LEASE_SECONDS", LEASE_SECONDS);
    let mut hosts = clones.map(|env| Host { env: leased(env), run: None });
    for n in 0..size.tasks {
        add_task(&hosts[0].env, &format!("t{n}")).success();
    }
    let database = fleet.database.open();
    let follower = database.follow(|_| {}).unwrap();
    let random = Random::new(seed);
    let (faults, acknowledged) = (BTreeMap::new(), Vec::new());
    let mut chaos = Chaos { cluster: &cluster, fleet: &fleet, random, faults, acknowledged };
    let mut version = follower.news().version;
    while !is_done(&database) {
        let next = version + 1 + chaos.random.below(size.gap) as u64;
        version = wait_for(&follower, &database, next, || {
            hosts.iter_mut().for_each(|host| host.keep_running(size.workers));
        });
        if !is_done(&database) && chaos.faults.values().sum::<u64>() < size.faults {
            chaos.strike(&mut hosts);
        }
    }
    // The runs end by themselves now.
    for host in &mut hosts {
        host.run.take().into_iter().for_each(|mut run| _ = run.wait().unwrap());
    }
    eprintln!("{:?}; {} tasks added meanwhile", chaos.faults, chaos.acknowledged.len());
    judge(&fleet, &database, &chaos.acknowledged);
    hosts.iter().for_each(|host| wait_for_end_of_agents(&host.env));
}

/// Waits until the ledger has this version, or until everything is done. Runs that end on their own are
/// started again meanwhile: the others wait for what a dead one holds in the line of landings.
fn wait_for(
    follower: &Follower,
    database: &Database,
    wanted: u64,
    mut keep_running: impl FnMut(),
) -> u64 {
    let mut version = follower.news().version;
    let (mut completed, mut since) = (count_completed(database), Instant::now());
    while version < wanted && !is_done(database) {
        keep_running();
        version = follower.wait_newer(version, LOOK).unwrap_or(version);
        let count = count_completed(database);
        if count > completed {
            (completed, since) = (count, Instant::now());
        }
        assert!(since.elapsed() < STUCK, "{}", standstill(database));
    }
    version
}

/// Describes a fleet that stands still: the line of landings, the claims, and the end of the log.
fn standstill(database: &Database) -> String {
    let mut store = database.store();
    let ledger = store.ledger().unwrap();
    let claimed = ledger.selection().claimed().filter_map(|id| ledger.task(id));
    let claims: Vec<String> = claimed
        .map(|task| format!("{} {:?} {:?}", task.id, task.epoch, task.claim().unwrap()))
        .collect();
    let line = &ledger.head().landing;
    let log = database.log_tail(100).unwrap();
    format!("no task is completed any more; line: {line:#?}; claims: {claims:#?}; log: {log:#?}")
}

fn count_completed(database: &Database) -> usize {
    let mut store = database.store();
    let ledger = store.ledger().unwrap();
    ledger.tasks().filter(|task| task.status() == Status::Completed).count()
}

fn is_done(database: &Database) -> bool {
    let mut store = database.store();
    let ledger = store.ledger().unwrap();
    ledger.tasks().all(|task| task.status() == Status::Completed)
}

/// Compares the ledger with the remote: one commit and one completion for each task, and a receipt.
fn judge(fleet: &Fleet, database: &Database, acknowledged: &[String]) {
    let mut store = database.store();
    let ledger = store.ledger().unwrap();
    let mut tasks: Vec<String> = ledger.tasks().map(|task| task.id.to_string()).collect();
    tasks.sort();
    for id in acknowledged {
        assert!(tasks.contains(id), "{id} was acknowledged and is gone");
    }
    let mut landed = fleet.landed();
    landed.sort();
    assert_eq!(landed, tasks, "every task landed once");
    let log = database.log_after(0).unwrap();
    let lines_with = |part: &str| log.iter().filter(|(_, line)| line.contains(part)).count();
    for task in ledger.tasks() {
        let id = &task.id;
        assert_eq!(lines_with(&format!("Completed [{id}]")), 1, "completions of {id}");
        let receipt = database.receipt(id, task.epoch.unwrap()).unwrap();
        assert_eq!(receipt.and_then(|receipt| receipt.epoch.into()), task.epoch, "{id}");
    }
}

/// The processes of agents and checks end with the run that started them, a moment later.
fn wait_for_end_of_agents(env: &TestEnvironment) {
    let root = env.root().display().to_string();
    let is_left = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|process| fs::read(process.path().join("environ")).ok()).any(|env| {
            let mut variables = env.split(|byte| *byte == 0);
            variables.any(|v| {
                v.strip_prefix(b"HARNESS_STATE_ROOT=").is_some_and(|value| value == root.as_bytes())
            })
        })
    };
    while is_left() {
        thread::yield_now();
    }
}
