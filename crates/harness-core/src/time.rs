//! Time in the resolution of the formats: whole seconds, UTC. Nothing here reads a clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds since 1970, UTC. It is written as RFC 3339 with a trailing `Z`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The error for a text that is not a time. The text is cut to 60 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time such as 2025-07-01T10:00:00Z")]
pub struct BadTime(pub String);

impl Timestamp {
    /// Builds a time, clamped to the range that can be written, so that every time reads back
    /// unchanged.
    pub const fn from_seconds(seconds: i64) -> Self {
        let seconds = if seconds < MIN { MIN } else { seconds };
        Self(if seconds > MAX { MAX } else { seconds })
    }

    /// Returns the seconds since 1970, UTC.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 with `Z` or any offset. A time without zone is UTC. Fractions are dropped.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        let bad = || BadTime(text.chars().take(60).collect());
        if let Ok(t) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::from_seconds(t.as_second()));
        }
        let local: jiff::civil::DateTime = text.parse().map_err(|_| bad())?;
        let utc = local.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| bad())?;
        Ok(Self::from_seconds(utc.timestamp().as_second()))
    }

    /// Returns this time plus `seconds`. The result saturates at the end of the range.
    pub const fn plus(self, seconds: u64) -> Self {
        let seconds = if seconds > i64::MAX as u64 { i64::MAX } else { seconds as i64 };
        Self::from_seconds(self.0.saturating_add(seconds))
    }

    /// Returns this time minus `seconds`. The result saturates at the beginning of the range.
    pub const fn minus(self, seconds: u64) -> Self {
        let seconds = if seconds > i64::MAX as u64 { i64::MAX } else { seconds as i64 };
        Self::from_seconds(self.0.saturating_sub(seconds))
    }

    /// Returns the seconds from `earlier` to this time; zero if the clock went backwards.
    pub const fn since(self, earlier: Self) -> u64 {
        let d = self.0.saturating_sub(earlier.0);
        if d < 0 { 0 } else { d as u64 }
    }
}

/// The range that RFC 3339 and the calendar have in common: years 0 to 9999, except the last hours.
const MIN: i64 = -62_167_219_200;
const MAX: i64 = 253_402_207_200;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = jiff::Timestamp::from_second(self.0).unwrap_or_default();
        let t = t.to_zoned(jiff::tz::TimeZone::UTC);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_offsets_and_bare_times_and_writes_z() {
        for (text, written) in [
            ("2025-07-01T10:00:00Z", "2025-07-01T10:00:00Z"),
            ("2025-07-01T12:00:00+02:00", "2025-07-01T10:00:00Z"),
            ("2025-07-01T10:00:00", "2025-07-01T10:00:00Z"),
            ("2025-07-01T10:00:00.987Z", "2025-07-01T10:00:00Z"),
            ("2025-07-01 10:00:00", "2025-07-01T10:00:00Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), written);
        }
        for bad in ["", "yesterday", "2025-13-01T00:00:00Z", "10:00:00"] {
            assert!(Timestamp::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let t = Timestamp::from_seconds(i64::MAX);
        assert_eq!(t.plus(u64::MAX), t);
        assert_eq!(t.to_string(), "9999-12-30T22:00:00Z");
        for edge in [t, Timestamp::from_seconds(i64::MIN)] {
            assert_eq!(Timestamp::parse(&edge.to_string()).unwrap(), edge);
        }
        assert_eq!(Timestamp::from_seconds(5).since(Timestamp::from_seconds(9)), 0);
    }
}
