//! The store suite over every store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{path::Path, sync::Arc, time::Duration};

use harness::store::{Created, FileStore, Locking, Store, disk::File, lock::Wait};
use harness_core::{Command, TaskId, command::Remove};
use harness_sim::{
    conformance::store::{add, at, suite},
    disk::{Quirk, SimDisk},
};

fn each() -> Locking {
    Locking::Each(Wait::For(Duration::from_secs(20)))
}

#[test]
fn file_store_on_a_real_disk() {
    suite(|| {
        let root = Arc::new(tempfile::tempdir().unwrap());
        let open = move || FileStore::open(&root.path().canonicalize().unwrap(), each()).unwrap();
        assert_eq!(open().create(at(0)).unwrap(), Created::New);
        open
    });
}

fn simulated(disk: &SimDisk) -> FileStore {
    FileStore::on(Path::new("/simulated"), Box::new(disk.clone()), Locking::Elsewhere)
}

#[test]
fn file_store_on_a_simulated_disk() {
    suite(|| {
        let disk = SimDisk::new(1, Quirk::None);
        assert_eq!(simulated(&disk).create(at(0)).unwrap(), Created::New);
        move || simulated(&disk)
    });
}

/// Group commit: a hundred commands cost as much as one.
#[test]
fn a_batch_takes_as_many_steps_as_one_command() {
    let disk = SimDisk::new(1, Quirk::None);
    let mut store = simulated(&disk);
    store.create(at(0)).unwrap();
    let _ = store.apply(at(0), &[add("warm")]).unwrap();
    let before = disk.steps();
    let _ = store.apply(at(0), &[add("one")]).unwrap();
    let one = disk.steps() - before;
    let commands: Vec<Command> = (0..100).map(|n| add(&format!("t{n}"))).collect();
    let _ = store.apply(at(0), &commands).unwrap();
    assert_eq!(disk.steps() - before - one, one);
}

#[test]
fn a_refused_command_writes_nothing() {
    let disk = SimDisk::new(1, Quirk::None);
    let mut store = simulated(&disk);
    store.create(at(0)).unwrap();
    let _ = store.apply(at(0), &[add("one")]).unwrap();
    let (ledger, log) = (disk.bytes(File::Ledger), disk.bytes(File::Log));
    let refused = Command::Remove(Remove { task: TaskId::numbered(9) });
    let applied = store.apply(at(1), &[refused]).unwrap();
    assert!(applied.replies[0].is_err());
    assert_eq!((ledger, log), (disk.bytes(File::Ledger), disk.bytes(File::Log)));
}
