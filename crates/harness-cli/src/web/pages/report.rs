//! The page for the morning: what landed, what failed, what waits. It can be printed, and
//! `harness report --html` writes it as one file.

use harness::view::{FailedEntry, LandedEntry, ProjectReport, RunStory, Spending, WaitingEntry};
use harness_core::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    Inner, Page, Showing,
    parts::{self, Tone},
};
use crate::{
    failure::Result,
    local_time,
    web::{
        assets::STYLE,
        reader::{Reader, Sought},
    },
};

/// The number of objectives that are listed.
const RUNS: usize = 10;

pub(super) fn page(reader: &Reader, _: &Showing) -> Result<Sought<Inner>> {
    let needs = reader.board()?.needs.len();
    let (project, objectives) = (reader.project(), reader.objectives());
    reader.report(|report, now| {
        let main = html! {
            div #report .print data-live="part" {
                (body(report, &project, now, Links::Live))
                @if !objectives.is_empty() { (runs(&objectives, now)) }
            }
        };
        Ok(Sought::Found(Inner::of(Page::Report, needs, main)))
    })
}

/// The objectives, with what each context said at its end.
fn runs(objectives: &[RunStory], now: Timestamp) -> Markup {
    html! {
        section {
            h2 { "Objectives" small { (objectives.len()) } }
            div .card .rows {
                @for story in objectives.iter().take(RUNS) {
                    div .need {
                        div .line {
                            div .grow .title { (parts::first_line(story.run.objective.as_deref().unwrap_or_default())) }
                            span .quiet { (story.run.status) }
                        }
                        div .facts {
                            span { (parts::moment(story.run.created_at, now)) }
                            span { (parts::agent(&story.run.agent)) }
                            @if let Some(cost) = story.run.cost_usd { span { (parts::dollars(cost)) } }
                        }
                        @for context in &story.iterations {
                            p .quiet {
                                (context.number) ". "
                                (parts::first_line(context.final_text.as_deref().or(context.detail.as_deref()).unwrap_or("It said nothing.")))
                            }
                        }
                        @if let Some(next) = &story.run.next { (parts::command(&next.to_string())) }
                    }
                }
            }
        }
    }
}

/// Whether the page can lead to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Live,
    None,
}

/// Returns the report as one file that needs nothing else.
pub(crate) fn file(report: &ProjectReport<'_>, project: &str, now: Timestamp) -> String {
    // The stylesheet is ours, so it need not be escaped.
    let style = PreEscaped(STYLE);
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { "Report · " (project) }
                style { (style) }
            }
            body { main { (body(report, project, now, Links::None)) } }
        }
    }
    .into_string()
}

fn body(report: &ProjectReport<'_>, project: &str, now: Timestamp, links: Links) -> Markup {
    html! {
        div .page-head {
            h1 { "Report" }
            span .quiet { (project) ", " (local_time::date_and_clock(now)) }
        }
        (tiles(report))
        @for alert in &report.alerts {
            div .card .pad .needs { p .title { (parts::shown(alert.message)) } p .quiet { code { "harness status --ack" } } }
        }
        (waits_for_you(report, links))
        section {
            h2 { "Failed" small { (report.failed.len()) } }
            div .card .rows {
                @for entry in &report.failed { (failed(entry, links)) }
                @if report.failed.is_empty() { p .empty { "Nothing." } }
            }
        }
        section {
            h2 { "Landed" small { (report.landed.len()) } }
            div .card .rows {
                @for entry in &report.landed { (landed(entry, now, links)) }
                @if report.landed.is_empty() { p .empty { "Nothing yet." } }
            }
        }
        @if report.workers.len() > 1 { (workers(report)) }
        @if !report.pull_requests.is_empty() {
            section {
                h2 { "Pull requests" }
                div .card .rows {
                    @for opened in &report.pull_requests {
                        p { (parts::shown(opened.url.as_deref().unwrap_or(&opened.branch))) " for " (opened.target) }
                    }
                }
            }
        }
        @if let Some(hint) = report.target.as_ref().and_then(|target| target.hint()) {
            div .card .pad .needs { p { (hint) } }
        }
    }
}

/// Returns the numbers at the top.
fn tiles(report: &ProjectReport<'_>) -> Markup {
    html! {
        div .tiles {
            (tile(report.counts.completed, "landed"))
            (tile(report.failed.len(), "failed"))
            (tile(report.waiting.len() + report.questions.len(), "waiting for you"))
            (tile(report.open.len(), "still to do"))
            @if let Some(cost) = report.spending.cost_usd {
                div .tile { b { (parts::dollars(cost)) } span { "spent" } }
            }
            @if report.spending.tokens() > 0 {
                div .tile { b { (parts::tokens(report.spending.tokens())) } span { "tokens" } }
            }
        }
    }
}

