//! The header: the goal, the state of the run, the tasks, the workers and the money.

use harness::view::{Board, RunCondition, WorkerCondition};
use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    super::{
        state::{Link, Top},
        text::{apart, cut, safe, shorten},
    },
    bar, inset,
};
use crate::{local_time, task_line::RoughSpan as Time};

pub(super) fn draw(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let inner = inset(area);
    let cells = usize::from(inner.width);
    let lines = match top.board.as_deref() {
        None => {
            let what = top.problem.as_deref().unwrap_or("reading the ledger …");
            vec![Line::from(cut(&safe(what), cells))]
        }
        Some(board) => vec![first(top, board, cells), second(top, board, cells)],
    };
    frame.render_widget(Paragraph::new(lines), inner);
    let last = Rect { y: area.y + area.height - 1, height: 1, ..area };
    super::rule(top, frame, last);
}

/// The goal, and how the run stands.
fn first(top: &Top, board: &Board, cells: usize) -> Line<'static> {
    let root = board.root.file_name().map(|name| name.to_string_lossy().into_owned());
    let goal = board.run.as_ref().filter(|run| run.driven).and_then(|run| run.objective.clone());
    let goal = goal.or_else(|| board.goal.clone());
    let mut left = vec![Span::styled(safe(&root.unwrap_or_default()), top.theme.heading())];
    if let Some(goal) = goal {
        left.push(Span::raw("  "));
        left.push(Span::raw(safe(&goal)));
    }
    apart(left, state(top, board), cells)
}

/// How the run stands, in one or two words, and for how long.
fn state(top: &Top, board: &Board) -> Vec<Span<'static>> {
    let theme = top.theme;
    let badge = |text: &str, style: Style| Span::styled(text.to_owned(), style);
    if let Some(problem) = &top.problem {
        return vec![badge(&format!("! {}", safe(problem)), theme.bad())];
    }
    let Some(run) = &board.run else { return vec![badge("no run", theme.faint())] };
    let lasted = Time(run.seconds(top.now)).to_string();
    let after = |text: String| Span::styled(text, theme.faint());
    match (run.condition, board.paused_at) {
        (RunCondition::Over, _) => {
            let why = run.stop_reason.map(|reason| reason.to_string()).unwrap_or_default();
            let style = if run.next.is_some() { theme.warm() } else { theme.good() };
            vec![badge(&format!("■ {why}"), style), after(format!("  after {lasted}"))]
        }
        (RunCondition::CutOff, _) => {
            vec![badge("■ the run is gone", theme.bad()), after("  watching for it".to_owned())]
        }
        (_, Some(_)) => vec![badge("‖ paused", theme.warm()), after(format!("  {lasted}"))],
        (RunCondition::WaitsForLimit, _) => {
            vec![badge("◌ waits for a limit", theme.warm()), after(format!("  {lasted}"))]
        }
        (RunCondition::AsksPerson, _) => {
            vec![badge("? waits for you", theme.urgent()), after(format!("  {lasted}"))]
        }
        (_, None) => {
            let live = match top.link {
                Link::Live => String::new(),
                Link::Nobody | Link::Lost => "  no events".to_owned(),
            };
            vec![badge("▶ running", theme.good()), after(format!("  {lasted}{live}"))]
        }
    }
}

/// The tasks, the workers and the next wake-up; and the money.
fn second(top: &Top, board: &Board, cells: usize) -> Line<'static> {
    let theme = top.theme;
    let counts = &board.counts;
    let over = counts.completed;
    #[expect(clippy::cast_precision_loss, reason = "a bar")]
    let part = over as f64 / counts.total.max(1) as f64;
    let width = (cells / 8).clamp(6, 24);
    let mut left: Vec<Span<'static>> = bar(part, width, theme.good(), theme.faint()).into();
    left.push(Span::raw(format!(" {over}/{} tasks", counts.total)));
    if counts.failed > 0 {
        left.push(Span::styled(format!("  {} failed", counts.failed), theme.bad()));
    }
    let alive = board.workers.iter().filter(|card| card.state != WorkerCondition::Gone).count();
    match alive {
        0 => {}
        1 => left.push(Span::styled("  1 worker", theme.faint())),
        many => left.push(Span::styled(format!("  {many} workers"), theme.faint())),
    }
    if let Some(wake) = board.next_wake_at {
        let at = local_time::moment(wake, top.now);
        left.push(Span::styled(format!("  wakes at {at}"), theme.warm()));
    }
    let right = money(top, board, cells);
    let taken: usize = right.iter().map(Span::width).sum();
    shorten(&mut left, cells.saturating_sub(taken + 2));
    apart(left, right, cells)
}

/// What was spent, against the budget if there is one.
fn money(top: &Top, board: &Board, cells: usize) -> Vec<Span<'static>> {
    let Some(budget) = &board.budget else { return Vec::new() };
    let theme = top.theme;
    let tokens = short(budget.tokens);
    let mut text = match (budget.cost_usd, budget.max_cost_usd) {
        (cost, Some(most)) => format!("${:.2} of ${most:.2}", cost.unwrap_or(0.0)),
        (Some(cost), None) => format!("${cost:.2}"),
        (None, None) => String::new(),
    };
    let used = match budget.max_tokens {
        Some(most) => format!("{tokens} of {} tokens", short(most)),
        None if budget.tokens > 0 && cells >= 100 => format!("{tokens} tokens"),
        None => String::new(),
    };
    if !text.is_empty() && !used.is_empty() {
        text.push_str("  ");
    }
    text.push_str(&used);
    if let Some(end) = budget.deadline {
        text.push_str(&format!("  {} left", Time(end.since(top.now))));
    }
    let mut spans = vec![Span::raw(text)];
    if let Some(part) = budget.part_used(top.now) {
        let style = match part {
            part if part >= 0.9 => theme.bad(),
            part if part >= 0.7 => theme.warm(),
            _ => theme.good(),
        };
        spans.push(Span::raw(" "));
        spans.extend(bar(part, (cells / 12).clamp(5, 14), style, theme.faint()));
    }
    spans
}

/// Returns a large number in thousands or millions.
#[expect(clippy::cast_precision_loss, reason = "a rounded number")]
fn short(number: u64) -> String {
    match number {
        small if small < 10_000 => small.to_string(),
        more if more < 999_500 => format!("{:.0}k", more as f64 / 1e3),
        many => format!("{:.1}M", many as f64 / 1e6),
    }
}
