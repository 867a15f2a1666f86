//! Copies between files and the database, snapshots, the log and receipts.

use std::time::Duration;

use harness::store::{
    FileStore, Locking, Store as _, StoreError, lock::Wait, postgres::Database, record,
};
use harness_core::{
    Command, Epoch, Holder, Receipt, TaskId, Timestamp, WorkerId,
    command::{Authority, Complete, Proof},
    database::same_ledger,
    receipt,
};
use harness_sim::{
    conformance::store::{add, at, claim},
    postgres::TestServer,
};

use crate::{Test, support::complete};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_ledger_goes_into_the_database_and_back", a_ledger_goes_into_the_database_and_back),
    ("a_snapshot_replaces_the_oldest_changes", a_snapshot_replaces_the_oldest_changes),
    (
        "receipts_and_the_log_are_read_from_the_database",
        receipts_and_the_log_are_read_from_the_database,
    ),
    ("a_host_that_is_far_behind_loads_the_ledger", a_host_that_is_far_behind_loads_the_ledger),
];

fn files(root: &std::path::Path) -> FileStore {
    FileStore::open(&root.canonicalize().unwrap(), Locking::Each(Wait::For(Duration::from_secs(9))))
        .unwrap()
}

fn made(task: &TaskId, epoch: Epoch) -> Receipt {
    Receipt {
        version: receipt::VERSION,
        task: task.clone(),
        epoch,
        worker: WorkerId::recorded("w"),
        attempt: 1,
        base: None,
        commit: None,
        tree: None,
        check: None,
        baseline: None,
        protected: Vec::new(),
        tests: Vec::new(),
        uncommitted: Vec::new(),
        flags: Vec::new(),
        agent: None,
        iterations: None,
        tokens: None,
        cost_usd: None,
        time: at(0),
    }
}

fn completed(task: &TaskId) -> Command {
    let holder = Holder { task: task.clone(), worker: WorkerId::recorded("w"), epoch: None };
    let (proof, authority) = (Proof::Word, Authority::Holder);
    Command::Complete(Complete { holder, proof, authority, ..complete("a", "w") })
}

fn a_ledger_goes_into_the_database_and_back(server: &TestServer) {
    let root = tempfile::tempdir().unwrap();
    let mut store = files(root.path());
    store.create(at(0)).unwrap();
    let _ = store.apply(at(1), &[add("one"), add("two"), claim("w")]).unwrap();
    let task = TaskId::numbered(1);
    record(&root.path().canonicalize().unwrap(), &made(&task, Epoch(1))).unwrap();
    let _ = store.apply(at(2), &[completed(&task)]).unwrap();
    let path = root.path().join("harness-tasks.json");
    let before = std::fs::read_to_string(&path).unwrap();
    let log = std::fs::read_to_string(root.path().join("harness-progress.txt")).unwrap();
    let database = server.fresh();
    let (opened, pushed) = Database::push(database.access(), &mut store, at(3)).unwrap();
    assert_eq!(pushed.tasks, 2);
    assert!(!path.exists(), "there is one truth");
    assert!(pushed.archived.iter().all(|path| root.path().join(path).exists()), "{pushed:?}");
    assert!(matches!(store.ledger(), Err(StoreError::NoLedger { .. })));
    let mut stored = opened.store();
    assert!(same_ledger(&stored.export().unwrap(), &before));
    assert_eq!(opened.receipt(&task, Epoch(1)).unwrap().unwrap(), made(&task, Epoch(1)));
    let lines: Vec<_> = opened.log_after(0).unwrap().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, log.lines().collect::<Vec<_>>());
    let again = Database::push(database.access(), &mut store, at(4)).err().unwrap();
    assert!(matches!(again, StoreError::NoLedger { .. }), "{again:?}");
    let _ = stored.apply(at(5), &[add("three")]).unwrap();

    let other = tempfile::tempdir().unwrap();
    let mut back = files(other.path());
    let pulled = opened.pull(&mut back, at(6)).unwrap();
    assert_eq!((pulled.tasks, pulled.archived.len()), (3, 0));
    let text = std::fs::read_to_string(other.path().join("harness-tasks.json")).unwrap();
    assert!(same_ledger(&text, &stored.export().unwrap()));
    let log = std::fs::read_to_string(other.path().join("harness-progress.txt")).unwrap();
    assert_eq!(log.lines().count(), opened.log_after(0).unwrap().len());
    let kept = harness::store::receipt(&other.path().canonicalize().unwrap(), &task, Epoch(1));
    assert_eq!(kept.unwrap().unwrap(), made(&task, Epoch(1)));
    let _ = back.apply(at(7), &[add("four")]).unwrap();
    let replaced = opened.pull(&mut back, at(8)).unwrap();
    assert!(!replaced.archived.is_empty());
    assert_eq!(back.ledger().unwrap().len(), 3);
    // A change that the copy does not have keeps the ledger where it is.
    assert_eq!(opened.retire(Some(replaced.version - 1), at(9)).unwrap(), None);
    assert!(opened.retire(Some(replaced.version), at(9)).unwrap().unwrap().starts_with("shop."));
    assert!(
        stored.apply(at(9), &[add("five")]).is_err(),
        "nobody changes a ledger that was retired"
    );
    let (_, pushed) = Database::push(database.access(), &mut back, at(10)).unwrap();
    assert_eq!(pushed.tasks, 3);
}

