//! One task: why it stands where it stands, its attempts as a line of time, and the evidence of each.

use harness::view::{
    AttemptOutcome, AttemptPlace, AttemptStory, IterationCard, NextStep, TaskStory,
};
use harness_core::{Receipt, Standing, Task, TaskId, Timestamp, run::StopReason, task::Status};
use maud::{Markup, html};
use serde_json::json;

use super::{
    Inner, Page, Showing, now,
    parts::{self, Act, Tone},
    tasks,
};
use crate::{
    failure::Result,
    web::{
        reader::{Reader, Sought},
        site::Mode,
    },
};

pub(super) fn page(reader: &Reader, showing: &Showing, id: &str) -> Result<Sought<Inner>> {
    let Ok(id) = TaskId::parse(id) else { return Ok(Sought::Nothing) };
    let needs = reader.board()?.needs.len();
    reader.story(&id, |story, now| {
        let main = html! {
            section #task data-live="part" { (head(story, showing.mode)) }
            @if let Some(output) = &story.check_output {
                section #check data-live="part" {
                    h2 { "What the check printed when it last failed" }
                    pre { (parts::shown(output)) }
                }
            }
            section #attempts data-live="part" { (attempts(story, now)) }
        };
        let title = format!("{}: {}", story.task_id, parts::first_line(&story.title));
        Ok(Inner::of(Page::Tasks, needs, main).titled(title))
    })
}

fn head(story: &TaskStory<'_>, mode: Mode) -> Markup {
    let task = story.detail.task;
    let (tone, word) = tasks::state(task, &story.detail.standing);
    html! {
        div .page-head {
            h1 { (parts::first_line(&story.title)) }
            div .line { span .id { (story.task_id) } (parts::chip(tone, word)) }
        }
        div .card .pad .need {
            p .text { (parts::shown(&sentence(&story.why))) }
            dl .pairs {
                dt { "Check" }
                dd { @match &story.check { Some(check) => code { (parts::shown(check)) }, None => "none" } }
                @if !story.depends_on.is_empty() {
                    dt { "Depends on" }
                    dd { @for id in &story.depends_on { (parts::task_link(id)) " " } }
                }
                @if let Some(phase) = &story.phase { dt { "Phase" } dd { (parts::shown(phase)) } }
                @if story.max_attempts > 0 {
                    dt { "Attempts" } dd { (story.ended_attempts) " of " (story.max_attempts) " ended" }
                }
                dt { "Spent" }
                dd { div .facts { (now::spent(&story.detail.spending)) span { (parts::span(story.detail.spending.seconds)) } } }
                dt { "Next" }
                dd { (parts::command(&story.detail.next.to_string())) }
            }
            @if let Some(text) = &story.instructions {
                details #instructions { summary { "Instructions" } pre { (parts::shown(text)) } }
            }
            @if !story.errors.is_empty() {
                details #errors open[task.status() == Status::Failed] {
                    summary { "What went wrong, oldest first" }
                    pre {
                        @for same in story.errors.chunk_by(|a, b| a == b) {
                            (parts::shown(&same[0]))
                            @if same.len() > 1 { " (" (same.len()) " times)" }
                            "\n"
                        }
                    }
                }
            }
            (actions(story, mode))
        }
    }
}

/// Returns the same as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => {
            format!("{}{}.", first.to_uppercase(), letters.as_str().trim_end_matches('.'))
        }
        None => String::new(),
    }
}

fn actions(story: &TaskStory<'_>, mode: Mode) -> Markup {
    let id = &story.task_id;
    let task = story.detail.task;
    let is_failed =
        task.status() == Status::Failed && matches!(story.detail.standing, Standing::Failed);
    let send = json!({ "command": "send" });
    html! {
        @if is_failed {
            (Act::of(json!({ "command": "task_retry", "task_id": id }), html! { button .main { "Try again" } }).markup(mode))
        }
        @if matches!(story.detail.next, NextStep::Release(_)) {
            (Act { ask: Some("Take the claim back? Its worker can no longer complete the task."),
                ..Act::of(json!({ "command": "task_release", "task_id": id }), html! { button .danger { "Take the claim back" } }) }.markup(mode))
        }
        @if task.status() == Status::InProgress {
            (Act::of(send, html! {
                input type="text" id="message" name="content" autocomplete="off" aria-label="Message to the agent" placeholder="Tell the agents of the run something";
                button { "Send" }
            }).markup(mode))
        }
    }
}

