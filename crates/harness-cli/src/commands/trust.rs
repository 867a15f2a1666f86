//! `harness trust`

use std::io::{self, Write};

use harness_core::role::Operation;
use serde_json::json;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    prompt::{Answer, Audience, confirm},
    render::{Table, visible},
    root::StateRoot,
    trust::Trust,
    would_run::WouldRun,
};

/// Let the ledger of this project run its commands on this machine
///
/// A ledger that came with a repository runs nothing until you trust it: it holds commands. This
/// shows them and, on a terminal, asks. Trust is of the directory, kept in your home and not in the
/// repository; ledgers that you make yourself (`harness init`) are trusted from the start.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness trust
  harness trust --revoke
  harness trust --list")]
pub(crate) struct Args {
    /// End the trust
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// Show all that is trusted
    #[arg(long)]
    list: bool,
    /// Answer with a JSON document
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
    if !args.json || Audience::of_this_process() == Audience::Person {
        // The question and what it is about belong together, on standard error.
        let lines = would_run.lines().join("\n  ");
        let root = root.path().to_string_lossy();
        writeln!(io::stderr(), "{} would run\n  {}", visible(&root), visible(&lines))?;
    }
    if Audience::of_this_process() == Audience::Person {
        match confirm("Let this machine run them?")? {
            Answer::Yes => {}
            Answer::No => return Err(Failure::error("not trusted, nothing changed")),
        }
    }
    trust.grant(&root)?;
    let answer = json!({ "trusted": true, "would_run": would_run });
    tell(invocation, &args, &root, "trusted", answer)
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
        let note = if grant.holds() { "" } else { "gone or replaced: no longer trusted" };
        let path = grant.path.to_string_lossy().into_owned();
        table.row([path, grant.granted_at.to_string(), note.to_owned()]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}
