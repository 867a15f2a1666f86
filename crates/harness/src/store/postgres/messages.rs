//! Messages to agents of other machines, and the questions of all machines.

use harness_core::Timestamp;
use serde_json::Value;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use super::{Database, DatabaseError, error::Trouble, known::damaged, rows::get, wire::By};

/// The most messages that one look returns.
const LOOK: i64 = 100;

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A text for an agent (`send`).
    Text,
    /// The end of an attempt or a run (`abort`).
    Abort,
    /// The answer to a question (`reply`).
    Answer,
}

impl MessageKind {
    const ALL: [Self; 3] = [Self::Text, Self::Abort, Self::Answer];

    /// Returns the name that the table uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "send",
            Self::Abort => "abort",
            Self::Answer => "reply",
        }
    }
}

/// A message to another machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetMessage {
    /// Its number, which grows.
    pub id: i64,
    /// What it asks for.
    pub kind: MessageKind,
    /// Its content.
    pub body: Value,
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetQuestion {
    /// Its name, unique in the ledger.
    pub id: String,
    /// The machine whose agent asks. The answer is sent there.
    pub host: String,
    /// Its content.
    pub body: Value,
    /// When it was asked.
    pub asked_at: Timestamp,
}

impl Database {
    /// Sends a message to a machine.
    pub fn send_message(
        &self,
        host: &str,
        kind: MessageKind,
        body: &Value,
    ) -> Result<(), DatabaseError> {
        let (kind, body) = (kind.name(), body.to_string());
        let sql = "INSERT INTO harness.message (ledger, host, kind, body) VALUES ($1, $2, $3, $4)";
        self.run(sql, &[(&host, Type::TEXT), (&kind, Type::TEXT), (&body, Type::TEXT)])
    }

    /// Returns the messages for this machine that are not done, oldest first. Each is returned again
    /// until [`settle_message`](Self::settle_message) is called.
    pub fn waiting_messages(&self) -> Result<Vec<FleetMessage>, DatabaseError> {
        let (ledger, host) = (self.0.ledger(), &self.0.access.host);
        let sql = "SELECT id, kind, body FROM harness.message \
                   WHERE ledger = $1 AND host = $2 AND taken_at IS NULL ORDER BY id LIMIT $3";
        let by: [(&(dyn ToSql + Sync), Type); 3] =
            [(&ledger, Type::INT8), (host, Type::TEXT), (&LOOK, Type::INT8)];
        self.0.side().again(|link| link.query(sql, by.to_vec())?.iter().map(message).collect())
    }

    /// Records that a message was acted on.
    pub fn settle_message(&self, id: i64) -> Result<(), DatabaseError> {
        let sql = "UPDATE harness.message SET taken_at = clock_timestamp() \
                   WHERE ledger = $1 AND id = $2 AND taken_at IS NULL";
        self.run(sql, &[(&id, Type::INT8)])
    }

    /// Shows a question of this machine to all.
    pub fn put_question(&self, id: &str, body: &Value) -> Result<(), DatabaseError> {
        let (host, body) = (&self.0.access.host, body.to_string());
        let sql = "INSERT INTO harness.question (ledger, id, host, body) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (ledger, id) DO UPDATE SET host = excluded.host, body = excluded.body";
        self.run(sql, &[(&id, Type::TEXT), (host, Type::TEXT), (&body, Type::TEXT)])
    }

    /// Removes a question that was answered, or whose agent is gone.
    pub fn remove_question(&self, id: &str) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM harness.question WHERE ledger = $1 AND id = $2";
        self.run(sql, &[(&id, Type::TEXT)])
    }

    /// Returns the open questions of all machines, oldest first.
    pub fn questions(&self) -> Result<Vec<FleetQuestion>, DatabaseError> {
        let ledger = self.0.ledger();
        let sql = "SELECT id, host, body, floor(extract(epoch FROM asked_at))::bigint \
                   FROM harness.question WHERE ledger = $1 ORDER BY asked_at, id";
        self.0.side().again(|link| {
            link.query(sql, vec![(&ledger, Type::INT8)])?.iter().map(question).collect()
        })
    }

    fn run(&self, sql: &str, by: &[(&(dyn ToSql + Sync), Type)]) -> Result<(), DatabaseError> {
        let ledger = self.0.ledger();
        self.0.side().again(|link| {
            let mut all: By<'_> = vec![(&ledger, Type::INT8)];
            all.extend(by.iter().cloned());
            link.query(sql, all).map(|_| ())
        })
    }
}

fn message(row: &Row) -> Result<FleetMessage, Trouble> {
    let (kind, body): (String, String) = (get(row, 1)?, get(row, 2)?);
    let found = MessageKind::ALL.into_iter().find(|known| known.name() == kind);
    let kind = found.ok_or_else(|| damaged("a message has an unknown kind"))?;
    Ok(FleetMessage { id: get(row, 0)?, kind, body: json(&body)? })
}

fn question(row: &Row) -> Result<FleetQuestion, Trouble> {
    let (body, asked_at): (String, i64) = (get(row, 2)?, get(row, 3)?);
    let asked_at = Timestamp::from_seconds(asked_at);
    Ok(FleetQuestion { id: get(row, 0)?, host: get(row, 1)?, body: json(&body)?, asked_at })
}

fn json(text: &str) -> Result<Value, Trouble> {
    serde_json::from_str(text).map_err(|_| damaged("a message is no JSON"))
}
