//! `harness task list`

use std::collections::{HashMap, HashSet};

use clap::{ValueEnum, builder::styling::Style};
use harness_core::{
    Ledger, TaskId,
    format::task_object,
    select::Applicant,
    stats,
    task::{Status, Task},
};
use serde_json::{Value, json};

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    render::{Cell, Table},
    task_line::{Outlook, style},
};

/// List the tasks of the ledger
///
/// Columns: id, status, priority, attempts, and the title with what it waits for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task list
  harness task list --status failed
  harness task list --ready --role backend
  harness task list --json | jq -r '.tasks[].id'")]
pub(crate) struct Args {
    /// Only tasks with this status
    #[arg(long, value_name = "STATUS", value_enum)]
    status: Option<StatusArg>,
    /// Only tasks of this role; with --ready, also those without a role
    #[arg(long)]
    role: Option<String>,
    /// Only tasks of this phase
    #[arg(long)]
    phase: Option<String>,
    /// Only tasks that can be claimed now, in claim order
    #[arg(long)]
    ready: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StatusArg {
    Pending,
    InProgress,
    Completed,
    Failed,
    /// Pending tasks that depend on one that failed for good
    Blocked,
}

impl StatusArg {
    fn holds(self, task: &Task, blocked: &HashSet<&TaskId>) -> bool {
        match self {
            Self::Pending => task.status() == Status::Pending,
            Self::InProgress => task.status() == Status::InProgress,
            Self::Completed => task.status() == Status::Completed,
            Self::Failed => task.status() == Status::Failed,
            Self::Blocked => blocked.contains(&task.id),
        }
    }
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let (ledger, document) = root.snapshot_text()?.document()?;
    let blocked = stats::blocked(&ledger);
    let tasks = chosen(&ledger, &args, &blocked);
    if args.json {
        // The tasks are printed as in the ledger, including unknown fields.
        let tasks: Vec<Value> = tasks
            .iter()
            .map(|task| {
                let text = document.task(&task.id);
                let read = text.and_then(|text| serde_json::from_str(&text).ok());
                read.unwrap_or_else(|| Value::Object(task_object(task)))
            })
            .collect();
        invocation.out.document(&json!({ "tasks": tasks }))?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::default();
    for task in tasks {
        let outlook = if blocked.contains(&task.id) { Outlook::Blocked } else { Outlook::Open };
        let worker = match (task.status(), task.claimed_by()) {
            (Status::InProgress, Some(worker)) => format!(" — {worker}"),
            _ => String::new(),
        };
        let note = if outlook == Outlook::Blocked { " — blocked" } else { "" };
        table.row([
            Cell::styled(Style::new().bold(), task.id.as_str()),
            Cell::styled(style(task.status(), outlook), task.status().name()),
            Cell::from(task.priority.name()),
            Cell::from(format!("{}/{}", task.attempts, task.max_attempts)),
            Cell::from(format!("{}{note}{worker}", task.title)),
        ]);
    }
    invocation.out.table(&table)?;
    Ok(ExitCode::Done)
}

fn chosen<'a>(ledger: &'a Ledger, args: &Args, blocked: &HashSet<&TaskId>) -> Vec<&'a Task> {
    let queue: Option<HashMap<&TaskId, usize>> = args.ready.then(|| {
        let of = Applicant { role: args.role.as_deref(), ..Applicant::ANYBODY };
        let queue = ledger.selection().queue(of);
        queue.into_iter().enumerate().map(|(n, id)| (id, n)).collect()
    });
    let is = |wanted: &Option<String>, has: &Option<String>| {
        wanted.is_none() || wanted.as_ref() == has.as_ref()
    };
    let wanted = |task: &&Task| {
        args.status.is_none_or(|status| status.holds(task, blocked))
            && is(&args.phase, &task.phase)
            && match &queue {
                // The queue has already been filtered by role.
                Some(queue) => queue.contains_key(&task.id),
                None => is(&args.role, &task.role),
            }
    };
    let mut tasks: Vec<&Task> = ledger.tasks().filter(wanted).collect();
    if let Some(queue) = &queue {
        tasks.sort_by_key(|task| queue.get(&task.id));
    }
    tasks
}
