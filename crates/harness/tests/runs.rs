//! The record of runs as a file: its guarantees, its refusals, and reads that change nothing.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use harness::store::{DATABASE, RunStore, RunStoreError, Runs};
use harness_core::{agent::Usage, command::RunStep, run::RunId};
use harness_sim::conformance::runs::{at, attempt, id, run, spent};
use rusqlite::Connection;

fn root() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn database(root: &Path) -> PathBuf {
    root.join(DATABASE)
}

/// Returns the files below `.harness` with their bytes, except `.gitignore`.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let Ok(folder) = fs::read_dir(root.join(".harness")) else { return BTreeMap::new() };
    let paths = folder.map(|entry| entry.unwrap().path());
    let ours = paths.filter(|path| !path.ends_with(".gitignore"));
    ours.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn of(run: &RunId, step: RunStep) -> harness_core::command::OfRun {
    harness_core::command::OfRun { run: run.clone(), by: None, step }
}

/// Returns a setting of the file, not of a connection.
fn setting(root: &Path, name: &str) -> String {
    let connection = Connection::open(database(root)).unwrap();
    connection
        .pragma_query_value(None, name, |row| {
            row.get::<_, rusqlite::types::Value>(0).map(|value| match value {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => format!("{other:?}"),
            })
        })
        .unwrap()
}

