//! The suites of the ports, as over files and memory.

use std::{
    collections::BTreeSet,
    sync::{Arc, Barrier},
    thread,
};

use harness::store::Store as _;
use harness_core::{Reply, TaskId};
use harness_sim::{
    conformance::{
        runs::{self, Place},
        store::{self, add, at, claim},
    },
    postgres::TestServer,
};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("the_store_behaves_like_every_store", the_store_behaves_like_every_store),
    ("the_record_of_runs_behaves_like_every_record", the_record_of_runs_behaves_like_every_record),
    ("stores_that_race_lose_nothing", stores_that_race_lose_nothing),
    ("decisions_use_the_clock_of_the_database", decisions_use_the_clock_of_the_database),
];

fn the_store_behaves_like_every_store(server: &TestServer) {
    store::suite(|| {
        let database = server.fresh();
        database.create();
        move || database.open().store()
    });
}

fn the_record_of_runs_behaves_like_every_record(server: &TestServer) {
    runs::suite(|| -> Place {
        let database = server.fresh();
        database.create();
        Box::new(move || Arc::new(database.open().runs()))
    });
}

fn stores_that_race_lose_nothing(server: &TestServer) {
    const HOSTS: usize = 6;
    const BATCHES: usize = 20;
    let database = server.fresh();
    let mut first = database.create().store();
    let start = Barrier::new(HOSTS);
    let answered: Vec<(TaskId, TaskId)> = thread::scope(|scope| {
        let one = |host: usize| {
            let (database, start) = (&database, &start);
            scope.spawn(move || {
                let mut store = database.open().store();
                start.wait();
                let batch = |n: usize| {
                    let worker = format!("w{host}.{n}");
                    let applied = store.apply(at(0), &[add("x"), claim(&worker)]).unwrap();
                    match &applied.replies[..] {
                        [Ok(Reply::Task(added)), Ok(Reply::Claimed(claimed))] => {
                            (added.clone(), claimed.task.id.clone())
                        }
                        other => panic!("{other:?}"),
                    }
                };
                (0..BATCHES).map(batch).collect::<Vec<_>>()
            })
        };
        let hosts: Vec<_> = (0..HOSTS).map(one).collect();
        hosts.into_iter().flat_map(|host| host.join().unwrap()).collect()
    });
    let added: BTreeSet<&TaskId> = answered.iter().map(|(added, _)| added).collect();
    let claimed: BTreeSet<&TaskId> = answered.iter().map(|(_, claimed)| claimed).collect();
    assert_eq!((added.len(), claimed.len()), (HOSTS * BATCHES, HOSTS * BATCHES));
    assert_eq!(first.ledger().unwrap().len(), HOSTS * BATCHES);
    assert_eq!(first.export().unwrap(), database.open().store().export().unwrap());
    assert_eq!(first.export().unwrap(), first.replayed().unwrap());
    let version = database.value("SELECT version FROM harness.ledger");
    assert_eq!(version, (HOSTS * BATCHES + 1).to_string(), "one change for each batch");
}

fn decisions_use_the_clock_of_the_database(server: &TestServer) {
    let database = server.fresh();
    let mut store = database.create().store();
    let an_hour = 3600;
    for off in [-an_hour, an_hour] {
        let wrong = harness_core::Timestamp::from_seconds(store_time(&database) + off);
        let id = match &store.apply(wrong, &[add("x"), claim("w")]).unwrap().replies[1] {
            Ok(Reply::Claimed(claimed)) => claimed.task.id.clone(),
            other => panic!("{other:?}"),
        };
        let claimed_at = store.ledger().unwrap().task(&id).unwrap().claimed_at().unwrap();
        assert!((claimed_at.seconds() - store_time(&database)).abs() < 60, "{claimed_at}");
    }
    // The clock of the server was set back since the last change.
    database.sql("UPDATE harness.ledger SET changed_at = changed_at + interval '1 hour'");
    let mut store = database.open().store();
    let applied = store.apply(at(0), &[add("y"), claim("v")]).unwrap();
    let Ok(Reply::Claimed(claimed)) = &applied.replies[1] else { panic!("{applied:?}") };
    let ahead = claimed.task.claimed_at().unwrap().seconds() - store_time(&database);
    assert!(ahead > an_hour - 60, "no change is earlier than the one before it: {ahead}");
}

fn store_time(database: &harness_sim::postgres::TestDatabase) -> i64 {
    database.value("SELECT extract(epoch FROM clock_timestamp())::bigint").parse().unwrap()
}
