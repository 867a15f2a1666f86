//! `harness add`

use std::io::{self, Write as _};

use harness_core::{
    TaskId,
    command::{Add, Edit},
};
use serde_json::json;

use super::fields::{Dependency, Fields, seconds};
use crate::{
    config::{self, Origin, Overrides},
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    paint::{visible, warn},
    prompt::{Audience, ask},
    root::StateRoot,
    store::task_id,
    trust::Trust,
    would_run::WouldRun,
};

/// Add a task to the ledger
///
/// Prints the new id. A task should have a check (--validate): the command that proves that the
/// task is done. `harness run` does not work on a task without one. A task that is added without
/// --validate gets `[validation] command` of harness.toml, if that is set; `--validate ''` adds the
/// task without a check.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness add \"Add rate limiting\" --validate 'cargo test rate_limit'
  harness add \"Write the docs\" --depends-on task-001,task-002 --priority P2
  harness add \"Port the parser\" --validate 'make check' --instructions @notes/parser.md")]
pub(crate) struct Args {
    /// The title: what is to be done, in one line
    title: String,
    /// An id of your own instead of task-NNN
    #[arg(long, value_parser = task_id)]
    id: Option<TaskId>,
    #[command(flatten)]
    fields: Fields,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let mut fields = args.fields;
    if !fields.any() && !args.json && Audience::of_this_process() == Audience::Person {
        let usual = usual_check(invocation, &root);
        ask_for(&mut fields, usual.as_deref())?;
    }
    let fields = fields.edit(placeholder(args.id.as_ref()), None)?;
    let is_usual = fields.validation_command.is_none();
    let fields = with_usual_check(invocation, &root, fields);
    let made = WouldRun::of_edit(&fields);
    let made_unchecked = fields.validation_command.as_deref().unwrap_or_default().trim().is_empty();
    let check = fields.validation_command.clone().filter(|_| is_usual);
    let id = add(invocation, args.title, args.id, fields)?;
    Trust::grant_own(invocation, &root, &made);
    name_unknown_phase(invocation, &root, &id);
    // An empty check is a decision that needs no remark.
    if made_unchecked && is_usual {
        note_unchecked(&[id.as_str()]);
    }
    if let Some(check) = check {
        _ = writeln!(io::stderr(), "it gets the check of harness.toml: {}", visible(&check));
    }
    if args.json {
        invocation.out.document(&json!({ "task_id": id }))?;
    } else {
        invocation.out.line(&id)?;
    }
    Ok(ExitCode::Done)
}

/// The number of tasks without a check that are named.
const NAMED_MAX: usize = 10;

/// Returns a sentence about tasks without a check; `None` if there are none.
pub(crate) fn unchecked<T: AsRef<str>>(ids: &[T]) -> Option<String> {
    let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    let (named, more) = ids.split_at(ids.len().min(NAMED_MAX));
    let tasks = named.join(", ");
    Some(match (&ids[..], more.len()) {
        ([], _) => return None,
        ([id], _) => format!(
            "{id} has no check, so `harness run` cannot finish it: `harness task edit {id} --validate \
             'COMMAND'`"
        ),
        (_, 0) => format!("{tasks} have no check, so `harness run` cannot finish them"),
        (_, more) => {
            format!("{tasks} and {more} more have no check, so `harness run` cannot finish them")
        }
    })
}

/// Mentions tasks without a check where they are written. A worker may still complete them.
pub(crate) fn note_unchecked<T: AsRef<str>>(ids: &[T]) {
    if let Some(sentence) = unchecked(ids) {
        // If this fails, nothing is left to receive a message.
        _ = writeln!(io::stderr(), "note: {}", visible(&sentence));
    }
}

/// Warns about a phase that is not in the ledger, because it orders nothing.
pub(crate) fn name_unknown_phase(invocation: &Invocation, root: &StateRoot, task: &TaskId) {
    let Ok(ledger) = invocation.look(root) else { return };
    let phases = &ledger.head().phases;
    let Some(name) = ledger.task(task).and_then(|task| task.phase.as_ref()) else { return };
    if phases.iter().all(|phase| phase.name != *name) {
        let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        let known = match names.is_empty() {
            true => "the ledger has no phases".to_owned(),
            false => format!("the phases are {}", names.join(", ")),
        };
        warn(&format!("{task}: there is no phase {name:?}, so it orders nothing; {known}"));
    }
}

pub(crate) fn add(
    invocation: &Invocation,
    title: String,
    id: Option<TaskId>,
    fields: Edit,
) -> Result<TaskId> {
    let root = invocation.root()?;
    invocation.permit_add(&root)?;
    invocation.with_client(&root, |client| client.add(Add { id, title, fields }))
}

/// Returns the id, or a placeholder. The id is only needed where a task could depend on itself. A
/// new task cannot, and its id is not known before the ledger is locked.
pub(crate) fn placeholder(id: Option<&TaskId>) -> TaskId {
    id.cloned().unwrap_or_else(|| TaskId::numbered(0))
}

/// Returns the task with the check of the configuration, if it has none of its own.
pub(crate) fn with_usual_check(invocation: &Invocation, root: &StateRoot, fields: Edit) -> Edit {
    let validation_command = match fields.validation_command {
        Some(own) => Some(own),
        None => usual_check(invocation, root),
    };
    Edit { validation_command, ..fields }
}

/// Returns `[validation] command`, unless it came with an untrusted repository: a person who adds a
/// task agrees to its check, and has not seen this one. The commands that need the configuration
/// report it if it cannot be read.
fn usual_check(invocation: &Invocation, root: &StateRoot) -> Option<String> {
    let loaded = config::load(&invocation.env, Some(root.path()), Overrides::default()).ok()?;
    let command = loaded.config.validation.command.filter(|command| !command.trim().is_empty())?;
    if matches!(loaded.origins.get("validation.command"), Some(Origin::Project { .. })) {
        let trust = Trust::of_user(&invocation.env).ok();
        let covered = WouldRun::usual_check(root).is_some_and(|item| {
            trust.is_some_and(|trust| trust.covers(root, &item).unwrap_or(false))
        });
        if !covered {
            warn("the check in harness.toml is not trusted and was not used: `harness trust`");
            return None;
        }
    }
    Some(command)
}

fn ask_for(fields: &mut Fields, usual: Option<&str>) -> Result<()> {
    let given = |text: String| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let otherwise = usual.unwrap_or("none yet");
    fields.validate = given(ask(&format!("Command that proves it is done (empty: {otherwise}):"))?);
    if let Some(time) = given(ask("Time limit of that command, such as 90s or 5m (empty: 5m):")?) {
        fields.timeout = Some(seconds(&time).map_err(Failure::usage)?);
    }
    fields.priority = given(ask("Priority P0, P1 or P2 (empty: P1):")?);
    if let Some(ids) = given(ask("Depends on (ids, empty: nothing):")?) {
        let ids = ids.split([',', ' ']).filter(|id| !id.is_empty());
        let ids = ids.map(|id| task_id(id).map(|id| Dependency(Some(id))).map_err(Failure::usage));
        fields.depends_on = Some(ids.collect::<Result<_>>()?);
    }
    Ok(())
}
