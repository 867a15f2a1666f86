//! A clone over a bare repository, and the actions of a server in a test.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use harness::{
    process::Redactor,
    workspace::{
        Filters, GitRepository, RemoteAddress, RemoteRepository, RemoteSettings, Sharing,
        TreeSettings, shared::SharedRepository,
    },
};
use harness_core::{Epoch, Ledger, TaskId};
use harness_sim::conformance::{repository::Repository, shared::RemoteClone};

pub(crate) fn settings(f: &RemoteClone) -> RemoteSettings {
    RemoteSettings {
        address: RemoteAddress::new("origin", &f.url()).unwrap(),
        ledger: None,
        patience: Duration::from_millis(1500),
        backups: Sharing::Shared,
        rescues: Sharing::Shared,
        secrets: Redactor::default(),
    }
}

pub(crate) fn secrets() -> Redactor {
    Redactor::from_environment([("SHOP_API_KEY".into(), "hunter2-hunter2".into())])
}

/// Opens a clone of the remote as a process of its own.
pub(crate) fn opened(
    _: &RemoteClone,
    clone: &Repository,
    settings: RemoteSettings,
) -> RemoteRepository {
    let (main, root) = (clone.open(Filters::Off), &clone.root);
    let local = GitRepository::new(main, root, TreeSettings::default()).unwrap();
    RemoteRepository::new(Arc::new(local), settings)
}

pub(crate) fn open(f: &RemoteClone) -> Box<dyn SharedRepository> {
    Box::new(opened(f, &f.clone, settings(f)))
}

/// Makes another clone of the remote, beside the first.
pub(crate) fn second_clone(f: &RemoteClone, name: &str) -> Repository {
    let place = f.clone.beside(name);
    f.clone.git(["clone", "--quiet", &f.url(), &place.to_string_lossy()]);
    let other = f.clone.in_tree(&place);
    other.git(["config", "user.name", "User"]);
    other.git(["config", "user.email", "user@example.org"]);
    other
}

/// Writes a script that can be executed.
pub(crate) fn script(file: &Path, text: &str) {
    fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Gives the bare repository a hook.
pub(crate) fn hook(bare: &Path, name: &str, text: &str) {
    fs::create_dir_all(bare.join("hooks")).unwrap();
    script(&bare.join("hooks").join(name), text);
}

/// Returns a ledger with one task that is not claimed, and whose last epoch was 1.
pub(crate) fn ledger(task: &str) -> Ledger {
    let text = format!(
        r#"{{"version":2,"tasks":[{{"id":"{task}","title":"t","status":"pending","epoch":1}}]}}"#
    );
    let ledger = harness_core::format::read_ledger(text.as_bytes()).unwrap();
    assert_eq!(ledger.task(&TaskId::parse(task).unwrap()).unwrap().epoch, Some(Epoch(1)));
    ledger
}
