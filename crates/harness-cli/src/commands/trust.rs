//! `harness trust`

use std::collections::BTreeMap;

use harness::workspace::{CommitHooks, RemoteAddress};
use harness_core::role::Operation;
use serde_json::json;

use crate::{
    database::{DatabasePlace, trust_ledger},
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::visible,
    prompt::{Answer, Audience},
    render::Table,
    root::StateRoot,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Allow the ledger of this project to run its commands on this machine
///
/// A ledger that came with a repository runs nothing until you trust it, because it contains
/// commands. This command shows everything that would run (checks, agents with their environment,
/// prompts, …) and asks; without a terminal it needs --yes. Trust is recorded per directory, for
/// exactly what was shown, in your home and not in the repository. If a later pull brings something
/// new, you are asked about that alone. Ledgers that you create yourself (`harness init`), tasks
/// that you add, and files that git does not track are trusted from the start. The commit hooks of
/// the repository are recorded too: with `[git] hooks = true` a run uses them while they are the
/// recorded ones. So are the addresses of its remotes: with `[fleet] remote` results go to the recorded
/// address, whatever the repository contains later. A ledger in a database is trusted as a whole, by its
/// server, database and name; before that nothing is connected.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness trust
  harness trust --yes
  harness trust --revoke
  harness trust --list")]
pub(crate) struct Args {
    /// Do not ask
    #[arg(short, long, conflicts_with_all = ["revoke", "list"])]
    yes: bool,
    /// Accept a database that may lose confirmed changes in a crash
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    unsafe_durability: bool,
    /// Revoke the trust
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// List everything that is trusted
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let trust = Trust::of_user(&invocation.env)?;
    if args.list {
        return list(invocation, &trust, &args);
    }
    let root = invocation.root()?;
    invocation.permit(&root, Operation::Trust)?;
    if args.revoke {
        trust.revoke(&root)?;
        return tell(invocation, &args, &root, "no longer trusted", json!({ "trusted": false }));
    }
    let would_run = WouldRun::in_root(&root)?;
    let introduction = format!("{} would run", root.path().display());
    // Without git there are no hooks.
    let hooks = invocation.workspace(&root).ok().and_then(|git| git.commit_hooks().ok().flatten());
    if let Some(hooks) = hooks.as_ref().filter(|_| !args.json) {
        show_hooks(hooks);
    }
    let remotes = invocation.workspace(&root).ok().and_then(|git| git.remotes().ok());
    let remotes = remotes.unwrap_or_default();
    if !args.json {
        show_remotes(&remotes);
    }
    let place = match root.backing().is_files() {
        true => None,
        false => Some(DatabasePlace::of(&invocation.env, &root)?),
    };
    if let Some(place) = place.as_ref().filter(|_| !args.json) {
        show_database(place);
    }
    match (args.yes, Audience::of_this_process()) {
        (true, _) if args.json => {}
        (true, _) => trust::show(&introduction, &would_run)?,
        (false, Audience::Person) => match trust::ask(&introduction, &would_run)? {
            Answer::Yes => {}
            Answer::No => return Err(Failure::error("not trusted; nothing was changed")),
        },
        (false, Audience::Nobody) => {
            trust::show(&introduction, &would_run)?;
            return Err(Failure::usage("there is no terminal to ask on; nothing was changed")
                .hint("to let this machine run them: `harness trust --yes`"));
        }
    }
    trust.grant(&root, &would_run.items)?;
    trust.grant_remotes(&root, remotes)?;
    let mut answer = json!({ "trusted": true, "would_run": would_run.document() });
    if let Some(place) = &place {
        trust_ledger(&invocation.env, &root, place, args.unsafe_durability)?;
        answer["database"] =
            json!({ "server": place.access().server(), "ledger": place.ledger.as_str() });
    }
    if let Some(hooks) = &hooks {
        trust.grant_hooks(&root, hooks)?;
        answer["hooks"] = json!({ "folder": hooks.folder, "names": hooks.names });
    }
    tell(invocation, &args, &root, "trusted", answer)
}

/// Shows the hooks. They are trusted even if they are not in use, so that enabling them needs no
/// second question.
fn show_hooks(hooks: &CommitHooks) {
    let (names, folder) = (hooks.names.join(", "), hooks.folder.display().to_string());
    eprintln!("git hooks, used with `[git] hooks = true`: {names} in {}", visible(&folder));
}

/// Shows the ledger in a database. It is trusted as a whole.
fn show_database(place: &DatabasePlace) {
    let (server, ledger) = (place.access().server(), place.ledger.as_str());
    eprintln!(
        "ledger {} in the database {}: everyone who may write there decides what runs here",
        visible(ledger),
        visible(&server)
    );
}

/// Shows the addresses. They are trusted even if none of them is in use.
fn show_remotes(remotes: &BTreeMap<String, String>) {
    for (name, url) in remotes {
        let shown = RemoteAddress::new(name, url).map(|address| address.shown());
        if let Ok(shown) = shown {
            eprintln!(
                "git remote, used with `[fleet] remote`: {} {}",
                visible(name),
                visible(&shown)
            );
        }
    }
}

fn tell(
    invocation: &mut Invocation,
    args: &Args,
    root: &StateRoot,
    word: &str,
    mut answer: serde_json::Value,
) -> Result<ExitCode> {
    let path = root.path().to_string_lossy();
    if args.json {
        answer["root"] = json!(path);
        invocation.out.document(&answer)?;
    } else {
        invocation.out.line(format_args!("{} is {word}", visible(&path)))?;
    }
    Ok(ExitCode::Done)
}

fn list(invocation: &mut Invocation, trust: &Trust, args: &Args) -> Result<ExitCode> {
    let grants = trust.list()?;
    if args.json {
        let grants: Vec<_> = grants
            .iter()
            .map(|g| json!({ "root": g.path, "granted_at": g.granted_at, "holds": g.holds() }))
            .collect();
        invocation.out.document(&json!({ "trusted": grants }))?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::default();
    for grant in &grants {
        let note = if grant.holds() { "" } else { "missing or replaced: no longer trusted" };
        let path = grant.path.to_string_lossy().into_owned();
        table.row([path, grant.granted_at.to_string(), note.to_owned()]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}
