//! A model that says what a script says, on loopback: with it the real agents work without a model
//! and without a key.
//!
//! | who | owns |
//! |---|---|
//! | [`script`] | what is answered, in which order, and what was served |
//! | [`http`] | requests and answers; knows nothing of models |
//! | `dialect` | how a step becomes an answer, whatever the API |
//! | `anthropic` | the Messages API, as Claude Code speaks it |
//! | `chat` | OpenAI's Chat Completions, as Qwen Code speaks it |
//! | `responses` | OpenAI's Responses API, as Codex speaks it |

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

/// The server. Dropped, it is gone.
#[derive(Debug)]
pub struct Model {
    server: Server,
    stage: Arc<Stage>,
}

impl Model {
    /// On a free port.
    pub fn start(script: Script) -> io::Result<Model> {
        let stage = Arc::new(Stage::new(script));
        let played = Arc::clone(&stage);
        let server = Server::start(move |request, responder| answer(&played, request, responder))?;
        Ok(Model { server, stage })
    }

    /// Without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// What was answered so far.
    pub fn served(&self) -> Served {
        self.stage.served()
    }

    /// Waits until so many requests took a step of the script. `false`: they did not come in time.
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
        // Some look whether anybody is there.
        ("HEAD" | "GET", "/") => responder.json(200, &[], &serde_json::json!({})),
        (_, path) => {
            let error = format!("nothing is served at {path}");
            responder.json(404, &[], &serde_json::json!({ "error": error }))
        }
    }
}

#[cfg(test)]
mod tests;
