//! Lengths of time as people write them: `90s`, `30m`, `8h`, `2d`, `1h30m`.

use std::{borrow::Cow, fmt, time};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duration(pub(crate) time::Duration);

/// The units, from large to small.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl Duration {
    /// Returns the duration; `None` if the text is none. A bare number is in seconds.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(seconds) = text.parse::<u64>() {
            return (seconds > 0).then(|| Self(time::Duration::from_secs(seconds)));
        }
        let (mut rest, mut seconds) = (text, 0_u64);
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let count: u64 = rest[..end].parse().ok()?;
            let unit = rest[end..].chars().next()?;
            let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
            seconds = seconds.checked_add(count.checked_mul(length)?)?;
            rest = &rest[end + 1..];
        }
        (seconds > 0).then(|| Self(time::Duration::from_secs(seconds)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seconds = self.0.as_secs();
        for (name, length) in UNITS {
            if seconds >= length {
                write!(f, "{}{name}", seconds / length)?;
                seconds %= length;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Duration;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"90s\", \"30m\", \"8h\" or \"2d\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                Duration::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        d.deserialize_str(Text)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9]+[smhd])+$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up_and_a_bare_number_is_seconds() {
        for (text, seconds, written) in [
            ("90s", 90, "1m30s"),
            ("30m", 1_800, "30m"),
            ("8h", 28_800, "8h"),
            ("2d", 172_800, "2d"),
            ("1h30m", 5_400, "1h30m"),
            ("90", 90, "1m30s"),
        ] {
            let duration = Duration::parse(text).unwrap();
            assert_eq!((duration.0.as_secs(), duration.to_string().as_str()), (seconds, written));
        }
        for bad in ["", "h", "1x", "-1s", "1h 2m", "1é", "0s", "99999999999999999999d"] {
            assert_eq!(Duration::parse(bad), None, "{bad:?}");
        }
    }
}
