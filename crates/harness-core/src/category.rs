//! The closed set of error categories.

use std::{fmt, str::FromStr};

/// The category of an error. The machines decide what follows from each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// The environment is broken. This says nothing about the work.
    EnvSetup,
    /// The ledger or the configuration is wrong, and a person must fix it.
    Config,
    /// The work itself failed.
    TaskExec,
    /// The check did not pass.
    TestFail,
    /// The check or the attempt took too long.
    Timeout,
    /// A task that this one depends on failed for good.
    Dependency,
    /// The session ended before the attempt did.
    SessionTimeout,
}

impl Category {
    /// All categories, each once.
    pub const ALL: [Self; 7] = [
        Self::EnvSetup,
        Self::Config,
        Self::TaskExec,
        Self::TestFail,
        Self::Timeout,
        Self::Dependency,
        Self::SessionTimeout,
    ];

    /// Returns the name that logs and ledgers use, such as `TEST_FAIL`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnvSetup => "ENV_SETUP",
            Self::Config => "CONFIG",
            Self::TaskExec => "TASK_EXEC",
            Self::TestFail => "TEST_FAIL",
            Self::Timeout => "TIMEOUT",
            Self::Dependency => "DEPENDENCY",
            Self::SessionTimeout => "SESSION_TIMEOUT",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a word that names no category. The word is cut to 40 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown category {0:?}: one of ENV_SETUP, CONFIG, TASK_EXEC, TEST_FAIL, TIMEOUT, DEPENDENCY, SESSION_TIMEOUT"
)]
pub struct UnknownCategory(pub String);

impl FromStr for Category {
    type Err = UnknownCategory;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|c| c.name() == text);
        known.ok_or_else(|| UnknownCategory(text.chars().take(40).collect()))
    }
}

impl serde::Serialize for Category {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Category {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
