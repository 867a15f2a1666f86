//! A run on one line.

use harness::view::{RunCondition, RunSummary};
use harness_core::Timestamp;

use crate::{
    paint::{Paint, one_line},
    task_line::Span,
};

/// The number of characters of an objective that are shown.
const OBJECTIVE_CHARACTERS: usize = 60;
/// The number of characters of an agent's name that are shown. It may be a whole command line.
const AGENT_CHARACTERS: usize = 40;

/// Returns the line of a run. The numbers come before the agent, so that a narrow terminal still
/// shows them. An attempt that no process drives has no line, because its task shows that.
pub(crate) fn line(run: &RunSummary, now: Timestamp, paint: Paint) -> Option<String> {
    if run.parent_run_id.is_some() && !run.driven {
        return None;
    }
    let mut line = format!("{}: {}", paint.heading("run"), subject(run));
    if run.objective.is_some() || run.task_id.is_some() {
        let (context, most) = (run.iteration_count + 1, run.max_iterations.saturating_add(1));
        line += &format!(", context {context} of at most {most}");
    }
    let agent = cut(&one_line(&run.agent), AGENT_CHARACTERS);
    line += &format!(" ({}{}, {agent})", Span(run.seconds(now)), spent(run));
    line += &outlook(run, now);
    Some(line)
}

/// Returns the purpose of a run.
pub(crate) fn subject(run: &RunSummary) -> String {
    match (&run.objective, &run.task_id) {
        (Some(objective), _) => cut(&one_line(objective), OBJECTIVE_CHARACTERS),
        (None, Some(task)) => task.to_string(),
        (None, None) => "the ledger".to_owned(),
    }
}

/// Returns what it waits for, or the command that resumes it.
fn outlook(run: &RunSummary, now: Timestamp) -> String {
    let next = run.next.as_ref().map(|next| format!(": `{next}`")).unwrap_or_default();
    match (run.condition, run.stop_reason, run.wake_at) {
        (RunCondition::CutOff, _, wake_at) => {
            let waits = wake_at.filter(|until| *until > now);
            let waits = waits.map(|until| format!(", waits until {until}")).unwrap_or_default();
            format!(" — cut off{waits}{next}")
        }
        (RunCondition::AsksPerson, ..) => format!(" — waits for a person{next}"),
        (RunCondition::WaitsForLimit, _, Some(until)) => {
            format!(" — waits for a usage limit until {until}: `harness kick` ends that")
        }
        (RunCondition::Over, Some(reason), _) if run.next.is_some() => {
            format!(" — stopped ({reason}){next}")
        }
        (RunCondition::Over, ..) => format!(" — {}", run.status),
        _ => String::new(),
    }
}

/// Returns the usage of the run, each part after a comma.
pub(crate) fn spent(run: &RunSummary) -> String {
    let tokens = run.input_tokens.saturating_add(run.output_tokens);
    let mut text = String::new();
    if tokens > 0 {
        text += &format!(", {tokens}");
        text += &run.max_tokens.map(|most| format!(" of {most}")).unwrap_or_default();
        text += " tokens";
    }
    if let Some(cost) = run.cost_usd {
        text += &format!(", ${cost:.2}");
        text += &run.max_cost_usd.map(|most| format!(" of ${most:.2}")).unwrap_or_default();
    }
    text
}

fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['…']).collect()
}
