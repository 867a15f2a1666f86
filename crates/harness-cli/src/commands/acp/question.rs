//! Questions of a run, as the editor asks them.
//!
//! A question with choices becomes a request for permission, which editors show as buttons. The
//! protocol has no form for any other answer: such a question ends the turn, and the next message
//! answers it.

use serde_json::{Value, json};

/// Words of choices that refuse something.
const REFUSALS: [&str; 6] = ["reject", "deny", "no", "cancel", "abort", "refuse"];

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) choices: Vec<String>,
}

impl Question {
    /// Reads the event `session:prompt`.
    pub(super) fn of(event: &Value) -> Option<Self> {
        let choices = event["choices"].as_array().into_iter().flatten();
        Some(Self {
            id: event["promptId"].as_str()?.to_owned(),
            text: event["prompt"].as_str().unwrap_or_default().to_owned(),
            choices: choices.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Returns the parameters of the request for permission.
    pub(super) fn permission(&self, session: &str) -> Value {
        let option = |choice: &String| {
            let first = choice.to_ascii_lowercase();
            let first = first.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let kind = if REFUSALS.contains(&first) { "reject_once" } else { "allow_once" };
            json!({ "optionId": choice, "name": choice, "kind": kind })
        };
        json!({
            "sessionId": session,
            "toolCall": {
                "toolCallId": self.id,
                "title": self.text,
                "kind": "other",
                "status": "pending",
            },
            "options": self.choices.iter().map(option).collect::<Vec<_>>(),
        })
    }

    /// Returns the choice in the editor's answer; `None` if it was cancelled.
    pub(super) fn chosen(&self, answer: &Value) -> Option<String> {
        let outcome = &answer["outcome"];
        let chosen = outcome["optionId"].as_str().filter(|_| outcome["outcome"] == "selected")?;
        self.choices.iter().find(|choice| *choice == chosen).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_become_buttons_and_the_answer_is_one_of_them() {
        let event =
            json!({ "promptId": "p-1", "prompt": "May I?", "choices": ["yes", "No, never"] });
        let question = Question::of(&event).unwrap();
        let asked = question.permission("s");
        assert_eq!(asked["options"][0]["kind"], "allow_once");
        assert_eq!(asked["options"][1]["kind"], "reject_once");
        let selected = |id: &str| json!({ "outcome": { "outcome": "selected", "optionId": id } });
        assert_eq!(question.chosen(&selected("yes")).as_deref(), Some("yes"));
        assert_eq!(question.chosen(&selected("maybe")), None);
        assert_eq!(question.chosen(&json!({ "outcome": { "outcome": "cancelled" } })), None);
    }
}
