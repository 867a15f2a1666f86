//! The conversation between people and a run: messages, questions, inboxes, the end of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::inbox::{Inbox, Mailbox, Message};
use crate::{
    event::{Event, ExecutionId, Moment, PromptId},
    queue::BoundedQueue,
};

/// The limit of unread messages to the run. Beyond it, the oldest are dropped.
const KEPT_MESSAGES: usize = 4096;

/// The status of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubStatus {
    /// The run is not started, or ended with an error that its caller received.
    #[default]
    Idle,
    /// The run is between `harness:start` and `harness:complete`.
    Running,
    /// The flow returned `Ok`.
    Complete,
    /// [`Hub::abort`](super::Hub::abort) was called. The status stays, whatever the flow returns.
    Aborted,
}

/// A message of a person to the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    /// The text.
    pub content: String,
    /// The agent that it is for; `None` for the run as a whole.
    pub agent: Option<String>,
    /// The time at which it was sent.
    pub timestamp: Moment,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserReply {
    /// The answer as text. For a choice, it is the choice.
    pub content: String,
    /// The choice, if it was named as such. A text that equals one of the choices is accepted too,
    /// and leaves this `None`.
    pub choice: Option<String>,
    /// The author, if known: `operator (pid=12)`.
    pub by: Option<String>,
    /// The time at which it was given.
    pub timestamp: Moment,
}

impl UserReply {
    /// Returns an answer as free text.
    pub fn text(content: impl Into<String>) -> Self {
        let content = content.into();
        Self { content, choice: None, by: None, timestamp: Moment::now() }
    }

    /// Returns an answer that is one of the offered choices.
    pub fn choice(choice: impl Into<String>) -> Self {
        let choice = choice.into();
        Self { choice: Some(choice.clone()), ..Self::text(choice) }
    }
}

/// The result of giving an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It is the answer, and the asking flow has received it.
    Accepted,
    /// The question does not exist, or no longer, or there is no session.
    Unknown,
    /// It does not answer the question, which is still open.
    Unfit {
        /// The reason, for the author of the answer.
        why: String,
    },
}

/// A question, as shown to people who could answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The id that a reply must name.
    pub id: PromptId,
    /// The question.
    pub prompt: String,
    /// The choices; empty if any text is accepted.
    pub choices: Vec<String>,
    /// `true` if other text than the choices is accepted.
    pub allow_text: bool,
    /// The phase that the answer lets pass or not.
    pub phase: Option<String>,
    /// The task whose agent asks.
    pub task: Option<String>,
}

pub(crate) type Validate = Box<dyn Fn(&UserReply) -> Result<(), String> + Send>;

pub(crate) struct Question {
    pub(crate) prompt: String,
    pub(crate) choices: Vec<String>,
    pub(crate) allow_text: Option<bool>,
    pub(crate) validate: Option<Validate>,
    pub(crate) phase: Option<String>,
    pub(crate) task: Option<String>,
}

/// The receiving end of a question.
pub(crate) struct Wait {
    pub(crate) id: PromptId,
    pub(crate) answer: oneshot::Receiver<UserReply>,
}

struct Open {
    question: Question,
    waiter: oneshot::Sender<UserReply>,
    /// The answer between its acceptance and its delivery.
    accepted: Option<UserReply>,
}

struct Execution {
    agent: String,
    mailbox: Arc<Mailbox>,
}

/// The messages that were not read yet.
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
    /// `true` if the run has ended, with success or not.
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

    /// Keeps a message. Returns whether there is a session that receives it.
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

    /// How many executions can read it; `None` without a session.
    pub(super) fn send_to(&mut self, agent: &str, content: &str) -> Option<usize> {
        if !self.keep_message(content, Some(agent)) {
            return None;
        }
        let mut of_agent = self.executions.values().filter(|e| e.agent == agent);
        let is_read = match (of_agent.next(), of_agent.next()) {
            (Some(only), None) => only.mailbox.put(message(content)),
            (_, _) => false,
        };
        Some(usize::from(is_read))
    }

    /// The same for all that are under way.
    pub(super) fn send_to_all(&mut self, content: &str) -> Option<usize> {
        if !self.keep_message(content, None) {
            return None;
        }
        let put = |execution: &&Execution| execution.mailbox.put(message(content));
        Some(self.executions.values().filter(put).count())
    }

    pub(super) fn send_to_run(&self, run_id: &str, content: &str) -> usize {
        let execution = ExecutionId::parse(run_id).and_then(|id| self.executions.get(&id));
        let is_read = execution.is_some_and(|execution| execution.mailbox.put(message(content)));
        usize::from(is_read)
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
        // After an abort no answer will come. The sender is dropped, and the waiter notices that.
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
            phase: open.question.phase.clone(),
            task: open.question.task.clone(),
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

    /// Delivers the accepted answer to its waiter.
    pub(super) fn resolve(&mut self, id: PromptId) {
        if let Some(open) = self.open.remove(&id)
            && let Some(reply) = open.accepted
        {
            // The waiter may have given up meanwhile.
            let _ = open.waiter.send(reply);
        }
    }

    pub(super) fn forget(&mut self, id: PromptId) {
        self.open.remove(&id);
    }

    /// Returns the waiters to notify; `None` if an abort has no effect.
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
    /// Returns whether text is accepted. Without choices, nothing else is possible.
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
