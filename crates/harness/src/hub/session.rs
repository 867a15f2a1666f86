//! The session of people with a run: their messages to it, its questions, and the order to stop.

use harness_core::run::Allowance;
use tokio::sync::watch;

use super::{
    Answered, Hub, HubStatus, Inbox, OpenQuestion, UserMessage, UserReply, lock,
    talk::{Question, Wait},
};
use crate::event::{Event, ExecutionId, PromptId};

/// Messages of people to a run. Without [`start_session`](Hub::start_session) these have no effect,
/// except [`send_to_run`](Hub::send_to_run), which always reaches the inbox of a known execution.
impl Hub {
    /// Allows people to send messages to the run from now on.
    pub fn start_session(&self) {
        lock(&self.core.talk).start_session();
    }

    /// Returns whether people can send messages to the run.
    pub fn session_active(&self) -> bool {
        lock(&self.core.talk).session_active()
    }

    /// Returns the status of the run.
    pub fn status(&self) -> HubStatus {
        lock(&self.core.talk).status()
    }

    /// Sets the status. It is for programs that use a hub without an [`Instance`](crate::Instance),
    /// which does it by itself. An abort is never overwritten.
    pub fn set_status(&self, status: HubStatus) {
        lock(&self.core.talk).set_status(status);
    }

    /// Sends a message to the run, for [`Session::read_messages`](crate::Session::read_messages).
    pub fn send(&self, content: impl Into<String>) {
        let content = content.into();
        if lock(&self.core.talk).keep_message(&content, None) {
            self.tell(Event::SessionMessage { content, agent_name: None, run_id: None });
        }
    }

    /// Says something to the run and to every agent that is at work. Returns how many of them can
    /// read it.
    pub fn send_to_all(&self, content: impl Into<String>) -> usize {
        let content = content.into();
        let sent = lock(&self.core.talk).send_to_all(&content);
        if sent.is_some() {
            self.tell(Event::SessionMessage { content, agent_name: None, run_id: None });
        }
        sent.unwrap_or_default()
    }

    /// Says something to an agent. Its inbox gets it when exactly one execution of it is under way;
    /// the run can read it in any case. Returns how many executions can read it.
    pub fn send_to(&self, agent: impl Into<String>, content: impl Into<String>) -> usize {
        let (agent, content) = (agent.into(), content.into());
        let sent = lock(&self.core.talk).send_to(&agent, &content);
        if sent.is_some() {
            let agent_name = Some(agent);
            self.tell(Event::SessionMessage { content, agent_name, run_id: None });
        }
        sent.unwrap_or_default()
    }

    /// Says something to one execution, by its id as written (`run-0`). An unknown id reaches
    /// nobody. The message is for that inbox alone:
    /// [`Session::read_messages`](crate::Session::read_messages) does not return it a second time.
    /// Returns how many executions can read it.
    pub fn send_to_run(&self, run_id: impl Into<String>, content: impl Into<String>) -> usize {
        let (run_id, content) = (run_id.into(), content.into());
        let (received, in_session) = {
            let talk = lock(&self.core.talk);
            (talk.send_to_run(&run_id, &content), talk.session_active())
        };
        if in_session {
            let run_id = Some(run_id);
            self.tell(Event::SessionMessage { content, agent_name: None, run_id });
        }
        received
    }

    /// Answers a question. The first valid answer counts; others change nothing.
    pub fn reply(&self, prompt: PromptId, reply: UserReply) -> Answered {
        let answered = lock(&self.core.talk).reply(prompt, &reply);
        if answered == Answered::Accepted {
            let UserReply { content, choice, .. } = reply;
            self.tell(Event::SessionReply { prompt_id: prompt, content, choice });
            lock(&self.core.talk).resolve(prompt);
        }
        answered
    }

    /// Asks everything that is [driven](crate::Branch::drive) to come to an orderly stop. The
    /// machine receives the request and decides. It works without a session; other flows do not
    /// notice it.
    pub fn interrupt(&self) {
        self.core.interrupts.send_modify(|times| *times += 1);
    }

    /// Informs everything that is [driven](crate::Branch::drive) of a new budget of the run.
    pub fn allow(&self, allowance: Allowance) {
        self.core.allowance.send_if_modified(|known| {
            let changes = *known != Some(allowance);
            *known = Some(allowance);
            changes
        });
    }

    /// Returns the budget of the run as it changes; `None` while it is the one that the run began with.
    pub fn allowances(&self) -> watch::Receiver<Option<Allowance>> {
        self.core.allowance.subscribe()
    }

    #[doc(hidden)]
    pub fn interrupts(&self) -> watch::Receiver<u64> {
        self.core.interrupts.subscribe()
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn questions(&self) -> Vec<OpenQuestion> {
        lock(&self.core.talk).questions()
    }

    /// Ends the conversation: every waiting question gets
    /// [`Error::Aborted`](crate::Error::Aborted), now and from then on. It stops no agent; the flow
    /// decides how it ends. It may be called more than once, and has no effect after the run has
    /// ended.
    pub fn abort(&self, reason: Option<&str>) {
        let waiters = lock(&self.core.talk).abort();
        if let Some(waiters) = waiters {
            self.tell(Event::SessionAbort { reason: reason.map(str::to_owned) });
            // This is dropped after the event, so that a waiter finds the event emitted.
            drop(waiters);
        }
    }

    /// Emits an event outside of all scopes, because commands come from there.
    fn tell(&self, event: Event) {
        self.core.emit(&self.core.root, event);
    }

    pub(crate) fn ask(&self, question: Question) -> Wait {
        let (event, wait) = lock(&self.core.talk).ask(question);
        self.emit(event);
        wait
    }

    pub(crate) fn forget_question(&self, id: PromptId) {
        lock(&self.core.talk).forget(id);
    }

    pub(crate) fn has_messages(&self) -> bool {
        lock(&self.core.talk).has_messages()
    }

    pub(crate) fn read_messages(&self) -> Vec<UserMessage> {
        lock(&self.core.talk).read_messages()
    }

    /// Opens an execution of `agent`. Its inbox is open before it is announced.
    pub(crate) fn open_execution(&self, agent: &str) -> (ExecutionId, Inbox) {
        lock(&self.core.talk).open_execution(agent)
    }

    pub(crate) fn close_execution(&self, id: ExecutionId) {
        lock(&self.core.talk).close_execution(id);
    }
}
