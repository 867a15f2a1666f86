//! Small parts of pages: times, amounts, chips, commands and forms.

use harness::view::AttemptOutcome;
use harness_core::{Timestamp, task::Status};
use maud::{Markup, html};
use serde_json::Value;

use crate::{local_time, paint::visible, task_line::Span, web::site::Mode};

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Warn,
    Work,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Work => "work",
        }
    }

    pub(super) fn of(status: Status) -> Self {
        match status {
            Status::Completed => Self::Good,
            Status::Failed => Self::Bad,
            Status::InProgress => Self::Work,
            Status::Pending => Self::Plain,
        }
    }
}

pub(super) fn chip(tone: Tone, text: &str) -> Markup {
    html! { span class=(format!("chip {}", tone.class())) { (text) } }
}

/// Returns the word for a status.
pub(super) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Completed => "done",
        Status::Failed => "failed",
        Status::InProgress => "working",
        Status::Pending => "to do",
    }
}

/// Returns the colour and the word for what became of an attempt.
pub(super) fn outcome(outcome: AttemptOutcome) -> (Tone, &'static str) {
    match outcome {
        AttemptOutcome::Working => (Tone::Work, "working"),
        AttemptOutcome::Asking => (Tone::Warn, "waits for an answer"),
        AttemptOutcome::Completed => (Tone::Good, "completed"),
        AttemptOutcome::Failed => (Tone::Bad, "failed"),
        AttemptOutcome::Stopped => (Tone::Warn, "stopped"),
        // The library may add outcomes.
        _ => (Tone::Plain, "ended"),
    }
}

/// A moment. Its text does not depend on when it is read.
pub(super) fn moment(time: Timestamp, now: Timestamp) -> Markup {
    html! {
        time datetime=(time) title=(local_time::date_and_clock(time)) {
            (local_time::moment(time, now))
        }
    }
}

/// A time that the server writes as a moment, and that the script replaces by a span that it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// "since 20:53" becomes "3 min".
    Up,
    /// "since 20:53" becomes "for 3 min".
    For,
    /// "at 20:53" becomes "3 min ago".
    Ago,
    /// "at 20:53" becomes "in 3 min".
    In,
    /// "until 20:53" becomes "3 min left".
    Left,
}

pub(super) fn counted(count: Count, time: Timestamp, now: Timestamp) -> Markup {
    let (name, word) = match count {
        Count::Up => ("up", "since"),
        Count::For => ("for", "since"),
        Count::Ago => ("ago", "at"),
        Count::In => ("in", "at"),
        Count::Left => ("left", "until"),
    };
    html! {
        time datetime=(time) data-count=(name) title=(local_time::date_and_clock(time)) {
            (word) " " (local_time::moment(time, now))
        }
    }
}

pub(super) fn span(seconds: u64) -> String {
    Span(seconds).to_string()
}

pub(super) fn dollars(amount: f64) -> String {
    match amount {
        a if a != 0.0 && a < 0.01 => "< $0.01".to_owned(),
        a => format!("${a:.2}"),
    }
}

/// Returns a count of tokens in two or three digits: `12.3k`.
pub(super) fn tokens(count: u64) -> String {
    let scaled = |by: f64, unit: &str| {
        let value = count as f64 / by;
        if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => scaled(1e3, "k"),
        _ => scaled(1e6, "M"),
    }
}

/// Returns text of agents with its control characters shown.
pub(super) fn shown(text: &str) -> String {
    visible(text)
}

/// Returns one line of such a text, cut to a size that a page can hold.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    crate::tool_line::cut(&visible(line), 300)
}

/// The name of an agent. That of a command is its whole command line, which can be long.
pub(super) fn agent(name: &str) -> Markup {
    const CHARS: usize = 32;
    let name = first_line(name);
    html! { b title=[(name.chars().count() > CHARS).then_some(&name)] { (crate::tool_line::cut(&name, CHARS)) } }
}

/// The command that does the same as the form beside it.
pub(super) fn command(text: &str) -> Markup {
    html! { span .command { code { (text) } } }
}

pub(super) fn task_link(id: &str) -> Markup {
    html! { a .id href=(format!("task/{id}")) { (id) } " " }
}

/// A form that sends one request of the protocol.
pub(super) struct Act<'a> {
    pub(super) request: Value,
    pub(super) fields: Markup,
    /// A question before it is sent.
    pub(super) ask: Option<&'a str>,
}

impl Act<'_> {
    pub(super) fn of(request: Value, fields: Markup) -> Self {
        Self { request, fields, ask: None }
    }

    /// Returns the form, or nothing on a server that only shows.
    pub(super) fn markup(self, mode: Mode) -> Markup {
        match mode {
            Mode::ReadOnly => html! {},
            Mode::Full => html! {
                form .act data-command=(self.request) data-ask=[self.ask] {
                    (self.fields)
                    span .said role="status" {}
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown = [0, 999, 1_000, 12_345, 999_999, 1_000_000, 45_600_000].map(tokens);
        assert_eq!(shown, ["0", "999", "1.0k", "12k", "1000k", "1.0M", "46M"]);
        let shown = [0.0, 0.001, 0.5, 12.345].map(dollars);
        assert_eq!(shown, ["$0.00", "< $0.01", "$0.50", "$12.35"]);
    }

    #[test]
    fn text_of_agents_stays_text() {
        let evil = "<script>alert(1)</script>\u{1b}[2J";
        let page = html! { p title=(evil) { (shown(evil)) } }.into_string();
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;") && page.contains("\\u{1b}[2J"), "{page}");
        let form = Act::of(serde_json::json!({ "x": "\"><b>" }), html! {}).markup(Mode::Full);
        assert!(!form.into_string().contains("<b>"));
    }
}
