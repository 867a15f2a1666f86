//! What people and a run say to each other: messages, questions, inboxes, the end of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::inbox::{Inbox, Mailbox, Message};
use crate::{
    event::{Event, ExecutionId, Moment, PromptId},
    queue::BoundedQueue,
};

/// Messages to the run that it has not read; the oldest go when there are more.
const KEPT_MESSAGES: usize = 4096;

/// Where a run stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubStatus {
    /// Not started, or over with an error: that one came back to the caller.
    #[default]
    Idle,
    /// Between `harness:start` and `harness:complete`.
    Running,
    /// The flow returned `Ok`.
    Complete,
    /// By [`Hub::abort`](super::Hub::abort); it stays so, whatever the flow returns.
    Aborted,
}

/// Something that a person said to the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    /// What was said.
    pub content: String,
    /// The agent that it was said to; `None`: to the run as such.
    pub agent: Option<String>,
    /// When it was sent.
    pub timestamp: Moment,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserReply {
    /// The answer in words; that of a choice is the choice.
    pub content: String,
    /// Set where a choice was named as such. A text that happens to be one of the choices is
    /// accepted too, and leaves this `None`.
    pub choice: Option<String>,
    /// Who gave it, where that is known: `operator (pid=12)`.
    pub by: Option<String>,
    /// When it was given.
    pub timestamp: Moment,
}

impl UserReply {
    /// In one's own words.
    pub fn text(content: impl Into<String>) -> Self {
        let content = content.into();
        Self { content, choice: None, by: None, timestamp: Moment::now() }
    }

    /// One of the choices that were offered.
    pub fn choice(choice: impl Into<String>) -> Self {
        let choice = choice.into();
        Self { choice: Some(choice.clone()), ..Self::text(choice) }
    }
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It is the answer, and was delivered.
    Accepted,
    /// Nobody asks this, or not any more, or there is no session.
    Unknown,
    /// It is not an answer to the question; the question is still open.
    Unfit {
        /// What is wrong with it, for its sender.
        why: String,
    },
}

/// A question as somebody who could answer it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// What a reply has to name.
    pub id: PromptId,
    /// The question.
    pub prompt: String,
    /// Empty where any text will do.
    pub choices: Vec<String>,
    /// Whether text that is none of the choices will do.
    pub allow_text: bool,
}

pub(crate) type Validate = Box<dyn Fn(&UserReply) -> Result<(), String> + Send>;

pub(crate) struct Question {
    pub(crate) prompt: String,
    pub(crate) choices: Vec<String>,
    pub(crate) allow_text: Option<bool>,
    pub(crate) validate: Option<Validate>,
}

/// The other end of a question.
pub(crate) struct Wait {
    pub(crate) id: PromptId,
    pub(crate) answer: oneshot::Receiver<UserReply>,
}

struct Open {
    question: Question,
    waiter: oneshot::Sender<UserReply>,
    /// Set between the acceptance of an answer and its delivery.
    accepted: Option<UserReply>,
}

struct Execution {
    agent: String,
    mailbox: Arc<Mailbox>,
}

/// What was said and not read yet.
struct Messages(BoundedQueue<UserMessage>);

impl Default for Messages {
    fn default() -> Self {
        Self(BoundedQueue::new(KEPT_MESSAGES))
    }
}

#[derive(Default)]
pub(super) struct Talk {
    status: HubStatus,
    session: bool,
    /// The run has ended, well or not.
    over: bool,
    messages: Messages,
    next_prompt: u64,
    open: BTreeMap<PromptId, Open>,
    next_execution: u64,
    executions: BTreeMap<ExecutionId, Execution>,
}

impl Talk {
    pub(super) fn start_session(&mut self) {
        self.session = true;
    }

    pub(super) fn session_active(&self) -> bool {
        self.session
    }

    pub(super) fn status(&self) -> HubStatus {
        self.status
    }

    pub(super) fn set_status(&mut self, status: HubStatus) {
        if self.status != HubStatus::Aborted {
            self.status = status;
        }
    }

    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// Whether there is a session that hears it.
    pub(super) fn keep_message(&mut self, content: &str, agent: Option<&str>) -> bool {
        if self.session {
            let dropped = self.messages.0.push(UserMessage {
                content: content.to_owned(),
                agent: agent.map(str::to_owned),
                timestamp: Moment::now(),
            });
            if dropped.is_some() {
                tracing::warn!("too many unread messages: the oldest is dropped");
            }
        }
        self.session
    }

