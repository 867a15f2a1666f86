//! `harness gc`

use std::sync::Arc;

use harness::{
    clock::{Clock as _, SystemClock},
    store::{Presence, Registry, lock::sweep_guards},
    workspace::{CleanupItem, CleanupKind, CleanupMode, CleanupTerms, GitRepository},
};
use harness_core::{Ledger, role::Operation};
use serde_json::json;

use crate::{
    config::Overrides,
    exit::ExitCode,
    failure::Result,
    fleet::FleetTerms,
    invocation::Invocation,
    paint::{one_line, warn},
    root::StateRoot,
    trust::Trust,
};

/// Remove what dead workers and ended attempts left behind
///
/// Removes the work trees of workers that are gone, the branches of attempts whose work has landed or is
/// saved, and rescues that are older than `[keep] rescue_days`. What is nowhere else is saved before it
/// is removed. With `[fleet] remote`, the same holds for what ended attempts left on the remote. Work
/// trees of open claims stay, because the next worker recovers them. `harness run` and
/// `harness work` do the same for dead workers when they start.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness gc --dry-run
  harness gc
  harness gc --json | jq .bytes")]
pub(crate) struct Args {
    /// Only list what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::CollectGarbage)?;
    let config = invocation.config(&root, Overrides::default())?;
    let ledger = invocation.look(&root)?;
    let workspace = invocation.workspace(&root)?;
    let local = GitRepository::new(workspace.clone(), root.path(), config.parallel.trees())?;
    let repository = Arc::new(local);
    let mode = if args.dry_run { CleanupMode::Plan } else { CleanupMode::Remove };
    let days = config.keep.rescue_days;
    let mut terms = CleanupTerms::of_ledger(&ledger, mode, days, SystemClock.now());
    if is_at_work(&root)? {
        // A worker may claim any of them before the cleanup is over.
        let open = ledger.tasks().filter(|task| task.unfinished());
        terms.open_tasks.extend(open.map(|task| task.id.clone()));
    }
    let mut items = repository.cleanup(&terms)?;
    let fleet = FleetTerms {
        env: &invocation.env,
        root: &root,
        config: &config,
        workspace: &workspace,
        secrets: &invocation.secrets(&root),
        lease_seconds: invocation.lease_seconds()?,
    };
    // An untrusted root connects nowhere.
    if Trust::of_user(&invocation.env)?.is_trusted(&root)?
        && let Some(remote) = fleet.repository(Arc::clone(&repository))?
    {
        match remote.cleanup_remote(&ledger, &terms) {
            Ok(more) => items.extend(more),
            Err(why) => warn(&format!("nothing is removed from the remote: {why}")),
        }
    }
    let forgotten = forget(&root, &ledger, mode)?;
    if mode == CleanupMode::Remove {
        sweep_guards();
    }
    tell(invocation, &args, &items, &forgotten)
}

/// Returns whether a worker may be alive.
fn is_at_work(root: &StateRoot) -> Result<bool> {
    let workers = Registry::of(root.path()).workers()?;
    Ok(workers.iter().any(|found| found.presence != Presence::Dead))
}

/// Removes the files of dead workers that hold no task. Returns their ids.
fn forget(root: &StateRoot, ledger: &Ledger, mode: CleanupMode) -> Result<Vec<String>> {
    let registry = Registry::of(root.path());
    let mut forgotten = Vec::new();
    for found in registry.workers()? {
        let id = found.record.id;
        let holds = ledger.selection().held_by(&id).next().is_some();
        if found.presence != Presence::Dead || holds {
            continue;
        }
        if mode == CleanupMode::Remove {
            registry.forget(&id)?;
        }
        forgotten.push(id.to_string());
    }
    Ok(forgotten)
}

fn tell(
    invocation: &mut Invocation,
    args: &Args,
    items: &[CleanupItem],
    forgotten: &[String],
) -> Result<ExitCode> {
    let bytes: u64 = items.iter().map(|item| item.bytes).sum();
    if args.json {
        let item = |item: &CleanupItem| {
            json!({
                "kind": kind(item.kind), "name": item.name, "bytes": item.bytes,
                "saved": item.saved,
            })
        };
        let removed: Vec<_> = items.iter().map(item).collect();
        invocation.out.document(&json!({
            "dry_run": args.dry_run, "removed": removed, "workers": forgotten, "bytes": bytes,
        }))?;
        return Ok(ExitCode::Done);
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    for item in items {
        let size = match item.bytes {
            0 => String::new(),
            bytes => format!(" ({})", size(bytes)),
        };
        let saved = item.saved.as_ref().map(|name| format!("; saved as {name}"));
        let text = format!("{verb} {} {}{size}", words(item.kind), item.name);
        invocation.out.line(one_line(&format!("{text}{}", saved.unwrap_or_default())))?;
    }
    for worker in forgotten {
        invocation.out.line(one_line(&format!("{verb} the entry of the dead worker {worker}")))?;
    }
    let count = items.len() + forgotten.len();
    let total = match (count, args.dry_run) {
        (0, _) => "nothing to remove".to_owned(),
        (_, true) => format!("{} would be freed", size(bytes)),
        (_, false) => format!("{} freed", size(bytes)),
    };
    invocation.out.line(total)?;
    Ok(ExitCode::Done)
}

const fn kind(kind: CleanupKind) -> &'static str {
    match kind {
        CleanupKind::WorkTree => "work_tree",
        CleanupKind::TaskBranch => "branch",
        CleanupKind::OldRescue => "rescue",
        CleanupKind::StaleRef => "ref",
    }
}

const fn words(kind: CleanupKind) -> &'static str {
    match kind {
        CleanupKind::WorkTree => "the work tree",
        CleanupKind::TaskBranch => "the branch",
        CleanupKind::OldRescue => "the rescue",
        CleanupKind::StaleRef => "the ref",
    }
}

/// Formats a size for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
