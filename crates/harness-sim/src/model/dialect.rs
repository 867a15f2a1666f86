//! Translates the steps of a script into the format of an API. A dialect only builds values.
//! Matching requests and counting tokens is the same for all of them.

use std::io;

use serde_json::Value;

use super::{
    http::{Request, Responder},
    script::{Say, Stage, Step, Tokens},
};

/// The answer to requests without tools, such as titles and connection tests. They take no step.
const ASIDE: &str = "ok";

/// The format of an API.
pub(super) trait Dialect {
    /// Returns whether the request offers tools.
    fn offers_tools(asked: &Value) -> bool;

    /// Returns the message in one piece.
    fn whole(message: &Message<'_>) -> Value;

    /// Returns the message as a list of events.
    fn events(message: &Message<'_>) -> Vec<Event>;

    /// Returns the usage that a client knows if it received only the first events.
    fn tokens_of_a_cut(tokens: Tokens) -> Tokens;

    fn error(status: u16, message: &str) -> Value;

    /// Returns the status and the error for a conversation that is too long for the model.
    fn too_long() -> (u16, Value);
}

/// A message of the model, and the request that it answers.
pub(super) struct Message<'a> {
    pub(super) say: &'a Say,
    pub(super) asked: &'a Value,
    /// A number that differs for each message, for the ids in it.
    pub(super) number: usize,
}

/// A piece of a message.
pub(super) struct Event {
    /// The name of the event. Some dialects have none.
    pub(super) name: Option<&'static str>,
    pub(super) data: String,
    /// `true` if it contains the first words of the message. A broken connection breaks after this
    /// event.
    pub(super) has_words: bool,
}

impl Event {
    pub(super) fn named(name: &'static str, data: &Value) -> Event {
        Event { name: Some(name), data: data.to_string(), has_words: false }
    }

    pub(super) fn with_words(self) -> Event {
        Event { has_words: true, ..self }
    }
}

/// Answers one request by the next step of the script.
pub(super) fn answer<D: Dialect>(
    stage: &Stage,
    request: &Request,
    responder: &mut Responder,
) -> io::Result<()> {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let asked: Value = serde_json::from_str(&text).unwrap_or_default();
    let is_streamed = asked["stream"].as_bool() == Some(true);
    let step = if D::offers_tools(&asked) { stage.next(&text) } else { Step::text(ASIDE) };
    let number = stage.served().bodies.len();
    let message = |say| Message { say, asked: &asked, number };
    match &step {
        Step::Say(say) => {
            stage.serve(say.tokens);
            match is_streamed {
                true => events(responder, &D::events(&message(say))),
                false => responder.json(200, &[], &D::whole(&message(say))),
            }
        }
        Step::Cut(say) if is_streamed => {
            stage.serve(D::tokens_of_a_cut(say.tokens));
            cut(responder, &D::events(&message(say)))
        }
        Step::Cut(_) => responder.cut(),
        Step::Hang => {
            responder.begin_events()?;
            responder.hang()
        }
        Step::Status { status, message, headers } => {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
            responder.json(*status, &headers, &D::error(*status, message))
        }
        Step::TooLong => {
            let (status, error) = D::too_long();
            responder.json(status, &[], &error)
        }
    }
}

fn events(responder: &mut Responder, events: &[Event]) -> io::Result<()> {
    responder.begin_events()?;
    for event in events {
        responder.event(event.name, &event.data)?;
    }
    responder.end_events()
}

/// Sends the first words without an end.
fn cut(responder: &mut Responder, events: &[Event]) -> io::Result<()> {
    responder.begin_events()?;
    let first = events.iter().position(|event| event.has_words).map_or(0, |words| words + 1);
    for event in &events[..first] {
        responder.event(event.name, &event.data)?;
    }
    responder.cut()
}
