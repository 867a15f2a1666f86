//! `harness doctor`: checks everything that a session needs, changes nothing, and explains how to
//! fix problems. There is one file per part of the machine.

mod agents;
mod claude;
mod codex;
mod database;
mod files;
mod finding;
mod login;
mod machine;
mod programs;
mod records;
mod repository;

use harness::workspace::Filters;
use serde_json::json;

use crate::{
    config::{self, Overrides},
    exit::ExitCode,
    failure::Result,
    invocation::{Invocation, working_directory},
    root::{PIN, StateRoot},
    trust::Trust,
};

use finding::{Finding, Level};
pub(super) use programs::find as find_program;

/// Check that everything harness needs is installed and healthy
///
/// Checks git, the repository, the ledger and its backup, the lock, the disk, trust, the
/// configuration, the agents on PATH and the location of the socket. It changes nothing. Exits with
/// 0 if nothing failed, with 5 if the ledger or the configuration is broken, and otherwise with 1.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "self-check")]
#[command(after_help = "\
Examples:
  harness doctor
  harness doctor --json | jq '.checks[] | select(.level != \"ok\")'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let findings = examine(invocation)?;
    let code = if findings.iter().any(|f| f.level == Level::Broken) {
        ExitCode::Config
    } else if findings.iter().any(|f| f.level == Level::Fail) {
        ExitCode::Error
    } else {
        ExitCode::Done
    };
    if args.json {
        let ok = code == ExitCode::Done;
        let checks: Vec<_> = findings.iter().map(Finding::document).collect();
        invocation.out.document(&json!({ "ok": ok, "checks": checks }))?;
    } else {
        finding::print(&mut invocation.out, &findings)?;
    }
    Ok(code)
}

fn examine(invocation: &Invocation) -> Result<Vec<Finding>> {
    let env = &invocation.env;
    let start = working_directory()?;
    let (root, found) = match StateRoot::discover(env, &start) {
        Ok(root) => {
            let path = root.path().display().to_string();
            (Some(root), Finding::ok("state root", path))
        }
        // A pin to a missing root is a mistake. A missing ledger is not.
        Err(failure) if env.get(PIN).is_some() => (None, Finding::broken("state root", &failure)),
        Err(failure) => {
            let fix = failure.hints.first().cloned().unwrap_or_default();
            (None, Finding::warn("state root", failure.error, fix))
        }
    };
    let place = root.as_ref().map_or(start.as_path(), StateRoot::path);
    let mut findings = vec![programs::git(env, place)];
    let trusted = root.as_ref().is_some_and(|root| {
        Trust::of_user(env).and_then(|trust| trust.is_trusted(root)).unwrap_or(false)
    });
    let filters = if trusted { Filters::Run } else { Filters::Off };
    findings.push(repository::check(env, place, filters));
    findings.push(found);
    if let Some(root) = root.as_ref().filter(|root| !root.backing().is_files()) {
        findings.extend(database::check(env, root));
    }
    if let Some(root) = &root {
        findings.extend(files::check(root));
        findings.extend(records::check(invocation, root));
        findings.push(machine::lock(root));
    }
    findings.push(machine::disk(place));
    if let Some(root) = &root {
        findings.push(trust(invocation, root));
    }
    let loaded = config::load(env, root.as_ref().map(StateRoot::path), Overrides::default());
    findings.push(match &loaded {
        Ok(loaded) => configuration(loaded),
        Err(failure) => Finding::broken("configuration", failure),
    });
    let config = loaded.ok().map(|loaded| loaded.config);
    let config = config.unwrap_or_default();
    let at = agents::Place { env, directory: place, config: &config, may_run: trusted };
    findings.extend(agents::check(&at));
    findings.push(machine::socket(env, root.as_ref()));
    Ok(findings)
}

fn configuration(loaded: &config::Loaded) -> Finding {
    let set = loaded.origins.len();
    let what = match set {
        0 => "nothing set, defaults apply".to_owned(),
        1 => "1 key set".to_owned(),
        set => format!("{set} keys set"),
    };
    Finding::ok("configuration", what)
}

fn trust(invocation: &Invocation, root: &StateRoot) -> Finding {
    let trusted = Trust::of_user(&invocation.env).and_then(|trust| trust.is_trusted(root));
    match trusted {
        Ok(true) => Finding::ok("trust", "this ledger may run its commands"),
        Ok(false) => Finding::warn(
            "trust",
            "this ledger may not run its commands",
            "review and allow them: `harness trust`",
        ),
        Err(failure) => Finding::failure("trust", &failure),
    }
}
