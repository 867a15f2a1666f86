//! Closes issues through the programs that own them.

use std::{collections::BTreeSet, path::Path};

use harness_core::import::{self, ImportChoice, ImportKind, ImportProgress, SourceText};

use super::{Proven, Synced};
use crate::{
    commands::{
        doctor::find_program,
        import::{github, program},
    },
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
};

/// The number of open issues that are compared.
const ISSUES_MAX: &str = "5000";

/// Closes issues of beads. Its own records are in a database, so only `bd` can do that.
pub(super) fn beads(
    invocation: &Invocation,
    root: &StateRoot,
    path: &str,
    proven: &[Proven],
    synced: &mut Synced,
) -> Result<Vec<String>> {
    let Some(bd) = find_program(&invocation.env, "bd") else {
        return Err(Failure::error("bd is not on the PATH, so the issues stay open there"));
    };
    let file = root.path().join(path);
    let directory = file.parent().and_then(Path::parent).unwrap_or(root.path());
    let text = program::output(&bd, &["export"], directory)?;
    let source = SourceText { path: path.to_owned(), text, ..SourceText::default() };
    let found = import::read(ImportKind::Beads, &[source], &ImportChoice::default())
        .map_err(|problem| Failure::error(problem.to_string()))?;
    let open: BTreeSet<String> = found
        .tasks
        .into_iter()
        .filter(|task| task.progress == ImportProgress::Open)
        .map(|task| task.source.key)
        .collect();
    Ok(close(proven, &open, synced, |proven| {
        let arguments = ["close", &proven.key, "--reason", &proven.remark()];
        program::output(&bd, &arguments, directory).map(|_| ())
    }))
}

/// Comments and closes issues on GitHub.
pub(super) fn github(
    invocation: &Invocation,
    root: &StateRoot,
    repository: &str,
    proven: &[Proven],
    synced: &mut Synced,
) -> Result<Vec<String>> {
    let gh = github::program_of(invocation)?;
    let ask = |arguments: &[&str]| program::output(&gh, arguments, root.path());
    let open = ask(&[
        "issue", "list", "--repo", repository, "--state", "open", "--limit", ISSUES_MAX, "--json",
        "number",
    ])?;
    let open: Vec<serde_json::Value> = serde_json::from_str(&open)
        .map_err(|why| Failure::error(format!("`gh issue list` printed no list: {why}")))?;
    let open: BTreeSet<String> = open.iter().map(|issue| issue["number"].to_string()).collect();
    Ok(close(proven, &open, synced, |proven| {
        let (key, remark) = (proven.key.as_str(), proven.remark());
        ask(&["issue", "comment", key, "--repo", repository, "--body", &remark])?;
        ask(&["issue", "close", key, "--repo", repository, "--reason", "completed"])?;
        Ok(())
    }))
}

/// Closes what is open, and returns its keys. A failure ends it, and the next call continues.
fn close(
    proven: &[Proven],
    open: &BTreeSet<String>,
    synced: &mut Synced,
    close: impl Fn(&Proven) -> Result<()>,
) -> Vec<String> {
    let mut closed = Vec::new();
    // A key comes from the ledger, and must not become an option.
    let is_name = |key: &str| !key.starts_with('-');
    for proven in proven.iter().filter(|of| open.contains(&of.key) && is_name(&of.key)) {
        if let Err(failure) = close(proven) {
            synced.problems.push(format!("{}: {}", proven.key, failure.error));
            break;
        }
        closed.push(proven.key.clone());
    }
    closed
}
