//! The conversation of a run, from any terminal.

use std::time::Duration;

use harness_core::{
    Command,
    command::{Code, Note},
};

use super::{
    super::{
        prompts,
        server::{Duty, Host},
    },
    Handled, apply,
};
use crate::{
    conversation::{Ask, Session},
    error::Error,
    hub::{Answered, UserReply},
    process::ancestry::Peer,
    protocol::{
        Answer, Inquiry, QuestionAnswer, QuestionReply, QuestionView, Refused, SentMessage,
    },
};

/// Asks a question, and answers when a person has answered.
pub(super) async fn ask(host: &Host, inquiry: Inquiry) -> Handled {
    let Inquiry { question, choices, allow_text, timeout_seconds, task_id } = inquiry;
    let mut ask = if choices.is_empty() { Ask::text() } else { Ask::choices(choices) };
    if allow_text {
        ask = ask.or_text();
    }
    if let Some(task) = task_id {
        ask = ask.about_task(task.as_str());
    }
    if let Some(seconds) = timeout_seconds {
        ask = ask.within(Duration::from_secs(seconds));
    }
    let session = Session { hub: host.hub.clone() };
    let (prompt, reply) = match session.wait_for_user_named(question, ask).await {
        Ok(answered) => answered,
        Err(Error::Aborted) => return Err(Refused::new(Code::Stopped, "Session aborted")),
        Err(other) => return Err(Refused::new(Code::Failed, other.to_string())),
    };
    let UserReply { content, choice, .. } = reply;
    Ok(Answer::Answered(QuestionAnswer { prompt_id: prompts::name(prompt), content, choice }))
}

pub(super) fn questions(host: &Host) -> Answer {
    let open = host.hub.questions().into_iter().map(|question| QuestionView {
        prompt_id: prompts::name(question.id),
        question: question.prompt,
        choices: question.choices,
        allow_text: question.allow_text,
        phase: question.phase,
        task_id: question.task,
        host: None,
    });
    Answer::Questions(open.collect())
}

pub(super) fn reply(host: &Host, peer: &Peer, reply: QuestionReply) -> Handled {
    let QuestionReply { prompt_id, content, choice } = reply;
    let unknown = || Refused::new(Code::NotFound, format!("Question {prompt_id} not found"));
    let prompt = prompts::parse(&prompt_id).ok_or_else(unknown)?;
    let by = Some(peer.named());
    match host.hub.reply(prompt, UserReply { choice, by, ..UserReply::text(content) }) {
        Answered::Accepted => Ok(Answer::Replied { prompt_id }),
        Answered::Unknown => Err(unknown()),
        Answered::Unfit { why } => Err(why.into()),
    }
}

/// Refuses for a daemon, which has no agents of its own that could receive messages or be stopped.
fn of_a_run(host: &Host) -> Result<(), Refused> {
    match host.duty {
        Duty::Run | Duty::Shared(_) => Ok(()),
        Duty::Daemon(_) => Err(Refused::new(Code::NoRun, "No harness run is active")),
    }
}

pub(super) fn send(host: &Host, message: SentMessage) -> Handled {
    of_a_run(host)?;
    let SentMessage { content, agent, run_id } = message;
    let received = match (run_id, agent) {
        (Some(run), _) => host.hub.send_to_run(run, content),
        (None, Some(agent)) => host.hub.send_to(agent, content),
        (None, None) => host.hub.send_to_all(content),
    };
    Ok(Answer::Sent { received: Some(received as u64) })
}

/// Acts as Ctrl-C: the run comes to an orderly stop, and a second request stops it at once.
pub(super) async fn abort(host: &Host, peer: &Peer, reason: Option<&str>) -> Handled {
    of_a_run(host)?;
    // The run stops in any case: a log that cannot be written is no reason to wait.
    host.hub.abort(reason);
    host.hub.interrupt();
    if let Some(message) = abort_line(peer.machine.as_deref(), reason) {
        _ = apply(host, Command::Note(Note::Warning { task: None, message })).await;
    }
    Ok(Answer::Nothing {})
}

/// Returns the line for the log. A person on this machine knows why a run stopped that was aborted here.
fn abort_line(machine: Option<&str>, reason: Option<&str>) -> Option<String> {
    match (machine, reason) {
        (None, None) => None,
        (None, Some(reason)) => Some(format!("harness abort: {reason}")),
        (Some(machine), None) => Some(format!("harness abort on {machine}")),
        (Some(machine), Some(reason)) => Some(format!("harness abort on {machine}: {reason}")),
    }
}

/// Makes a run that waits for a usage limit ask its agent again now.
pub(super) fn kick(host: &Host) -> Answer {
    Answer::Woken { woken: host.desk.kick() as u64 }
}
