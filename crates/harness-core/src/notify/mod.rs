//! Notifications: which happening becomes a message to a person, its text, when it is sent, and when it is given up.
//!
//! The messages wait in an [outbox](Outgoing), which is a part of the record of runs. This module
//! decides every step of it. It sends nothing and knows no channel but its name.

mod notice;
mod outbox;
mod quiet;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use notice::{Happening, Notice, masked};
pub use outbox::{
    Delivery, OutboxChange, OutboxKey, OutboxStep, Outgoing, SETTLED_KEPT, SendFailure, TRIES_MAX,
    WAITING_MAX, pause_seconds,
};
pub use quiet::{BadQuietHours, QuietHours};

/// The kinds of events that a person can be told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// An agent asks a question.
    Question,
    /// A phase waits for an approval, or its check failed.
    Gate,
    /// A task failed for good, or a run could not be carried out.
    Failed,
    /// Money, tokens or time are used up.
    Budget,
    /// A usage limit lasts longer than an hour.
    Limit,
    /// A run stopped without progress, with work left.
    Stalled,
    /// A run ended, for whatever reason.
    Finished,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 7] = [
        Self::Question,
        Self::Gate,
        Self::Failed,
        Self::Budget,
        Self::Limit,
        Self::Stalled,
        Self::Finished,
    ];

    /// Returns the word that settings and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Gate => "gate",
            Self::Failed => "failed",
            Self::Budget => "budget",
            Self::Limit => "limit",
            Self::Stalled => "stalled",
            Self::Finished => "finished",
        }
    }

    /// Returns the topic of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