#[test]
fn a_new_one_is_durable_and_its_owners_only() {
    let root = root();
    let store = RunStore::open(root.path()).unwrap();
    store.open_run(&run(1)).unwrap();
    assert_eq!(setting(root.path(), "journal_mode"), "wal");
    assert_eq!(setting(root.path(), "user_version"), "2");
    // These are the database and the files that SQLite puts beside it.
    for name in ["harness.db", "harness.db-wal", "harness.db-shm"] {
        let mode = fs::metadata(root.path().join(".harness").join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    assert!(root.path().join(".harness/.gitignore").exists());
    let columns = "SELECT group_concat(name || ' ' || type || \"notnull\" || \
        coalesce(dflt_value, ''), ', ') FROM pragma_table_info('runs') \
        WHERE name IN ('iteration_count', 'max_iterations', 'completion_promise')";
    let connection = Connection::open(database(root.path())).unwrap();
    let columns: String = connection.query_row(columns, [], |row| row.get(0)).unwrap();
    let expected = "iteration_count INTEGER10, max_iterations INTEGER110, completion_promise TEXT1";
    assert_eq!(columns, expected);
    let bad = "INSERT INTO runs (run_id, created_at, updated_at, status, agent, workspace, \
        completion_promise) VALUES ('x', '', '', 'sleeping', '', '', '')";
    assert!(connection.execute(bad, []).unwrap_err().to_string().contains("CHECK"));
}

#[test]
fn one_that_all_could_read_becomes_private() {
    let root = root();
    drop(RunStore::open(root.path()).unwrap());
    let path = database(root.path());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(RunStore::open(root.path()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_was_answered_is_there_after_a_crash() {
    let root = root();
    let store = RunStore::open(root.path()).unwrap();
    store.open_run(&run(1)).unwrap();
    store.apply(at(5), &of(&id(1), RunStep::Spend(spent(7, None)))).unwrap().unwrap();
    // A killed process leaves it open, with the rows in the `-wal`.
    let crashed = tempfile::tempdir().unwrap();
    fs::create_dir(crashed.path().join(".harness")).unwrap();
    for name in ["harness.db", "harness.db-wal"] {
        let from = root.path().join(".harness").join(name);
        fs::copy(from, crashed.path().join(".harness").join(name)).unwrap();
    }
    std::mem::forget(store);
    let spent = Some(spent(7, None));
    for root in [crashed.path(), root.path()] {
        let store = RunStore::open(root).unwrap();
        assert_eq!(store.run(&id(1)).unwrap().map(|run| run.usage), spent);
    }
}

#[test]
fn looking_makes_nothing_and_sees_what_comes_later() {
    let root = root();
    assert!(RunStore::look(root.path()).unwrap().is_none());
    assert_eq!(files(root.path()), BTreeMap::new());
    // The file was created, and the process died before anything was stored.
    fs::create_dir(root.path().join(".harness")).unwrap();
    fs::write(database(root.path()), "").unwrap();
    assert!(RunStore::look(root.path()).unwrap().is_none());

    let writer = RunStore::open(root.path()).unwrap();
    writer.open_run(&run(1)).unwrap();
    drop(writer);
    let before = files(root.path());
    assert!(!before.contains_key(&root.path().join(".harness/harness.db-wal")));
    let looked = RunStore::look(root.path()).unwrap().unwrap();
    assert_eq!(looked.runs().unwrap(), [run(1)]);
    assert!(files(root.path()) == before, "something was written");
    assert!(matches!(looked.open_run(&run(2)), Err(RunStoreError::Failed { .. })));
    assert!(files(root.path()) == before, "something was written");

    // A writer comes, works and leaves. Data that was read without locks is read again.
    let writer = RunStore::open(root.path()).unwrap();
    writer.open_run(&run(2)).unwrap();
    assert_eq!(looked.runs().unwrap(), [run(2), run(1)]);
    writer.open_run(&run(3)).unwrap();
    assert_eq!(looked.runs().unwrap().len(), 3);
    drop(writer);
    let looked = RunStore::look(root.path()).unwrap().unwrap();
    let writer = RunStore::open(root.path()).unwrap();
    writer.open_run(&run(4)).unwrap();
    drop(writer);
    assert_eq!(looked.runs().unwrap().len(), 4);
}

#[test]
fn a_path_with_signs_that_a_uri_reads_is_only_a_path() {
    let root = root();
    let root = root.path().join("a?mode=memory&b #1 %2e ü");
    fs::create_dir(&root).unwrap();
    RunStore::open(&root).unwrap().open_run(&run(1)).unwrap();
    assert_eq!(RunStore::look(&root).unwrap().unwrap().runs().unwrap(), [run(1)]);
}

/// Checks that both ways to open it fail with this error, and change nothing.
fn refused(root: &Path, expected: &str) {
    let before = files(root);
    for error in [RunStore::open(root).unwrap_err(), RunStore::look(root).unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("harness.db"), "{error}");
    }
    assert!(files(root) == before, "something was written");
}

#[test]
fn what_is_none_of_ours_is_left_alone() {
    let root = root();
    let path = database(root.path());
    fs::create_dir(root.path().join(".harness")).unwrap();

    fs::write(&path, "garbage ".repeat(1000)).unwrap();
    refused(root.path(), "move it away");
    fs::remove_file(&path).unwrap();

    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(foreign);
    refused(root.path(), "tables of another program");
    fs::remove_file(&path).unwrap();

    drop(RunStore::open(root.path()).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 42).unwrap();
    drop(newer);
    refused(root.path(), "has version 42, but this harness knows version 2");
}

#[test]
fn a_database_without_the_column_that_was_added_later_is_read_and_gets_it() {
    let root = root();
    let store = RunStore::open(root.path()).unwrap();
    let id = store.open_run(&run(1)).unwrap().id;
    let begin = RunStep::Begin { number: 0, head: None, mark: None, transcript: None };
    store.apply(at(1), &of(&id, begin)).unwrap().unwrap();
    drop(store);
    let old = Connection::open(database(root.path())).unwrap();
    old.execute_batch("ALTER TABLE iterations DROP COLUMN agents").unwrap();
    drop(old);
    let looked = RunStore::look(root.path()).unwrap().unwrap();
    assert_eq!(looked.iterations(&id).unwrap().len(), 1);
    drop(looked);
    let store = RunStore::open(root.path()).unwrap();
    let usage = Usage { input_tokens: 5, ..Usage::default() };
    store.apply(at(2), &of(&id, RunStep::Spend(usage))).unwrap().unwrap();
    assert_eq!(store.iterations(&id).unwrap()[0].agents, [(run(1).agent, usage)]);
    assert_eq!(setting(root.path(), "user_version"), "2", "an older program still opens it");
}

#[test]
fn no_link_is_followed() {
    let (root, elsewhere) = (root(), root());
    let target = elsewhere.path().join("target.db");
    fs::create_dir(root.path().join(".harness")).unwrap();
    symlink(&target, database(root.path())).unwrap();
    for error in
        [RunStore::open(root.path()).unwrap_err(), RunStore::look(root.path()).unwrap_err()]
    {
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    assert!(!target.exists());
    fs::remove_dir_all(root.path().join(".harness")).unwrap();
    drop(RunStore::open(elsewhere.path()).unwrap());
    symlink(elsewhere.path().join(".harness"), root.path().join(".harness")).unwrap();
    for error in
        [RunStore::open(root.path()).unwrap_err(), RunStore::look(root.path()).unwrap_err()]
    {
        assert!(error.to_string().contains(".harness is a symbolic link"), "{error}");
    }
}

#[test]
fn one_that_stays_locked_is_told() {
    let root = root();
    let store = RunStore::open_within(root.path(), 0).unwrap();
    store.open_run(&run(1)).unwrap();
    let person = Connection::open(database(root.path())).unwrap();
    person.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.open_run(&run(2)).unwrap_err();
    assert!(matches!(error, RunStoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("locked by another program"), "{error}");
    // Reading does not wait for a writer.
    assert_eq!(store.runs().unwrap(), [run(1)]);
    assert_eq!(RunStore::look(root.path()).unwrap().unwrap().runs().unwrap(), [run(1)]);
    person.execute_batch("ROLLBACK").unwrap();
    store.open_run(&run(2)).unwrap();
}

#[test]
fn a_value_that_is_none_is_named() {
    let root = root();
    let store = RunStore::open(root.path()).unwrap();
    store.open_run(&run(1)).unwrap();
    let person = Connection::open(database(root.path())).unwrap();
    person.execute("UPDATE runs SET stop_reason = 'bored'", []).unwrap();
    let error = store.runs().unwrap_err().to_string();
    assert!(
        error.contains(&format!("run {} has the invalid stop_reason \"bored\"", id(1))),
        "{error}"
    );
}

const ROOT: &str = "HARNESS_TEST_RUNS_ROOT";
const SPENDS: u64 = 40;

/// The other process of the next test, not a test by itself.
#[test]
fn spend_as_a_child() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    spend_many(Path::new(&root), 3);
}

fn spend_many(root: &Path, number: u64) {
    let store = RunStore::open(root).unwrap();
    for _ in 0..SPENDS {
        let step = RunStep::Spend(spent(1, Some(0.5)));
        store.apply(at(9), &of(&id(number), step)).unwrap().unwrap();
    }
}

#[test]
fn two_processes_that_spend_at_once_lose_nothing() {
    let root = root();
    let store = RunStore::open(root.path()).unwrap();
    store.open_run(&run(1)).unwrap();
    store.open_run(&attempt(2, 1, 1)).unwrap();
    store.open_run(&attempt(3, 1, 2)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spend_as_a_child"])
        .env(ROOT, root.path())
        .spawn()
        .unwrap();
    spend_many(root.path(), 2);
    assert!(child.wait().unwrap().success());
    let all = 2 * SPENDS;
    let sum = Usage { input_tokens: all, output_tokens: all, cost_usd: Some(all as f64 / 2.0) };
    assert_eq!(store.run(&id(1)).unwrap().unwrap().usage, sum);
}

#[test]
fn many_may_make_it_at_once() {
    let root = root();
    let makers: Vec<_> = (0..8)
        .map(|n| {
            let root = root.path().to_owned();
            std::thread::spawn(move || RunStore::open(&root).unwrap().open_run(&run(n)).unwrap())
        })
        .collect();
    for maker in makers {
        maker.join().unwrap();
    }
    assert_eq!(RunStore::look(root.path()).unwrap().unwrap().runs().unwrap().len(), 8);
}
