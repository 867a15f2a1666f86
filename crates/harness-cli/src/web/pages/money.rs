//! What the work has cost: over time, by agent, by task, by day, and who worked when.

use std::{collections::HashMap, path::Path};

use harness::view::{AttemptOutcome, AttemptPlace, AttemptSpan, Board, BudgetCard, MoneyView};
use harness_core::{Ledger, RunId, TaskId, Timestamp};
use maud::{Markup, html};
use serde_json::json;

use super::{
    Inner, Page, Showing,
    chart::{self, Bar, Work},
    parts::{self, Act},
};
use crate::{
    failure::Result,
    web::{
        reader::{Reader, Sought},
        site::Mode,
    },
};

/// The number of tasks that are listed.
const TASKS: usize = 20;
/// The number of attempts on the line of time.
const ATTEMPTS: usize = 400;
/// The number of points of the curve.
const POINTS: usize = 400;

pub(super) fn page(reader: &Reader, showing: &Showing) -> Result<Sought<Inner>> {
    let board = reader.board()?;
    let money = reader.money()?;
    reader.ledger(|ledger| {
        let main = main(&money, &board, ledger, showing.mode);
        Ok(Sought::Found(Inner::of(Page::Money, board.needs.len(), main)))
    })
}

fn main(money: &MoneyView, board: &Board, ledger: &Ledger, mode: Mode) -> Markup {
    html! {
        div .page-head { h1 { "Money and time" } }
        section #sum data-live="part" { (tiles(money)) }
        div .split {
            div .main {
                section #curve data-live="part" { (over_time(money, board)) }
                section #attempts data-live="part" { (timeline(money, board, ledger)) }
            }
            div .side {
                @if let Some(budget) = &board.budget {
                    section #budget data-live="part" { (limits(budget, board, mode)) }
                }
                section #agents data-live="part" { (agents(money)) }
                section #days data-live="part" { (days(money)) }
            }
        }
        section #by-task data-live="part" { (by_task(money)) }
    }
}

fn tiles(money: &MoneyView) -> Markup {
    let total = &money.total;
    html! {
        div .tiles {
            div .tile {
                b { @match total.cost_usd { Some(cost) => (parts::dollars(cost)), None => "–" } }
                span { @match total.cost_usd { Some(_) => "spent", None => "no agent reported a price" } }
            }
            div .tile { b { (parts::tokens(total.tokens())) } span { "tokens" } }
            div .tile { b { (parts::tokens(total.output_tokens)) } span { "of them written" } }
            div .tile { b { (parts::span(total.seconds)) } span { "of runs" } }
            div .tile { b { (money.attempts.len()) } span { "attempts" } }
        }
    }
}

/// The budget of the run, and the form that changes it.
fn limits(budget: &BudgetCard, board: &Board, mode: Mode) -> Markup {
    let is_live = board.run.as_ref().is_some_and(|run| run.driven);
    let cost = budget.max_cost_usd.map(|most| (most * 1.5 * 100.0).ceil() / 100.0);
    html! {
        h2 { "Budget of the run" @if !is_live { small { "it is not running" } } }
        div .card .pad .need {
            dl .pairs .amounts {
                dt { "Money" } dd { @match budget.max_cost_usd {
                    Some(most) => { (parts::dollars(budget.cost_usd.unwrap_or(0.0))) " of " (parts::dollars(most)) }
                    None => "no limit"
                } }
                dt { "Tokens" } dd { @match budget.max_tokens {
                    Some(most) => { (parts::tokens(budget.tokens)) " of " (parts::tokens(most)) }
                    None => "no limit"
                } }
                dt { "Time" } dd { @match budget.max_seconds {
                    Some(most) => { (parts::span(budget.seconds)) " of " (parts::span(most)) }
                    None => "no limit"
                } }
            }
            @if let Some(most) = budget.max_cost_usd { (chart::gauge(budget.cost_usd.unwrap_or(0.0), most)) }
            (Act::of(json!({ "command": "budget", "run_id": budget.run_id }), html! {
                label { "Dollars " input type="number" id="max-cost" name="max_cost" min="0" step="any" placeholder=[cost] inputmode="decimal"; }
                label { "Tokens " input type="number" id="max-tokens" name="max_tokens" min="1" step="1"; }
                label { "Seconds " input type="number" id="max-duration" name="max_duration" min="1" step="1"; }
                button .main { "Change the budget" }
            }).markup(mode))
            (parts::command("harness budget --max-cost USD --max-tokens N --max-duration TIME"))
        }
    }
}

