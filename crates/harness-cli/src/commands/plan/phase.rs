//! `harness plan phase`

use harness_core::{command::EditPhase, ledger::Phase, role::Operation};
use serde_json::json;

use super::{super::fields::seconds, phases::document};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{visible, warn},
    root::StateRoot,
    trust::Trust,
    would_run::WouldRun,
};

/// Add, change or remove a phase
///
/// Phases are stages in order: a task of a later phase waits until all tasks of the earlier phases
/// are completed and their gates have passed. A gate is a command that must exit with 0, an
/// approval of a person, or both. A new phase comes last, unless you pass --before. Tasks name
/// their phase: `harness add … --phase NAME`, `harness task edit ID --phase NAME`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan phase Research --approval
  harness plan phase Build --gate 'make test' --gate-timeout 15m
  harness plan phase Design --before Build
  harness plan phase Build --no-gate
  harness plan phase Design --remove")]
pub(crate) struct Args {
    /// The name of the phase
    #[arg(value_name = "NAME")]
    name: String,
    /// The command that must pass at the end of the phase, run by `sh -c`
    #[arg(long, value_name = "COMMAND")]
    gate: Option<String>,
    /// Time limit of that command, such as 90s or 15m
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "no_gate")]
    gate_timeout: Option<u64>,
    /// Run no command at the end of the phase
    #[arg(long, conflicts_with = "gate")]
    no_gate: bool,
    /// A person must approve the phase at its end
    #[arg(long)]
    approval: bool,
    /// No person has to approve the phase
    #[arg(long, conflicts_with = "approval")]
    no_approval: bool,
    /// Put the phase before this one
    #[arg(long, value_name = "OTHER")]
    before: Option<String>,
    /// Remove the phase; it must have no tasks
    #[arg(long, conflicts_with_all = ["gate", "gate_timeout", "no_gate", "approval", "no_approval", "before"])]
    remove: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn edit(&self) -> EditPhase {
        let gate = if self.no_gate { Some(String::new()) } else { self.gate.clone() };
        let approve = match (self.approval, self.no_approval) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        };
        let (name, before) = (self.name.clone(), self.before.clone());
        EditPhase { name, gate, gate_timeout_seconds: self.gate_timeout, approve, before, by: None }
    }
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    invocation.permit(&root, Operation::EditPhase)?;
    if args.remove {
        let name = args.name.clone();
        invocation.with_client(&root, |client| client.remove_phase(name))?;
        return report(invocation, &root, &args, "removed");
    }
    if args.gate.as_ref().is_some_and(|command| command.trim().is_empty()) {
        return Err(Failure::usage("--gate: the command is empty")
            .hint("to remove the gate: `harness plan phase NAME --no-gate`"));
    }
    let before = phases_of(invocation, &root);
    let edit = args.edit();
    let made = WouldRun::of_phase(&edit);
    invocation.with_client(&root, |client| client.edit_phase(edit))?;
    Trust::grant_own(invocation, &root, &made);
    let after = phases_of(invocation, &root);
    let known = before.iter().find(|phase| phase.name == args.name);
    let word = match known {
        None => "added",
        Some(_) if before == after => "unchanged",
        Some(_) => "changed",
    };
    let passed = known.filter(|phase| phase.passed_at.is_some() && word == "changed");
    if passed.is_some_and(|phase| after.iter().any(|other| stricter(phase, other))) {
        warn("the phase has passed already, and is not tried again");
    }
    report(invocation, &root, &args, word)
}

/// Returns whether `after` is the same phase with another command or a new approval.
fn stricter(before: &Phase, after: &Phase) -> bool {
    let gate = after.gate.is_some() && before.gate != after.gate;
    before.name == after.name && (gate || (after.approve && !before.approve))
}

fn phases_of(invocation: &Invocation, root: &StateRoot) -> Vec<Phase> {
    let ledger = invocation.look(root);
    ledger.map(|ledger| ledger.head().phases.clone()).unwrap_or_default()
}

fn report(
    invocation: &mut Invocation,
    root: &StateRoot,
    args: &Args,
    word: &str,
) -> Result<ExitCode> {
    if args.json {
        let ledger = invocation.look(root)?;
        let phases = document(&ledger);
        invocation.out.document(&json!({ "phase": args.name, "phases": phases }))?;
    } else {
        invocation.out.line(format_args!("Phase {} {word}", visible(&args.name)))?;
    }
    Ok(ExitCode::Done)
}
