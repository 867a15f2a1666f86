//! `prompt`: a person typed a prompt. With `/harness` they choose what the session stays with.

use serde_json::json;

use super::{
    Answer,
    binding::{Binding, Pursuit},
    objective,
    payload::Payload,
    project::Project,
};

/// The calls of a command in Claude Code and of a skill in Codex. Those of a plugin come first,
/// because they begin like the others.
const CALLS: [&str; 4] = ["/harness:harness", "$harness:harness", "/harness", "$harness"];

/// The part of a request to a session that the hooks need. The agent reads the page of the command
/// for the rest.
#[derive(Debug, PartialEq, Eq)]
enum Request<'a> {
    Ledger,
    Objective(&'a str),
    LetGo,
    Other,
}

pub(super) fn answer(project: &Project<'_>, payload: &Payload) -> Answer {
    let request = payload.text("prompt").map_or(Request::Other, Request::parse);
    let Some(session) = payload.session() else { return Answer::silent() };
    let bind = |binding: &Binding, answer: Answer| match binding.write(project, session) {
        Ok(()) => answer,
        Err(why) => Answer::silent().warn(&format!("this session may stop at any time: {why}")),
    };
    match request {
        Request::Ledger => bind(&Binding::Ledger, Answer::silent()),
        Request::Objective(objective) => {
            let pursuit = Pursuit::of(objective);
            let told = context(&objective::beginning(&pursuit));
            bind(&Binding::Objective(pursuit), told)
        }
        Request::LetGo => {
            Binding::remove(project, session);
            Answer::silent()
        }
        Request::Other => Answer::silent(),
    }
}

/// Returns text that the agent reads besides the prompt.
fn context(text: &str) -> Answer {
    let output = json!({ "hookEventName": "UserPromptSubmit", "additionalContext": text });
    Answer::json(&json!({ "hookSpecificOutput": output }))
}

impl<'a> Request<'a> {
    /// Parses a prompt as the page of the command describes it: the first word decides.
    fn parse(prompt: &'a str) -> Self {
        let prompt = prompt.trim();
        let rest = CALLS.iter().find_map(|call| prompt.strip_prefix(call));
        let Some(rest) =
            rest.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        else {
            return Self::Other;
        };
        let rest = rest.trim();
        let (first, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match (first.to_ascii_lowercase().as_str(), more) {
            ("run" | "plan", _) => Self::Ledger,
            ("stop", "") => Self::LetGo,
            ("" | "init" | "status" | "add", _) | ("help", "") => Self::Other,
            _ => Self::Objective(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_decides_what_a_session_stays_with() {
        for (prompt, request) in [
            ("/harness run", Request::Ledger),
            ("  /harness  RUN the rest ", Request::Ledger),
            ("$harness plan a better login", Request::Ledger),
            ("/harness:harness run", Request::Ledger),
            ("$harness:harness stop", Request::LetGo),
            ("/harness:other run", Request::Other),
            ("/harness make the\nlogin work", Request::Objective("make the\nlogin work")),
            ("$harness stop the leak", Request::Objective("stop the leak")),
            ("/harness stop", Request::LetGo),
            ("/harness", Request::Other),
            ("/harness status", Request::Other),
            ("/harness add One", Request::Other),
            ("/harness-like run", Request::Other),
            ("please /harness run", Request::Other),
            ("run", Request::Other),
        ] {
            assert_eq!(Request::parse(prompt), request, "{prompt}");
        }
    }
}
