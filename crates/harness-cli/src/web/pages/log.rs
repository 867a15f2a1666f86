//! The log: one line for each fact, the newest at the end.

use harness_core::log::{Kind, LogLine};
use maud::{Markup, html};

use super::{Inner, Page, Showing, parts};
use crate::{
    failure::Result,
    local_time, log_file,
    web::reader::{Reader, Sought},
};

/// The number of lines that are shown.
const LINES: usize = 500;
/// The number of lines that are searched.
const SEARCHED: usize = 20_000;

pub(super) fn page(reader: &Reader, showing: &Showing) -> Result<Sought<Inner>> {
    let words = showing.choice.q.trim().to_lowercase();
    let searched = if words.is_empty() { LINES } else { SEARCHED };
    let lines = log_file::last_lines(reader.root(), searched)?;
    let found: Vec<&String> =
        lines.iter().filter(|line| line.to_lowercase().contains(&words)).collect();
    let shown = &found[found.len().saturating_sub(LINES)..];
    let needs = reader.board()?.needs.len();
    let main = html! {
        div .page-head {
            h1 { "Log" }
            form .filter action="log" method="get" role="search" {
                input type="search" name="q" value=(showing.choice.q) placeholder="Search"
                    aria-label="Search the log";
                button { "Search" }
            }
        }
        section #log .card data-live="end" {
            @if shown.is_empty() {
                p .empty { "Nothing is logged" @if !words.is_empty() { " that contains this" } "." }
            }
            ol .log { @for line in shown { (entry(line)) } }
        }
    };
    Ok(Sought::Found(Inner::of(Page::Log, needs, main)))
}

fn entry(text: &str) -> Markup {
    let Some(line) = LogLine::parse(text) else {
        return html! { li { span .rest { (parts::shown(text)) } } };
    };
    let class = match line.kind {
        Kind::Error | Kind::Rollback => "what bad",
        Kind::Completed => "what good",
        Kind::Warn | Kind::Recovery => "what warn",
        Kind::Init | Kind::Starting | Kind::Checkpoint | Kind::Stats | Kind::Lock => "what",
    };
    html! {
        li {
            time datetime=(line.time) { (local_time::date_and_clock(line.time)) }
            span class=(class) { (line.kind) }
            @if let Some(task) = &line.task { (parts::task_link(task.as_str())) }
            span .rest {
                @if let Some(category) = &line.category { "[" (category) "] " }
                (parts::shown(&line.message))
            }
        }
    }
}
