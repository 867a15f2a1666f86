//! Talking with the people behind a run: questions that wait for an answer, messages, the end.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    event::PromptId,
    hub::{Hub, HubStatus, Question, UserMessage, UserReply, Validate},
};

/// The conversation of a run, from [`Branch::session`](crate::Branch::session). There is one after
/// `start_session()`. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) hub: Hub,
}

/// How a question may be answered. Without [`within`](Ask::within) it waits for as long as it takes.
#[derive(Default)]
pub struct Ask {
    choices: Vec<String>,
    allow_text: Option<bool>,
    timeout: Option<Duration>,
    validate: Option<Validate>,
}

impl Ask {
    /// Any text will do.
    pub fn text() -> Self {
        Self::default()
    }

    /// One of these, to the letter.
    pub fn choices<T: Into<String>>(choices: impl IntoIterator<Item = T>) -> Self {
        Self { choices: choices.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Something else than the choices will do too.
    pub fn or_text(mut self) -> Self {
        self.allow_text = Some(true);
        self
    }

    /// Gives up after this long, with [`Error::NoAnswer`].
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Takes only answers that pass; who gives another is told why, and the question stays open.
    pub fn checked(
        mut self,
        validate: impl Fn(&UserReply) -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.validate = Some(Box::new(validate));
        self
    }
}

impl Session {
    /// Asks, and waits for the first answer that fits. An abort ends the waiting with
    /// [`Error::Aborted`].
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

    /// The same, with the id that the question had.
    pub(crate) async fn wait_for_user_named(
        &self,
        prompt: impl Into<String>,
        ask: Ask,
    ) -> Result<(PromptId, UserReply)> {
        let Ask { choices, allow_text, timeout, validate } = ask;
        let question = Question { prompt: prompt.into(), choices, allow_text, validate };
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

    /// Whether [`read_messages`](Session::read_messages) would find any.
    pub fn has_messages(&self) -> bool {
        self.hub.has_messages()
    }

    /// All messages that have come since the last call, oldest first; of more than 4096 unread the
    /// oldest are gone.
    pub fn read_messages(&self) -> Vec<UserMessage> {
        self.hub.read_messages()
    }

    /// Whether somebody ended it; from then on every question fails. A long flow should look now and
    /// then.
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
