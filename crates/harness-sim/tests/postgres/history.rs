//! The same random history over files, memory and PostgreSQL leaves the same ledger.

use std::{path::Path, time::SystemTime};

use harness::store::{FileStore, Locking, Store, disk::File};
use harness_core::{Timestamp, database::same_ledger};
use harness_sim::{
    conformance::store::add,
    disk::{Quirk, SimDisk},
    postgres::TestServer,
};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::{
    Test,
    world::{Op, START, ledgers, ops},
};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("the_same_history_leaves_the_same_ledger", the_same_history_leaves_the_same_ledger)];

/// Set to 64 hexadecimal digits to repeat a failure.
const SEED: &str = "HARNESS_TEST_SEED";

fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    match std::env::var(SEED) {
        Ok(digits) => {
            for (n, byte) in seed.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&digits[n * 2..n * 2 + 2], 16).unwrap();
            }
        }
        Err(_) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            seed[..16].copy_from_slice(&now.as_nanos().to_le_bytes());
            seed[16..20].copy_from_slice(&std::process::id().to_le_bytes());
        }
    }
    seed
}

fn the_same_history_leaves_the_same_ledger(server: &TestServer) {
    let seed = seed();
    let digits: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tried = runner.run(&(ledgers(), ops(), 1..4_usize), |(ledger, ops, batch)| {
        same(server, &ledger, &ops, batch);
        Ok(())
    });
    if let Err(failed) = tried {
        panic!("{failed}\nrepeat it with {SEED}={digits}");
    }
}

/// Applies the history to all stores, and compares every answer and the ledgers at the end.
fn same(server: &TestServer, ledger: &Value, ops: &[Op], batch: usize) {
    let text = serde_json::to_vec_pretty(ledger).unwrap();
    let (root, pushed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&root, &pushed] {
        std::fs::write(folder.path().join("harness-tasks.json"), &text).unwrap();
    }
    let on_disk = |path: &Path| FileStore::open(path, Locking::Elsewhere).unwrap();
    let mut files = on_disk(&root.path().canonicalize().unwrap());
    let disk = SimDisk::new(1, Quirk::None);
    disk.put(File::Ledger, &text);
    let mut memory =
        FileStore::on(Path::new("/simulated"), Box::new(disk.clone()), Locking::Elsewhere);
    let database = server.fresh();
    let now = Timestamp::from_seconds(START);
    let mut copied = on_disk(&pushed.path().canonicalize().unwrap());
    let (opened, _) =
        harness::store::postgres::Database::push(database.access(), &mut copied, now).unwrap();
    let mut tables = opened.store().timed_by_caller();
    let mut other = database.open().store().timed_by_caller();
    // From the first write on, every store has the form in which harness writes.
    for store in [&mut files as &mut dyn Store, &mut memory, &mut tables] {
        let applied = store.apply(now, &[add("first")]).unwrap();
        assert!(applied.replies[0].is_ok());
    }
    let mut second = START;
    for (n, several) in ops.chunks(batch).enumerate() {
        let known = files.ledger().unwrap();
        let commands: Vec<_> = several.iter().map(|op| op.command(known)).collect();
        second += several.iter().map(|op| op.seconds).sum::<i64>();
        let now = Timestamp::from_seconds(second);
        let expected = files.apply(now, &commands).unwrap();
        // Two hosts take turns.
        let host = if n % 3 == 2 { &mut other } else { &mut tables };
        for store in [&mut memory as &mut dyn Store, host] {
            let applied = store.apply(now, &commands).unwrap();
            assert_eq!(applied.replies, expected.replies, "{commands:?}");
            assert_eq!(applied.facts, expected.facts, "{commands:?}");
        }
    }
    let written = std::fs::read_to_string(root.path().join("harness-tasks.json")).unwrap();
    let in_memory = String::from_utf8(disk.bytes(File::Ledger)).unwrap();
    assert!(same_ledger(&written, &in_memory));
    for mut store in [tables, other, database.open().store()] {
        let exported = store.export().unwrap();
        assert!(same_ledger(&written, &exported), "{written}\n{exported}");
    }
    let log = std::fs::read_to_string(root.path().join("harness-progress.txt")).unwrap_or_default();
    let lines: Vec<String> =
        opened.log_after(0).unwrap().into_iter().map(|(_, line)| line).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), lines);
}