fn a_snapshot_replaces_the_oldest_changes(server: &TestServer) {
    let database = server.fresh();
    let opened = database.create();
    let (mut store, mut slow) = (opened.store(), database.open().store());
    for n in 0..10 {
        let _ = store.apply(at(n), &[add(&format!("t{n}"))]).unwrap();
        if n == 2 {
            slow.ledger().unwrap();
        }
    }
    let before = store.export().unwrap();
    let lines = opened.log_after(0).unwrap();
    let compacted = opened.compact(3).unwrap();
    assert_eq!((compacted.replaced, compacted.version), (7, 8));
    assert_eq!(database.value("SELECT count(*) FROM harness.change"), "4");
    for store in [&mut store, &mut slow, &mut database.open().store()] {
        assert_eq!(store.export().unwrap(), before);
        assert_eq!(store.replayed().unwrap(), before);
    }
    let refused = database.try_sql("DELETE FROM harness.change").unwrap_err();
    assert_eq!(refused, "harness.change is append-only");
    let _ = store.apply(at(20), &[add("more")]).unwrap();
    let _ = slow.apply(at(21), &[add("more")]).unwrap();
    assert_eq!(opened.compact(0).unwrap().replaced, 5);
    assert_eq!(opened.compact(0).unwrap().replaced, 0);
    assert_eq!(store.replayed().unwrap(), slow.export().unwrap());
    assert_eq!(opened.log_after(0).unwrap()[..lines.len()], lines[..]);
}

fn receipts_and_the_log_are_read_from_the_database(server: &TestServer) {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let database = server.fresh();
    let opened = database.create();
    let mut store = opened.store().for_root(&root);
    let _ = store.apply(at(0), &[add("one"), claim("w")]).unwrap();
    let task = TaskId::numbered(1);
    record(&root, &made(&task, Epoch(1))).unwrap();
    let applied = store.apply(at(0), &[completed(&task)]).unwrap();
    assert!(applied.replies[0].is_ok(), "{applied:?}");
    assert!(applied.log.contains("Completed [task-001]"), "{}", applied.log);
    let there = database.open();
    assert_eq!(there.receipt(&task, Epoch(1)).unwrap(), Some(made(&task, Epoch(1))));
    assert_eq!(there.receipt(&task, Epoch(2)).unwrap(), None);
    let all = there.log_after(0).unwrap();
    assert_eq!(there.log_tail(2).unwrap(), all[all.len() - 2..]);
    let newest = all.last().unwrap().0;
    assert_eq!(there.log_after(newest).unwrap(), []);
    let archived = store.apply(at(0), &[Command::Reset]).unwrap().archived;
    assert_eq!(archived.len(), 1);
    assert!(root.join(&archived[0].1).exists());
    let status = there.status().unwrap();
    assert_eq!((status.version, status.tasks), (4, 0));
    assert!(status.changed_at >= Timestamp::from_seconds(1_700_000_000));
}

/// More changes happened than one look reads.
fn a_host_that_is_far_behind_loads_the_ledger(server: &TestServer) {
    let database = server.fresh();
    let mut store = database.create().store();
    let mut slow = database.open().store();
    slow.ledger().unwrap();
    for _ in 0..510 {
        let _ = store.apply(at(0), &[Command::Upkeep, add("x")]).unwrap();
    }
    assert_eq!(slow.export().unwrap(), store.export().unwrap());
    let _ = slow.apply(at(0), &[add("y")]).unwrap();
    assert_eq!(store.ledger().unwrap().len(), 511);
}
