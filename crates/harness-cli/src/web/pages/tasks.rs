//! All tasks: a table with a filter, and the graph of what they depend on.

use harness_core::{Ledger, Standing, Task, task::Status};
use maud::{Markup, html};

use super::{
    Inner, Page, Showing,
    graph::{self, NODES_MAX, Node},
    parts::{self, Tone},
};
use crate::{
    failure::Result,
    web::reader::{Reader, Sought},
};

/// The number of tasks in one part of the table.
const ROWS: usize = 200;

pub(super) fn page(reader: &Reader, showing: &Showing) -> Result<Sought<Inner>> {
    let needs = reader.board()?.needs.len();
    reader.ledger(|ledger| Ok(Sought::Found(inner(ledger, needs, showing))))
}

fn inner(ledger: &Ledger, needs: usize, showing: &Showing) -> Inner {
    let found: Vec<&Task> = ledger.tasks().filter(|task| is_wanted(task, showing)).collect();
    let parts = found.len().div_ceil(ROWS).max(1);
    let part = showing.choice.page.clamp(1, parts);
    let rows = found.iter().skip((part - 1) * ROWS).take(ROWS);
    let total = ledger.tasks().count();
    let main = html! {
        div .page-head {
            h1 { "Tasks" }
            (filter(showing))
        }
        section #tasks .card data-live="part" {
            @if found.is_empty() {
                p .empty {
                    @if total == 0 { "There are no tasks yet. Add one with " code { "harness add" } "." }
                    @else { "No task fits." }
                }
            } @else {
                div .scroll { (table(rows.copied(), ledger)) }
                @if parts > 1 { (pages(showing, part, parts, found.len())) }
            }
        }
        section #graph data-live="part" { (drawing(ledger, &found)) }
    };
    Inner::of(Page::Tasks, needs, main)
}

fn is_wanted(task: &Task, showing: &Showing) -> bool {
    let choice = &showing.choice;
    let is_status = choice.status.is_empty() || task.status().name() == choice.status;
    let contains = |word: &str| {
        task.id.as_str().to_lowercase().contains(word) || task.title.to_lowercase().contains(word)
    };
    is_status && choice.q.to_lowercase().split_whitespace().all(contains)
}

fn filter(showing: &Showing) -> Markup {
    let choice = &showing.choice;
    html! {
        form .filter action="tasks" method="get" role="search" {
            input type="search" name="q" value=(choice.q) placeholder="Id or title"
                aria-label="Search for tasks";
            select name="status" aria-label="Status" {
                option value="" { "All" }
                @for status in [Status::InProgress, Status::Pending, Status::Failed, Status::Completed] {
                    option value=(status.name()) selected[choice.status == status.name()] {
                        (parts::status_word(status))
                    }
                }
            }
            button { "Filter" }
        }
    }
}

fn table<'a>(rows: impl Iterator<Item = &'a Task>, ledger: &Ledger) -> Markup {
    html! {
        table .stack {
            thead {
                tr { th { "Task" } th { "State" } th { "Title" } th { "Why" } th .num { "Attempts" } }
            }
            tbody { @for task in rows { (row(task, ledger)) } }
        }
    }
}

fn row(task: &Task, ledger: &Ledger) -> Markup {
    let standing = Standing::of(ledger, task);
    let (tone, word) = state(task, &standing);
    html! {
        tr {
            td { a .id data-row href=(format!("task/{}", task.id)) { (task.id) } }
            td { (parts::chip(tone, word)) }
            td .full .title { (parts::first_line(&task.title)) }
            td .full .quiet { (why(task, &standing)) }
            td .num .quiet data-label="attempts" { @if task.attempts > 0 { (task.attempts) " of " (task.max_attempts) } }
        }
    }
}

/// Returns the colour and the word for the state of a task.
pub(super) fn state(task: &Task, standing: &Standing<'_>) -> (Tone, &'static str) {
    match (task.status(), standing) {
        (
            Status::Pending,
            Standing::Blocked { .. } | Standing::Dangling { .. } | Standing::Cyclic,
        ) => (Tone::Warn, "blocked"),
        (Status::Pending, Standing::Next) => (Tone::Plain, "next"),
        (Status::Failed, Standing::Failed) => (Tone::Bad, "failed"),
        (Status::Failed, _) => (Tone::Warn, "to retry"),
        (status, _) => (Tone::of(status), parts::status_word(status)),
    }
}

/// Returns the reason for the state, with a link to the task that it depends on.
fn why(task: &Task, standing: &Standing<'_>) -> Markup {
    let other = match standing {
        Standing::Blocked { by } | Standing::Reserved { by } => Some(by.as_str()),
        _ => None,
    };
    match (task.status(), standing) {
        (Status::Completed, _) => html! {},
        (Status::Failed, _) => html! {
            @if let Some(last) = task.error_log.last() { (parts::first_line(&last.to_string())) }
        },
        (_, Standing::Waiting { on }) => html! {
            "waits for "
            @for (n, id) in on.iter().take(3).enumerate() {
                @if n > 0 { ", " }
                a .id href=(format!("task/{id}")) { (id) }
            }
            @if on.len() > 3 { " and " (on.len() - 3) " more" }
        },
        _ => html! {
            (standing)
            @if let Some(other) = other { " " a href=(format!("task/{other}")) { "why?" } }
        },
    }
}

fn pages(showing: &Showing, part: usize, parts: usize, count: usize) -> Markup {
    let link = |page: usize| {
        let query = [("q", showing.choice.q.as_str()), ("status", showing.choice.status.as_str())];
        let query: String =
            query.iter().map(|(name, text)| format!("{name}={}&", encoded(text))).collect();
        format!("tasks?{query}page={page}")
    };
    html! {
        nav .pages aria-label="Parts of the list" {
            @if part > 1 { a href=(link(part - 1)) { "← Before" } }
            span .quiet { (count) " tasks, part " (part) " of " (parts) }
            @if part < parts { a href=(link(part + 1)) { "Next →" } }
        }
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            all + &char::from(byte).to_string()
        }
        other => format!("{all}%{other:02X}"),
    })
}

/// Draws the tasks that were found; of very many, those that are not done.
fn drawing(ledger: &Ledger, found: &[&Task]) -> Markup {
    let open = || found.iter().filter(|task| task.status() != Status::Completed);
    let chosen: Vec<&Task> = match found.len() {
        0..=NODES_MAX => found.to_vec(),
        _ => open().take(NODES_MAX).copied().collect(),
    };
    if !chosen.iter().any(|task| !task.depends_on.is_empty()) {
        return html! {};
    }
    let nodes: Vec<Node> = chosen.iter().map(|task| node(task, ledger)).collect();
    html! {
        h2 {
            "What depends on what"
            @if nodes.len() < found.len() { small { (nodes.len()) " of " (found.len()) " tasks" } }
        }
        div .card { div .drawing tabindex="0" { (graph::draw(&nodes)) } }
    }
}

fn node(task: &Task, ledger: &Ledger) -> Node {
    Node {
        id: task.id.to_string(),
        title: parts::first_line(&task.title),
        tone: state(task, &Standing::of(ledger, task)).0,
        needs: task.depends_on.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_in_links_are_encoded() {
        assert_eq!(super::encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }
}
