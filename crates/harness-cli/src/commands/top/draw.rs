//! Draws the state. It decides nothing: the same state and size give the same screen.

mod detail;
mod header;
mod overlay;
mod rows;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{
    keys::KEYS,
    state::{Focus, Mode, Notice, Top},
    text::{cut, safe},
};

/// The width from which list and detail are beside each other.
const WIDE: u16 = 110;

/// Draws the whole screen.
pub(super) fn draw(top: &Top, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < 20 || area.height < 8 {
        frame.render_widget(Line::from("harness top needs more room"), area);
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    header::draw(top, frame, head);
    match top.zoomed {
        true => detail::draw(top, frame, inset(body)),
        false => panes(top, frame, body),
    }
    frame.render_widget(footer(top, foot.width), foot);
    match &top.mode {
        Mode::Help => overlay::help(top, frame, area),
        Mode::Dialog(dialog) => overlay::dialog(top, dialog, frame, area),
        Mode::Normal | Mode::Filter => {}
    }
}

/// List and detail, beside each other or one below the other.
fn panes(top: &Top, frame: &mut Frame<'_>, body: Rect) {
    if body.width >= WIDE {
        let [list, line, detail] = Layout::horizontal([
            Constraint::Percentage(48),
            Constraint::Length(1),
            Constraint::Fill(1),
        ])
        .areas(body);
        rows::draw(top, frame, inset(list));
        let bar = vec![Line::styled("│", top.theme.faint()); usize::from(line.height)];
        frame.render_widget(ratatui::widgets::Paragraph::new(bar), line);
        return detail::draw(top, frame, inset(detail));
    }
    let lower = (body.height * 2 / 5).max(4);
    let [list, line, detail] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1), Constraint::Length(lower)])
            .areas(body);
    rows::draw(top, frame, inset(list));
    rule(top, frame, line);
    detail::draw(top, frame, inset(detail));
}

/// Leaves one cell free at both sides.
fn inset(area: Rect) -> Rect {
    let width = area.width.saturating_sub(2);
    Rect { x: area.x + 1, width, ..area }
}

fn rule(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let line = "─".repeat(usize::from(area.width));
    frame.render_widget(Line::styled(line, top.theme.faint()), area);
}

/// The last line: the filter, the last answer, or the most useful keys.
fn footer(top: &Top, width: u16) -> Line<'static> {
    let room = usize::from(width.saturating_sub(2));
    if top.mode == Mode::Filter {
        let text = cut(&format!(" /{}", safe(&top.filter)), room);
        return Line::from(vec![
            Span::styled(text, top.theme.key()),
            Span::raw("▏"),
            Span::styled(" enter keeps it, esc removes it", top.theme.faint()),
        ]);
    }
    match &top.notice {
        Some(Notice::Said(text)) => {
            Line::styled(cut(&format!(" ✓ {}", safe(text)), room), top.theme.good())
        }
        Some(Notice::Failed(text)) => {
            Line::styled(cut(&format!(" ! {}", safe(text)), room), top.theme.bad())
        }
        None => hints(top, room),
    }
}

fn hints(top: &Top, room: usize) -> Line<'static> {
    let keys: &[(&str, &str)] = match top.focus {
        Focus::List => &[
            ("?", "help"),
            ("enter", "look"),
            ("tab", "detail"),
            ("/", "filter"),
            ("a", "answer"),
            ("s", "send"),
            ("p", "pause"),
            ("b", "budget"),
            ("w", "wake"),
            ("r", "retry"),
            ("x", "abort"),
            ("q", "quit"),
        ],
        Focus::Detail => &[
            ("?", "help"),
            ("j k", "scroll"),
            ("h l", "page"),
            (", .", "attempt"),
            ("d", "compare"),
            ("R", "restore"),
            ("enter", "whole screen"),
            ("tab", "list"),
            ("q", "quit"),
        ],
    };
    debug_assert!(keys.iter().all(|(key, _)| KEYS.iter().any(|(known, _)| known.contains(key))));
    let mut spans = vec![Span::raw(" ")];
    if !top.filter.is_empty() {
        spans.push(Span::styled(format!("/{}  ", safe(&top.filter)), top.theme.warm()));
    }
    let mut used: usize = spans.iter().map(Span::width).sum();
    for (key, what) in keys {
        let text = format!(" {what}   ");
        used += key.chars().count() + text.chars().count();
        if used > room + 3 {
            break;
        }
        spans.push(Span::styled(*key, top.theme.key()));
        spans.push(Span::styled(text, top.theme.faint()));
    }
    Line::from(spans)
}

/// Returns a bar of `cells` cells that is filled to `part`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn bar(part: f64, cells: usize, full: Style, rest: Style) -> [Span<'static>; 2] {
    let filled = ((part.clamp(0.0, 1.0) * cells as f64).round() as usize).min(cells);
    // Something is shown for the smallest part, and the last cell stays free until the end.
    let filled = match filled {
        0 if part > 0.0 && cells > 1 => 1,
        all if all == cells && part < 1.0 => cells.saturating_sub(1),
        other => other,
    };
    [Span::styled("━".repeat(filled), full), Span::styled("─".repeat(cells - filled), rest)]
}
