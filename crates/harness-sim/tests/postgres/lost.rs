//! Connections that are cut around a commit, and a server that crashes.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use harness::store::{
    AppliedOnce, Recording, Runs as _, SteadyRuns, Store as _, TransactionId, postgres::Database,
};
use harness_core::{
    Command, Holder, Reply, TaskId, WorkerId,
    agent::Usage,
    command::{OfRun, Renew, RunStep},
    database::DatabaseUrl,
};
use harness_sim::{
    conformance::{
        runs::{id, run, spent},
        store::{add, at, claim},
    },
    postgres::{Cluster, Cut, Proxy, TestServer},
};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_command_whose_answer_is_lost_takes_effect_once",
        a_command_whose_answer_is_lost_takes_effect_once,
    ),
    (
        "a_transaction_that_two_processes_try_takes_effect_once",
        a_transaction_that_two_processes_try_takes_effect_once,
    ),
    ("a_renewal_whose_answer_is_lost_is_answered", a_renewal_whose_answer_is_lost_is_answered),
    ("a_renewal_after_lost_ones_is_seen", a_renewal_after_lost_ones_is_seen),
    ("usage_whose_answer_is_lost_is_counted_once", usage_whose_answer_is_lost_is_counted_once),
    (
        "usage_that_was_in_doubt_is_added_once_when_the_server_is_back",
        usage_that_was_in_doubt_is_added_once_when_the_server_is_back,
    ),
    (
        "a_server_that_refuses_a_login_leaves_nothing_in_doubt",
        a_server_that_refuses_a_login_leaves_nothing_in_doubt,
    ),
    ("a_server_that_crashes_loses_nothing", a_server_that_crashes_loses_nothing),
    ("a_database_that_is_gone_is_named_without_credentials", a_database_that_is_gone_is_named),
];

fn tokens(count: u64) -> Usage {
    Usage { input_tokens: count, ..Usage::default() }
}

/// A process charges what its agents use while the server is away, and sends it later under the same ids.
fn usage_that_was_in_doubt_is_added_once_when_the_server_is_back(server: &TestServer) {
    let database = server.fresh();
    database.create();
    for cut in [Cut::Before, Cut::After] {
        let proxy = Proxy::before(&database.url());
        let access = database.access_by(proxy.url(&database.url()));
        let patience = Duration::from_millis(200);
        let rows = Arc::new(Database::open(access.with_patience(patience)).unwrap().runs());
        let runs = SteadyRuns::new(rows);
        let id = if cut == Cut::Before { id(1) } else { id(2) };
        let _ = runs.open_run(&harness_core::Run { id: id.clone(), ..run(1) }).unwrap();
        let apply = |step| runs.apply(at(0), &OfRun { run: id.clone(), by: None, step });
        let take = harness_core::command::Take::default();
        apply(RunStep::Take(take)).unwrap().unwrap();
        let spend = |count| apply(RunStep::Spend(tokens(count))).unwrap().unwrap();
        assert_eq!(spend(5), Reply::Spent(tokens(5)));
        proxy.refuse();
        proxy.cut(cut);
        assert_eq!(spend(10), Reply::Spent(tokens(15)), "{cut:?}");
        assert_eq!(proxy.cuts(), 1);
        assert_eq!(spend(20), Reply::Spent(tokens(35)));
        assert_eq!(spend(40), Reply::Spent(tokens(75)));
        assert!(!runs.is_flushed() && runs.flush().unwrap_err().is_unreachable());
        let stop = RunStep::Stop(harness_core::run::StopReason::Complete);
        assert!(apply(stop.clone()).unwrap_err().is_unreachable(), "the end is not recorded yet");
        proxy.plug_in();
        runs.flush().unwrap();
        assert!(runs.is_flushed());
        let stored = || database.open().runs().run(&id).unwrap().unwrap().usage;
        assert_eq!(stored(), tokens(75), "{cut:?}");
        apply(stop).unwrap().unwrap();
        assert_eq!(stored(), tokens(75), "{cut:?}");
    }
}

