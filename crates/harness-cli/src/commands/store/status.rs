//! `harness store status`

use std::fs;

use harness::home::Outside;
use harness_core::database::Remembered;
use serde_json::{Value, json};

use super::connected;
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    local_time,
    paint::one_line,
    render::{self, Table},
    root::StateRoot,
};

pub(super) fn show(invocation: &mut Invocation, root: &StateRoot, json: bool) -> Result<ExitCode> {
    if root.backing().is_files() {
        return files(invocation, root, json);
    }
    let status = connected(root)?.status()?;
    let seen = last_seen(invocation, root);
    let behind = seen.map(|seen| status.version.saturating_sub(seen));
    if json {
        invocation.out.document(&json!({
            "store": "database",
            "server": status.server,
            "server_version": status.server_version,
            "schema_version": status.schema_version,
            "ledger": status.ledger,
            "ledger_version": status.version,
            "changes": status.changes,
            "tasks": status.tasks,
            "hosts": status.hosts,
            "changed_at": status.changed_at,
            "seen_version": seen,
            "behind": behind,
        }))?;
        return Ok(ExitCode::Done);
    }
    let hosts = match status.hosts.is_empty() {
        true => "none with workers".to_owned(),
        false => one_line(&status.hosts.join(", ")).into_owned(),
    };
    let copy = match behind {
        None => "has not used the ledger yet".to_owned(),
        Some(0) => "is up to date".to_owned(),
        Some(1) => "is 1 change behind".to_owned(),
        Some(count) => format!("is {count} changes behind"),
    };
    let version = format!(
        "{}, changed {}; {} changes are stored",
        status.version,
        local_time::date_and_clock(status.changed_at),
        status.changes
    );
    let mut table = Table::default();
    let server = format!("{} (PostgreSQL {})", status.server, status.server_version);
    table.row(["server".to_owned(), one_line(&server).into_owned()]);
    table.row(["schema".to_owned(), format!("version {}", status.schema_version)]);
    table.row(["ledger".to_owned(), status.ledger]);
    table.row(["version".to_owned(), version]);
    let tasks = usize::try_from(status.tasks).unwrap_or(usize::MAX);
    table.row(["tasks".to_owned(), render::tasks(tasks)]);
    table.row(["hosts".to_owned(), hosts]);
    table.row(["this machine".to_owned(), copy]);
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}

fn files(invocation: &mut Invocation, root: &StateRoot, json: bool) -> Result<ExitCode> {
    let tasks = root.snapshot()?.len();
    if json {
        let document: Value = json!({ "store": "files", "file": root.ledger(), "tasks": tasks });
        invocation.out.document(&document)?;
    } else {
        let file = root.ledger().display().to_string();
        let line =
            format!("the ledger is the file {}, with {}", one_line(&file), render::tasks(tasks));
        invocation.out.line(line)?;
    }
    Ok(ExitCode::Done)
}

/// Returns the version that this machine saw last; `None` if it never saw one.
fn last_seen(invocation: &Invocation, root: &StateRoot) -> Option<u64> {
    let folder = Outside::of_root(root.path(), &invocation.state_home()?);
    let text = fs::read_to_string(folder.path().join(Outside::LAST_SEEN)).ok()?;
    Remembered::parse(&text).map(|seen| seen.version)
}
