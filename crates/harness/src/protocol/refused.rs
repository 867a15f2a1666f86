//! The refusal of a request.

use std::io;

use harness_core::{
    Refusal,
    command::{Code, RefusalKind},
    machine::judge::{Fault, NotDone},
    plan::PlanError,
};
use serde_json::{Value, json};

use super::hint;

/// The reason why a request was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// The message for people.
    pub message: String,
    /// The code for programs.
    pub code: Code,
    /// The party that can fix it.
    pub fault: Fault,
    /// The suggested next steps.
    pub hints: Vec<String>,
}

impl Refused {
    /// Creates a refusal without hints, where the request is at fault.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { message: message.into(), code, ..Self::default() }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the line on the wire.
    pub fn line(&self) -> Value {
        let mut line =
            json!({ "status": "error", "message": self.message, "code": self.code.name() });
        if let Some(word) = word(self.fault) {
            line["fault"] = word.into();
        }
        if !self.hints.is_empty() {
            line["hints"] = json!(self.hints);
        }
        line
    }

    /// Parses such a line; `None` for any other.
    pub fn read(line: &Value) -> Option<Self> {
        if line["status"] != "error" {
            return None;
        }
        let message = line["message"].as_str()?.to_owned();
        let code = match line["code"].as_str() {
            // A newer host may have more codes.
            Some(name) => Code::parse(name).unwrap_or_default(),
            None => code_of(&message),
        };
        let named = line["fault"].as_str();
        let mut known = [Fault::Config, Fault::Stopped].into_iter();
        let fault = known.find(|fault| named == word(*fault)).unwrap_or_default();
        let hints = line["hints"].as_array().into_iter().flatten();
        let hints = hints.filter_map(|hint| hint.as_str().map(str::to_owned)).collect();
        Some(Self { message, code, fault, hints })
    }
}

fn word(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Request => None,
        Fault::Config => Some("config"),
        Fault::Stopped => Some("stopped"),
    }
}

/// Returns the code for a message of a host that is too old to send codes. Only codes that clients
/// act on are recognized, by published messages.
fn code_of(message: &str) -> Code {
    let by_message = [
        ("This socket serves another root: ", Code::AnotherRoot),
        ("Another harness session is active (pid=", Code::Busy),
        ("Unknown command: ", Code::UnknownCommand),
    ];
    let known = by_message.into_iter().find(|(start, _)| message.starts_with(start));
    known.map_or(Code::default(), |(_, code)| code)
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self::new(Code::BadRequest, message)
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<NotDone> for Refused {
    fn from(NotDone { fault, message, hints }: NotDone) -> Self {
        let code = match fault {
            Fault::Request => Code::CheckFailed,
            Fault::Config => Code::Config,
            Fault::Stopped => Code::Stopped,
        };
        Self { message, code, fault, hints }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let fault = match refusal.kind() {
            RefusalKind::Config => Fault::Config,
            RefusalKind::Conflict | RefusalKind::Request | RefusalKind::Limit => Fault::Request,
        };
        let (message, code) = (refusal.to_string(), refusal.code());
        Self { message, code, fault, hints: hint::after(&refusal) }
    }
}

impl From<PlanError> for Refused {
    fn from(error: PlanError) -> Self {
        let hints = hint::after_plan(&error);
        Self { hints, ..Self::from(error.to_string()) }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::new(Code::Failed, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_was_sent() {
        for fault in [Fault::Request, Fault::Config, Fault::Stopped] {
            for code in Code::ALL {
                let refused = Refused { fault, ..Refused::new(*code, "no").hint("a").hint("b") };
                assert_eq!(Refused::read(&refused.line()), Some(refused));
            }
        }
        assert_eq!(Refused::read(&json!({ "status": "ok" })), None);
    }

    #[test]
    fn other_versions_are_understood_as_far_as_possible() {
        for (line, expected) in [
            (json!({ "message": "x" }), Code::Failed),
            (json!({ "message": "x", "code": "quantum" }), Code::Failed),
            (json!({ "message": "This socket serves another root: /a" }), Code::AnotherRoot),
            (json!({ "message": "Another harness session is active (pid=7)" }), Code::Busy),
            (json!({ "message": "Unknown command: dance" }), Code::UnknownCommand),
            (json!({ "message": "Unknown command: dance", "code": "failed" }), Code::Failed),
        ] {
            let mut line = line;
            line["status"] = "error".into();
            assert_eq!(Refused::read(&line).unwrap().code, expected, "{line}");
        }
    }
}
