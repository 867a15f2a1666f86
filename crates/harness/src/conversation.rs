//! The conversation with the people behind a run: questions that wait for an answer, messages, the
//! end.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    event::PromptId,
    hub::{Hub, HubStatus, Question, UserMessage, UserReply, Validate},
};

/// The conversation of a run, from [`Branch::session`](crate::Branch::session). It exists after
/// `start_session()`. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) hub: Hub,
}

/// The accepted answers to a question. Without [`within`](Ask::within) it waits without a limit.
#[derive(Default)]
pub struct Ask {
    choices: Vec<String>,
    allow_text: Option<bool>,
    timeout: Option<Duration>,
    validate: Option<Validate>,
    phase: Option<String>,
    task: Option<String>,
}

impl Ask {
    /// Accepts any text.
    pub fn text() -> Self {
        Self::default()
    }

    /// Accepts exactly one of these.
    pub fn choices<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        Self { choices: choices.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Accepts other text than the choices too.
    pub fn or_text(mut self) -> Self {
        self.allow_text = Some(true);
        self
    }

    /// Gives up after this time, with [`Error::NoAnswer`].
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The answer decides whether the work may go on after this phase.
    #[must_use]
    pub fn about_phase(mut self, phase: impl Into<String>) -> Self {
        self.phase = Some(phase.into());
        self
    }

    /// The question is asked by the agent of this task.
    #[must_use]
    pub fn about_task(mut self, task: impl Into<String>) -> Self {
        self.task = Some(task.into());
        self
    }

    /// Accepts only answers that pass `validate`. The author of another answer receives the reason,
    /// and the question stays open.
    pub fn checked(
        mut self,
        validate: impl Fn(&UserReply) -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.validate = Some(Box::new(validate));
        self
    }
}

impl Session {
    /// Asks, and waits for the first valid answer. An abort ends the wait with [`Error::Aborted`].
    ///
    /// Any receiver of `session:prompt` may answer: here a listener, elsewhere a person.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use harness::{Ask, Cx, Envelope, Error, Event, Harness, UserReply, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let flow = Harness::define("deploy").state(|(): &()| ()).run(
    ///     async |cx: &mut Cx<'_, (), ()>| {
    ///         let session = cx.session().ok_or(Error::NoSession)?;
    ///         let ask = Ask::choices(["staging", "production"]).within(Duration::from_secs(60));
    ///         Ok(session.wait_for_user("Where to?", ask).await?.content)
    ///     },
    /// );
    /// let instance = flow.create(()).start_session();
    /// let hub = instance.hub().clone();
    /// let answering = instance.subscribe("session:prompt", move |e: &Envelope| {
    ///     if let Event::SessionPrompt { prompt_id, .. } = &e.event {
    ///         hub.reply(*prompt_id, UserReply::choice("staging"));
    ///     }
    /// });
    /// assert_eq!(instance.run().await?.result, "staging");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for_user(&self, prompt: impl Into<String>, ask: Ask) -> Result<UserReply> {
        Ok(self.wait_for_user_named(prompt, ask).await?.1)
    }

    /// Does the same, and returns the id of the question.
    pub(crate) async fn wait_for_user_named(
        &self,
        prompt: impl Into<String>,
        ask: Ask,
    ) -> Result<(PromptId, UserReply)> {
        let Ask { choices, allow_text, timeout, validate, phase, task } = ask;
        let prompt = prompt.into();
        let question = Question { prompt, choices, allow_text, validate, phase, task };
        let wait = self.hub.ask(question);
        // When the wait ends, by time or because the flow was dropped, the question is withdrawn.
        let id = wait.id;
        let _open = Open { hub: &self.hub, id };
        let answer = async { Ok((id, wait.answer.await.map_err(|_| Error::Aborted)?)) };
        match timeout {
            None => answer.await,
            Some(limit) => match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::NoAnswer { seconds: limit.as_secs() }),
            },
        }
    }

    /// Returns whether [`read_messages`](Session::read_messages) would return any.
    pub fn has_messages(&self) -> bool {
        self.hub.has_messages()
    }

    /// Returns all messages since the last call, oldest first. Of more than 4096 unread messages,
    /// the oldest are dropped.
    pub fn read_messages(&self) -> Vec<UserMessage> {
        self.hub.read_messages()
    }

    /// Returns whether the conversation was ended. From then on every question fails. A long flow
    /// should check it at intervals.
    pub fn is_aborted(&self) -> bool {
        self.hub.status() == HubStatus::Aborted
    }
}

struct Open<'a> {
    hub: &'a Hub,
    id: PromptId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.hub.forget_question(self.id);
    }
}
