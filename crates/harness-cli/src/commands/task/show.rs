//! `harness task show`

use std::{collections::HashSet, fmt::Display};

use harness::clock::{Clock, SystemClock};
use harness_core::{
    Ledger, Standing, TaskId, Timestamp,
    format::task_object,
    stats,
    task::{Intent, Status, Task},
};
use serde_json::{Value, json};

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::one_line,
    render::Out,
    store::{not_found, task_id},
    task_line::{Claim, Outlook, Span, Tag, style},
};

/// Show everything about one task
///
/// Shows its check, claim, checkpoints and errors, its dependencies and dependents, and whether it
/// is next or what it waits for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task show task-003
  harness task show task-003 --json | jq .standing")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = task_id)]
    id: TaskId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let (ledger, document) = root.snapshot_text()?.document()?;
    let Some(task) = ledger.task(&args.id) else { return Err(not_found(&ledger, args.id)) };
    if args.json {
        let text = document.task(&task.id);
        let read = text.and_then(|text| serde_json::from_str(&text).ok());
        let raw = read.unwrap_or_else(|| Value::Object(task_object(task)));
        let standing = Standing::of(&ledger, task);
        invocation.out.document(&json!({
            "task": raw,
            "standing": standing.name(),
            "reason": standing.to_string(),
            "next": standing == Standing::Next,
            "blocked": stats::blocked(&ledger).contains(&task.id),
            "dependencies": others(&ledger, task.depends_on.iter()),
            "dependents": others(&ledger, ledger.selection().dependents(&task.id)),
        }))?;
    } else {
        let (out, blocked) = (&mut invocation.out, stats::blocked(&ledger));
        Page { out, ledger: &ledger, blocked, task, now: SystemClock.now() }.print()?;
    }
    Ok(ExitCode::Done)
}

fn others<'a>(ledger: &Ledger, ids: impl Iterator<Item = &'a TaskId>) -> Vec<Value> {
    let other = |id: &TaskId| {
        let task = ledger.task(id);
        let (status, title) = (task.map(|t| t.status().name()), task.map(|t| &t.title));
        json!({ "id": id, "status": status, "title": title })
    };
    ids.map(other).collect()
}

struct Page<'a> {
    out: &'a mut Out,
    ledger: &'a Ledger,
    blocked: HashSet<&'a TaskId>,
    task: &'a Task,
    now: Timestamp,
}

