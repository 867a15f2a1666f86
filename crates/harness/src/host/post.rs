//! The post of a host over a ledger in a database. It carries out the messages of other machines as if
//! they had come over the socket, and shows the questions of this root to all machines.
//!
//! A message is taken before it is carried out, so that it is carried out at most once, and answered
//! afterwards. The sender names the machines that have not answered.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use harness_core::{
    Command,
    command::{Code, Note},
    database::MailHandling,
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{server::Host, verbs::Handled};
use crate::{
    process::ancestry::Peer,
    project::Mail,
    protocol::{Answer, Call, PostedCall, Refused, Request, hide},
    store::postgres::{Database, DatabaseError, FleetMessage, Reported},
};

/// The longest time between two rounds. A message that arrives ends the wait.
const ROUND: Duration = Duration::from_secs(1);
/// The interval of reports that this host is there.
const REPORT: Duration = Duration::from_secs(10);

/// The post of a host, until [`end`](Post::end).
pub(super) struct Post {
    stop: CancellationToken,
    carrying: JoinHandle<()>,
}

impl Post {
    /// Starts the post. It runs inside a tokio runtime.
    pub(super) fn start(host: Arc<Host>, mail: Mail) -> Self {
        let stop = CancellationToken::new();
        let carrier = Carrier { host, mail, shown: BTreeMap::new(), reported: None };
        Self { carrying: tokio::spawn(carrier.carry_until(stop.clone())), stop }
    }

    /// Answers the messages that wait, and removes this host from the list of hosts.
    pub(super) async fn end(self) {
        self.stop.cancel();
        if let Err(why) = self.carrying.await {
            tracing::error!(%why, "the post of other machines failed");
        }
    }
}

struct Carrier {
    host: Arc<Host>,
    mail: Mail,
    /// The questions that other machines see.
    shown: BTreeMap<String, Value>,
    /// The time of the last report; none before the first.
    reported: Option<Instant>,
}

impl Carrier {
    async fn carry_until(mut self, stop: CancellationToken) {
        loop {
            if let Err(why) = self.round().await {
                // The renewals of claims report a database that is gone.
                tracing::debug!(%why, "the post of other machines waits");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.mail.arrived() => {}
                () = tokio::time::sleep(ROUND) => {}
            }
        }
        let ended = match self.carry_all().await {
            Ok(()) => self.ask(|database, _| database.remove_host()).await,
            Err(why) => Err(why),
        };
        if let Err(why) = ended {
            tracing::debug!(%why, "this host stays in the list until it is too old");
        }
    }

    async fn round(&mut self) -> Result<(), DatabaseError> {
        match self.reported {
            None => {
                self.report().await?;
                // Messages to an earlier host of this root are answered by this one.
                self.carry_all().await?;
                self.ask(Database::remove_earlier_hosts).await?;
                self.reported = Some(Instant::now());
            }
            Some(at) => {
                if at.elapsed() >= REPORT {
                    self.report().await?;
                    self.reported = Some(Instant::now());
                }
                if self.mail.is_waiting() {
                    self.carry_all().await?;
                }
            }
        }
        self.show_questions().await
    }

    async fn report(&mut self) -> Result<(), DatabaseError> {
        if self.ask(Database::report_host).await? == Reported::Anew {
            // Questions vanish with the row of their host.
            self.shown.clear();
        }
        Ok(())
    }

    async fn carry_all(&self) -> Result<(), DatabaseError> {
        let mut all_answered = Ok(());
        for message in self.ask(Database::take_messages).await? {
            // Nobody else takes it, so that it is carried out even if an earlier answer is lost.
            let answer = self.carry(&message).await;
            let id = message.id;
            let answered = self.ask(move |database, _| database.answer_message(id, &answer)).await;
            all_answered = all_answered.and(answered);
        }
        all_answered
    }

    /// Carries a message out, and returns its answer as a line of the wire.
    async fn carry(&self, message: &FleetMessage) -> Value {
        let handled = match MailHandling::of(message.to, message.seconds) {
            MailHandling::Act => self.act(message).await,
            MailHandling::ForPredecessor => {
                self.leave_undone(message, "it was for an earlier run or daemon, which has ended")
                    .await
            }
            MailHandling::TooOld { .. } => self.leave_undone(message, "it is too old").await,
        };
        match handled {
            Ok(answer) => json!({ "status": "ok", "data": answer }),
            Err(refused) => refused.line(),
        }
    }

    async fn act(&self, message: &FleetMessage) -> Handled {
        let PostedCall { call, pid } = PostedCall::read(&message.body, &self.host.secrets)?;
        self.host.answer(&Peer::operator_on(&message.sender, pid), &call).await
    }

    /// Records that a message was not carried out.
    async fn leave_undone(&self, message: &FleetMessage, why: &str) -> Handled {
        let FleetMessage { kind, sender, seconds, .. } = message;
        let text = format!(
            "`harness {kind}` of {sender}, sent {seconds} seconds ago, was not carried out: {why}"
        );
        let note = Note::Warning { task: None, message: text.clone() };
        if let Err(why) = self.host.writer.apply_async(Command::Note(note)).await {
            tracing::warn!(%why, "{text}");
        }
        Err(Refused::new(Code::NoRun, text))
    }

    /// Shows the questions of all processes of this root to other machines, and no others.
    async fn show_questions(&mut self) -> Result<(), DatabaseError> {
        let call = Call::of(&Request::Questions, &self.host.root);
        let here = Peer::operator_here();
        let Ok(Answer::Questions(open)) = self.host.answer(&here, &call).await else {
            return Ok(());
        };
        let mut open: BTreeMap<String, Value> = open
            .into_iter()
            .map(|question| {
                let mut body = json!(question);
                hide(&mut body, &self.host.secrets);
                (question.prompt_id, body)
            })
            .collect();
        let gone: Vec<String> =
            self.shown.keys().filter(|id| !open.contains_key(*id)).cloned().collect();
        for id in gone {
            let removed = id.clone();
            self.ask(move |database, _| database.remove_question(&removed)).await?;
            self.shown.remove(&id);
        }
        open.retain(|id, body| self.shown.get(id) != Some(body));
        for (id, body) in open {
            let (asked, text) = (id.clone(), body.clone());
            self.ask(move |database, _| database.put_question(&asked, &text)).await?;
            self.shown.insert(id, body);
        }
        Ok(())
    }

    /// Asks the database, beside the runtime.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Database, &Path) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let (database, root) = (self.mail.database().clone(), self.host.root.clone());
        let server = database.access().server();
        let asked = tokio::task::spawn_blocking(move || question(&database, &root)).await;
        asked.unwrap_or_else(|why| Err(DatabaseError::Unreachable { server, why: why.to_string() }))
    }
}
