//! `harness verify`

use std::io::Write;

use harness::{
    check::Check,
    shell::{Cancel, SystemShell},
    store::{Origin, Witness},
    workspace::{GitWorkspace, WorkspaceError},
};
use harness_core::{
    Ledger, Receipt, Task, TaskId,
    check::{Verdict, took_too_long},
    receipt::CheckRecord,
    task::Status,
    variables::Variables,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    config::Overrides,
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::{coloured, visible, warn},
    render::{Cell, Table},
    root::StateRoot,
    store::{not_found, task_id},
    trust,
};

/// Check completed tasks again, from their receipts
///
/// For each completed task, or those named, runs the check of its receipt again in a clean checkout
/// of the recorded commit, after harness-init.sh. The work tree is not touched. Exits with 0 if
/// every check still passes, otherwise with 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness verify
  harness verify task-001 task-002
  harness verify --json | jq '.tasks[] | select(.holds | not)'")]
pub(crate) struct Args {
    /// The tasks [default: all that are completed]
    #[arg(value_name = "ID", value_parser = task_id)]
    ids: Vec<TaskId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one task.
#[derive(Serialize)]
struct Verified {
    id: TaskId,
    holds: bool,
    /// One word for programs.
    result: &'static str,
    why: String,
    commit: Option<String>,
    command: Option<String>,
    duration_ms: Option<u64>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    trust::require(invocation, &root)?;
    let ledger = invocation.look(&root)?;
    let config = invocation.config(&root, Overrides::default())?;
    let workspace = invocation.workspace(&root)?.bringing(config.validation.bring());
    let mut verified = Vec::new();
    let witness = Witness::of(root.path(), invocation.state_home().as_deref())?;
    for task in chosen(&ledger, args.ids)? {
        verified.push(verify(&root, &workspace, witness.as_ref(), task)?);
    }
    for line in foreign_lines(&root, witness.as_ref()) {
        warn(&format!("in harness-progress.txt, but not written by harness: {line}"));
    }
    let held = verified.iter().filter(|v| v.holds).count();
    let code = if held == verified.len() { ExitCode::Done } else { ExitCode::Error };
    if args.json {
        invocation.out.document(&json!({ "holds": held == verified.len(), "tasks": verified }))?;
        return Ok(code);
    }
    let mut table = Table::default();
    for v in &verified {
        use clap::builder::styling::AnsiColor::{Green, Red};
        let (word, color) = if v.holds { ("holds", Green) } else { ("does not hold", Red) };
        let commit = v.commit.as_deref().and_then(|c| c.get(..7)).unwrap_or("-");
        let cells = [v.id.as_str(), commit, &v.why].map(Cell::from);
        table.row([Cell::styled(coloured(color), word)].into_iter().chain(cells));
    }
    invocation.out.table(&table)?;
    invocation.out.line(format_args!("{held} of {} hold", verified.len()))?;
    Ok(code)
}

fn chosen(ledger: &Ledger, ids: Vec<TaskId>) -> Result<Vec<&Task>> {
    if ids.is_empty() {
        return Ok(ledger.tasks().filter(|t| t.status() == Status::Completed).collect());
    }
    let find = |id: TaskId| ledger.task(&id).ok_or_else(|| not_found(ledger, id));
    ids.into_iter().map(find).collect()
}

/// Returns the first lines of the log that look like harness's own but that it did not write.
pub(crate) fn foreign_lines(root: &StateRoot, witness: Option<&Witness>) -> Vec<String> {
    const SHOWN_MAX: usize = 20;
    let log = read_log(root).unwrap_or_default();
    let mut lines = witness
        .map(|witness| witness.foreign_lines(&String::from_utf8_lossy(&log)))
        .unwrap_or_default();
    lines.truncate(SHOWN_MAX);
    lines
}

fn read_log(root: &StateRoot) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut log) = harness::store::open_log(root.path())? {
        std::io::Read::read_to_end(&mut log, &mut bytes)?;
    }
    Ok(bytes)
}

fn verify(
    root: &StateRoot,
    workspace: &GitWorkspace,
    witness: Option<&Witness>,
    task: &Task,
) -> Result<Verified> {
    let mut answer = Verified {
        id: task.id.clone(),
        holds: false,
        result: "not_completed",
        why: format!("is {}", task.status()),
        commit: None,
        command: None,
        duration_ms: None,
    };
    if task.status() != Status::Completed {
        return Ok(answer);
    }
    let kept = root.receipt(&task.id, task.epoch.unwrap_or_default());
    let receipt = match kept {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return Ok(answer.because("no_receipt", "there is no receipt")),
        Err(why) => return Ok(answer.because("no_receipt", &why.to_string())),
    };
    answer.commit = receipt.commit.as_ref().map(ToString::to_string);
    if let Some(witness) = witness
        && witness.receipt(root.path(), &task.id, receipt.epoch)? == Origin::Foreign
    {
        return Ok(answer.because("foreign_receipt", "its receipt was not written by harness"));
    }
    let Some(record) = &receipt.check else {
        let why = format!("completed on the word of {}; no check was run", receipt.worker);
        return Ok(answer.because("unchecked", &why));
    };
    answer.command = Some(record.command.clone());
    let Some(commit) = &receipt.commit else {
        return Ok(answer.because("no_commit", "the receipt has no commit"));
    };
    let check = Check {
        command: record.command.clone(),
        timeout_seconds: record.timeout_seconds,
        environment: environment(root, &receipt),
    };
    _ = writeln!(std::io::stderr(), "checking {}: {}", task.id, visible(&check.command));
    let (shell, cancel) = (SystemShell::default(), Cancel::new()?);
    let checked = match check.run_clean(&shell, workspace, root.path(), commit, &cancel) {
        Ok(checked) => checked,
        Err(WorkspaceError::NoSuchCommit { .. }) => {
            return Ok(answer.because("no_commit", "its commit is gone"));
        }
        Err(other) => return Err(other.into()),
    };
    answer.duration_ms = Some(checked.record(&check).duration_ms);
    Ok(answer.judged(task, &receipt, record, checked.verdict))
}

impl Verified {
    fn because(self, result: &'static str, why: &str) -> Self {
        Self { result, why: why.to_owned(), ..self }
    }

    /// Sets the result of the check that was run again.
    fn judged(
        self,
        task: &Task,
        receipt: &Receipt,
        record: &CheckRecord,
        verdict: Verdict,
    ) -> Self {
        let aside = receipt.of_no_commit().map(|what| format!("; {what}")).unwrap_or_default();
        match verdict {
            Verdict::Passed => {
                let changed = task.check() != Some(record.command.as_str());
                let note = if changed { " (the task has another check now)" } else { "" };
                let why = format!("{}{note}{aside}", visible(&record.command));
                Verified { holds: true, ..self.because("passed", &why) }
            }
            Verdict::Red { why } => {
                let why = format!("{} ({why}{aside})", visible(&record.command));
                self.because("red", &why)
            }
            Verdict::TimedOut => self.because("timeout", &took_too_long(record.timeout_seconds)),
            Verdict::Missing => self.because(
                "missing",
                "the check or harness-init.sh cannot be run in a clean checkout",
            ),
            Verdict::Cancelled => self.because("stopped", "the check was stopped"),
        }
    }
}

/// Returns the environment that the check had when it passed.
pub(super) fn environment(root: &StateRoot, receipt: &Receipt) -> Vec<(String, String)> {
    Variables::of_root(root.path().display()).receipt(receipt).list()
}
