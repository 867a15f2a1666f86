//! `harness init` where a ledger was lost.

use std::path::Path;

use harness::{
    clock::{Clock, SystemClock},
    core::{fact::Source, format::FormatError},
    store::{Created, Restored, StoreError},
};
use serde_json::json;

use super::{Args, made};
use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::{one_line, warn},
    root::StateRoot,
    store::both_ways,
};

/// Restores the newest version that harness wrote, and prints what is missing.
pub(super) fn run(invocation: &mut Invocation, args: &Args, here: &Path) -> Result<ExitCode> {
    let env = &invocation.env;
    let root = StateRoot::discover(env, here).or_else(|_| StateRoot::for_init(env, here))?;
    let restored = match invocation.file_store(&root)?.bring_back(SystemClock.now()) {
        Err(StoreError::NoLedger { .. }) => {
            let place = root.path().display();
            let nothing = format!("there is nothing to restore in {place}: no backup, no journal");
            return Err(
                crate::failure::Failure::error(nothing).hint("create a ledger with `harness init`")
            );
        }
        restored => restored?,
    };
    restored.warnings.iter().for_each(|warning| warn(warning));
    if restored.from.is_some() {
        made(&invocation.env, &root);
    }
    let path = root.path().to_string_lossy();
    let out = &mut invocation.out;
    if args.json {
        out.document(&json!({
            "root": path,
            "restored": restored.from.map(Source::name),
            "tasks": restored.tasks,
            "files": restored.files,
            "archive": restored.archived,
            "without_receipt": restored.without_receipt,
        }))?;
        return Ok(ExitCode::Done);
    }
    out.line(format_args!("{}", one_line(&path)))?;
    for line in lines(&restored) {
        out.line(format_args!("  {}", one_line(&line)))?;
    }
    Ok(ExitCode::Done)
}

fn lines(restored: &Restored) -> Vec<String> {
    let tasks = restored.tasks;
    let mut lines = vec![match restored.from {
        None => format!("the ledger is already the newest version ({tasks} tasks)"),
        Some(from) => format!("restored harness-tasks.json ({tasks} tasks) from {}", name(from)),
    }];
    lines.extend(restored.files.iter().map(|what| format!("restored {what}")));
    lines.extend(restored.archived.iter().map(|path| format!("the previous file is {path}")));
    if !restored.without_receipt.is_empty() {
        let ids = restored.without_receipt.join(", ");
        lines.push(format!("missing: the receipts of {ids}"));
    }
    if restored.from.is_some() {
        lines.push("not restored: the record of runs and the transcripts, if they are gone".into());
    }
    lines
}

fn name(from: Source) -> &'static str {
    match from {
        Source::Backup => "harness-tasks.json.bak",
        Source::Journal => "the journal",
        Source::Memory => "memory",
    }
}

/// Refuses if the ledger can be restored or is broken, because a new one would replace it.
pub(super) fn refuse_to_lose(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    invocation.file_store(root)?.lost()?;
    match root.snapshot() {
        Err(StoreError::Format(why @ FormatError::Corrupt(_))) => {
            Err(both_ways(crate::failure::Failure::config(why.to_string())))
        }
        _ => Ok(()),
    }
}

/// Archives the existing files, and creates a new ledger.
pub(super) fn start_over(
    invocation: &Invocation,
    root: &StateRoot,
    done: &mut Vec<String>,
) -> Result<Created> {
    let fresh = invocation.file_store(root)?.start_over(SystemClock.now())?;
    fresh.warnings.iter().for_each(|warning| warn(warning));
    done.extend(fresh.archived.iter().map(|path| format!("archived {path}")));
    Ok(Created::New)
}
