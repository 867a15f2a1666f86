//! Interprets the message with which an agent reports that it could not continue.
//!
//! It is only for the report of a program about its own failure, never for its text or a tool's
//! output, because an agent may read a file with the same words.

use harness_core::{
    Timestamp,
    agent::{End, FailureKind},
};
use jiff::{Zoned, civil, tz::TimeZone};

/// The limit of a reason that is shown.
const DETAIL_CHARACTERS_MAX: usize = 2000;

const CONTEXT: &[&str] = &[
    "context_length_exceeded",
    "context window",
    "context length",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
];
const LIMIT: &[&str] = &[
    "usage limit",
    "rate limit",
    "rate_limit",
    "too many requests",
    "quota",
    "out of credits",
    "resource exhausted",
    "resource_exhausted",
    "at capacity",
];
const AUTH: &[&str] = &[
    "unauthorized",
    "api key",
    "api_key",
    "not logged in",
    "not signed in",
    "sign in again",
    "log in",
    "login",
    "authenticat",
    "auth required",
    "auth_required",
];
const REFUSED: &[&str] =
    &["content_filter", "content filter", "content policy", "policy violation", "flagged"];
const CONFIG: &[&str] = &[
    "does not exist",
    "model_not_found",
    "not inside a trusted directory",
    "error loading config",
    "failed to load config",
    "invalid config",
];
const NETWORK: &[&str] = &[
    "stream disconnected",
    "high demand",
    "high load",
    "overloaded",
    "connection",
    "error sending request",
    "timed out",
    "timeout",
    "network",
    "fetch failed",
    "econn",
    "enotfound",
    "temporarily unavailable",
];

/// Returns the end for a failure. "In 20 seconds" counts from `now`.
pub(super) fn end(message: &str, now: Timestamp) -> End {
    let words = message.to_lowercase();
    let says = |known: &[&str]| known.iter().any(|one| words.contains(one));
    let failed = |kind| End::Failed { kind, detail: detail(message) };
    let not_let_in = || End::Failed {
        kind: FailureKind::Auth,
        detail: format!("the agent is not signed in: {}", detail(message)),
    };
    // A full context comes as a bad request, so it is checked before the number.
    if says(CONTEXT) {
        return End::OutOfContext;
    }
    match status(&words) {
        Some(401 | 403) => return not_let_in(),
        Some(429) => return End::Limited { until: until(message, now) },
        Some(404) => return failed(FailureKind::Config),
        Some(500..=599) => return failed(FailureKind::Network),
        Some(_) | None => {}
    }
    if says(LIMIT) {
        End::Limited { until: until(message, now) }
    } else if says(AUTH) {
        not_let_in()
    } else if says(REFUSED) {
        End::Refused
    } else if says(CONFIG) {
        failed(FailureKind::Config)
    } else if says(NETWORK) {
        failed(FailureKind::Network)
    } else {
        failed(FailureKind::Crashed)
    }
}

/// Returns the part of a message that people read.
pub(super) fn detail(message: &str) -> String {
    message.trim().chars().take(DETAIL_CHARACTERS_MAX).collect()
}

/// The words after which an HTTP status may stand. It may also be the first word.
const NUMBERED: [&str; 8] =
    ["status", "code", "http", "error", "statuscode", "message", "details", ""];

/// Returns an HTTP status: `status 401`, `status: 429`, `"code":503`, `error 500`, `401 no such
/// key`.
fn status(words: &str) -> Option<u16> {
    let mut before = "";
    for word in words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let is_number = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
        let told = NUMBERED.contains(&before);
        if let (true, true, Ok(number)) = (is_number, told, word.parse()) {
            return Some(number).filter(|number| (400..600).contains(number));
        }
        before = word;
    }
    None
}

/// Returns the end of a limit, if the message contains it.
fn until(message: &str, now: Timestamp) -> Option<Timestamp> {
    let words = message.to_lowercase();
    let after = |mark: &str| words.find(mark).and_then(|at| words.get(at + mark.len()..));
    if let Some(seconds) =
        after("try again in ").or_else(|| after("retry after ")).and_then(duration_seconds)
    {
        return Some(now.plus(seconds));
    }
    clock_time(after("try again at ")?, now)
}

/// Parses `20s`, `1.5 seconds`, `2 days 3 hours 5 minutes`.
fn duration_seconds(words: &str) -> Option<u64> {
    let mut rest = words;
    let mut sum: Option<f64> = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let Ok(number) = number.parse::<f64>() else { break };
        let behind = behind.trim_start_matches(' ');
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let unit = match unit {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        sum = Some(sum.unwrap_or(0.0) + number * unit);
        rest = behind;
    }
    // No limit lasts longer than a year. The value is rounded up, because a second early is too
    // early.
    sum.map(|seconds| seconds.ceil().clamp(0.0, 31_536_000.0) as u64)
}

