//! The names of executions and prompts, and the time of an event.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// The id of one call of an agent: `run-0`, `run-1`, … in the order of their starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub u64);

/// The id of one question: `prompt-0`, `prompt-1`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(pub u64);

macro_rules! counted_id {
    ($name:ident, $prefix:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), self.0)
            }
        }

        impl $name {
            /// Parses the form of [`Display`](fmt::Display), which is the only spelling.
            pub fn parse(text: &str) -> Option<Self> {
                let digits = text.strip_prefix(concat!($prefix, "-"))?;
                let id = Self(digits.parse().ok()?);
                // Each id has one spelling, so `run-007` is invalid.
                (id.to_string() == text).then_some(id)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::parse(&text)
                    .ok_or_else(|| serde::de::Error::custom(format!("bad id {text:?}")))
            }
        }
    };
}
counted_id!(ExecutionId, "run");
counted_id!(PromptId, "prompt");

/// Milliseconds since 1970, UTC. Within one hub it never runs backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Returns the time of the wall clock, or 1970 if the clock is before it.
    pub fn now() -> Self {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since_1970.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_with_milliseconds() {
        assert_eq!(Moment(1_751_364_000_007).to_string(), "2025-07-01T10:00:00.007Z");
        assert_eq!(Moment(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!(ExecutionId::parse("run-7"), Some(ExecutionId(7)));
        for bad in ["run-07", "run-", "run", "prompt-7", "run--1", "run-+1"] {
            assert_eq!(ExecutionId::parse(bad), None, "{bad}");
        }
    }
}
