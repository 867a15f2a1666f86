//! The list.

use harness::view::{
    DoneEntry, Need, NeedKind, WaitEntry, WaitKind, WorkerCondition, WorkingEntry,
};
use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::super::{
    list::{self, Item, Section},
    state::{Focus, Top},
    text::{agent_name, apart, cut, safe, width},
};
use crate::{local_time, task_line::RoughSpan as Time};

/// A silence from which on a worker is marked.
const SILENT_SECONDS: u64 = 300;

pub(super) fn draw(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let cells = usize::from(area.width);
    let (lines, selected) = lines(top, cells);
    let height = usize::from(area.height);
    // The selected line stays in the middle, except near the ends.
    let from = selected.saturating_sub(height / 2).min(lines.len().saturating_sub(height));
    let shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(height).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// Takes colours and shades from a line. Reversed, each of them would be a patch of its own.
fn in_one_style(mut line: Line<'static>) -> Line<'static> {
    for span in &mut line.spans {
        span.style = Style::new();
    }
    line
}

/// Returns all lines, and the place of the selected one.
fn lines(top: &Top, cells: usize) -> (Vec<Line<'static>>, usize) {
    let (mut lines, mut at) = (Vec::new(), 0);
    let Some(board) = top.board.as_deref() else { return (lines, at) };
    for section in Section::ALL {
        let own = top.entries.iter().enumerate().filter(|(_, entry)| entry.section == section);
        let own: Vec<_> = own.collect();
        // A section without entries is shown only where its absence says something.
        if own.is_empty() && (section != Section::Working || !top.filter.is_empty()) {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(heading(top, section, list::total(board, section), own.len()));
        if own.is_empty() {
            lines.push(Line::styled("  nothing is being worked on", top.theme.faint()));
        }
        for (number, entry) in own {
            let Some(item) = list::item(board, *entry) else { continue };
            let is_selected = number == top.selected;
            if is_selected {
                at = lines.len() + item.height() / 2;
            }
            lines.extend(of_item(top, &item, cells).into_iter().map(|line| {
                match (is_selected, top.focus) {
                    (true, Focus::List) => in_one_style(line).patch_style(top.theme.selected()),
                    (true, Focus::Detail) => line.patch_style(top.theme.marked()),
                    (false, _) => line,
                }
            }));
        }
    }
    if lines.is_empty() {
        let text = if top.filter.is_empty() {
            "there are no tasks yet"
        } else {
            "nothing fits the filter"
        };
        lines.push(Line::styled(text, top.theme.faint()));
    }
    (lines, at)
}

fn heading(top: &Top, section: Section, total: usize, shown: usize) -> Line<'static> {
    let style = match section {
        Section::Needs => top.theme.urgent(),
        Section::Working | Section::Waiting | Section::Done => top.theme.heading(),
    };
    let count = match (top.filter.is_empty(), total) {
        (true, 0) => String::new(),
        (true, total) => format!(" {total}"),
        (false, total) => format!(" {shown} of {total}"),
    };
    Line::from(vec![Span::styled(section.name(), style), Span::styled(count, top.theme.faint())])
}

fn of_item(top: &Top, item: &Item<'_>, cells: usize) -> Vec<Line<'static>> {
    match item {
        Item::Need(need) => vec![need_line(top, need, cells)],
        Item::Working(entry) => working(top, entry, cells),
        Item::Waiting(entry) => vec![waiting(top, entry, cells)],
        Item::Done(entry) => vec![done(top, entry, cells)],
    }
}

fn need_line(top: &Top, need: &Need, cells: usize) -> Line<'static> {
    let theme = top.theme;
    let (mark, style) = match need.kind {
        NeedKind::Question | NeedKind::Approval => ("?", theme.urgent()),
        NeedKind::Failed | NeedKind::CutOff => ("✗", theme.bad()),
        NeedKind::Results => ("↓", theme.key()),
        _ => ("!", theme.warm()),
    };
    let mut left = vec![Span::styled(format!("{mark} "), style)];
    left.extend(need.task_id.as_ref().map(|id| Span::styled(format!("{id} "), theme.faint())));
    left.push(Span::raw(safe(&need.text)));
    let kind = match need.kind {
        NeedKind::Question => "asks you",
        NeedKind::Approval => "waits for approval",
        NeedKind::Failed => "failed for good",
        NeedKind::Budget => "budget",
        NeedKind::CutOff | NeedKind::Stopped => "run",
        NeedKind::Gate => "gate",
        NeedKind::Untrusted => "trust",
        NeedKind::Results => "results",
        _ => "alert",
    };
    apart(left, vec![Span::styled(kind, theme.faint())], cells)
}

fn working(top: &Top, entry: &WorkingEntry, cells: usize) -> Vec<Line<'static>> {
    let theme = top.theme;
    let silent = entry.last_event_at.map(|at| top.now.since(at));
    let since = silent.map(|seconds| match seconds {
        short if short < 2 => "now".to_owned(),
        long => format!("{} ago", Time(long)),
    });
    let style = match silent {
        Some(seconds) if seconds >= SILENT_SECONDS => theme.warm(),
        _ => theme.faint(),
    };
    let mark = if entry.state == WorkerCondition::Landing { "↧ " } else { "● " };
    let mut first = vec![Span::styled(mark, theme.good())];
    if let Some(id) = &entry.task_id {
        first.push(Span::styled(format!("{id} "), theme.faint()));
    }
    first.push(Span::raw(safe(&entry.title)));
    let right: Vec<Span<'static>> =
        since.map(|text| Span::styled(text, style)).into_iter().collect();
    let first = apart(first, right, cells);

    let mut facts = facts(top, entry);
    let activity = entry.activity.as_deref().map(safe);
    let activity = activity.or_else(|| {
        let step = entry.progress.as_ref()?;
        Some(format!("step {}/{} {}", step.step, step.total, safe(&step.description)))
    });
    // The activity is what the eye looks for, so facts give way to it.
    while facts.len() > 1 && width(&facts.join(" · ")) > cells / 2 {
        facts.remove(0);
    }
    let second = match activity {
        Some(activity) => vec![Span::raw("  "), Span::raw(activity)],
        None => vec![Span::raw("  "), Span::styled("no activity seen yet", theme.faint())],
    };
    let right = Span::styled(facts.join(" · "), theme.faint());
    let second = apart(second, vec![right], cells);
    vec![first, second]
}

/// Returns who works and how far it is, the least important first.
fn facts(top: &Top, entry: &WorkingEntry) -> Vec<String> {
    let mut facts = Vec::new();
    let several = top.board.as_deref().is_some_and(|board| board.workers.len() > 1);
    facts.extend(entry.worker.as_deref().filter(|_| several).map(safe));
    facts.extend(entry.agent.as_deref().map(|agent| cut(&safe(agent_name(agent)), 18)));
    if entry.iteration.is_some_and(|number| number > 1) {
        facts.push(format!("context {}", entry.iteration.unwrap_or(1)));
    }
    if entry.attempt > 1 {
        facts.push(format!("attempt {} of {}", entry.attempt, entry.max_attempts));
    }
    if entry.state == WorkerCondition::Landing {
        facts.push("landing".to_owned());
    }
    // Without an activity, the step is in its place.
    let progress = entry.progress.as_ref().filter(|_| entry.activity.is_some());
    facts.extend(progress.map(|p| format!("{}/{}", p.step, p.total)));
    facts.extend(entry.spending.cost_usd.map(|cost| format!("${cost:.2}")));
    facts
}

fn waiting(top: &Top, entry: &WaitEntry, cells: usize) -> Line<'static> {
    let theme = top.theme;
    let (mark, style) = match entry.kind {
        WaitKind::Limit => ("◌ ", theme.warm()),
        WaitKind::Pause => ("‖ ", theme.warm()),
        WaitKind::Person => ("! ", theme.warm()),
        WaitKind::Landing => ("↧ ", theme.key()),
        _ => ("○ ", theme.faint()),
    };
    let why = match entry.until {
        Some(until) => format!("{} until {}", entry.why, local_time::moment(until, top.now)),
        None => entry.why.clone(),
    };
    let mut left = vec![Span::styled(mark, style)];
    if let Some(id) = &entry.task_id {
        left.push(Span::styled(format!("{id} "), theme.faint()));
    }
    left.push(Span::raw(safe(&entry.title)));
    let taken: usize = left.iter().map(Span::width).sum();
    // The reason matters more than the end of a long title.
    let room = cells.saturating_sub(taken.min(cells * 3 / 5) + 2);
    let why = Span::styled(cut(&safe(&why), room), style);
    apart(left, vec![why], cells)
}

