//! A scripted model on loopback. With it, the real agents work without a model and without a key.
//!
//! | module | owns |
//! |---|---|
//! | [`script`] | the answers, their order, and what was served |
//! | [`http`] | requests and answers; knows nothing of models |
//! | `dialect` | the translation of a step into an answer, for every API |
//! | `anthropic` | the Messages API for Claude Code |
//! | `chat` | OpenAI's Chat Completions for Qwen Code |
//! | `responses` | OpenAI's Responses API for Codex |

mod anthropic;
mod chat;
mod dialect;
pub mod http;
mod responses;
pub mod script;

use std::{io, sync::Arc};

pub use script::{Call, Say, Script, Served, Step, Tokens};

use anthropic::Anthropic;
use chat::Chat;
use http::{Request, Responder, Server};
use responses::Responses;
use script::Stage;

/// The server. It stops when it is dropped.
#[derive(Debug)]
pub struct Model {
    server: Server,
    stage: Arc<Stage>,
}

impl Model {
    /// Starts the server on a free port.
    pub fn start(script: Script) -> io::Result<Model> {
        let stage = Arc::new(Stage::new(script));
        let played = Arc::clone(&stage);
        let server = Server::start(move |request, responder| answer(&played, request, responder))?;
        Ok(Model { server, stage })
    }

    /// Returns the address without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Returns what was answered so far.
    pub fn served(&self) -> Served {
        self.stage.served()
    }

    /// Waits until this many requests took a step of the script. Returns `false` if they did not
    /// come in time.
    #[must_use]
    pub fn has_played(&self, steps: usize, patience: std::time::Duration) -> bool {
        self.stage.wait_for(steps, patience)
    }
}

fn answer(stage: &Stage, request: Request, responder: &mut Responder) -> io::Result<()> {
    match (request.method.as_str(), request.path()) {
        ("POST", "/v1/messages") => dialect::answer::<Anthropic>(stage, &request, responder),
        ("POST", "/v1/messages/count_tokens") => anthropic::count(responder),
        ("POST", "/v1/chat/completions") => dialect::answer::<Chat>(stage, &request, responder),
        ("POST", "/v1/responses") => dialect::answer::<Responses>(stage, &request, responder),
        // Some agents test the connection first.
        ("HEAD" | "GET", "/") => responder.json(200, &[], &serde_json::json!({})),
        (_, path) => {
            let error = format!("nothing is served at {path}");
            responder.json(404, &[], &serde_json::json!({ "error": error }))
        }
    }
}

#[cfg(test)]
mod tests;