/// Parses `3:05 pm` today, or tomorrow if that has passed; `jan 15th, 2027 8:00 am`. The time zone
/// is that of this machine, because the agent that wrote it runs on it.
fn clock_time(words: &str, now: Timestamp) -> Option<Timestamp> {
    let zone = TimeZone::system();
    let now = jiff::Timestamp::from_second(now.seconds()).ok()?.to_zoned(zone.clone());
    let parts: Vec<&str> = words
        .split(|c: char| !c.is_ascii_alphanumeric() && c != ':')
        .filter(|part| !part.is_empty())
        .collect();
    let (date, time) = match parts.as_slice() {
        [month, day, year, time @ ..] if !month.contains(':') => {
            (Some(date(month, day, year)?), time)
        }
        time => (None, time),
    };
    let [clock, half, ..] = time else { return None };
    let time = time_of_day(clock, half)?;
    let of = |date: civil::Date| date.to_datetime(time).to_zoned(zone.clone()).ok();
    let found: Zoned = match date {
        Some(date) => of(date)?,
        None => of(now.date())
            .filter(|today| *today > now)
            .or_else(|| of(now.date().tomorrow().ok()?))?,
    };
    Some(Timestamp::from_seconds(found.timestamp().as_second()))
}

fn date(month: &str, day: &str, year: &str) -> Option<civil::Date> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let month = MONTHS.iter().position(|name| month.starts_with(name))?;
    let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
    civil::Date::new(year.parse().ok()?, i8::try_from(month + 1).ok()?, day).ok()
}

fn time_of_day(clock: &str, half: &str) -> Option<civil::Time> {
    let (hour, minute) = clock.split_once(':')?;
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match (hour, half) {
        (12, "am") => 0,
        (12, "pm") => 12,
        (1..=11, "am") => hour,
        (1..=11, "pm") => hour + 12,
        _ => return None,
    };
    civil::Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-16T00:30:00Z").unwrap()
    }

    #[test]
    fn failures_are_distinguished() {
        for (message, expected) in [
            ("unexpected status 401 Unauthorized: Incorrect key, url: http://x", "Auth"),
            ("Your access token could not be refreshed. Please log out and sign in again.", "Auth"),
            ("exceeded retry limit, last status: 429 Too Many Requests", "Limited"),
            ("Quota exceeded. Check your plan and billing details.", "Limited"),
            (r#"{"error":{"code":429,"message":"slow down"}}"#, "Limited"),
            ("We’re currently experiencing high demand, which may cause errors.", "Network"),
            ("stream disconnected before completion: stream closed", "Network"),
            ("unexpected status 503 Service Unavailable: boom, url: x", "Network"),
            (r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, "OutOfContext"),
            ("unexpected status 400 Bad Request: exceeds the context window", "OutOfContext"),
            ("The model `x` does not exist", "Config"),
            ("This was flagged", "Refused"),
            ("Incomplete response returned, reason: content_filter", "Refused"),
            (r#"Internal error: {"details":"401 no good"}"#, "Auth"),
            ("503 no good", "Network"),
            ("something else, on line 401 of error.rs", "Crashed"),
            ("", "Crashed"),
        ] {
            let found = match end(message, now()) {
                End::Failed { kind, .. } => format!("{kind:?}"),
                other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
            };
            assert_eq!(found, expected, "{message}");
        }
    }

    #[test]
    fn a_limit_may_say_when_it_ends() {
        let plus = |seconds| Some(now().plus(seconds));
        for (message, expected) in [
            ("Rate limit reached. Please try again in 20s.", plus(20)),
            ("rate limit: try again in 1.2 seconds", plus(2)),
            ("usage limit. Try again in 2 days 3 hours 5 minutes.", plus(183_900)),
            ("usage limit, retry after 90 seconds", plus(90)),
            ("usage limit, try again in a while", None),
            ("usage limit, try again at some time", None),
            ("You’ve hit your usage limit.", None),
        ] {
            assert_eq!(end(message, now()), End::Limited { until: expected }, "{message}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let zone = TimeZone::system();
        let show = |message: &str| match end(message, now()) {
            End::Limited { until: Some(until) } => {
                let at = jiff::Timestamp::from_second(until.seconds()).unwrap();
                let days = (until.seconds() - now().seconds()) / 86_400;
                (days, at.to_zoned(zone.clone()).strftime("%b %d %Y %H:%M").to_string())
            }
            other => panic!("{other:?}"),
        };
        let (_, text) = show("usage limit. Try again at Jan 15th, 2027 8:00 AM.");
        assert_eq!(text, "Jan 15 2027 08:00");
        for (clock, expected) in
            [("12:05 AM", "00:05"), ("1:14 AM", "01:14"), ("12:30 PM", "12:30")]
        {
            let (days, text) = show(&format!("You’ve hit your usage limit. Try again at {clock}."));
            assert!(text.ends_with(expected), "{text}");
            assert_eq!(days, 0, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(message in "(?s)(usage limit try again (in|at) )?.{0,60}") {
            end(&message, now());
        }
    }
}