fn done(top: &Top, entry: &DoneEntry, cells: usize) -> Line<'static> {
    let theme = top.theme;
    let landed = &entry.landed;
    let flagged = !landed.flags.is_empty();
    let mut left = vec![Span::styled("✓ ", if flagged { theme.warm() } else { theme.good() })];
    left.push(Span::styled(format!("{} ", landed.id), theme.faint()));
    left.push(Span::raw(safe(&landed.title)));
    let mut facts = Vec::new();
    if flagged {
        facts.push("look at it".to_owned());
    }
    facts.extend(landed.commit.as_deref().map(|commit| commit.chars().take(7).collect()));
    facts.extend(landed.spending.cost_usd.map(|cost| format!("${cost:.2}")));
    facts.extend(landed.completed_at.map(|at| local_time::moment(at, top.now)));
    while facts.len() > 1 && width(&facts.join("  ")) > cells / 2 {
        facts.remove(0);
    }
    let right = Span::styled(facts.join("  "), theme.faint());
    apart(left, vec![right], cells)
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::*;
    use crate::commands::top::theme::Theme;

    #[test]
    fn a_selected_row_is_one_bar() {
        let theme = Theme::Coloured;
        let parts = vec![Span::styled("● ", theme.good()), Span::styled("faint", theme.faint())];
        let line = in_one_style(Line::from(parts)).patch_style(theme.selected());
        assert!(line.style.add_modifier.contains(Modifier::REVERSED));
        assert!(line.spans.iter().all(|span| span.style == Style::new()));
    }
}
