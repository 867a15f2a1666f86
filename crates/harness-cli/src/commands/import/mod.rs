//! `harness import`

mod find;
mod github;
mod program;
mod report;
pub(crate) mod sync;
mod texts;

use harness::protocol::PlanText;
use harness_core::{
    command::{ImportMode, ImportedTasks},
    import::{self, ImportKind},
    plan::Plan,
    role::Operation,
    trust::Kind,
};
use serde_json::json;

use self::find::{Found, Wanted};
use super::init;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::{Invocation, working_directory},
    prompt::Audience,
    root::StateRoot,
    trust::{self, Trust},
    would_run::{WouldRun, item},
};

/// The limit of one line on the wire, with room for what is around the plan.
const PLAN_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Import tasks from the tools that you use already
///
/// Reads OpenSpec changes, beads, Spec Kit, Task Master, prd.json, feature_list.json, plans and
/// checklists in Markdown, and issues on GitHub. Without --from the kind is found by its paths.
/// Importing again adds what is new, updates the tasks that nobody has started, and never resets one
/// that is completed. Commands that came from outside run only after you trusted them (`harness
/// trust`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness import
  harness import docs/plan.md --validate 'cargo test'
  harness import gh:octo/app --label agent
  harness import --from taskmaster --tag next
  harness import prd.json --dry-run > plan.md
  harness import --sync")]
pub(crate) struct Args {
    /// A file, a folder, or gh:OWNER/REPO [default: the project]
    #[arg(value_name = "PATH")]
    source: Option<String>,
    /// The kind: openspec, beads, speckit, taskmaster, prd, features, plan, checklist, gh
    #[arg(long, value_name = "KIND", value_parser = kind)]
    from: Option<ImportKind>,
    /// The check of every task that brings none
    #[arg(long, value_name = "COMMAND")]
    validate: Option<String>,
    /// The tag of Task Master [default: the current one]
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only issues with this label (beads, gh)
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Print the plan and change nothing; `harness plan import` reads it
    #[arg(long, conflicts_with = "sync")]
    dry_run: bool,
    /// Then call the tasks that are completed here done at their source; without PATH and --from,
    /// only this, for all sources
    #[arg(long)]
    sync: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn writes_back_only(&self) -> bool {
        self.sync && self.source.is_none() && self.from.is_none()
    }
}

fn kind(word: &str) -> Result<ImportKind, String> {
    let known = || ImportKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    ImportKind::parse(word).ok_or_else(|| format!("it is not one of {}", known()))
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let start = working_directory()?;
    let root = match StateRoot::discover(&invocation.env, &start) {
        Ok(root) => root,
        Err(_) => StateRoot::for_init(&invocation.env, &start)?,
    };
    if !args.dry_run {
        invocation.permit(&root, Operation::UpdatePlan)?;
    }
    if args.validate.as_ref().is_some_and(|command| command.trim().is_empty()) {
        return Err(Failure::usage("--validate: the command is empty"));
    }
    if args.writes_back_only() && has_sources(invocation, &root) {
        return write_back(invocation, &root, args.json);
    }
    let wanted = Wanted {
        source: args.source.as_deref(),
        kind: args.from,
        tag: args.tag.clone(),
        label: args.label.clone(),
    };
    let found = find::find(invocation, &root, &wanted)?;
    let plan = read(&found, args.validate.as_deref())?;
    if args.dry_run {
        return dry_run(invocation, &plan, args.json);
    }
    let tasks = bring(invocation, &root, &plan)?;
    if let Some(check) = &args.validate {
        let own = WouldRun { items: vec![item(Kind::Check, check)] };
        Trust::grant_own(invocation, &root, &own);
    }
    let synced = match args.sync {
        true => Some(sync::sync(invocation, &root, |source| found.is_origin_of(source))?),
        false => None,
    };
    let report = report::Report {
        root: &root,
        found: &found,
        plan: &plan,
        tasks: &tasks,
        without_check: report::without_check(invocation, &root, &tasks),
        synced: synced.as_ref(),
    };
    if args.json {
        invocation.out.document(&report.document())?;
        return Ok(ExitCode::Done);
    }
    report::warn_of(&plan.warnings);
    report.print(invocation)?;
    let introduction =
        "This project has commands and instructions from outside, which would run here";
    trust::offer_what_was_brought(invocation, &root, introduction, Audience::of_this_process())?;
    Ok(ExitCode::Done)
}

