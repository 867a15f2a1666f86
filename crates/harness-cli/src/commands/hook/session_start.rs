//! `session-start`: an agent begins and receives the state of the work.

use harness_core::log::{Kind, LogLine, escape};
use serde_json::json;

use super::{
    Answer,
    outlook::Outlook,
    project::{Project, shortened},
};

const CONTEXT_CHARACTERS: usize = 10_000;
const LINE_CHARACTERS: usize = 220;

pub(super) fn answer(project: &Project<'_>) -> Answer {
    let context = match project.ledger() {
        Ok(ledger) => {
            let mut context = format!("HARNESS: {}", Outlook::of(&ledger).summary());
            if let Some(line) = last_line(&project.log_tail()) {
                context += &format!("\nHARNESS: last_log={line}");
            }
            context
        }
        Err(why) => format!("HARNESS: CONFIG error: {why}"),
    };
    self::context(&context)
}

/// Returns text that the agent reads before anything else.
pub(super) fn context(text: &str) -> Answer {
    Answer::json(&json!({
        "hookSpecificOutput": {
            "hookEventName": "SessionStart",
            "additionalContext": shortened(text, CONTEXT_CHARACTERS),
        }
    }))
}

/// Returns the line with the numbers of the last session, or else the last line.
fn last_line(lines: &[String]) -> Option<String> {
    let stats = |line: &&String| LogLine::parse(line).is_some_and(|line| line.kind == Kind::Stats);
    let last = lines.iter().rev().find(stats);
    let last = last.or_else(|| lines.iter().rev().find(|line| !line.trim().is_empty()))?;
    Some(shortened(&escape(last.trim()), LINE_CHARACTERS))
}