/// Returns the questions, waiting tasks and the closed gate, each with what to do.
fn waits_for_you(report: &ProjectReport<'_>, links: Links) -> Markup {
    html! {
        section {
            h2 { "Waits for you" small { (report.waiting.len() + report.questions.len()) } }
            div .card .rows {
                @for card in &report.questions {
                    div .need { p .text { (parts::shown(&card.question.question)) } (parts::command(&card.next.to_string())) }
                }
                @for entry in &report.waiting { (waiting(entry, links)) }
                @if let Some(gate) = report.gate {
                    div .need { p { "The gate of " (gate.phase) " is closed: " (gate.why) }
                        pre { @for line in gate.last_lines() { (parts::shown(line)) "\n" } } }
                }
                @if report.waiting.is_empty() && report.questions.is_empty() && report.gate.is_none() {
                    p .empty { "Nothing." }
                }
            }
        }
    }
}

fn tile(count: usize, name: &str) -> Markup {
    html! { div .tile { b { (count) } span { (name) } } }
}

fn name(id: &str, links: Links) -> Markup {
    match links {
        Links::Live => parts::task_link(id),
        Links::None => html! { span .id { (id) } },
    }
}

fn waiting(entry: &WaitingEntry, links: Links) -> Markup {
    html! {
        div .need {
            div { (name(entry.id.as_str(), links)) " " span .title { (parts::first_line(&entry.title)) } }
            p .quiet { (parts::shown(&entry.why)) }
            (parts::command(&entry.next.to_string()))
        }
    }
}

fn failed(entry: &FailedEntry, links: Links) -> Markup {
    let word = if entry.for_good { "for good" } else { "to be tried again" };
    let tone = if entry.for_good { Tone::Bad } else { Tone::Warn };
    html! {
        div .need {
            div .line {
                div .grow { (name(entry.id.as_str(), links)) " " span .title { (parts::first_line(&entry.title)) } }
                (parts::chip(tone, word))
            }
            p .quiet { (parts::first_line(entry.error.as_deref().unwrap_or("Nothing was recorded."))) }
            div .facts {
                span { (entry.attempts) " of " (entry.max_attempts) " attempts" }
                (spent(&entry.spending))
            }
            div .line {
                (parts::command(&entry.next.to_string()))
                @if let Some(rescue) = &entry.rescue { (parts::command(&format!("harness rescue show {rescue}"))) }
            }
        }
    }
}

fn landed(entry: &LandedEntry, now: Timestamp, links: Links) -> Markup {
    html! {
        div .need {
            div .line {
                div .grow { (name(entry.id.as_str(), links)) " " span .title { (parts::first_line(&entry.title)) } }
                @if let Some(commit) = &entry.commit { code .quiet { (commit.get(..7).unwrap_or(commit)) } }
            }
            div .facts {
                @if let Some(time) = entry.completed_at { span { (parts::moment(time, now)) } }
                @match &entry.command {
                    Some(command) => { span { code { (crate::tool_line::cut(&parts::shown(command), 80)) } " passed" } }
                    None => { span { "no check" } }
                }
                @if entry.attempts > 1 { span { (entry.attempts) " attempts" } }
                @if let Some(agent) = &entry.agent { span { (parts::agent(agent)) } }
                (spent(&entry.spending))
            }
            @for flag in &entry.flags { div { (parts::chip(Tone::Warn, "look")) " " (parts::shown(flag)) } }
        }
    }
}

fn spent(spending: &Spending) -> Markup {
    html! {
        @if let Some(cost) = spending.cost_usd { span { (parts::dollars(cost)) } }
        @if spending.tokens() > 0 { span { (parts::tokens(spending.tokens())) " tokens" } }
        @if spending.seconds > 0 { span { (parts::span(spending.seconds)) } }
    }
}

fn workers(report: &ProjectReport<'_>) -> Markup {
    html! {
        section {
            h2 { "Workers" small { (report.workers.len()) } }
            div .card .scroll {
                table .stack {
                    thead { tr { th { "Worker" } th .num { "Landed" } th .num { "Time" } th .num { "Cost" } th { "Now" } } }
                    tbody {
                        @for share in &report.workers {
                            tr {
                                td .id { (share.id) }
                                td .num data-label="landed" { (share.landed) }
                                td .num { (parts::span(share.seconds)) }
                                td .num { @if let Some(cost) = share.cost_usd { (parts::dollars(cost)) } }
                                td { @if let Some(state) = share.state { (state) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
