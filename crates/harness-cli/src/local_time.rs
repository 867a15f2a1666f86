//! Times for people, short and in the zone of the user. Files and `--json` use UTC.

use harness_core::Timestamp;
use jiff::{Zoned, tz::TimeZone};

fn local(time: Timestamp) -> Option<Zoned> {
    let time = jiff::Timestamp::from_second(time.seconds()).ok()?;
    Some(time.to_zoned(TimeZone::system()))
}

/// Returns the time of day: `15:04:05`.
pub(crate) fn clock(time: Timestamp) -> String {
    let time = local(time).map(|t| format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second()));
    time.unwrap_or_default()
}

/// Returns the day too: `2025-07-01 15:04:05`.
pub(crate) fn date_and_clock(time: Timestamp) -> String {
    local(time).map_or_else(|| time.to_string(), |t| t.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns a moment near `now`: `15:04`, or with the date if it is another day: `Nov 17, 15:04`.
pub(crate) fn moment(time: Timestamp, now: Timestamp) -> String {
    let Some((time, now)) = local(time).zip(local(now)) else { return time.to_string() };
    let clock = format!("{:02}:{:02}", time.hour(), time.minute());
    match time.date() == now.date() {
        true => clock,
        false => format!("{}, {clock}", time.strftime("%b %-d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_day_is_named() {
        let now = Timestamp::from_seconds(1_763_300_000);
        assert_eq!(clock(now).len(), 8);
        assert_eq!(moment(now, now).len(), 5);
        let tomorrow = moment(now.plus(86_400), now);
        assert!(tomorrow.contains(", ") && tomorrow.ends_with(&moment(now, now)), "{tomorrow}");
    }
}
