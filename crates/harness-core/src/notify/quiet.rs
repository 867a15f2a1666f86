//! Quiet hours: a part of the day in which a channel sends nothing.

use std::{fmt, str::FromStr};

const MINUTES_OF_DAY: u32 = 24 * 60;

/// A part of the day, which may contain midnight: `22:00-07:00`. The end is not a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from_minute: u32,
    to_minute: u32,
}

/// The error for a text that is no part of the day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no part of the day such as \"22:00-07:00\"")]
pub struct BadQuietHours(pub String);

impl QuietHours {
    /// Returns the minutes until the end, if this minute of the local day is quiet.
    pub fn minutes_left(self, minute_of_day: u32) -> Option<u32> {
        let minute = minute_of_day % MINUTES_OF_DAY;
        let length = (self.to_minute + MINUTES_OF_DAY - self.from_minute) % MINUTES_OF_DAY;
        let passed = (minute + MINUTES_OF_DAY - self.from_minute) % MINUTES_OF_DAY;
        (passed < length).then(|| length - passed)
    }
}

impl FromStr for QuietHours {
    type Err = BadQuietHours;

    fn from_str(text: &str) -> Result<Self, BadQuietHours> {
        let minute = |text: &str| -> Option<u32> {
            let (hour, minute) = text.trim().split_once(':')?;
            let is_number = |text: &str| {
                (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
            };
            if !is_number(hour) || minute.len() != 2 || !is_number(minute) {
                return None;
            }
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let hours = text.split_once('-').and_then(|(from, to)| {
            Some(Self { from_minute: minute(from)?, to_minute: minute(to)? })
        });
        // An empty part would look like a setting that does something.
        hours
            .filter(|hours| hours.from_minute != hours.to_minute)
            .ok_or_else(|| BadQuietHours(text.chars().take(40).collect()))
    }
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        write!(f, "{}-{}", clock(self.from_minute), clock(self.to_minute))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_day_may_contain_midnight() {
        for (hours, minute, left) in [
            ("22:00-07:00", 22 * 60, Some(9 * 60)),
            ("22:00-07:00", 23 * 60 + 59, Some(7 * 60 + 1)),
            ("22:00-07:00", 0, Some(7 * 60)),
            ("22:00-07:00", 6 * 60 + 59, Some(1)),
            ("22:00-07:00", 7 * 60, None),
            ("22:00-07:00", 12 * 60, None),
            ("9:30-17:00", 9 * 60 + 29, None),
            ("9:30-17:00", 9 * 60 + 30, Some(450)),
            ("9:30-17:00", 17 * 60, None),
        ] {
            let parsed: QuietHours = hours.parse().unwrap();
            assert_eq!(parsed.minutes_left(minute), left, "{hours} at minute {minute}");
        }
        assert_eq!("9:30-17:00".parse::<QuietHours>().unwrap().to_string(), "09:30-17:00");
    }

    #[test]
    fn what_is_no_part_of_the_day_is_refused() {
        for text in [
            "",
            "22-7",
            "22:00",
            "24:00-07:00",
            "22:60-07:00",
            "7:00-07:00",
            "+1:00-2:00",
            "a:00-b:00",
            "1:0-2:00",
        ] {
            assert!(text.parse::<QuietHours>().is_err(), "{text}");
        }
    }
}
