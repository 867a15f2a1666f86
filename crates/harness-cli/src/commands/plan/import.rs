//! `harness plan import`

use std::path::Path;

use harness::protocol::{ImportedPlan, PlanText};
use harness_core::{
    command::{Import, ImportMode},
    plan::Plan,
    role::{Circumstances, Merge, Operation},
};
use serde_json::{Value, json};

use super::source;
use crate::{
    commands::{add::note_unchecked, init},
    exit::ExitCode,
    failure::Result,
    invocation::{Invocation, working_directory},
    paint::{visible, warn},
    prompt::Audience,
    render::tasks,
    root::StateRoot,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Import a plan as tasks of the ledger
///
/// Creates a ledger if there is none. A ledger with unfinished work is replaced only if you pass
/// --replace. The daemon does the import, and is started if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan import plan.md
  harness plan import more.md --merge
  my-agent 'write a plan' | harness plan import -")]
pub(crate) struct Args {
    #[command(flatten)]
    source: source::Source,
    /// Archive the present tasks, finished or not, and start from the plan
    #[arg(long, conflicts_with = "merge")]
    replace: bool,
    /// Keep the present tasks and add those whose ids are new
    #[arg(long)]
    merge: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn mode(&self) -> ImportMode {
        match (self.replace, self.merge) {
            (true, _) => ImportMode::Replace,
            (_, true) => ImportMode::Merge,
            _ => ImportMode::IfFinished,
        }
    }
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let text = source::read(args.source.file())?;
    let plan = Plan::read(&text)?;
    source::warn_of(&plan);
    if plan.phases.is_some() && args.mode() == ImportMode::Merge {
        warn("phases: a merge leaves those of the ledger as they are");
    }
    let (made, unchecked) = (WouldRun::of_plan(&plan), source::unchecked(&plan));
    let imported = import(invocation, &text, plan, args.mode())?;
    note_unchecked(&unchecked);
    let root = invocation.root()?;
    Trust::grant_own(invocation, &root, &made);
    if args.json {
        invocation.out.document(&imported)?;
        return Ok(ExitCode::Done);
    }
    let count = imported["task_count"].as_u64().unwrap_or_default();
    let count = usize::try_from(count).unwrap_or_default();
    invocation.out.line(format_args!("Plan imported ({})", tasks(count)))?;
    if let Some(path) = imported["archive"].as_str() {
        invocation.out.line(format_args!("Archived: {}", visible(path)))?;
    }
    trust::offer_what_was_brought(invocation, &root, trust::BROUGHT, Audience::of_this_process())?;
    Ok(ExitCode::Done)
}

/// Imports the plan that was read from `text`, and returns the result with the place of the
/// archived tasks.
pub(crate) fn import(
    invocation: &Invocation,
    text: &str,
    plan: Plan,
    mode: ImportMode,
) -> Result<Value> {
    let start = working_directory()?;
    let root = match StateRoot::discover(&invocation.env, &start) {
        Ok(root) => root,
        Err(_) => {
            // A refused plan must leave nothing behind.
            plan.check_graph(|_| false)?;
            plan.check_titles()?;
            StateRoot::for_init(&invocation.env, &start)?
        }
    };
    permit(invocation, &root, &Import { plan, mode, by: None })?;
    let text = PlanText { content: text.to_owned(), mode };
    let imported = invocation.with_maker(&root, init::made, |client| client.import_plan(text))?;
    let ImportedPlan { goal, task_count, warnings, archive, tasks: _ } = imported;
    Ok(json!({
        "goal": goal,
        "task_count": task_count,
        "warnings": warnings,
        "root": root.path().to_string_lossy(),
        "archive": archive.as_deref().map(Path::to_string_lossy),
    }))
}

fn permit(invocation: &Invocation, root: &StateRoot, import: &Import) -> Result<()> {
    let operation = match import.mode {
        ImportMode::IfFinished => Operation::BeginPlan,
        ImportMode::Replace => Operation::ReplacePlan,
        ImportMode::Merge => Operation::MergePlan,
        ImportMode::Update => Operation::UpdatePlan,
    };
    invocation.permit_where(root, operation, |_| {
        let is_awaited = invocation.look(root).is_ok_and(|ledger| import.is_awaited(&ledger));
        let merge = if is_awaited { Merge::Awaited } else { Merge::OnlyAdds };
        Circumstances { merge, ..Circumstances::default() }
    })
}
