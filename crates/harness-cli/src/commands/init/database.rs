//! `harness init --database`

use harness::{
    clock::{Clock as _, SystemClock},
    store::{
        disk::{Disk as _, RealDisk},
        postgres::Database,
    },
};
use harness_core::role::Operation;
use serde_json::json;

use super::{Args, Ignore, in_git, is_absent, restore, write_ignore_rules};
use crate::{
    database::{DatabasePlace, durability, settings::StoreSettings, trust_ledger},
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{one_line, warn},
    root::StateRoot,
    trust::Trust,
    would_run::WouldRun,
};

/// What people should know before others read their work.
const SHARED: &str = "with `[fleet] remote`, snapshots of unfinished work are pushed to that remote and so \
     shared with everyone who reads it; `backup_minutes = 0` turns them off";

/// Creates the schema, if it is missing, and an empty ledger, and names it in harness.toml.
pub(super) fn run(
    invocation: &mut Invocation,
    args: &Args,
    root: &StateRoot,
    url: Option<&str>,
    mut done: Vec<String>,
) -> Result<ExitCode> {
    invocation.permit(root, Operation::Store)?;
    refuse_two_truths(invocation, root)?;
    let place = DatabasePlace::named(&invocation.env, root, url, args.ledger.as_deref())?;
    let settings = StoreSettings::of(root)?;
    let access = place.with_password(&invocation.env)?;
    let database = Database::create(access.with_durability(durability(args.unsafe_durability)))?;
    let (server, ledger) = (place.access().server(), place.ledger.to_string());
    if let Err(failure) = settings.write(&place) {
        // Without its address nobody would find the ledger, and its name would be taken.
        let retired = database.retire(None, SystemClock.now());
        return Err(match retired.map(Option::unwrap_or_default) {
            Ok(name) => failure.hint(format!("the new ledger is called {name} now")),
            Err(why) => failure.hint(format!("the new ledger {ledger} stays in {server}: {why}")),
        });
    }
    done.push(format!("made the ledger {ledger} in {server}"));
    done.push(
        "wrote [store] to harness.toml, without a password; commit it for other clones".into(),
    );
    RealDisk::open(root.path())?.make_marker()?;
    Trust::grant_made(&invocation.env, root, &WouldRun::default());
    if let Err(why) = trust_ledger(&invocation.env, root, &place, args.unsafe_durability) {
        warn(&format!("the ledger is not trusted yet: {why}; `harness trust` catches up"));
    }
    let ignore = match (args.no_ignore || !in_git(root.path()), args.gitignore) {
        (true, _) => Ignore::Nothing,
        (false, true) => Ignore::Shared,
        (false, false) => Ignore::Private,
    };
    done.extend(write_ignore_rules(root.path(), ignore)?);
    report(invocation, args, root, &place, &done)
}

fn report(
    invocation: &mut Invocation,
    args: &Args,
    root: &StateRoot,
    place: &DatabasePlace,
    done: &[String],
) -> Result<ExitCode> {
    let path = root.path().to_string_lossy();
    let out = &mut invocation.out;
    if args.json {
        out.document(&json!({
            "root": path,
            "created": true,
            "done": done,
            "database": { "server": place.access().server(), "ledger": place.ledger.as_str() },
        }))?;
        return Ok(ExitCode::Done);
    }
    out.line(format_args!("{}", one_line(&path)))?;
    for line in done {
        out.line(format_args!("  {}", one_line(line)))?;
    }
    out.line(format_args!("  {SHARED}"))?;
    out.line("next: harness add \"what is to be done\" --validate 'the command that proves it'")?;
    Ok(ExitCode::Done)
}

/// Refuses where there is a ledger already, in a file or in a database.
fn refuse_two_truths(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    if !root.backing().is_files() {
        return Err(Failure::error("harness.toml says already in which database the ledger is")
            .hint("`harness trust` lets this machine use it, `harness store status` shows it"));
    }
    if !is_absent(&root.ledger()) {
        let what = format!("{} is there already", root.ledger().display());
        return Err(Failure::error(what)
            .hint("`harness store push --database URL` copies it into the database"));
    }
    restore::refuse_to_lose(invocation, root)
}