fn has_sources(invocation: &Invocation, root: &StateRoot) -> bool {
    let has = |ledger: harness_core::Ledger| ledger.tasks().any(|task| task.source.is_some());
    invocation.look(root).is_ok_and(has)
}

/// Calls completed tasks done at all sources of the ledger, and imports nothing.
fn write_back(invocation: &mut Invocation, root: &StateRoot, json: bool) -> Result<ExitCode> {
    let synced = sync::sync(invocation, root, |_| true)?;
    if json {
        let document =
            json!({ "root": root.path().to_string_lossy(), "synced": synced.document() });
        invocation.out.document(&document)?;
    } else {
        synced.print(invocation)?;
    }
    Ok(ExitCode::Done)
}

/// Returns the plan of what was found. A plan that cannot be imported is refused here, before
/// anything is changed.
fn read(found: &Found, check: Option<&str>) -> Result<Plan> {
    if found.texts.iter().all(|text| text.text.trim().is_empty()) {
        let places = found.places().join(", ");
        return Err(Failure::error(format!("there is nothing to import: {places} is empty")));
    }
    let imported = import::read(found.kind, &found.texts, &found.choice).map_err(|problem| {
        let kind = found.kind;
        Failure::error(problem.to_string())
            .hint(format!("it was read as {kind}; `--from KIND` reads it as another kind"))
    })?;
    let plan = imported.into_plan(check);
    if plan.tasks.is_empty() {
        report::warn_of(&plan.warnings);
        return Err(nothing_in(found));
    }
    plan.check_graph(|_| false).map_err(|why| {
        let places = found.places().join(", ");
        Failure::error(why.to_string())
            .hint(format!("tasks wait for each other in {places}; change that there"))
    })?;
    Ok(plan)
}

fn nothing_in(found: &Found) -> Failure {
    let (places, kind) = (found.places().join(", "), found.kind);
    let hint = "`--from KIND` reads it as another kind; `harness help import` lists them";
    Failure::error(format!("there are no tasks in {places}, read as {kind}")).hint(hint)
}

fn dry_run(invocation: &mut Invocation, plan: &Plan, json: bool) -> Result<ExitCode> {
    report::warn_of(&plan.warnings);
    if json {
        invocation.out.document(&plan.to_value())?;
    } else {
        invocation.out.raw(plan.to_markdown().as_bytes())?;
    }
    Ok(ExitCode::Done)
}

/// Brings the tasks into the ledger, in one transaction.
fn bring(invocation: &Invocation, root: &StateRoot, plan: &Plan) -> Result<ImportedTasks> {
    let content = plan.to_markdown();
    if content.len() > PLAN_BYTES_MAX {
        let error = format!("{} tasks have {} bytes", plan.tasks.len(), content.len());
        return Err(Failure::error(format!("{error}, and at most {PLAN_BYTES_MAX} are allowed"))
            .hint("import a part of it: a smaller file, or one --tag or --label"));
    }
    let text = PlanText { content, mode: ImportMode::Update };
    let imported = invocation.with_maker(root, init::made, |client| client.import_plan(text))?;
    // A host of an earlier version adds the new tasks and does not say which.
    imported.tasks.map(|tasks| *tasks).ok_or_else(|| {
        let count = imported.task_count;
        Failure::error(format!(
            "the host of {} added {count} new tasks only",
            root.path().display()
        ))
        .hint("it is of an earlier version: `harness shutdown`, then import again")
    })
}
