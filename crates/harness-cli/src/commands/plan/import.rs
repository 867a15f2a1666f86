//! `harness plan import`

use std::path::{Path, PathBuf};

use harness::{
    clock::{Clock, SystemClock},
    store::Created,
};
use harness_core::{
    Command, Reply,
    command::{Import, ImportMode},
    plan::Plan,
    role::{Circumstances, Merge, Operation},
};
use serde_json::{Value, json};

use super::{Invocation, source};
use crate::{
    commands::{init, working_directory},
    exit::ExitCode,
    failure::{Failure, Result},
    host::{Asked, Patience},
    prompt::Audience,
    render::visible,
    root::StateRoot,
    trust::{self, Trust},
    would_run::WouldRun,
};

/// Turn a plan into the tasks of the ledger
///
/// Where there is no ledger yet it makes one. A ledger with unfinished work is not thrown away
/// unless you say so. The daemon takes it in, and is started if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness plan import --file plan.md
  harness plan import --file more.md --merge
  my-agent 'write a plan' | harness plan import --file -")]
pub(crate) struct Args {
    /// The text that holds the plan; - is standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Archive the tasks that are there, finished or not, and start from the plan
    #[arg(long, conflicts_with = "merge")]
    replace: bool,
    /// Keep the tasks that are there and add those whose ids are new
    #[arg(long)]
    merge: bool,
    /// Answer with a JSON document
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
    let text = source::read(&args.file)?;
    let plan = Plan::read(&text)?;
    source::warn_of(&plan);
    let made = WouldRun::of_plan(&plan);
    let imported = import(invocation, &text, plan, args.mode())?;
    let root = invocation.root()?;
    Trust::grant_own(invocation, &root, &made);
    if args.json {
        invocation.out.document(&imported)?;
        return Ok(ExitCode::Done);
    }
    let count = &imported["task_count"];
    invocation.out.line(format_args!("Plan imported ({count} tasks)"))?;
    if let Some(path) = imported["archive"].as_str() {
        invocation.out.line(format_args!("Archived: {}", visible(path)))?;
    }
    trust::offer_what_was_brought(invocation, &root, Audience::of_this_process())?;
    Ok(ExitCode::Done)
}

/// Takes in the plan that was read from `text`, and says what it came to and where the tasks are
/// kept that were there.
pub(crate) fn import(
    invocation: &Invocation,
    text: &str,
    plan: Plan,
    mode: ImportMode,
) -> Result<Value> {
    let start = working_directory()?;
    let (root, ledger) = match StateRoot::discover(&invocation.env, &start) {
        Ok(root) => (root, Found::Ledger),
        Err(_) => {
            // A plan that is refused must leave nothing behind.
            plan.check_graph(|_| false)?;
            (StateRoot::for_init(&invocation.env, &start)?, Found::Nothing)
        }
    };
    let import = Import { plan, mode, by: invocation.author(&root) };
    permit(invocation, &root, &import)?;
    let import = invocation.hidden(&root, Command::Import(import))?;
    // Its command lines hold no secret, or it would have been refused.
    let text = invocation.secrets(&root).text(text).into_owned();
    let request = json!({ "command": "plan_import", "content": text,
        "replace": mode == ImportMode::Replace, "merge": mode == ImportMode::Merge });
    let asked = invocation.ask_or_start(&root, &request, &Patience::Short);
    let data = match asked.map_err(|failure| invocation.explained(&root, &import, failure))? {
        Asked::Answered(data) => data,
        Asked::Nobody => by_files(invocation, &root, import, ledger)?,
    };
    Ok(json!({
        "goal": data["goal"],
        "task_count": data["task_count"],
        "warnings": data.get("warnings").cloned().unwrap_or_else(|| json!([])),
        "root": root.path().to_string_lossy(),
        "archive": data["archive"],
    }))
}

fn permit(invocation: &Invocation, root: &StateRoot, import: &Import) -> Result<()> {
    let operation = match import.mode {
        ImportMode::IfFinished => Operation::BeginPlan,
        ImportMode::Replace => Operation::ReplacePlan,
        ImportMode::Merge => Operation::MergePlan,
    };
    invocation.permit_where(root, operation, |_| {
        let is_awaited = invocation.look(root).is_ok_and(|ledger| import.is_awaited(&ledger));
        let merge = if is_awaited { Merge::Awaited } else { Merge::OnlyAdds };
        Circumstances { merge, ..Circumstances::default() }
    })
}

/// What there was before.
enum Found {
    Ledger,
    Nothing,
}

/// What a host would answer.
fn by_files(
    invocation: &Invocation,
    root: &StateRoot,
    import: Command,
    found: Found,
) -> Result<Value> {
    match found {
        Found::Ledger => {}
        Found::Nothing => make(invocation, root)?,
    }
    let (reply, archived) = invocation.apply_archiving(root, import)?;
    let Reply::Imported { goal, task_count, warnings } = reply else {
        return Err(Failure::error("the store gave another answer"));
    };
    let archive = archived.as_deref().map(Path::to_string_lossy);
    Ok(json!({ "goal": goal, "task_count": task_count, "warnings": warnings, "archive": archive }))
}

/// Ledger, log and marker, and trust: this user made them.
fn make(invocation: &Invocation, root: &StateRoot) -> Result<()> {
    match invocation.store(root)?.create(SystemClock.now())? {
        // Somebody else was faster, and theirs is not ours to trust.
        Created::Existed => Ok(()),
        Created::New => {
            init::made(&invocation.env, root);
            Ok(())
        }
    }
}
