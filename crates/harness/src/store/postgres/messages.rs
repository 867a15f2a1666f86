//! Messages to the hosts of other machines with their answers, and the questions of all machines.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use harness_core::{Timestamp, database::Addressee};
use serde_json::Value;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use uuid::Uuid;

use super::{
    Database, DatabaseError,
    error::Trouble,
    hosts::HERE,
    known::damaged,
    rows::{count, get, text},
    wire::{By, Link, bell},
};

/// Nothing looks for an answer more often without a notification.
const POLL: Duration = Duration::from_secs(1);

/// A message that this host has taken.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FleetMessage {
    /// Its number, which grows.
    pub id: i64,
    /// Its addressee.
    pub to: Addressee,
    /// The machine that sent it.
    pub sender: String,
    /// What it asks for: a verb.
    pub kind: String,
    /// Its content.
    pub body: Value,
    /// Its age.
    pub seconds: u64,
}

/// A message before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage<'a> {
    /// The id of the request, which its sender makes. All messages of a request have the same one.
    pub request: Uuid,
    /// What it asks for: a verb.
    pub kind: &'a str,
    /// Its content.
    pub body: Value,
}

/// An answer of a host to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetAnswer {
    /// The host.
    pub host: Uuid,
    /// What it answered.
    pub answer: Value,
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetQuestion {
    /// Its name, unique in the ledger.
    pub id: String,
    /// The host whose agent asks. The answer is sent there.
    pub host: Uuid,
    /// Its content.
    pub body: Value,
    /// When it was asked.
    pub asked_at: Timestamp,
}

const SEND: &str = "INSERT INTO harness.message (ledger, request, host, sender, kind, body) \
     SELECT $1, $2, host, $4, $5, $6 FROM unnest($3::uuid[]) AS u (host) ON CONFLICT DO NOTHING";

const ANSWERS: &str = "SELECT host, answer FROM harness.message \
     WHERE ledger = $1 AND request = $2 AND answer IS NOT NULL ORDER BY id";

impl Database {
    /// Sends a message to hosts. A repetition with the same request changes nothing.
    pub fn send_message(
        &self,
        hosts: &[Uuid],
        message: &NewMessage<'_>,
    ) -> Result<(), DatabaseError> {
        let (ledger, sender) = (self.0.ledger(), text(&self.0.access.host));
        let (hosts, body) = (hosts.to_vec(), message.body.to_string());
        self.0.side().again(|link| {
            link.query(
                SEND,
                vec![
                    (&ledger, Type::INT8),
                    (&message.request, Type::UUID),
                    (&hosts, Type::UUID_ARRAY),
                    (&sender, Type::TEXT),
                    (&message.kind, Type::TEXT),
                    (&body, Type::TEXT),
                ],
            )?;
            // A transaction of its own, because those that notify wait for one another.
            let said = format!("{ledger}:message");
            link.query("SELECT pg_notify('harness', $1)", vec![(&said, Type::TEXT)]).map(|_| ())
        })
    }

    /// Waits until a request has this many answers, at most for `limit`. Returns those that are there.
    /// It uses a connection of its own, which a notification wakes.
    pub fn wait_for_answers(
        &self,
        request: Uuid,
        wanted: usize,
        limit: Duration,
    ) -> Result<Vec<FleetAnswer>, DatabaseError> {
        let until = Instant::now() + limit;
        let (ring, rung) = bell();
        let mut link = self.0.link().notifying(self.0.ledger(), ring);
        loop {
            let found = link.again(|link| {
                if !link.is_open() {
                    link.query("LISTEN harness", Vec::new())?;
                }
                self.answers(link, request)
            })?;
            let left = until.saturating_duration_since(Instant::now());
            if found.len() >= wanted || left.is_zero() {
                return Ok(found);
            }
            // The end of the time is a reason to look too.
            _ = rung.recv_timeout(left.min(POLL));
        }
    }

