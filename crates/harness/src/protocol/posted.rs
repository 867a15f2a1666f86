//! A request to the host of another machine, as the body of a message in the database.

use serde_json::{Value, json};

use super::{Call, Refused, Request, hide};
use crate::process::Redactor;

/// A request of another machine.
pub(crate) struct PostedCall {
    /// The request. It names no root, because the roots of two machines have different paths.
    pub(crate) call: Call,
    /// The process that asks, on its machine.
    pub(crate) pid: u32,
}

impl PostedCall {
    /// Returns the body of a message with this request, without secrets. The role of this process was
    /// checked before.
    pub(crate) fn body(request: &Request, secrets: &Redactor) -> Value {
        let mut call = json!(request);
        hide(&mut call, secrets);
        json!({ "pid": std::process::id(), "call": call })
    }

    /// Parses such a body. Only what is for the agents of every process can be asked for.
    pub(crate) fn read(body: &Value, secrets: &Redactor) -> Result<Self, Refused> {
        let call = Call::parse(body["call"].to_string().as_bytes(), secrets)?;
        let verb = call.verb()?;
        if !verb.is_for_everyone() {
            return Err(format!("{verb} is not for other machines").into());
        }
        let pid = body["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        Ok(Self { call, pid: pid.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::protocol::SentMessage;

    fn read(body: &Value) -> Result<PostedCall, Refused> {
        PostedCall::read(body, &Redactor::default())
    }

    #[test]
    fn a_request_arrives_without_secrets_and_without_a_root() {
        let variables = [("DB_PASSWORD".into(), "hunter2-hunter2".into())];
        let secrets = Redactor::from_environment(variables);
        let content = "use hunter2-hunter2".to_owned();
        let message = SentMessage { content, agent: None, run_id: None };
        let body = PostedCall::body(&Request::Send(message), &secrets);
        assert!(!body.to_string().contains("hunter2"), "{body}");
        let posted = read(&body).unwrap();
        assert_eq!(posted.pid, std::process::id());
        assert_eq!(posted.call.root().unwrap(), None);
        assert!(matches!(posted.call.request().unwrap(), Request::Send(_)));
    }

    #[test]
    fn only_what_is_for_all_agents_is_carried_out() {
        for body in [
            json!({ "call": { "command": "shutdown" } }),
            json!({ "call": { "command": "task_complete", "task_id": "a" } }),
            json!({ "call": { "command": "unknown" } }),
            json!({ "call": "abort" }),
            json!(null),
        ] {
            assert!(read(&body).is_err(), "{body}");
        }
        assert!(read(&json!({ "call": { "command": "abort" } })).is_ok());
    }
}