    pub(super) fn send_to(&mut self, agent: &str, content: &str) -> bool {
        if !self.keep_message(content, Some(agent)) {
            return false;
        }
        let mut of_agent = self.executions.values().filter(|e| e.agent == agent);
        if let (Some(only), None) = (of_agent.next(), of_agent.next()) {
            only.mailbox.put(message(content));
        }
        true
    }

    pub(super) fn send_to_run(&self, run_id: &str, content: &str) {
        let execution = ExecutionId::parse(run_id).and_then(|id| self.executions.get(&id));
        if let Some(execution) = execution {
            execution.mailbox.put(message(content));
        }
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.messages.0.is_empty()
    }

    pub(super) fn read_messages(&mut self) -> Vec<UserMessage> {
        self.messages.0.take().into()
    }

    pub(super) fn ask(&mut self, question: Question) -> (Event, Wait) {
        let id = PromptId(self.next_prompt);
        self.next_prompt += 1;
        let event = Event::SessionPrompt {
            prompt_id: id,
            prompt: question.prompt.clone(),
            choices: (!question.choices.is_empty()).then(|| question.choices.clone()),
            allow_text: question.allow_text,
        };
        let (waiter, answer) = oneshot::channel();
        // After an abort nobody will answer: the sender is dropped and the waiter hears it.
        if self.status != HubStatus::Aborted {
            self.open.insert(id, Open { question, waiter, accepted: None });
        }
        (event, Wait { id, answer })
    }

    pub(super) fn questions(&self) -> Vec<OpenQuestion> {
        let question = |(id, open): (&PromptId, &Open)| OpenQuestion {
            id: *id,
            prompt: open.question.prompt.clone(),
            choices: open.question.choices.clone(),
            allow_text: open.question.takes_text(),
        };
        self.open.iter().filter(|(_, o)| o.accepted.is_none()).map(question).collect()
    }

    pub(super) fn reply(&mut self, id: PromptId, reply: &UserReply) -> Answered {
        if !self.session {
            return Answered::Unknown;
        }
        let Some(open) = self.open.get_mut(&id).filter(|o| o.accepted.is_none()) else {
            return Answered::Unknown;
        };
        match open.question.fits(reply) {
            Err(why) => Answered::Unfit { why },
            Ok(()) => {
                open.accepted = Some(reply.clone());
                Answered::Accepted
            }
        }
    }

    /// Hands the accepted answer to who waits for it.
    pub(super) fn resolve(&mut self, id: PromptId) {
        if let Some(open) = self.open.remove(&id)
            && let Some(reply) = open.accepted
        {
            // Who asked may have given up meanwhile.
            let _ = open.waiter.send(reply);
        }
    }

    pub(super) fn forget(&mut self, id: PromptId) {
        self.open.remove(&id);
    }

    /// The waiters to be told; `None` where an abort means nothing.
    pub(super) fn abort(&mut self) -> Option<impl Sized + use<>> {
        let over = self.over || matches!(self.status, HubStatus::Aborted | HubStatus::Complete);
        if !self.session || over {
            return None;
        }
        self.status = HubStatus::Aborted;
        Some(std::mem::take(&mut self.open))
    }

    pub(super) fn open_execution(&mut self, agent: &str) -> (ExecutionId, Inbox) {
        let id = ExecutionId(self.next_execution);
        self.next_execution += 1;
        let (mailbox, inbox) = Mailbox::open();
        self.executions.insert(id, Execution { agent: agent.to_owned(), mailbox });
        (id, inbox)
    }

    pub(super) fn close_execution(&mut self, id: ExecutionId) {
        if let Some(execution) = self.executions.remove(&id) {
            execution.mailbox.close();
        }
    }
}

fn message(content: &str) -> Message {
    Message { content: content.to_owned(), timestamp: Moment::now() }
}

impl Question {
    /// Without choices there is nothing but text.
    fn takes_text(&self) -> bool {
        self.choices.is_empty() || self.allow_text.unwrap_or(false)
    }

    fn fits(&self, reply: &UserReply) -> Result<(), String> {
        let offered = |choice: &String| self.choices.contains(choice);
        let chosen = reply.choice.as_ref().is_some_and(offered)
            || (reply.choice.is_none() && offered(&reply.content));
        if !chosen && (reply.choice.is_some() || !self.takes_text()) {
            return Err(format!("choose one of: {}", self.choices.join(", ")));
        }
        self.validate.as_ref().map_or(Ok(()), |validate| validate(reply))
    }
}
