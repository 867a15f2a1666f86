//! The conversation of a run, from any terminal.

use std::time::Duration;

use harness_core::command::Code;
use serde_json::{Value, json};

use super::super::{
    prompts,
    request::{Answer, Request},
    server::{Duty, Host},
    wire::Refused,
};
use crate::{
    conversation::{Ask, Session},
    error::Error,
    hub::{Answered, Reply},
    process::ancestry::Peer,
};

/// Answers when somebody has answered.
pub(super) async fn ask(host: &Host, request: &Request) -> Answer {
    let question = request.text("question")?.filter(|question| !question.trim().is_empty());
    let question = question.ok_or_else(|| "question is required".to_owned())?;
    let choices = request.texts("choices")?.unwrap_or_default();
    let mut ask = if choices.is_empty() { Ask::text() } else { Ask::choices(choices) };
    if request.flag("allow_text")? {
        ask = ask.or_text();
    }
    if let Some(seconds) = request.number("timeout")? {
        ask = ask.within(Duration::from_secs(seconds));
    }
    let session = Session { hub: host.hub.clone() };
    let (prompt, reply) = match session.wait_for_user_named(question, ask).await {
        Ok(answered) => answered,
        Err(Error::Aborted) => return Err(Refused::new(Code::Stopped, "Session aborted")),
        Err(other) => return Err(Refused::new(Code::Failed, other.to_string())),
    };
    let mut data = json!({ "prompt_id": prompts::name(prompt), "content": reply.content });
    if let Some(choice) = reply.choice {
        data["choice"] = choice.into();
    }
    Ok(data)
}

pub(super) fn questions(host: &Host) -> Value {
    let open = host.hub.questions().into_iter().map(|question| {
        json!({ "prompt_id": prompts::name(question.id), "question": question.prompt,
            "choices": question.choices, "allow_text": question.allow_text })
    });
    open.collect()
}

pub(super) fn reply(host: &Host, peer: &Peer, request: &Request) -> Answer {
    let id = request.text("prompt_id")?.ok_or_else(|| "prompt_id is required".to_owned())?;
    let choice = request.text("choice")?;
    let content = match (request.text("content")?, &choice) {
        (Some(content), _) if !content.is_empty() => content,
        (_, Some(choice)) => choice.clone(),
        (_, None) => return Err("content required".into()),
    };
    let unknown = || Refused::new(Code::NotFound, format!("Question {id} not found"));
    let prompt = prompts::parse(&id).ok_or_else(unknown)?;
    let by = Some(peer.author().to_string());
    match host.hub.reply(prompt, Reply { content, choice, by }) {
        Answered::Accepted => Ok(json!({ "prompt_id": id })),
        Answered::Unknown => Err(unknown()),
        Answered::Unfit { why } => Err(why.into()),
    }
}

/// A daemon has no agents of its own that could be spoken to or stopped.
fn of_a_run(host: &Host) -> Result<(), Refused> {
    match host.duty {
        Duty::Run => Ok(()),
        Duty::Daemon(_) => Err(Refused::new(Code::NoRun, "No harness run is active")),
    }
}

pub(super) fn send(host: &Host, request: &Request) -> Answer {
    let content = request.content()?;
    of_a_run(host)?;
    match (request.text("run_id")?, request.text("agent")?) {
        (Some(run), _) => host.hub.send_to_run(run, content),
        (None, Some(agent)) => host.hub.send_to(agent, content),
        (None, None) => host.hub.send(content),
    }
    Ok(json!({}))
}

/// As Ctrl-C: the run comes to an orderly stop; asked again, at once.
pub(super) fn abort(host: &Host, request: &Request) -> Answer {
    of_a_run(host)?;
    host.hub.abort(request.text("reason")?.as_deref());
    host.hub.interrupt();
    Ok(json!({}))
}

/// Whoever waits for a usage limit asks its agent again, now.
pub(super) fn kick(host: &Host) -> Value {
    json!({ "woken": host.desk.kick() })
}
