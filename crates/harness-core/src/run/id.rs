//! The name of a run.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BadName;

/// The name of a run: a UUID that sorts by time.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

impl RunId {
    const RULE: &'static str = "a UUID such as 0197f0a2-0000-7000-8000-000000000000";

    /// Checks `text`. The error contains the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let hyphens = [8, 13, 18, 23];
        let good = text.len() == 36
            && text.bytes().enumerate().all(|(at, b)| match hyphens.contains(&at) {
                true => b == b'-',
                false => b.is_ascii_hexdigit(),
            });
        if good {
            return Ok(Self(text.to_ascii_lowercase().into()));
        }
        Err(BadName { what: "run id", given: text.chars().take(80).collect(), rule: Self::RULE })
    }

    /// Builds the name from the 128 bits of a UUID.
    pub fn of_bits(bits: u128) -> Self {
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Self(parts.join("-").into())
    }

    /// Returns the name as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