    fn answers(&self, link: &mut Link, request: Uuid) -> Result<Vec<FleetAnswer>, Trouble> {
        let ledger = self.0.ledger();
        let rows = link.query(ANSWERS, vec![(&ledger, Type::INT8), (&request, Type::UUID)])?;
        let read = |row: &Row| -> Result<FleetAnswer, Trouble> {
            Ok(FleetAnswer { host: get(row, 0)?, answer: json(&get::<String>(row, 1)?)? })
        };
        rows.iter().map(read).collect()
    }

    /// Takes the messages for this host and for earlier hosts of `root` on this machine, oldest first.
    /// Nobody takes them again, so that each is carried out at most once.
    pub fn take_messages(&self, root: &Path) -> Result<Vec<FleetMessage>, DatabaseError> {
        let (ledger, id, here) = (self.0.ledger(), self.0.id(), self.here(root));
        // A repetition after a lost connection finds what the first try took.
        let taking = Uuid::now_v7();
        let sql = format!(
            "UPDATE harness.message m SET taken_by = $6, taken_at = clock_timestamp() \
             FROM harness.host h WHERE m.ledger = $1 AND h.ledger = $1 AND h.id = m.host \
             AND (h.id = $2 OR ({HERE})) AND m.answered_at IS NULL \
             AND (m.taken_at IS NULL OR m.taken_by = $6) \
             RETURNING m.id, h.id = $2, m.sender, m.kind, m.body, \
             greatest(0, floor(extract(epoch FROM clock_timestamp() - m.sent_at)))::bigint"
        );
        let mut taken: Vec<FleetMessage> = self.0.side().again(|link| {
            let by = vec![
                (&ledger as _, Type::INT8),
                (&id as _, Type::UUID),
                (&here.machine as _, Type::TEXT),
                (&here.boot as _, Type::TEXT),
                (&here.root as _, Type::TEXT),
                (&taking as _, Type::UUID),
            ];
            link.query(&sql, by)?.iter().map(message).collect()
        })?;
        taken.sort_by_key(|message| message.id);
        Ok(taken)
    }

    /// Writes the answer to a message that was taken.
    pub fn answer_message(&self, id: i64, answer: &Value) -> Result<(), DatabaseError> {
        let answer = answer.to_string();
        let sql = "UPDATE harness.message SET answer = $3, answered_at = clock_timestamp() \
                   WHERE ledger = $1 AND id = $2 AND answered_at IS NULL";
        self.run(sql, &[(&id, Type::INT8), (&answer, Type::TEXT)])?;
        self.0.has_answered();
        Ok(())
    }

    /// Shows a question of this host to all machines.
    pub fn put_question(&self, id: &str, body: &Value) -> Result<(), DatabaseError> {
        let (host, body) = (self.0.id(), body.to_string());
        let sql = "INSERT INTO harness.question (ledger, id, host, body) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (ledger, id) DO UPDATE SET host = excluded.host, body = excluded.body";
        self.run(sql, &[(&id, Type::TEXT), (&host, Type::UUID), (&body, Type::TEXT)])
    }

    /// Removes a question that was answered, or whose agent is gone.
    pub fn remove_question(&self, id: &str) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM harness.question WHERE ledger = $1 AND id = $2";
        self.run(sql, &[(&id, Type::TEXT)])
    }

    /// Returns the open questions of all hosts, oldest first, also of hosts that are gone.
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
    let to = if get::<bool>(row, 1)? { Addressee::Reader } else { Addressee::Predecessor };
    // What is no JSON is answered as a request that is none.
    let body = serde_json::from_str(&get::<String>(row, 4)?).unwrap_or_default();
    let (id, sender, kind) = (get(row, 0)?, get(row, 2)?, get(row, 3)?);
    Ok(FleetMessage { id, to, sender, kind, body, seconds: count(row, 5)? })
}

fn question(row: &Row) -> Result<FleetQuestion, Trouble> {
    let (body, asked_at): (String, i64) = (get(row, 2)?, get(row, 3)?);
    let asked_at = Timestamp::from_seconds(asked_at);
    Ok(FleetQuestion { id: get(row, 0)?, host: get(row, 1)?, body: json(&body)?, asked_at })
}

fn json(text: &str) -> Result<Value, Trouble> {
    serde_json::from_str(text).map_err(|_| damaged("a message is no JSON"))
}