fn attempts(story: &TaskStory<'_>, now: Timestamp) -> Markup {
    html! {
        h2 { "Attempts" small { (story.attempts.len()) } }
        @if story.attempts.is_empty() {
            div .card { p .empty { "Nobody has tried it by a run yet." } }
        }
        ol .timeline {
            @for attempt in story.attempts.iter().rev() { (entry(attempt, story.detail.task, now)) }
        }
    }
}

/// Returns the colour and the word for the end of an attempt.
pub(super) fn outcome(attempt: &AttemptStory, task: &Task) -> (Tone, &'static str) {
    let is_newest = attempt.summary.epoch == task.epoch;
    let place = if is_newest { AttemptPlace::Newest } else { AttemptPlace::Earlier };
    parts::outcome(AttemptOutcome::of(attempt.summary.status, place, Some(task)))
}

fn entry(attempt: &AttemptStory, task: &Task, now: Timestamp) -> Markup {
    let (tone, word) = outcome(attempt, task);
    let summary = &attempt.summary;
    let link = summary.epoch.map(|epoch| format!("task/{}/{epoch}", task.id));
    html! {
        li class=(format!("attempt {}", tone.class())) {
            div .rail {}
            div .card .pad {
                div .line {
                    h3 .grow {
                        @match &link {
                            Some(link) => a data-row href=(link) { "Attempt " (attempt.number) },
                            None => { "Attempt " (attempt.number) }
                        }
                    }
                    (parts::chip(tone, word))
                }
                div .facts {
                    span { (parts::agent(&summary.agent)) }
                    span { (parts::moment(summary.started_at, now)) }
                    @if summary.spending.seconds > 0 { span { (parts::span(summary.spending.seconds)) } }
                    (now::spent(&summary.spending))
                    @if attempt.iterations.len() > 1 { span { (attempt.iterations.len()) " contexts" } }
                    @if let Some(reason) = why_stopped(attempt) { span { (reason) } }
                }
                @for flag in &attempt.flags { p { (parts::chip(Tone::Warn, "look")) " " (parts::shown(flag)) } }
                @if let Some(text) = attempt.iterations.last().and_then(said) { p .quiet { (parts::first_line(text)) } }
                div .facts {
                    @if let Some(link) = &link {
                        a href=(format!("{link}#diff")) { "Diff" }
                        a href=(format!("{link}#transcript")) { "Transcript" }
                    }
                    @if let Some(commit) = &attempt.commit { span { code { (commit.short()) } } }
                    @if let Some(rescue) = &attempt.rescue { span { "saved as " code { (rescue.name) } } }
                }
            }
        }
    }
}

/// Returns why an attempt ended before its agent was done.
pub(super) fn why_stopped(attempt: &AttemptStory) -> Option<StopReason> {
    attempt.summary.stop_reason.filter(|reason| *reason != StopReason::Complete)
}

fn said(iteration: &IterationCard) -> Option<&str> {
    iteration.final_text.as_deref().or(iteration.detail.as_deref())
}

/// The evidence of a completion.
pub(super) fn receipt(receipt: &Receipt) -> Markup {
    html! {
        dl .pairs {
            dt { "Worker" } dd { (receipt.worker) }
            @if let Some(check) = &receipt.check {
                dt { "Check" } dd { code { (parts::shown(&check.command)) } }
                dt { "Where" } dd { @if check.clean { "a clean checkout" } @else { "the work tree" } ", in " (check.duration_ms) " ms" }
            }
            @if let Some(commit) = &receipt.commit { dt { "Commit" } dd { code { (commit) } } }
            @if let Some(base) = &receipt.base { dt { "Base" } dd { code { (base) } } }
            @if let Some(tree) = &receipt.tree { dt { "Tree" } dd { code { (tree) } } }
            @if !receipt.protected.is_empty() { dt { "Protected files" } dd { (parts::shown(&receipt.protected.join(", "))) } }
        }
    }
}
