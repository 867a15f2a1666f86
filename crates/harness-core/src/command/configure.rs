//! The settings of sessions that people change: `session_config` of the ledger.

use serde::{Deserialize, Serialize};

use super::{Change, Refusal, Reply, SetMode};
use crate::{
    fact::Fact,
    ledger::{ConcurrencyMode, Ledger, SessionConfig},
    role::Author,
};

/// Above this, a limit of tasks or sessions is a typo.
const LIMIT_MAX: i64 = 1_000_000;

/// A key of `session_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionKey {
    /// Whether one session works at a time, or several.
    ConcurrencyMode,
    /// The number of tasks after which a session ends.
    MaxTasksPerSession,
    /// The number of sessions that may begin.
    MaxSessions,
}

impl SessionKey {
    /// All keys, in the order of the ledger.
    pub const ALL: [Self; 3] = [Self::ConcurrencyMode, Self::MaxTasksPerSession, Self::MaxSessions];

    /// Returns the name that the ledger uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyMode => "concurrency_mode",
            Self::MaxTasksPerSession => "max_tasks_per_session",
            Self::MaxSessions => "max_sessions",
        }
    }

    /// Returns the key of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Returns the values that are allowed, for people.
    pub const fn allowed(self) -> &'static str {
        match self {
            Self::ConcurrencyMode => "exclusive or concurrent",
            Self::MaxTasksPerSession | Self::MaxSessions => {
                "a whole number from 0 to 1000000, where 0 means no limit"
            }
        }
    }

    /// Returns the value in `config` as text.
    pub fn value(self, config: &SessionConfig) -> String {
        match self {
            Self::ConcurrencyMode => config.concurrency_mode.name().to_owned(),
            Self::MaxTasksPerSession => config.max_tasks_per_session.to_string(),
            Self::MaxSessions => config.max_sessions.to_string(),
        }
    }

    fn put(self, config: &mut SessionConfig, text: &str) -> Result<(), Refusal> {
        let bad = || {
            let (name, allowed) = (self.name(), self.allowed());
            Refusal::BadValue(format!("session_config.{name}: {text:?} is not {allowed}"))
        };
        let limit = || text.parse().ok().filter(|n| (0..=LIMIT_MAX).contains(n)).ok_or_else(bad);
        match self {
            Self::ConcurrencyMode => {
                let modes = [ConcurrencyMode::Exclusive, ConcurrencyMode::Concurrent];
                let mode = modes.into_iter().find(|mode| mode.name() == text);
                config.concurrency_mode = mode.ok_or_else(bad)?;
            }
            Self::MaxTasksPerSession => config.max_tasks_per_session = limit()?,
            Self::MaxSessions => config.max_sessions = limit()?,
        }
        Ok(())
    }
}

/// Sets one key of `session_config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigureSession {
    /// The key.
    pub key: SessionKey,
    /// The value as text; `None` for the default.
    pub value: Option<String>,
    /// The process that asked for it, if it is known. The log names it.
    pub by: Option<Author>,
}

impl ConfigureSession {
    pub(super) fn decide(&self, ledger: &Ledger) -> Result<Change, Refusal> {
        let (key, mut head) = (self.key, ledger.head().clone());
        let usual = || key.value(&SessionConfig::default());
        let value = self.value.clone().unwrap_or_else(usual);
        key.put(&mut head.session_config, value.trim())?;
        if head.session_config == ledger.head().session_config {
            return Ok(Change::reply(Reply::Noted));
        }
        // Another mode changes more than the setting, and claims of a run forbid it.
        if key == SessionKey::ConcurrencyMode {
            let mode = head.session_config.concurrency_mode;
            head = SetMode { mode }.decide(ledger)?.head.unwrap_or(head);
        }
        let old = key.value(&ledger.head().session_config);
        let by = self.by.as_ref().map(|author| format!(" by {author}")).unwrap_or_default();
        let (name, new) = (key.name(), key.value(&head.session_config));
        let message = format!("{name} changed{by}: {old} -> {new}");
        let facts = vec![Fact::Warned { task: None, message }];
        Ok(Change { head: Some(head), rows: Vec::new(), facts, reply: Reply::Noted })
    }
}
