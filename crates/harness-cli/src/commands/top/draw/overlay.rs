//! Help and dialogs, above everything else.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Padding, Paragraph},
};

use super::super::{
    dialog::{Dialog, Purpose},
    keys::KEYS,
    state::Top,
    text::{safe, wrapped},
};

/// Returns an area in the middle of `area`.
fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

fn framed(top: &Top, frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'static>>) {
    frame.render_widget(Clear, area);
    let title = Line::styled(format!(" {title} "), top.theme.heading());
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(title)
        .padding(Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

pub(super) fn help(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'static>> = KEYS
        .iter()
        .map(|(key, what)| {
            Line::from(vec![Span::styled(format!("{key:<10}"), top.theme.key()), Span::raw(*what)])
        })
        .collect();
    let height = u16::try_from(lines.len()).unwrap_or(20) + 2;
    framed(top, frame, centred(area, 58, height), "Keys", lines);
}

pub(super) fn dialog(top: &Top, dialog: &Dialog, frame: &mut Frame<'_>, area: Rect) {
    let width = 72.min(area.width.saturating_sub(4));
    let cells = usize::from(width.saturating_sub(4));
    let (title, words) = dialog.words();
    let mut lines: Vec<Line<'static>> = Vec::new();
    for text in &words {
        lines.extend(wrapped(&safe(text), cells).into_iter().map(Line::raw));
    }
    if dialog.purpose != Purpose::Abort {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let typed = safe(&dialog.typed);
        // The end of a long answer is what is being typed.
        let from = typed.chars().count().saturating_sub(cells.saturating_sub(4));
        let typed: String = typed.chars().skip(from).collect();
        lines.push(Line::from(vec![
            Span::styled("> ", top.theme.key()),
            Span::raw(typed),
            Span::styled("▏", top.theme.key()),
        ]));
        lines.push(Line::styled("enter sends it, esc leaves", top.theme.faint()));
    }
    let height = u16::try_from(lines.len()).unwrap_or(10) + 2;
    framed(top, frame, centred(area, width, height), title, lines);
}
