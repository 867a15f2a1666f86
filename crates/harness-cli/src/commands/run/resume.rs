//! The run that `--resume` continues: which one it is, and its description.

use harness::{
    clock::{Clock as _, SystemClock},
    core::{Run, RunId},
    process::Redactor,
    store::is_gone,
};

use super::{super::runs::run_of_name, Args, agent, money};
use crate::{
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{one_line, warn},
    prompt::{Answer, Audience, confirm_or},
    root::StateRoot,
    task_line::Span,
    tool_line::cut,
};

/// The number of characters of an objective that are shown.
const OBJECTIVE_CHARS: usize = 60;

/// Returns the run that `--resume` continues. Its choices apply again, unless the arguments change
/// them.
pub(super) fn stored(
    invocation: &Invocation,
    root: &StateRoot,
    args: &mut Args,
) -> Result<Option<Run>> {
    if args.objective.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::usage("the objective is empty")
            .hint("omit it to work on the tasks of the ledger"));
    }
    refuse_secrets(args, &invocation.secrets(root))?;
    if let Some(command) = &args.agent_command {
        agent::refuse_shell_syntax(command)?;
    }
    if !args.resume {
        return Ok(None);
    }
    let id = args.run_id.as_deref().map(|name| named_run(root, name)).transpose()?;
    let stored = root.project()?.resumable(id.as_ref())?;
    money::refuse_spent(&stored, args)?;
    if !args.detached {
        if id.is_none() {
            agree_to_older(root, args, &stored)?;
        }
        eprintln!("{}", words(&stored));
    }
    if chosen_by(args).is_none() {
        args.agent_command.clone_from(&stored.agent_command);
        args.agent = stored.agent_command.is_none().then(|| stored.agent.clone());
    }
    Ok(Some(stored))
}

/// Names a run that is newer than the one that `--resume` found, which has succeeded then. A person
/// is asked whether the older one is meant.
fn agree_to_older(root: &StateRoot, args: &Args, found: &Run) -> Result<()> {
    let store = root.look_at_runs()?;
    let runs = store.map(|store| store.runs()).transpose()?.unwrap_or_default();
    let Some(newer) = newer(&runs, found) else { return Ok(()) };
    warn(&format!("this is not the newest run: {} needs no resume", described(newer)));
    if args.json || args.detach || Audience::of_this_process() == Audience::Nobody {
        return Ok(());
    }
    let question = format!("Resume the older run {}?", described(found));
    match confirm_or(&question, Answer::Yes)? {
        Answer::Yes => Ok(()),
        Answer::No => Err(Failure::error("nothing was resumed")
            .hint("`harness runs list` shows all runs; `--run-id ID` chooses one")),
    }
}

fn named_run(root: &StateRoot, name: &str) -> Result<RunId> {
    let store = root.look_at_runs()?;
    let runs = store.map(|store| store.runs()).transpose()?.unwrap_or_default();
    Ok(run_of_name(&runs, name)?.id.clone())
}

pub(super) fn chosen_by(args: &Args) -> Option<&String> {
    args.agent.as_ref().or(args.agent_command.as_ref())
}

/// Refuses secrets in arguments, because they are stored with the run and must run as typed.
fn refuse_secrets(args: &Args, secrets: &Redactor) -> Result<()> {
    let holds = |flag: &str, line: &Option<String>| {
        let variable = secrets.find(line.as_deref()?)?;
        let error = format!("{flag} contains the value of {variable}, which must not be stored");
        Some((Failure::usage(error), variable))
    };
    if let Some((failure, variable)) = holds("--verify", &args.verify) {
        return Err(failure.hint(format!("write \"${variable}\" instead; quote it for your shell")));
    }
    if let Some((failure, variable)) = holds("--agent-command", &args.agent_command) {
        return Err(failure.hint(format!(
            "let the program read {variable} itself: `env = [\"{variable}\"]` in [agents.NAME]"
        )));
    }
    Ok(())
}

/// Returns the newest run, if it is not the one that `--resume` found.
fn newer<'a>(runs: &'a [Run], found: &Run) -> Option<&'a Run> {
    let newest = runs.iter().find(|run| run.parent.is_none())?;
    (newest.id != found.id).then_some(newest)
}

/// Returns a text such as `resuming 01a1e2e3-… "Port the parser" (failed 12 min ago)`.
fn words(run: &Run) -> String {
    format!("resuming {}", described(run))
}

/// Returns the id of a run, its purpose and its state.
fn described(run: &Run) -> String {
    let what = match &run.objective {
        Some(objective) => format!("{:?}", cut(&one_line(objective), OBJECTIVE_CHARS)),
        None => "the tasks of the ledger".to_owned(),
    };
    let cut_off = run.lease.as_ref().is_some_and(|lease| is_gone(&lease.owner));
    let state = match run.stop_reason {
        _ if cut_off && !run.status.is_over() => "interrupted".to_owned(),
        Some(reason) if run.status.as_str() != reason.as_str() => {
            format!("{}: {reason}", run.status)
        }
        Some(_) | None => run.status.to_string(),
    };
    let ago = Span(SystemClock.now().since(run.updated_at));
    format!("{} {what} ({state} {ago} ago)", run.id)
}
