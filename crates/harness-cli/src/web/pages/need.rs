//! A matter that waits for a person, with the form that settles it.

use harness::view::{Board, Need, NeedKind, QuestionCard};
use maud::{Markup, html};
use serde_json::json;

use super::parts::{self, Act, Tone};
use crate::web::site::Mode;

pub(super) fn entry(need: &Need, board: &Board, mode: Mode) -> Markup {
    let (tone, word) = kind(need.kind);
    html! {
        div .need {
            div .line {
                (parts::chip(tone, word))
                div .grow .text .long[need.kind == NeedKind::Failed] { (parts::shown(&need.text)) }
            }
            div .line .answer {
                (form(need, board, mode))
                (parts::command(&need.next.to_string()))
                @if let Some(task) = &need.task_id { a href=(format!("task/{task}")) { "look at " (task) } }
            }
        }
    }
}

fn kind(kind: NeedKind) -> (Tone, &'static str) {
    match kind {
        NeedKind::Question => (Tone::Warn, "question"),
        NeedKind::Approval => (Tone::Warn, "approval"),
        NeedKind::CutOff => (Tone::Bad, "cut off"),
        NeedKind::Stopped => (Tone::Warn, "stopped"),
        NeedKind::Gate => (Tone::Warn, "gate"),
        NeedKind::Alert => (Tone::Bad, "alert"),
        NeedKind::Budget => (Tone::Warn, "budget"),
        NeedKind::Failed => (Tone::Bad, "failed"),
        NeedKind::Untrusted => (Tone::Warn, "trust"),
        NeedKind::Results => (Tone::Good, "results"),
        _ => (Tone::Warn, "look"),
    }
}

/// Returns the form for what a request of the protocol can settle.
fn form(need: &Need, board: &Board, mode: Mode) -> Markup {
    match need.kind {
        NeedKind::Question | NeedKind::Approval => match question(need, board) {
            Some(card) => answer(card, mode),
            None => html! {},
        },
        NeedKind::Failed => match &need.task_id {
            Some(task) => Act::of(
                json!({ "command": "task_retry", "task_id": task }),
                html! { button { "Try again" } },
            )
            .markup(mode),
            None => html! {},
        },
        NeedKind::Alert => {
            Act::of(json!({ "command": "ack" }), html! { button { "I have looked at it" } })
                .markup(mode)
        }
        _ => html! {},
    }
}

/// Returns the question that a need is about.
fn question<'a>(need: &Need, board: &'a Board) -> Option<&'a QuestionCard> {
    board.questions.iter().find(|card| card.next == need.next)
}

fn answer(card: &QuestionCard, mode: Mode) -> Markup {
    let question = &card.question;
    let request = json!({ "command": "reply", "prompt_id": question.prompt_id });
    let field = format!("answer-{}", question.prompt_id);
    let takes_text = question.choices.is_empty() || question.allow_text;
    let fields = html! {
        @for choice in &question.choices {
            button name="choice" value=(choice) { (parts::shown(choice)) }
        }
        @if takes_text {
            input type="text" id=(field) name="content" autocomplete="off" aria-label="Answer"
                placeholder="Your answer";
            button .main { "Answer" }
        }
    };
    Act::of(request, fields).markup(mode)
}
