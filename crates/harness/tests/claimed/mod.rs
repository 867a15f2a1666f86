//! A repository with a claim, and the actions of a test on it.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use harness::workspace::{Base, Filters, Sight, Workspace, WorkspaceError};
use harness_core::{Epoch, TaskId, Timestamp};
use harness_sim::conformance::{repository::Repository, workspace::Fixture};

pub(crate) const LONG_AGO: Timestamp = Timestamp::from_seconds(0);

pub(crate) fn task() -> TaskId {
    TaskId::parse("task-1").unwrap()
}

pub(crate) fn claim(repository: &Repository) -> Base {
    repository.workspace().preflight().unwrap();
    Base { epoch: Some(Epoch(1)), ..repository.workspace().base(&task(), Sight::Anew).unwrap() }
}

pub(crate) fn roll_back(repository: &Repository, base: &Base) -> Option<String> {
    repository.workspace().rollback(&task(), 1, base).unwrap().rescue
}

#[track_caller]
pub(crate) fn refused(result: Result<impl std::fmt::Debug, WorkspaceError>, word: &str) {
    match result.unwrap_err() {
        WorkspaceError::Unsafe { what, hint } => {
            assert!(what.contains(word), "{what}");
            assert!(!hint.is_empty());
        }
        locked @ WorkspaceError::Locked { .. } => {
            assert!(locked.to_string().contains(word), "{locked}");
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Calls everything that harness does with a repository once.
pub(crate) fn exercise(repository: &Repository) {
    let workspace = repository.open(Filters::Off);
    workspace.status().unwrap();
    let base = workspace.base(&task(), Sight::Anew).unwrap();
    repository.write("a.txt", "by the agent");
    repository.write("new.txt", "new");
    workspace.tree().unwrap();
    workspace.evidence(&task(), &base, LONG_AGO).unwrap();
    workspace.rollback(&task(), 1, &base).unwrap();
    let rescue = workspace.rescues(None).unwrap().remove(0);
    workspace.show(&rescue).unwrap();
    workspace.restore(&rescue).unwrap();
    workspace.commit(&base, "task-1: title").unwrap();
    workspace.forget(&task()).unwrap();
}