/// During a failover, servers answer for a while that they cannot be used. As long as the outcome of a
/// change is not known, that is no answer.
fn a_server_that_refuses_a_login_leaves_nothing_in_doubt(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let proxy = Proxy::before(&database.url());
    let access = database.access_by(proxy.url(&database.url()));
    let opened = Database::open(access).unwrap();
    let (mut store, runs) = (opened.store(), opened.runs());
    let _ = store.ledger().unwrap();
    let _ = runs.open_run(&run(1)).unwrap();
    let allow = |word: &str| {
        server.sql(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS {word}", database.name));
    };
    // Returns when the server has refused a login, which is certain when another one is tried.
    let refuse_until_noticed = || {
        let before = proxy.asked();
        while proxy.asked() < before + 2 {
            thread::yield_now();
        }
        allow("true");
    };
    thread::scope(|scope| {
        allow("false");
        proxy.cut(Cut::After);
        let applied = scope.spawn(|| store.apply(at(0), &[add("x")]).unwrap());
        refuse_until_noticed();
        assert!(matches!(applied.join().unwrap().replies[..], [Ok(Reply::Task(_))]));
    });
    thread::scope(|scope| {
        allow("false");
        proxy.cut(Cut::After);
        let of_run = OfRun { run: id(1), by: None, step: RunStep::Spend(tokens(10)) };
        let applied = scope.spawn(move || runs.apply(at(0), &of_run).unwrap());
        refuse_until_noticed();
        assert_eq!(applied.join().unwrap(), Ok(Reply::Spent(tokens(10))));
    });
    let mut fresh = database.open().store();
    assert_eq!(fresh.ledger().unwrap().len(), 1);
    assert_eq!(database.open().runs().run(&id(1)).unwrap().unwrap().usage, tokens(10));
}

const CUTS: [Cut; 6] = [Cut::Before, Cut::After, Cut::After, Cut::Before, Cut::Before, Cut::After];

fn a_command_whose_answer_is_lost_takes_effect_once(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let proxy = Proxy::before(&database.url());
    let access = database.access_by(proxy.url(&database.url()));
    let mut store = Database::open(access).unwrap().store();
    let mut ids = BTreeSet::new();
    for (n, cut) in CUTS.into_iter().enumerate() {
        proxy.cut(cut);
        let worker = format!("w{n}");
        let applied = store.apply(at(0), &[add("x"), claim(&worker)]).unwrap();
        let [Ok(Reply::Task(added)), Ok(Reply::Claimed(claimed))] = &applied.replies[..] else {
            panic!("{:?}", applied.replies)
        };
        assert_eq!(added, &claimed.task.id, "the only open task");
        assert_eq!(claimed.epoch.0, n as u64 + 1, "one epoch for each claim ({cut:?})");
        assert_eq!(applied.facts.len(), 2, "{cut:?}");
        ids.insert(added.clone());
    }
    assert_eq!(proxy.cuts(), CUTS.len() as u64);
    assert_eq!(ids.len(), CUTS.len());
    let mut fresh = database.open().store();
    assert_eq!(fresh.ledger().unwrap().len(), CUTS.len());
    assert_eq!(fresh.export().unwrap(), store.export().unwrap());
    let operations = database.value("SELECT count(*) FROM harness.operation");
    assert_eq!(operations, CUTS.len().to_string());
    assert_eq!(fresh.replayed().unwrap(), store.export().unwrap());
}

/// A worker that gets no answer from its host makes its transaction itself, and the host is still at it.
fn a_transaction_that_two_processes_try_takes_effect_once(server: &TestServer) {
    let database = server.fresh();
    let (mut host, mut worker) = (database.create().store(), database.open().store());
    let of = |number, recording| TransactionId { by: "worker".to_owned(), number, recording };
    let made = |once: AppliedOnce| matches!(once, AppliedOnce::Now(_));
    let first = of(1, Recording::WithChange);
    assert!(made(worker.apply_once(at(0), &first, &[add("one")]).unwrap()));
    assert!(!made(host.apply_once(at(0), &first, &[add("one")]).unwrap()));
    assert_eq!(host.ledger().unwrap().len(), 1);
    // A transaction that changes nothing is remembered where another process may still try it.
    let second = of(2, Recording::Always);
    assert!(made(worker.apply_once(at(0), &second, &[Command::Upkeep]).unwrap()));
    assert!(!made(host.apply_once(at(0), &second, &[add("two")]).unwrap()));
    assert_eq!(worker.export().unwrap(), host.export().unwrap());
    // Both at the same time: the second one finds that it was made.
    let third = of(3, Recording::WithChange);
    let other = {
        let third = third.clone();
        thread::spawn(move || worker.apply_once(at(0), &third, &[add("three")]).unwrap())
    };
    let here = host.apply_once(at(0), &third, &[add("three")]).unwrap();
    assert_ne!(made(here), made(other.join().unwrap()));
    assert_eq!(host.ledger().unwrap().len(), 2);
}

fn a_renewal_whose_answer_is_lost_is_answered(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let proxy = Proxy::before(&database.url());
    let access = database.access_by(proxy.url(&database.url()));
    let mut store = Database::open(access).unwrap().store();
    let _ = store.apply(at(0), &[add("x"), claim("w")]).unwrap();
    let version = database.value("SELECT version FROM harness.ledger");
    let worker = WorkerId::recorded("w");
    let holder = Holder { task: TaskId::numbered(1), worker, epoch: None };
    for cut in CUTS {
        proxy.cut(cut);
        let renew = Renew::new(holder.clone(), 60).for_client(Some(1000));
        let applied = store.apply(at(0), &[Command::Renew(renew)]).unwrap();
        assert!(matches!(applied.replies[0], Ok(Reply::Lease { .. })), "{applied:?}");
    }
    let after = database.value("SELECT version FROM harness.ledger");
    assert_eq!(after, version, "renewals are no history");
    assert_eq!(database.value("SELECT count(*) FROM harness.lease"), "1");
    let lease = |store: &mut harness::store::postgres::PostgresStore| {
        store.ledger().unwrap().task(&TaskId::numbered(1)).unwrap().lease_expires_at()
    };
    let mut other = database.open().store();
    assert_eq!(lease(&mut other), lease(&mut store), "another host sees the renewal");
    assert_eq!(other.export().unwrap(), store.export().unwrap());
    assert_ne!(other.replayed().unwrap(), store.export().unwrap());
}

/// A replica that lacks the last renewals takes over. It has all changes, so nothing else shows that.
fn a_renewal_after_lost_ones_is_seen(server: &TestServer) {
    let database = server.fresh();
    let (mut one, mut other) = (database.create().store(), database.open().store());
    let _ = one.apply(at(0), &[add("x"), claim("w")]).unwrap();
    let worker = WorkerId::recorded("w");
    let holder = Holder { task: TaskId::numbered(1), worker, epoch: None };
    let mut renew = |seconds: u64| {
        let renew = Renew::new(holder.clone(), 60).for_client(Some(seconds));
        let applied = one.apply(at(0), &[Command::Renew(renew)]).unwrap();
        assert!(matches!(applied.replies[0], Ok(Reply::Lease { .. })), "{applied:?}");
        one.ledger().unwrap().task(&TaskId::numbered(1)).unwrap().lease_expires_at()
    };
    let _ = renew(1000);
    let first = database.value("SELECT beat FROM harness.ledger");
    let (_, third) = (renew(2000), renew(3000));
    let seen = |other: &mut harness::store::postgres::PostgresStore| {
        other.ledger().unwrap().task(&TaskId::numbered(1)).unwrap().lease_expires_at()
    };
    assert_eq!(seen(&mut other), third);
    database.sql(&format!("UPDATE harness.ledger SET beat = {first}"));
    database.sql(&format!(
        "UPDATE harness.lease SET beat = {first}, expires_at = expires_at - interval '2000 s'"
    ));
    let last = renew(5000);
    assert_eq!(seen(&mut other), last, "the renewal has a number that was lost");
}

fn usage_whose_answer_is_lost_is_counted_once(server: &TestServer) {
    let database = server.fresh();
    database.create();
    let proxy = Proxy::before(&database.url());
    let access = database.access_by(proxy.url(&database.url()));
    let runs = Database::open(access).unwrap().runs();
    for (n, cut) in CUTS.into_iter().enumerate() {
        let number = n as u64 + 1;
        proxy.cut(cut);
        assert_eq!(runs.open_run(&run(number)).unwrap(), run(number), "{cut:?}");
        proxy.cut(cut);
        let step = RunStep::Spend(spent(7, Some(0.5)));
        let reply = runs.apply(at(5), &OfRun { run: id(number), by: None, step }).unwrap();
        assert_eq!(reply, Ok(Reply::Spent(spent(7, Some(0.5)))), "{cut:?}");
        let stored = database.open().runs().run(&id(number)).unwrap().unwrap();
        assert_eq!(stored.usage, spent(7, Some(0.5)), "{cut:?}");
    }
    assert_eq!(proxy.cuts(), 2 * CUTS.len() as u64);
}

/// Hosts go on writing while their server crashes and comes back.
fn a_server_that_crashes_loses_nothing(_: &TestServer) {
    const HOSTS: usize = 3;
    const CRASHES: usize = 3;
    let cluster = Cluster::temporary("").unwrap();
    let server = cluster.server();
    let database = server.fresh();
    database.create();
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let ids: Vec<TaskId> = thread::scope(|scope| {
        let one = |_| {
            let (database, answered, over) = (&database, &answered, &over);
            scope.spawn(move || {
                let mut store = database.open().store();
                let mut ids = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    match &store.apply(at(0), &[add("x")]).unwrap().replies[0] {
                        Ok(Reply::Task(id)) => ids.push(id.clone()),
                        other => panic!("{other:?}"),
                    }
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                ids
            })
        };
        let hosts: Vec<_> = (0..HOSTS).map(one).collect();
        for _ in 0..CRASHES {
            let before = answered.load(Ordering::SeqCst);
            while answered.load(Ordering::SeqCst) < before + 10 * HOSTS {
                thread::yield_now();
            }
            cluster.crash().unwrap();
        }
        let before = answered.load(Ordering::SeqCst);
        while answered.load(Ordering::SeqCst) < before + HOSTS {
            thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        hosts.into_iter().flat_map(|host| host.join().unwrap()).collect()
    });
    let unique: BTreeSet<&TaskId> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "no id is given twice");
    let mut fresh = database.open().store();
    let ledger = fresh.ledger().unwrap();
    assert_eq!(ledger.len(), ids.len(), "nothing is lost, and nothing is done twice");
    assert!(ids.iter().all(|id| ledger.contains(id)));
    assert_eq!(fresh.replayed().unwrap(), fresh.export().unwrap());
}

fn a_database_that_is_gone_is_named(server: &TestServer) {
    let database = server.fresh();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!("postgres://postgres:hunter2@127.0.0.1:{free}/{}", database.name);
    let gone = database.access_by(DatabaseUrl::parse(&text).unwrap());
    let error = Database::open(gone).err().unwrap().to_string();
    let named = format!("cannot reach the database 127.0.0.1:{free}/{}: ", database.name);
    assert!(error.starts_with(&named), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}
