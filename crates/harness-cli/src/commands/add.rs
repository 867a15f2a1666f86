//! `harness add`

use harness_core::{
    TaskId,
    command::{Add, Edit},
};
use serde_json::json;

use super::{
    Invocation,
    fields::{Dependency, Fields},
};
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    prompt::{Audience, ask},
    store::task_id,
    trust::Trust,
    would_run::WouldRun,
};

/// Add a task to the ledger
///
/// Prints the new id. A task should have a check (--validate): the command that proves that it is
/// done. Without one `harness run` does not work on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness add \"Add rate limiting\" --validate 'cargo test rate_limit'
  harness add \"Write the docs\" --depends-on task-001,task-002 --priority P2
  harness add \"Port the parser\" --validate 'make check' --instructions @notes/parser.md")]
pub(crate) struct Args {
    /// What is to be done, in a line
    title: String,
    /// An id of your own instead of task-NNN
    #[arg(long, value_parser = task_id)]
    id: Option<TaskId>,
    #[command(flatten)]
    fields: Fields,
    /// Answer with a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let mut fields = args.fields;
    if !fields.any() && !args.json && Audience::of_this_process() == Audience::Person {
        ask_for(&mut fields)?;
    }
    let fields = fields.edit(placeholder(args.id.as_ref()), None)?;
    let made = WouldRun::of_edit(&fields);
    let id = add(invocation, args.title, args.id, fields)?;
    Trust::grant_own(invocation, &invocation.root()?, &made);
    if args.json {
        invocation.out.document(&json!({ "task_id": id }))?;
    } else {
        invocation.out.line(&id)?;
    }
    Ok(ExitCode::Done)
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

/// The id is only needed where a task could depend on itself, which a new one can not: it is not
/// known before the ledger is locked.
pub(crate) fn placeholder(id: Option<&TaskId>) -> TaskId {
    id.cloned().unwrap_or_else(|| TaskId::numbered(0))
}

fn ask_for(fields: &mut Fields) -> Result<()> {
    let given = |text: String| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    fields.validate = given(ask("The command that proves it is done (empty: none yet):")?);
    fields.priority = given(ask("Priority P0, P1 or P2 (empty: P1):")?);
    if let Some(ids) = given(ask("Depends on (ids, empty: nothing):")?) {
        let ids = ids.split([',', ' ']).filter(|id| !id.is_empty());
        let ids = ids.map(|id| task_id(id).map(|id| Dependency(Some(id))).map_err(Failure::usage));
        fields.depends_on = Some(ids.collect::<Result<_>>()?);
    }
    Ok(())
}