fn over_time(money: &MoneyView, board: &Board) -> Markup {
    let (budget, with_money) = (board.budget.as_ref(), money.total.cost_usd.is_some());
    let every = money.over_time.len().div_ceil(POINTS).max(1);
    let last = money.over_time.len().saturating_sub(1);
    let kept = money.over_time.iter().enumerate().filter(|(n, _)| n % every == 0 || *n == last);
    let value = |point: &harness::view::SpendingPoint| match with_money {
        true => point.cost_usd,
        false => point.tokens as f64,
    };
    let mut points: Vec<(Timestamp, f64)> =
        kept.map(|(_, point)| (point.time, value(point))).collect();
    if board.run.as_ref().is_some_and(|run| run.driven) && !points.is_empty() {
        // Contexts that have not ended are in the sum too.
        let total = money.total.cost_usd.unwrap_or(money.total.tokens() as f64);
        points.push((board.time, total));
    }
    let limit = match with_money {
        true => budget.and_then(|budget| budget.max_cost_usd),
        false => budget.and_then(|budget| budget.max_tokens).map(|most| most as f64),
    };
    let label = |value: f64| match with_money {
        true => parts::dollars(value),
        false => parts::tokens(value as u64),
    };
    html! {
        @if points.len() > 1 {
            h2 { @if with_money { "Spending over time" } @else { "Tokens over time" } }
            div .card { div .drawing { (chart::curve(&points, limit, label)) } }
        }
    }
}

fn timeline(money: &MoneyView, board: &Board, ledger: &Ledger) -> Markup {
    let first = money.attempts.len().saturating_sub(ATTEMPTS);
    let newest: HashMap<&TaskId, &RunId> =
        money.attempts.iter().map(|span| (&span.task_id, &span.run_id)).collect();
    let work = money.attempts[first..].iter().map(|span| {
        let is_newest = newest.get(&span.task_id) == Some(&&span.run_id);
        let place = if is_newest { AttemptPlace::Newest } else { AttemptPlace::Earlier };
        lane(span, AttemptOutcome::of(span.status, place, ledger.task(&span.task_id)), board)
    });
    let work: Vec<Work> = work.collect();
    html! {
        @if !work.is_empty() {
            h2 { "Attempts by worker" @if first > 0 { small { "the last " (ATTEMPTS) } } }
            div .card {
                div .drawing { (chart::lanes(&work)) }
                p .legend {
                    span { i .good {} "completed" } span { i .bad {} "failed" }
                    span { i .work {} "working" } span { i .warn {} "stopped" }
                }
            }
        }
    }
}

fn lane(span: &AttemptSpan, outcome: AttemptOutcome, board: &Board) -> Work {
    let name = Path::new(&span.workspace).file_name().and_then(|name| name.to_str());
    let is_main = Path::new(&span.workspace) == board.root;
    let lane = match (is_main, name) {
        (false, Some(name)) => name.to_owned(),
        (true, _) | (_, None) => "this work tree".to_owned(),
    };
    let (tone, word) = parts::outcome(outcome);
    let is_over = outcome != AttemptOutcome::Working;
    let to = if is_over { span.ended_at } else { board.time };
    let took = if to > span.started_at { to.since(span.started_at) } else { 0 };
    Work {
        lane,
        from: span.started_at,
        to,
        tone,
        task: span.task_id.to_string(),
        text: format!("{}: {word}, {}, {}", span.task_id, parts::span(took), span.agent),
    }
}

fn agents(money: &MoneyView) -> Markup {
    let bars = money.by_agent.iter().map(|agent| {
        let tokens = agent.input_tokens.saturating_add(agent.output_tokens);
        let cost =
            agent.cost_usd.map(|cost| format!(", {}", parts::dollars(cost))).unwrap_or_default();
        Bar {
            name: parts::first_line(&agent.agent),
            value: tokens as f64,
            text: format!("{}{cost}", parts::tokens(tokens)),
        }
    });
    let bars: Vec<Bar> = bars.collect();
    html! {
        h2 { "Tokens by agent" }
        div .card { @if bars.is_empty() { p .empty { "Nothing yet." } } @else { (chart::bars(&bars)) } }
    }
}

fn days(money: &MoneyView) -> Markup {
    let first = money.by_day.len().saturating_sub(14);
    let bars: Vec<Bar> = money.by_day[first..]
        .iter()
        .map(|day| {
            let cost = day.cost_usd.map(parts::dollars);
            Bar {
                name: day.day.clone(),
                value: day.cost_usd.unwrap_or(day.tokens as f64),
                text: cost.unwrap_or_else(|| format!("{} tokens", parts::tokens(day.tokens))),
            }
        })
        .collect();
    html! {
        h2 { "By day" small { "UTC" } }
        div .card { @if bars.is_empty() { p .empty { "Nothing yet." } } @else { (chart::bars(&bars)) } }
    }
}

fn by_task(money: &MoneyView) -> Markup {
    html! {
        @if !money.by_task.is_empty() {
            h2 { "By task" @if money.by_task.len() > TASKS { small { "the dearest " (TASKS) } } }
            div .card .scroll {
                table .stack {
                    thead { tr { th { "Task" } th { "Title" } th .num { "Attempts" } th .num { "Time" } th .num { "Tokens" } th .num { "Cost" } } }
                    tbody {
                        @for task in money.by_task.iter().take(TASKS) {
                            tr {
                                td { a .id data-row href=(format!("task/{}", task.task_id)) { (task.task_id) } }
                                td .title .full { (parts::first_line(task.title.as_deref().unwrap_or("removed"))) }
                                td .num data-label=(if task.attempts == 1 { "attempt" } else { "attempts" }) { (task.attempts) }
                                td .num { (parts::span(task.spending.seconds)) }
                                td .num data-label="tokens" { (parts::tokens(task.spending.tokens())) }
                                td .num { @if let Some(cost) = task.spending.cost_usd { (parts::dollars(cost)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
