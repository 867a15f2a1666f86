//! The line in which results land on the target branch.

use harness::view::{Board, TargetCard};
use harness_core::{Ledger, ledger::LandingEntry};
use maud::{Markup, html};

use super::{
    Inner, Page, Showing, now,
    parts::{self, Count, Tone},
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
            div .page-head { h1 { "Landing" } }
            section #target data-live="part" { (target(&board, ledger)) }
            section #landing data-live="part" {
                h2 { "In the line" small { (ledger.head().landing.len()) } }
                (queue(ledger, &board))
            }
            section #landed data-live="part" {
                @if !board.done.is_empty() {
                    h2 { "Landed last" small { (board.done.len().min(LANDED)) " of " (board.counts.completed) } }
                    div .card .rows { @for entry in board.done.iter().take(LANDED) { (now::finished(entry, board.time)) } }
                }
            }
        };
        Ok(Sought::Found(Inner::of(Page::Landing, board.needs.len(), main)))
    })
}

/// The branch, how much is on it, and what the user has to take.
fn target(board: &Board, ledger: &Ledger) -> Markup {
    let detached = board.target.as_ref().and_then(TargetCard::detached);
    let ahead = board.target.as_ref().and_then(|target| target.ahead);
    html! {
        div .tiles {
            @if let Some(target) = &board.target {
                div .tile {
                    b .branch { (detached.unwrap_or(&target.branch)) }
                    span { "the branch on which results land" }
                }
            }
            div .tile { b { (ledger.head().landing.len()) } span { "in the line" } }
            div .tile { b { (board.counts.completed) } span { "landed" } }
            @if let Some(ahead) = ahead { div .tile { b { (ahead) } span { "not on your branch yet" } } }
        }
        @if let (Some(branch), Some(_)) = (detached, board.target.as_ref().and_then(|target| target.hint())) {
            div .card .pad .needs .need .take {
                div .line {
                    (parts::chip(Tone::Good, "results"))
                    div .grow .text { "Results wait on " code { (branch) } ", because your work tree must not be touched." }
                }
                (parts::command(&format!("git merge {branch}")))
            }
        }
    }
}

fn queue(ledger: &Ledger, board: &Board) -> Markup {
    let line: &[LandingEntry] = &ledger.head().landing;
    if line.is_empty() {
        return html! {
            div .card {
                p .empty {
                    @match &board.target {
                        Some(_) => "Nothing waits to land.",
                        None => {
                            "One worker needs no line: its results are committed where it works. Those of several land one after the other: "
                            (parts::command("harness run --workers 3"))
                        }
                    }
                }
            }
        };
    }
    html! {
        ol .card .rows .queue { @for (n, entry) in line.iter().enumerate() { (place(n, entry, ledger, board)) } }
    }
}

fn place(n: usize, entry: &LandingEntry, ledger: &Ledger, board: &Board) -> Markup {
    let title = ledger.task(&entry.task).map(|task| task.title.as_str()).unwrap_or_default();
    let of_entry = |task: &Option<String>| task.as_deref() == Some(entry.task.as_str());
    let worker = board.workers.iter().find(|worker| of_entry(&worker.task_id));
    html! {
        li {
            span .place { (n + 1) }
            div {
                div { (parts::task_link(entry.task.as_str())) " " span .title { (parts::first_line(title)) } }
                div .facts {
                    @if let Some(worker) = worker { span .id { (worker.id) } }
                    @if let Some(onto) = &entry.onto { span { "on top of " code { (onto.short()) } } }
                    @if let Some(commit) = &entry.commit { span { "as " code { (commit.short()) } } }
                    @if let Some(at) = entry.renewed_at { span { "last sign " (parts::counted(Count::Ago, at, board.time)) } }
                }
            }
            (state(entry))
        }
    }
}

fn state(entry: &LandingEntry) -> Markup {
    match (entry.green, &entry.onto, &entry.commit) {
        (Some(true), _, _) => parts::chip(Tone::Good, "passed"),
        (Some(false), _, _) => parts::chip(Tone::Bad, "does not pass"),
        (None, Some(_), None) => parts::chip(Tone::Bad, "conflict"),
        (None, Some(_), Some(_)) => parts::chip(Tone::Work, "being checked"),
        (None, None, _) => parts::chip(Tone::Plain, "waits"),
    }
}