impl Page<'_> {
    fn print(mut self) -> Result<()> {
        let (task, paint) = (self.task, self.out.paint());
        let heading = format!("{}: {}", task.id, one_line(&task.title));
        self.out.line(paint.heading(heading))?;
        let standing = Standing::of(self.ledger, task);
        let status = paint.style(style(task.status(), self.outlook(task)), task.status().name());
        match task.status() {
            Status::Completed => self.field("status", status)?,
            Status::InProgress => {
                let claim = Claim::of(task, self.now);
                self.field("status", format_args!("{status} — {claim}"))?;
            }
            Status::Failed if standing == Standing::Failed => {
                self.field("status", format_args!("{status} for good"))?;
            }
            Status::Failed => {
                let status = format_args!("{status}, to be tried again — {standing}");
                self.field("status", status)?;
            }
            Status::Pending => self.field("status", format_args!("{status} — {standing}"))?,
        }
        self.field("priority", one_line(task.priority.name()))?;
        self.field("attempts", format_args!("{} of {}", task.attempts, task.max_attempts))?;
        self.text("role", task.role.as_deref())?;
        if !task.requires.is_empty() {
            self.field("requires", task.requires.join(", "))?;
        }
        self.text("phase", task.phase.as_deref())?;
        self.work()?;
        self.claim()?;
        self.related("depends on", task.depends_on.iter())?;
        self.related("needed by", self.ledger.selection().dependents(&task.id))?;
        self.history()?;
        self.long("instructions", task.instructions.as_deref())
    }

    fn outlook(&self, task: &Task) -> Outlook {
        if self.blocked.contains(&task.id) { Outlook::Blocked } else { Outlook::Open }
    }

    /// Shows the criteria of its completion, and their time limit.
    fn work(&mut self) -> Result<()> {
        let task = self.task;
        match task.check() {
            None => self.field("check", "none: `harness run` does not work on it")?,
            Some(check) if check.contains('\n') => self.long("check", Some(check))?,
            Some(check) => self.field("check", one_line(check))?,
        }
        if task.check().is_some() {
            self.field("check limit", Span(task.validation.timeout_seconds))?;
        }
        for (name, set) in
            [("clean", task.validation.clean), ("baseline", task.validation.baseline)]
        {
            if let Some(set) = set {
                self.field(name, if set { "yes" } else { "no" })?;
            }
        }
        if !task.protected.is_empty() {
            self.field("protected", one_line(&task.protected.join(" ")))?;
        }
        self.text("cleanup", task.cleanup.as_deref())?;
        if let Some(seconds) = task.timeout_seconds {
            self.field("time limit", Span(seconds))?;
        }
        Ok(())
    }

    fn claim(&mut self) -> Result<()> {
        let task = self.task;
        if let (Status::Completed, Some(worker)) = (task.status(), task.claimed_by()) {
            self.field("worker", one_line(worker.as_str()))?;
        }
        let times = [
            ("claimed", task.claimed_at()),
            ("lease ends", task.lease_expires_at()),
            ("completed", task.completed_at()),
            ("failed", task.failed_at()),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                self.field(name, time)?;
            }
        }
        if let (Some(epoch), Status::InProgress) = (task.epoch, task.status()) {
            self.field("claim", format_args!("epoch {epoch}, via {}", task.claimed_via().name()))?;
        }
        if let Some(commit) = &task.started_at_commit {
            self.field("base", commit.short())?;
        }
        if let Some(claim) = task.claim() {
            self.text("branch", claim.branch.as_deref())?;
            self.text("work tree", claim.worktree.as_deref())?;
        }
        match task.intent() {
            None => Ok(()),
            Some(Intent::Rollback { category, message }) => {
                self.field("intent", format_args!("roll back: [{category}] {}", one_line(message)))
            }
            Some(Intent::Land { target, from, to }) => {
                let (target, from, to) = (one_line(target), from.short(), to.short());
                self.field("intent", format_args!("land on {target}: {from} to {to}"))
            }
        }
    }

    fn related<'a>(&mut self, name: &str, ids: impl Iterator<Item = &'a TaskId>) -> Result<()> {
        let paint = self.out.paint();
        let mut name = name;
        for id in ids {
            match self.ledger.task(id) {
                Some(other) => {
                    let tag = paint
                        .style(style(other.status(), self.outlook(other)), Tag(other.status()));
                    self.field(name, format_args!("{tag} {id}: {}", one_line(&other.title)))?;
                }
                None => self.field(name, format_args!("{} {id}", paint.error("[missing]")))?,
            }
            name = "";
        }
        Ok(())
    }

    fn history(&mut self) -> Result<()> {
        let (task, paint) = (self.task, self.out.paint());
        let mut name = "checkpoints";
        for point in &task.checkpoints {
            let time = point.timestamp.map(|t| format!("  {}", paint.faint(t))).unwrap_or_default();
            let what = one_line(&point.description);
            self.field(name, format_args!("{}/{}  {what}{time}", point.step, point.total))?;
            name = "";
        }
        let mut name = "errors";
        for entry in &task.error_log {
            self.field(name, one_line(&entry.to_string()))?;
            name = "";
        }
        Ok(())
    }

    fn text(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        text.map_or(Ok(()), |text| self.field(name, one_line(text)))
    }

    /// Shows a text of several lines below its name.
    fn long(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return Ok(()) };
        self.field(name, "")?;
        text.lines().try_for_each(|line| self.out.line(format_args!("    {}", one_line(line))))
    }

    fn field(&mut self, name: &str, value: impl Display) -> Result<()> {
        let value = value.to_string();
        let name = self.out.paint().faint(format!("{name:<12}")).to_string();
        if value.is_empty() {
            return self.out.line(format_args!("  {}", name.trim_end()));
        }
        self.out.line(format_args!("  {name} {value}"))
    }
}
