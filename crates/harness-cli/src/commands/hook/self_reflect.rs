//! `self-reflect`: the ledger is done, and the agent compares the result with its request, a few
//! times.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde_json::Value;

use super::{
    Answer,
    payload::Payload,
    project::{Project, REFLECT, session_file, shortened},
};
use crate::environment::Environment;

const ITERATIONS: i64 = 5;
const PROMPT_CHARACTERS: usize = 2000;
/// The part of a transcript that is searched for the first prompt.
const TRANSCRIPT_BYTES_MAX: u64 = 8 * 1024 * 1024;

pub(super) fn answer(env: &Environment, project: &Project<'_>, payload: &Payload) -> Answer {
    let Some(session) = payload.text("session_id") else { return Answer::silent() };
    let most = iterations(env);
    if most <= 0 {
        return Answer::silent();
    }
    let counter = session_file("reflect", session);
    let before = project.read_own(&counter).and_then(|text| text.trim().parse::<i64>().ok());
    let number = before.filter(|n| *n >= 0).unwrap_or(0).saturating_add(1);
    if number > most {
        return done(project, &counter);
    }
    if let Err(why) = project.write_own(&counter, &number.to_string()) {
        // Without its counter this could go on for ever.
        return done(project, &counter).warn(&why);
    }
    let prompt = payload.text("transcript_path").and_then(|path| first_prompt(Path::new(path)));
    Answer::block(&reason(number, most, prompt.as_deref()))
}

/// Returns the number of iterations. A value that is no number is a mistake, and does not mean
/// none.
fn iterations(env: &Environment) -> i64 {
    let told = env.get("REFLECT_MAX_ITERATIONS").and_then(|text| text.to_str());
    told.and_then(|text| text.trim().parse().ok()).unwrap_or(ITERATIONS)
}

fn done(project: &Project<'_>, counter: &str) -> Answer {
    project.remove(REFLECT);
    project.remove_own(counter);
    Answer::silent()
}

fn reason(number: i64, most: i64, prompt: Option<&str>) -> String {
    let mut text =
        format!("[Self-Reflect] All tasks are done. Review the work once more, {number}/{most}\n");
    if let Some(prompt) = prompt {
        text += &format!("\nThe original prompt:\n{prompt}\n");
    }
    text + "\nCheck, with commands and not from memory:\n\
            - Is everything that was asked for there, word for word?\n\
            - Do all tests, linters and builds pass now?\n\
            - Is anything half done: stubs, TODOs, dead code, files that were left behind?\n\
            - Are documentation and error messages true?\n\
            - Are edge cases and failures handled, and tested?\n\
            Fix what you find. If there is nothing, say so in one sentence and stop."
}

/// Returns the first prompt of the user in a transcript of Claude Code or Codex.
fn first_prompt(path: &Path) -> Option<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut lines = BufReader::new(file.take(TRANSCRIPT_BYTES_MAX));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).ok()? > 0 {
        let entry: Option<Value> = serde_json::from_slice(&line).ok();
        if let Some(text) = entry.as_ref().and_then(user_text) {
            return Some(shortened(text.trim(), PROMPT_CHARACTERS));
        }
        line.clear();
    }
    None
}

/// Returns the text of an entry that a user wrote, and not the program in the user's name.
fn user_text(entry: &Value) -> Option<String> {
    let message = match entry["type"].as_str()? {
        "user" if entry["isMeta"] != true => &entry["message"],
        "response_item" if entry["payload"]["type"] == "message" => &entry["payload"],
        _ => return None,
    };
    if message["role"].as_str().is_some_and(|role| role != "user") {
        return None;
    }
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let is_text = |part: &&Value| part["type"] == "text" || part["type"] == "input_text";
            let texts = parts.iter().filter(is_text).filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    let of_program = ["<environment_context>", "<user_instructions>", "# AGENTS.md instructions"];
    let written = !of_program.iter().any(|start| text.trim_start().starts_with(start));
    (written && !text.trim().is_empty()).then_some(text)
}
