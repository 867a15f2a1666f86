//! The line in which results land on the target branch.

use harness_core::{Ledger, ledger::LandingEntry};
use maud::{Markup, html};

use super::{
    Inner, Page, Showing, now,
    parts::{self, Tone},
};
use crate::{
    failure::Result,
    web::reader::{Reader, Sought},
};

/// The number of results that are listed.
const LANDED: usize = 20;

pub(super) fn page(reader: &Reader, _: &Showing) -> Result<Sought<Inner>> {
    let board = reader.board()?;
    reader.ledger(|ledger| {
        let main = html! {
            div .page-head {
                h1 { "Landing" }
                @if let Some(target) = &board.target {
                    span .quiet { "results land on " code { (target.branch) } }
                }
            }
            section #landing data-live="part" {
                @if let Some(hint) = board.target.as_ref().and_then(|target| target.hint()) {
                    div .card .pad .needs { p { (hint) } }
                }
                h2 { "In the line" small { (ledger.head().landing.len()) } }
                div .card .rows { (queue(ledger)) }
            }
            section #landed data-live="part" {
                @if !board.done.is_empty() {
                    h2 { "Landed last" }
                    div .card .rows { @for entry in board.done.iter().take(LANDED) { (now::finished(entry, board.time)) } }
                }
            }
        };
        Ok(Sought::Found(Inner::of(Page::Landing, board.needs.len(), main)))
    })
}

fn queue(ledger: &Ledger) -> Markup {
    let line: &[LandingEntry] = &ledger.head().landing;
    html! {
        @if line.is_empty() {
            p .empty { "Nothing waits to land. Results of one worker need no line: they are committed where it works." }
        }
        @for (n, entry) in line.iter().enumerate() {
            @let title = ledger.task(&entry.task).map(|task| task.title.as_str()).unwrap_or_default();
            div .line {
                span .num .quiet { (n + 1) "." }
                div .grow {
                    div { (parts::task_link(entry.task.as_str())) " " span .title { (parts::first_line(title)) } }
                    div .facts {
                        @if let Some(onto) = &entry.onto { span { "on " code { (onto.short()) } } }
                        @if let Some(commit) = &entry.commit { span { "as " code { (commit.short()) } } }
                    }
                }
                @match (entry.green, &entry.onto, &entry.commit) {
                    (Some(true), _, _) => { (parts::chip(Tone::Good, "passed")) }
                    (Some(false), _, _) => { (parts::chip(Tone::Bad, "does not pass")) }
                    (None, Some(_), None) => { (parts::chip(Tone::Bad, "conflict")) }
                    (None, Some(_), Some(_)) => { (parts::chip(Tone::Work, "being checked")) }
                    (None, None, _) => { (parts::chip(Tone::Plain, "waits")) }
                }
            }
        }
    }
}
