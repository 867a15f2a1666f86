//! `harness store push` and `harness store pull`

use harness::{
    clock::{Clock as _, SystemClock},
    store::{
        FileStore, Locking, StoreError,
        postgres::{Database, FleetHost, Pulled},
    },
};
use harness_core::database::HostPresence;
use serde_json::json;

use super::{PushArgs, connected};
use crate::{
    database::{DatabasePlace, settings::StoreSettings, trust_ledger},
    exit::ExitCode,
    failure::{Failure, Result},
    host::{make_way, places},
    invocation::Invocation,
    paint::warn,
    render,
    root::StateRoot,
};

/// Workers of other machines that were seen within this time are at work.
const SEEN_WITHIN: i64 = 60;
/// A ledger that is changed during so many copies is in use.
const PULLS: u32 = 3;

pub(super) fn push(
    invocation: &mut Invocation,
    root: &StateRoot,
    args: &PushArgs,
) -> Result<ExitCode> {
    let place = place(invocation, root, args)?;
    let settings = StoreSettings::of(root)?;
    let access = place.with_password(&invocation.env)?;
    let access = access.with_durability(crate::database::durability(args.unsafe_durability));
    // A daemon would go on with the files.
    make_way(root, &places(&invocation.env))?;
    let locking = Locking::Each(invocation.lock_wait()?);
    let mut files = invocation.project(root)?.file_store(locking)?;
    // The address comes first. If this process is ended now, both are there, and no command goes on.
    settings.write(&place)?;
    let pushed = match Database::push(access, &mut files, SystemClock.now()) {
        Ok((_, pushed)) => pushed,
        Err(why) => {
            settings.put_back()?;
            return Err(why.into());
        }
    };
    trust_ledger(&invocation.env, root, &place, args.unsafe_durability)?;
    let (server, ledger) = (place.access().server(), place.ledger.to_string());
    if args.json {
        invocation.out.document(&json!({
            "server": server, "ledger": ledger, "tasks": pushed.tasks, "archived": pushed.archived,
        }))?;
        return Ok(ExitCode::Done);
    }
    let out = &mut invocation.out;
    let tasks = render::tasks(pushed.tasks);
    out.line(format_args!(
        "the ledger {ledger} in {server} has the {tasks}; both sides are equal"
    ))?;
    for path in &pushed.archived {
        out.line(format_args!("  archived {path}"))?;
    }
    out.line("  wrote [store] to harness.toml, without a password; commit it for other clones")?;
    Ok(ExitCode::Done)
}

/// Returns the database of harness.toml, if it names one, or that of the arguments.
fn place(invocation: &Invocation, root: &StateRoot, args: &PushArgs) -> Result<DatabasePlace> {
    let env = &invocation.env;
    if root.backing().is_files() {
        return DatabasePlace::named(env, root, args.database.as_deref(), args.ledger.as_deref());
    }
    if args.database.is_some() || args.ledger.is_some() {
        return Err(Failure::usage("harness.toml names the database already")
            .hint("leave --database and --ledger out, or remove [store] from harness.toml"));
    }
    DatabasePlace::of(env, root)
}

pub(super) fn pull(invocation: &mut Invocation, root: &StateRoot, json: bool) -> Result<ExitCode> {
    let database = connected(root)?;
    let settings = StoreSettings::of(root)?;
    settings.can_be_removed()?;
    refuse_others_at_work(&database, root)?;
    make_way(root, &places(&invocation.env))?;
    let locking = Locking::Each(invocation.lock_wait()?);
    let mut files = invocation.project(root)?.file_store(locking)?;
    let (pulled, retired) = pull_unchanged(&database, &mut files)?;
    pulled.warnings.iter().for_each(|warning| warn(warning));
    settings.remove()?;
    if json {
        invocation.out.document(&json!({
            "tasks": pulled.tasks, "archived": pulled.archived, "retired_as": retired,
        }))?;
        return Ok(ExitCode::Done);
    }
    let out = &mut invocation.out;
    let tasks = render::tasks(pulled.tasks);
    out.line(format_args!("harness-tasks.json has the {tasks}; both sides are equal"))?;
    for path in &pulled.archived {
        out.line(format_args!("  archived {path}"))?;
    }
    out.line(format_args!("  the ledger in the database is called {retired} now"))?;
    out.line("  removed [store] from harness.toml")?;
    Ok(ExitCode::Done)
}

/// Copies the ledger into the files and takes it out of use, if nobody changed it in between. Returns its
/// new name too.
fn pull_unchanged(database: &Database, files: &mut FileStore) -> Result<(Pulled, String)> {
    for _ in 0..PULLS {
        let pulled = database.pull(files, SystemClock.now())?;
        if let Some(name) = database.retire(Some(pulled.version), SystemClock.now())? {
            return Ok((pulled, name));
        }
    }
    Err(Failure::error("the ledger in the database is changed all the time")
        .hint("the copy in harness-tasks.json is too old: stop what works, and pull again"))
}

/// Refuses while other processes are at work on any machine, because their ledger would vanish.
fn refuse_others_at_work(database: &Database, root: &StateRoot) -> Result<()> {
    let now = database.now()?;
    let is_here = |seen: i64| now.seconds() - seen < SEEN_WITHIN;
    let workers = database.workers()?;
    if let Some(worker) = workers.iter().find(|worker| is_here(worker.seen_at.seconds())) {
        let what = format!("worker {} on {} is at work", worker.id, worker.host);
        return Err(Failure::error(what).hint(format!("`harness workers drain {}`", worker.host)));
    }
    let hosts = database.hosts().map_err(StoreError::from)?;
    let is_at_work = |host: &&FleetHost| {
        host.presence() == HostPresence::Present && !database.is_here(host, root.path())
    };
    if let Some(host) = hosts.iter().find(is_at_work) {
        let what = format!("a run or a daemon on {} uses the ledger ({})", host.machine, host.root);
        return Err(Failure::error(what).hint("end it there: `harness abort`, `harness shutdown`"));
    }
    Ok(())
}
