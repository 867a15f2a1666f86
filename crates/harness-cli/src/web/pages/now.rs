//! What happens now: what needs a person, what works, what waits and what is done.

use harness::view::{
    Board, BudgetCard, DoneEntry, Progress, RunCondition, Spending, WaitEntry, WaitKind,
    WorkingEntry,
};
use harness_core::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use super::{
    Inner, Page, Showing, chart, need,
    parts::{self, Act, Count, Tone},
};
use crate::{
    failure::Result,
    web::{
        reader::{Reader, Sought},
        site::Mode,
    },
};

/// The number of waiting tasks that are listed.
const WAITING: usize = 12;
/// The number of finished tasks that are listed.
const DONE: usize = 10;

pub(super) fn page(reader: &Reader, showing: &Showing) -> Result<Sought<Inner>> {
    let board = reader.board()?;
    let mode = showing.mode;
    let main = html! {
        section #state .state data-live="part" { (state(&board, mode)) }
        section #needs data-live="part" {
            @if !board.needs.is_empty() {
                h2 { "Needs you" small { (board.needs.len() + board.left_out.needs) } }
                div .card .rows .needs { @for matter in &board.needs { (need::entry(matter, &board, mode)) } }
            }
        }
        section #working data-live="part" {
            h2 { "Working" small { (board.working.len()) } }
            div .card .rows {
                @for entry in &board.working { (working(entry, board.time)) }
                @if board.working.is_empty() { p .empty { (idle(&board)) } }
            }
        }
        section #waiting data-live="part" {
            @if !board.waiting.is_empty() {
                h2 { "Waiting" small { (board.waiting.len() + board.left_out.waiting) } }
                div .card .rows { (waiting(&board, mode)) }
            }
        }
        section #done data-live="part" {
            @if !board.done.is_empty() {
                h2 { "Done" small { (board.counts.completed) } }
                div .card .rows { (done(&board)) }
            }
        }
    };
    Ok(Sought::Found(Inner::of(Page::Now, board.needs.len(), main)))
}

/// The goal, the state of the run, and the numbers that matter most.
fn state(board: &Board, mode: Mode) -> Markup {
    let counts = board.counts;
    let waiting = counts.pending.saturating_sub(counts.blocked);
    let shares = [
        (counts.completed, "f-good"),
        (counts.in_progress, "f-work"),
        (counts.failed, "f-bad"),
        (counts.blocked, "f-warn"),
        (waiting, "f-idle"),
    ];
    let (tone, word) = run_state(board);
    html! {
        div .page-head {
            h1 { (parts::first_line(board.goal.as_deref().unwrap_or("Now"))) }
            div .line {
                (parts::chip(tone, word))
                @if let Some(wake) = board.next_wake_at { span .quiet { "next try " (parts::counted(Count::In, wake, board.time)) } }
                (pause(board, mode))
            }
        }
        div .bar title=(format!("{} of {} done", counts.completed, counts.total)) { (chart::shares(&shares)) }
        div .tiles {
            div .tile { b { (counts.completed) " of " (counts.total) } span { "tasks done" } }
            div .tile { b { (board.working.len()) } span { "working" } }
            @if counts.failed > 0 { div .tile { b { (counts.failed) } span { "failed" } } }
            @if let Some(budget) = &board.budget { (budget_tiles(budget, board)) }
        }
    }
}

/// Returns the state of the run as a colour and a word.
fn run_state(board: &Board) -> (Tone, &'static str) {
    if board.paused_at.is_some() {
        return (Tone::Warn, "paused");
    }
    match board.run.as_ref().map(|run| run.condition) {
        Some(RunCondition::Working) => (Tone::Work, "running"),
        Some(RunCondition::AsksPerson) => (Tone::Warn, "waits for an answer"),
        Some(RunCondition::WaitsForLimit) => (Tone::Warn, "waits for a usage limit"),
        Some(RunCondition::CutOff) => (Tone::Bad, "cut off"),
        _ if board.counts.total > 0 && board.counts.completed == board.counts.total => {
            (Tone::Good, "all done")
        }
        _ if !board.working.is_empty() => (Tone::Work, "working"),
        Some(_) => (Tone::Plain, "not running"),
        None => (Tone::Plain, "not started"),
    }
}

