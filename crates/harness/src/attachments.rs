//! Attachments that come with the library.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::{
    channel::Channel,
    define::Cleanup,
    event::{Envelope, Event},
    hub::Hub,
};

/// Shows the events of a run on standard error, one line for each event that a person wants to see,
/// indented by its place.
pub fn terminal() -> impl FnOnce(&Hub) -> Cleanup {
    show_on(io::stderr())
}

/// Does the same as [`terminal`], to any writer. It is flushed after every line. A line that cannot
/// be written is lost.
pub fn show_on(writer: impl Write + Send + 'static) -> impl FnOnce(&Hub) -> Cleanup {
    Channel::new(writer)
        .on("*", |writer, envelope, _| {
            if let Some(line) = line(envelope) {
                // There is no place to report a failure of this.
                _ = writeln!(writer, "{line}").and_then(|()| writer.flush());
            }
        })
        .attachment()
}

/// Appends the lines of [`terminal`], with their times and without the indentation, to a file. It is
/// created if needed. (The log of the ledger, `harness-progress.txt`, is another file.)
///
/// ```
/// use harness::{Cx, Harness, Result, progress_log};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("progress.log");
/// let flow = Harness::define("logged")
///     .state(|(): &()| ())
///     .run(async |cx: &mut Cx<'_, (), ()>| cx.task("one", async |_| Ok(())).await);
/// flow.create(()).attach(progress_log(&path)?).run().await?;
/// let log = std::fs::read_to_string(&path)?;
/// // [2026-01-31T10:00:00.007Z] ▶ logged
/// assert!(log.lines().next().is_some_and(|line| line.ends_with("] ▶ logged")));
/// assert!(log.contains("] ✔ one"));
/// # Ok(())
/// # }
/// ```
pub fn progress_log(path: &Path) -> io::Result<impl FnOnce(&Hub) -> Cleanup + use<>> {
    let file: File = OpenOptions::new().append(true).create(true).open(path)?;
    let channel = Channel::new(file).on("*", |file, envelope, _| {
        if let Some(line) = line(envelope)
            && let Err(e) = writeln!(file, "[{}] {}", envelope.timestamp, line.trim_start())
        {
            tracing::error!(%e, "the progress log cannot be written");
        }
    });
    Ok(channel.attachment())
}

/// Returns the line for an event, without characters that could move a cursor.
fn line(envelope: &Envelope) -> Option<String> {
    let text = match &envelope.event {
        Event::HarnessStart { name } => format!("▶ {name}"),
        Event::HarnessComplete { success, duration_ms } => {
            let mark = if *success { "✔ done" } else { "✘ failed" };
            format!("{mark} after {}", seconds(*duration_ms))
        }
        Event::PhaseStart { name, .. } => format!("phase {name}"),
        Event::PhaseFailed { name, error, .. } => format!("✘ phase {name}: {error}"),
        Event::TaskStart { task_id, .. } => format!("• {task_id}"),
        Event::TaskComplete { task_id, .. } => format!("✔ {task_id}"),
        Event::TaskFailed { task_id, error, .. } => format!("✘ {task_id}: {error}"),
        Event::TaskCheckpoint { task_id, step, total, description } => {
            format!("{task_id}: {step}/{total} {description}")
        }
        Event::RunIteration { iteration, max_iterations, .. } => {
            format!("iteration {iteration} of {max_iterations}")
        }
        Event::RunWaiting { until, .. } => format!("waits for a usage limit until {until}"),
        Event::RunBudget { .. } => "the budget was changed".to_owned(),
        Event::AgentStart { agent_name, run_id } => format!("{agent_name} ({run_id}) starts"),
        Event::AgentFailed { agent_name, run_id, error } => {
            format!("✘ {agent_name} ({run_id}): {error}")
        }
        Event::AgentText { content, .. } => format!("“{}”", content.trim()),
        Event::AgentToolStart { tool_name, .. } => format!("uses {tool_name}"),
        Event::SessionPrompt { prompt_id, prompt, choices, .. } => {
            let choices = choices.as_ref().map(|c| format!(" [{}]", c.join("/")));
            format!("? {prompt}{} ({prompt_id})", choices.unwrap_or_default())
        }
        Event::SessionMessage { content, .. } => format!("✉ {content}"),
        Event::SessionAbort { reason } => {
            format!("✘ aborted{}", reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default())
        }
        Event::Narrative { text, .. } => text.clone(),
        // These are ends whose beginnings were shown, and events that only programs read.
        Event::PhaseComplete { .. }
        | Event::AgentComplete { .. }
        | Event::AgentThinking { .. }
        | Event::AgentToolComplete { .. }
        | Event::AgentUsage { .. }
        | Event::RunCheck { .. }
        | Event::RunGate { .. }
        | Event::SessionReply { .. }
        | Event::Ledger(_)
        | Event::Custom(_) => return None,
    };
    let context = &envelope.context;
    let inside = [context.phase.is_some(), context.task.is_some(), context.agent.is_some()];
    let depth = inside.into_iter().filter(|inside| *inside).count();
    let indent = "  ".repeat(depth);
    Some(format!("{indent}{}", harness_core::log::escape(&text)))
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}
