//! Messages of the Agent Client Protocol, wire version 1: JSON-RPC 2.0, one message per line.
//!
//! Both sides use them: the adapter of ACP agents, and `harness acp`. They are parsed tolerantly:
//! agents leave fields out, add their own, and implement different versions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The supported wire version.
pub const VERSION: u64 = 1;
/// The error code for a line that is not JSON.
pub const PARSE: i64 = -32700;
/// The error code for a request that cannot be served now.
pub const INVALID: i64 = -32600;
/// The error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;
/// The error code for wrong parameters.
pub const INVALID_PARAMS: i64 = -32602;
/// The error code for a failure on this side.
pub const INTERNAL: i64 = -32603;

/// A message of the other side.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The answer to a request of ours.
    Answer {
        /// The id of our request.
        id: u64,
        /// The result, or the error.
        result: Result<Value, Problem>,
    },
    /// A request, whose answer must have the same id.
    Request {
        /// The id, a number or a text.
        id: Value,
        /// The name of the method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// A message without an answer.
    Notification {
        /// The name of the method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The number of the error.
    pub code: i64,
    /// The error as text.
    pub message: String,
    /// More about it.
    pub data: Option<Value>,
}

impl Problem {
    /// Returns the whole text. The cause is often only in `data`.
    pub fn words(&self) -> String {
        match &self.data {
            None | Some(Value::Null) => self.message.clone(),
            Some(Value::String(data)) => format!("{}: {data}", self.message),
            Some(data) => format!("{}: {data}", self.message),
        }
    }
}

/// Parses a line; `None` if it is not a message.
pub fn message(line: &str) -> Option<Message> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return None };
    let id = fields.remove("id").filter(|id| !id.is_null());
    let Some(method) = fields.remove("method") else { return answer(id?, fields) };
    let Value::String(method) = method else { return None };
    let params = fields.remove("params").unwrap_or_default();
    Some(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn answer(id: Value, mut fields: Map<String, Value>) -> Option<Message> {
    let id = id.as_u64()?;
    let result = match fields.remove("error") {
        None | Some(Value::Null) => Ok(fields.remove("result").unwrap_or_default()),
        Some(error) => Err(serde_json::from_value(error).unwrap_or_default()),
    };
    Some(Message::Answer { id, result })
}

/// Returns a request.
pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns a notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Returns the answer to a request.
pub fn reply(id: Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Returns the answer to a request of an unknown method.
pub fn not_known(id: Value, method: &str) -> Value {
    refused(id, METHOD_NOT_FOUND, &format!("harness does not know {method}"))
}

/// Returns the answer to a request that is not served.
pub fn refused(id: Value, code: i64, message: &str) -> Value {
    let error = json!({ "code": code, "message": message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_distinguished() {
        let problem = Problem {
            code: -32603,
            message: "Internal error".to_owned(),
            data: Some(json!({"details": "429"})),
        };
        assert_eq!(problem.words(), r#"Internal error: {"details":"429"}"#);
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#,
                Some(Message::Answer { id: 1, result: Ok(json!({"a": 1})) }),
            ),
            (
                r#"{"id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"429"}}}"#,
                Some(Message::Answer { id: 2, result: Err(problem) }),
            ),
            (
                r#"{"id":"x","method":"m","params":{}}"#,
                Some(Message::Request {
                    id: json!("x"),
                    method: "m".to_owned(),
                    params: json!({}),
                }),
            ),
            (
                r#"{"method":"m"}"#,
                Some(Message::Notification { method: "m".to_owned(), params: Value::Null }),
            ),
            (r#"{"id":"of another","result":1}"#, None),
            (r#"{"method":7}"#, None),
            ("[]", None),
            ("Loading …", None),
        ] {
            assert_eq!(message(line), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "(?s)\\{(\"(id|method|params|error|result)\":.{0,8},?){0,4}\\}|.{0,40}") {
            let _ = message(&line);
        }
    }
}