fn pause(board: &Board, mode: Mode) -> Markup {
    let is_live = board.run.as_ref().is_some_and(|run| run.driven) || !board.working.is_empty();
    match (board.paused_at, is_live) {
        (Some(_), _) => Act::of(
            json!({ "command": "resume" }),
            html! { button #resume title="harness resume" { "Resume claiming" } },
        )
        .markup(mode),
        (None, true) => Act::of(
            json!({ "command": "pause" }),
            html! { button #pause title="harness pause: nothing new is begun" { "Pause" } },
        )
        .markup(mode),
        (None, false) => html! {},
    }
}

fn budget_tiles(budget: &BudgetCard, board: &Board) -> Markup {
    let is_live = board.run.as_ref().is_some_and(|run| run.driven);
    html! {
        div .tile {
            b { @match budget.cost_usd { Some(cost) => (parts::dollars(cost)), None => "–" } }
            span {
                @match budget.max_cost_usd {
                    Some(most) => { "spent of " (parts::dollars(most)) }
                    None => "spent"
                }
            }
            @if let Some(most) = budget.max_cost_usd { (chart::gauge(budget.cost_usd.unwrap_or(0.0), most)) }
        }
        div .tile {
            b { (parts::tokens(budget.tokens)) }
            span {
                @match budget.max_tokens { Some(most) => { "tokens of " (parts::tokens(most)) } None => "tokens" }
            }
            @if let Some(most) = budget.max_tokens { (chart::gauge(budget.tokens as f64, most as f64)) }
        }
        div .tile {
            b {
                @match (is_live, &board.run) {
                    (true, Some(run)) => (parts::counted(Count::Up, run.created_at, board.time)),
                    _ => (parts::span(budget.seconds))
                }
            }
            span {
                @match budget.deadline { Some(end) => { "until " (parts::moment(end, board.time)) } None => "elapsed" }
            }
        }
    }
}

fn idle(board: &Board) -> Markup {
    html! {
        "Nothing is being worked on."
        @if board.counts.completed < board.counts.total {
            " " (parts::command(&board.run.as_ref().and_then(|run| run.next.as_ref()).map_or_else(|| "harness run".to_owned(), ToString::to_string)))
        }
    }
}

fn working(entry: &WorkingEntry, now: Timestamp) -> Markup {
    html! {
        div .need {
            div .line {
                div .grow {
                    @if let Some(id) = &entry.task_id { (parts::task_link(id)) " " }
                    span .title { (parts::first_line(&entry.title)) }
                }
                @if entry.landing == Some(1) { (parts::chip(Tone::Work, "landing")) }
                @if entry.max_attempts > 1 {
                    span .quiet { "attempt " (entry.attempt) " of " (entry.max_attempts) }
                }
            }
            @if let Some(line) = &entry.activity { p .activity { (parts::first_line(line)) } }
            @if let Some(progress) = &entry.progress { (steps(progress)) }
            div .facts {
                @if let Some(agent) = &entry.agent { span { (parts::agent(agent)) } }
                @if let Some(worker) = &entry.worker { span .id { (worker) } }
                @if let Some(at) = entry.last_event_at { span { "last event " (parts::counted(Count::Ago, at, now)) } }
                @if let Some(at) = entry.started_at { span { "working " (parts::counted(Count::For, at, now)) } }
                @if let (Some(n), Some(most)) = (entry.iteration, entry.max_iterations) {
                    @if n > 1 { span { "context " (n) " of " (most) } }
                }
                (spent(&entry.spending))
                @if let Some(end) = entry.lease_expires_at { span { "lease " (parts::counted(Count::Left, end, now)) } }
            }
        }
    }
}

fn steps(progress: &Progress) -> Markup {
    html! {
        div .facts {
            span { "step " (progress.step) " of " (progress.total) }
            span { (parts::first_line(&progress.description)) }
        }
        (chart::steps(f64::from(progress.step), f64::from(progress.total)))
    }
}

pub(super) fn spent(spending: &Spending) -> Markup {
    html! {
        @if spending.tokens() > 0 { span { (parts::tokens(spending.tokens())) " tokens" } }
        @if let Some(cost) = spending.cost_usd { span { (parts::dollars(cost)) } }
    }
}

fn waiting(board: &Board, mode: Mode) -> Markup {
    let more = board.waiting.len().saturating_sub(WAITING) + board.left_out.waiting;
    html! {
        @for entry in board.waiting.iter().take(WAITING) { (waits(entry, board.time, mode)) }
        @if more > 0 { p { a href="tasks?status=pending" { (more) " more" } } }
    }
}

fn waits(entry: &WaitEntry, now: Timestamp, mode: Mode) -> Markup {
    html! {
        div .need {
            div .line {
                div .grow {
                    @if let Some(id) = &entry.task_id { (parts::task_link(id)) " " }
                    span .title { (parts::first_line(&entry.title)) }
                }
                span .quiet { (parts::first_line(&entry.why)) }
            }
            @if let Some(until) = entry.until {
                div .facts { span { "tries again " (parts::counted(Count::In, until, now)) ", " (parts::moment(until, now)) } }
            }
            @if entry.kind == WaitKind::Limit {
                div .line {
                    (Act::of(json!({ "command": "kick" }), html! { button .main { "Try again now" } }).markup(mode))
                    (parts::command(&entry.next.to_string()))
                }
            }
        }
    }
}

fn done(board: &Board) -> Markup {
    let more = board.counts.completed.saturating_sub(board.done.len().min(DONE));
    html! {
        @for entry in board.done.iter().take(DONE) { (finished(entry, board.time)) }
        @if more > 0 { p { a href="tasks?status=completed" { (more) " more" } } }
    }
}

pub(super) fn finished(entry: &DoneEntry, now: Timestamp) -> Markup {
    let landed = &entry.landed;
    html! {
        div .need {
            div .line {
                div .grow {
                    (parts::task_link(landed.id.as_str())) " "
                    span .title { (parts::first_line(&landed.title)) }
                }
                @if !landed.flags.is_empty() { (parts::chip(Tone::Warn, "look")) }
                @if let Some(at) = landed.completed_at { span .quiet { (parts::moment(at, now)) } }
            }
            div .facts {
                @if let Some(commit) = &landed.commit { span { code { (commit.get(..7).unwrap_or(commit)) } } }
                @if let Some(command) = &landed.command {
                    span { code { (crate::tool_line::cut(&parts::shown(command), 60)) } " passed" }
                }
                @if landed.attempts > 1 { span { (landed.attempts) " attempts" } }
                @if landed.spending.seconds > 0 { span { (parts::span(landed.spending.seconds)) } }
                (spent(&landed.spending))
            }
        }
    }
}
