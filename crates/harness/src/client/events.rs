//! The events of a host as a stream.

use serde_json::Value;
use uuid::Uuid;

use super::{ClientError, Connection};
use crate::{protocol::Refused, shell::Cancel};

/// One line of a stream of events.
#[derive(Debug, Clone, PartialEq)]
pub enum EventLine {
    /// An event.
    Event {
        /// Its id, which a later subscription names to continue after it.
        id: Option<Uuid>,
        /// The type: `task:start`, `run:end` and so on.
        kind: String,
        /// The event with all its fields.
        event: Value,
        /// The session, phase and task of the event.
        context: Value,
    },
    /// Events are missing here.
    Lagged {
        /// Their number, if it is known.
        missed: Option<u64>,
    },
}

/// A stream of events, until the host ends.
#[derive(Debug)]
pub struct EventLines {
    connection: Connection,
    stop: Option<Cancel>,
}

impl EventLines {
    pub(super) fn begin(
        mut connection: Connection,
        request: &Value,
        stop: Option<Cancel>,
    ) -> Result<Self, ClientError> {
        connection.begin(request)?;
        Ok(Self { connection, stop })
    }

    /// Returns the next line as the host sent it; `None` at the end of the stream.
    pub fn next_line(&mut self) -> Option<Result<Value, ClientError>> {
        let line = self.connection.next_line(self.stop.as_ref()).transpose()?;
        Some(line.and_then(|line| match Refused::read(&line) {
            Some(refused) => Err(refused.into()),
            None => Ok(line),
        }))
    }
}

impl Iterator for EventLines {
    type Item = Result<EventLine, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().map(|line| line.and_then(EventLine::read))
    }
}

impl EventLine {
    /// Reads a line of a subscription, or of `harness run --events`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Strange`], if it is neither an event nor a report of missing ones.
    pub fn read(mut line: Value) -> Result<Self, ClientError> {
        if line["type"] == "lagged" {
            return Ok(Self::Lagged { missed: line["missed"].as_u64() });
        }
        let kind = line["event"]["type"].as_str().ok_or(ClientError::Strange)?.to_owned();
        let id = line["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
        let (event, context) = (line["event"].take(), line["context"].take());
        Ok(Self::Event { id, kind, event, context })
    }
}
