//! A database that has forgotten changes.

use std::path::Path;

use harness::store::{Store as _, postgres::PostgresStore};
use harness_core::{Epoch, Reply};
use harness_sim::{
    conformance::store::{add, at, claim},
    postgres::{TestDatabase, TestServer},
};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_host_notices_that_its_database_has_forgotten",
        a_host_notices_that_its_database_has_forgotten,
    ),
    ("a_host_notices_after_a_restart", a_host_notices_after_a_restart),
    ("a_host_that_was_away_notices_other_changes", a_host_that_was_away_notices_other_changes),
];

/// Puts an older state in the place of the database, as a restore would.
fn restore(database: &TestDatabase, copy: &str) {
    let name = &database.name;
    database.server.sql(&format!("DROP DATABASE {name} WITH (FORCE)"));
    database.server.sql(&format!("ALTER DATABASE {copy} RENAME TO {name}"));
}

fn save(database: &TestDatabase) -> String {
    let (name, copy) = (&database.name, format!("{}_copy", database.name));
    let end =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    database.server.sql(&end);
    database.server.sql(&format!("CREATE DATABASE {copy} TEMPLATE {name}"));
    copy
}

fn claimed(store: &mut PostgresStore, worker: &str) -> Epoch {
    match &store.apply(at(0), &[add("x"), claim(worker)]).unwrap().replies[1] {
        Ok(Reply::Claimed(claimed)) => claimed.epoch,
        other => panic!("{other:?}"),
    }
}

fn a_host_notices_that_its_database_has_forgotten(server: &TestServer) {
    let database = server.fresh();
    let opened = database.create();
    let mut store = opened.store();
    claimed(&mut store, "a");
    let copy = save(&database);
    claimed(&mut store, "b");
    let lost = claimed(&mut store, "c");
    restore(&database, &copy);
    let applied = store.apply(at(0), &[add("y"), claim("d")]).unwrap();
    assert!(applied.warnings[0].contains("has forgotten changes"), "{:?}", applied.warnings);
    let Ok(Reply::Claimed(next)) = &applied.replies[1] else { panic!("{applied:?}") };
    assert!(next.epoch.0 > lost.0 + 1000, "{:?} after {lost:?}", next.epoch);
    let lines = opened.log_after(0).unwrap();
    let warned =
        lines.iter().filter(|(_, line)| line.contains("WARN") && line.contains("forgotten"));
    assert_eq!(warned.count(), 1, "{lines:?}");
    assert_eq!(store.export().unwrap(), store.replayed().unwrap());
    assert_eq!(store.export().unwrap(), database.open().store().export().unwrap());
}

fn a_host_notices_after_a_restart(server: &TestServer) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("memory");
    let database = server.fresh();
    let store = |file: &Path| database.open().store().remembering(file).unwrap();
    database.create();
    let mut first = store(&file);
    claimed(&mut first, "a");
    let copy = save(&database);
    let lost = claimed(&mut first, "b");
    drop(first);
    restore(&database, &copy);
    // A look notices too.
    let mut second = store(&file);
    assert!(second.ledger().unwrap().epoch() > lost);
    let applied = second.apply(at(0), &[add("z")]).unwrap();
    assert!(applied.warnings[0].contains("has forgotten changes"), "{:?}", applied.warnings);
    // From then on, the version that is left is the one that is remembered.
    let mut third = store(&file);
    assert_eq!(third.apply(at(0), &[add("z")]).unwrap().warnings, Vec::<String>::new());
}

fn a_host_that_was_away_notices_other_changes(server: &TestServer) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("memory");
    let database = server.fresh();
    database.create();
    let mut away = database.open().store().remembering(&file).unwrap();
    claimed(&mut away, "a");
    let copy = save(&database);
    let lost = claimed(&mut away, "b");
    restore(&database, &copy);
    // Another host, which had seen less, goes on. It gives no epoch away that may have been given.
    let mut other = database.open().store();
    for worker in ["c", "d", "e"] {
        assert!(claimed(&mut other, worker) > lost);
    }
    let applied = away.apply(at(0), &[add("y")]).unwrap();
    assert!(applied.warnings[0].contains("has forgotten changes"), "{:?}", applied.warnings);
    assert_eq!(away.export().unwrap(), other.export().unwrap());
}
