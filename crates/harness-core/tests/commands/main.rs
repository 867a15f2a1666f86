//! Every command, as tables: a ledger, a command, and the result.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod authors;
mod claims;
mod ends;
mod flags;
mod head;
mod pause;
mod settle;
#[path = "../support/mod.rs"]
mod support;

use harness_core::{
    Category, Command, CommitId, Epoch, Holder, TaskId, Timestamp, TreeId,
    command::*,
    decide,
    plan::Plan,
    role::{Attempt, Author, Role},
    task::{Intent, Via},
};
use support::*;

const NOW: &str = "2025-07-01T10:00:00Z";

/// `a`, claimed by `w` through the daemon in epoch 4, with more fields.
fn claimed(more: &str) -> String {
    format!(
        r#"[{{"id":"a","title":"A","status":"in_progress","claimed_by":"w","epoch":4,
             "claimed_at":"2025-07-01T09:00:00Z","lease_expires_at":"2025-07-01T09:10:00Z"{more}}}]"#
    )
}

const CLIENT: &str = r#","via":"client""#;
const CHECKED: &str = r#","via":"client","validation":{"command":"make test"}"#;
const UNDOING: &str = r#","intent":{"rollback":{"category":"TEST_FAIL","message":"1 failed"}}"#;
const LANDING: &str = r#","intent":{"land":{"target":"main","from":"aaaa","to":"bbbb"}},"worktree":"/w","branch":"b""#;

#[track_caller]
fn at_now(ledger: &str, command: Command, expected: &[&str]) {
    check(ledger, time(NOW), command, expected);
}

fn commit(text: &str) -> Option<CommitId> {
    Some(CommitId::parse(text).unwrap())
}

fn with_epoch(holder: Holder, epoch: u64) -> Holder {
    Holder { epoch: Some(Epoch(epoch)), ..holder }
}

fn add(id: Option<&str>, title: &str, change: impl FnOnce(&mut Edit)) -> Command {
    let mut fields = Edit::nothing(TaskId::numbered(0));
    change(&mut fields);
    Command::Add(Add { id: id.map(support::id), title: title.into(), fields })
}

fn edit(task: &str, change: impl FnOnce(&mut Edit)) -> Command {
    let mut fields = Edit::nothing(id(task));
    change(&mut fields);
    Command::Edit(fields)
}

fn import(plan: &str, mode: ImportMode) -> Command {
    Command::Import(Import {
        plan: Plan::read(&format!("```json\n{plan}\n```")).unwrap(),
        mode,
        by: None,
    })
}
