//! Makes the transactions of workers of other processes, so that one process writes the files.

use harness_core::{Command, command::Code};

use super::{
    super::{
        refused::busy,
        server::{Duty, Host},
    },
    Handled,
    complete::is_concurrent,
};
use crate::{
    protocol::{Answer, Refused, TRANSACTION_FORM, TransactionAnswer, WorkerTransaction},
    store::{Applied, AppliedOnce, Recording, Relayed, TransactionId},
};

pub(super) async fn transaction(host: &Host, request: WorkerTransaction) -> Handled {
    let WorkerTransaction { form, by, number, commands, since } = request;
    if form != TRANSACTION_FORM {
        let message = format!("Unknown command: worker_transaction of the form {form}");
        return Err(Refused::new(Code::UnknownCommand, message));
    }
    if matches!(host.duty, Duty::Run) && !is_concurrent(host).await? {
        return Err(busy());
    }
    let commands: Option<Vec<Command>> =
        serde_json::from_value(commands).map_err(|why| format!("commands: {why}"))?;
    let of = TransactionId { by, number, recording: Recording::WithChange };
    let relayed = host.writer.relay_async(of, commands.unwrap_or_default(), since).await?;
    Ok(Answer::Transaction(Box::new(relayed.into())))
}

impl From<Relayed> for TransactionAnswer {
    fn from(Relayed { applied, news }: Relayed) -> Self {
        let mut answer = match applied {
            None => Self::default(),
            Some(AppliedOnce::Before) => Self { repeated: true, ..Self::default() },
            Some(AppliedOnce::Now(applied)) => {
                let Applied { replies, facts, archived, warnings, log } = applied;
                Self { replies, facts, archived, warnings, log, ..Self::default() }
            }
        };
        if let Some(seen) = news {
            (answer.version, answer.news) = (Some(seen.version), seen.news);
        }
        answer
    }
}
