//! The detail pane.

use harness::view::{AttemptStory, BudgetCard, Need, RunSummary, WaitEntry, WorkingEntry};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::super::{
    keys::spent,
    list::Item,
    pane::{Tab, TaskPane},
    state::{Focus, Top},
    text::{agent_name, apart, safe, wrapped},
};
use crate::{local_time, paint::visible, task_line::Span as Time};

/// The number of lines of a transcript below an overview.
const LAST_LINES: usize = 8;

pub(super) fn draw(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let [tabs, page] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(heading(top, usize::from(tabs.width)), tabs);
    let cells = usize::from(page.width);
    let lines = match top.tab {
        Tab::Overview => overview(top, cells),
        Tab::Transcript => transcript(top),
        Tab::Check => check(top, cells),
        Tab::Diff => diff(top),
        Tab::Receipt => receipt(top, cells),
    };
    let last = lines.len().saturating_sub(usize::from(page.height));
    let from = top.scroll.unwrap_or(last).min(last);
    let shown: Vec<Line<'_>> =
        lines.into_iter().skip(from).take(usize::from(page.height)).collect();
    frame.render_widget(Paragraph::new(shown), page);
}

/// The names of the pages, and the attempt that is shown.
fn heading(top: &Top, cells: usize) -> Line<'static> {
    let mut left = Vec::new();
    for tab in Tab::ALL {
        let style = match (tab == top.tab, top.focus) {
            (true, Focus::Detail) => top.theme.selected(),
            (true, Focus::List) => top.theme.marked(),
            (false, _) => top.theme.faint(),
        };
        left.push(Span::styled(tab.name(), style));
        left.push(Span::raw("  "));
    }
    let attempt = top.detail.attempt(top.attempt).zip(top.detail.task.as_ref());
    let right = attempt.map(|(attempt, task)| {
        let text = format!("attempt {} of {}", attempt.number, task.max_attempts);
        Span::styled(text, top.theme.faint())
    });
    apart(left, right.into_iter().collect(), cells)
}

/// Collects lines of facts and texts.
struct Page {
    top: Style,
    faint: Style,
    cells: usize,
    lines: Vec<Line<'static>>,
}

impl Page {
    fn new(top: &Top, cells: usize) -> Self {
        Self { top: top.theme.heading(), faint: top.theme.faint(), cells, lines: Vec::new() }
    }

    fn title(&mut self, text: &str) {
        for line in wrapped(&safe(text), self.cells) {
            self.lines.push(Line::styled(line, self.top));
        }
    }

    fn gap(&mut self) {
        self.lines.push(Line::default());
    }

    /// A name, and a value that may take several lines.
    fn fact(&mut self, name: &str, value: &str, style: Style) {
        const NAMES: usize = 10;
        let lines = wrapped(&safe(value), self.cells.saturating_sub(NAMES));
        for (n, line) in lines.into_iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            let name = Span::styled(format!("{name:<NAMES$}"), self.faint);
            self.lines.push(Line::from(vec![name, Span::styled(line, style)]));
        }
    }

    fn plain(&mut self, name: &str, value: &str) {
        self.fact(name, value, Style::new());
    }

    /// Text of several lines.
    fn text(&mut self, text: &str) {
        for line in wrapped(&visible(text), self.cells) {
            self.lines.push(Line::raw(line));
        }
    }
}

fn overview(top: &Top, cells: usize) -> Vec<Line<'static>> {
    let mut page = Page::new(top, cells);
    match top.item() {
        None => return vec![Line::styled("nothing is selected", top.theme.faint())],
        Some(Item::Need(need)) => of_need(top, need, &mut page),
        Some(Item::Working(entry)) => of_working(top, entry, &mut page),
        Some(Item::Waiting(entry)) => of_waiting(top, entry, &mut page),
        Some(Item::Done(entry)) => {
            page.title(&entry.landed.title);
            for flag in &entry.landed.flags {
                page.fact("look at", flag, top.theme.warm());
            }
        }
    }
    let task = top.detail.task.as_ref();
    let selected = top.item().and_then(|item| item.task().map(str::to_owned));
    match task.filter(|task| Some(&task.id) == selected.as_ref()) {
        Some(task) => of_task(top, task, &mut page),
        None if selected.is_none() => of_run(top, &mut page),
        None => {}
    }
    let last = &top.detail.transcript;
    if matches!(top.item(), Some(Item::Working(_))) && !last.is_empty() {
        page.gap();
        let from = last.len().saturating_sub(LAST_LINES);
        page.lines.extend(last[from..].iter().map(|line| transcript_line(top, line)));
    }
    page.lines
}

fn of_need(top: &Top, need: &Need, page: &mut Page) {
    page.title(&need.text);
    page.gap();
    page.fact("settle it", &need.next.to_string(), top.theme.key());
    let key = match need.kind {
        harness::view::NeedKind::Question => Some("a answers it"),
        harness::view::NeedKind::Approval => Some("a approves or rejects it"),
        harness::view::NeedKind::Budget => {
            Some("b raises the budget; the command above resumes the run")
        }
        harness::view::NeedKind::Failed => Some("r gives it new attempts, R restores saved work"),
        _ => None,
    };
    if let Some(key) = key {
        page.fact("key", key, top.theme.key());
    }
}

fn of_working(top: &Top, entry: &WorkingEntry, page: &mut Page) {
    page.title(&entry.title);
    let mut who = Vec::new();
    who.extend(entry.agent.as_deref().map(|agent| agent_name(agent).to_owned()));
    who.extend(entry.worker.as_deref().map(|worker| format!("as {worker}")));
    page.plain("agent", &who.join(" "));
    let attempt = match &entry.task_id {
        Some(_) => format!("{} of {}, ", entry.attempt, entry.max_attempts),
        None => String::new(),
    };
    let context = entry.iteration.zip(entry.max_iterations);
    let context = context.map(|(n, most)| format!("context {n} of at most {most}, "));
    let begun = entry.started_at.map(|at| format!("for {}", Time(top.now.since(at))));
    let parts = [attempt, context.unwrap_or_default(), begun.unwrap_or_default()];
    page.plain("attempt", parts.concat().trim_end_matches(", "));
    if let Some(progress) = &entry.progress {
        let text = format!("{}/{} {}", progress.step, progress.total, progress.description);
        page.plain("step", &text);
    }
    if let Some(end) = entry.lease_expires_at {
        page.plain("lease", &format!("{} left", Time(end.since(top.now))));
    }
    page.plain("used", &used(entry.spending.tokens(), entry.spending.cost_usd));
}

fn used(tokens: u64, cost: Option<f64>) -> String {
    let cost = cost.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
    format!("{tokens} tokens{cost}")
}

fn of_waiting(top: &Top, entry: &WaitEntry, page: &mut Page) {
    page.title(&entry.title);
    page.fact("waits", &entry.why, top.theme.warm());
    if let Some(until) = entry.until {
        let left = Time(until.since(top.now));
        page.plain("until", &format!("{} (in {left})", local_time::moment(until, top.now)));
    }
    page.fact("next", &entry.next.to_string(), top.theme.key());
}

fn of_task(top: &Top, task: &TaskPane, page: &mut Page) {
    page.gap();
    page.plain("task", &format!("{} ({})", task.id, task.status));
    if !matches!(top.item(), Some(Item::Working(_) | Item::Waiting(_))) {
        page.plain("stands", &task.why);
    }
    match &task.check {
        Some(check) => page.plain("check", check),
        None => page.fact("check", "none", top.theme.warm()),
    }
    if !task.depends_on.is_empty() {
        page.plain("after", &task.depends_on.join(", "));
    }
    if !task.attempts.is_empty() {
        page.gap();
        for attempt in task.attempts.iter().rev() {
            page.lines.push(attempt_line(top, attempt, page.cells));
        }
    }
    if let Some(last) = task.errors.last() {
        page.gap();
        page.fact("failed", last, top.theme.bad());
    }
    if let Some(instructions) = &task.instructions {
        page.gap();
        page.text(instructions);
    }
}

/// One attempt on the line of time.
fn attempt_line(top: &Top, attempt: &AttemptStory, cells: usize) -> Line<'static> {
    use harness_core::run::RunStatus;
    let theme = top.theme;
    let (mark, style, word) = match (attempt.summary.status, &attempt.receipt) {
        (_, Some(_)) => ("✓", theme.good(), "landed".to_owned()),
        (RunStatus::Running | RunStatus::WaitingForHuman | RunStatus::Queued, None) => {
            ("●", theme.good(), "goes on".to_owned())
        }
        (_, None) => {
            let why = attempt.summary.stop_reason.map(|reason| reason.to_string());
            ("✗", theme.bad(), why.unwrap_or_else(|| "failed".to_owned()))
        }
    };
    let word = if attempt.rescue.is_some() { format!("{word}, work saved") } else { word };
    let when = local_time::moment(attempt.summary.started_at, top.now);
    let left = vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(format!("attempt {}  ", attempt.number)),
        Span::styled(format!("{when}  {word}"), theme.faint()),
    ];
    let spending = &attempt.summary.spending;
    let cost = spending.cost_usd.map(|cost| format!("  ${cost:.2}")).unwrap_or_default();
    let lasted = match mark {
        "●" => top.now.since(attempt.summary.started_at),
        _ => spending.seconds,
    };
    let right = format!("{}{cost}", Time(lasted));
    apart(left, vec![Span::styled(right, theme.faint())], cells)
}

/// The run of an entry that is no task.
fn of_run(top: &Top, page: &mut Page) {
    let board = top.board.as_deref();
    let Some(run) = board.and_then(|board| board.run.as_ref()) else { return };
    page.gap();
    let RunSummary { run_id, status, agent, iteration_count, .. } = run;
    page.plain("run", &format!("{run_id} ({status})"));
    page.plain("agent", agent_name(agent));
    if run.objective.is_some() {
        page.plain("contexts", &(iteration_count + 1).to_string());
    }
    if let Some(budget) = board.and_then(|board| board.budget.as_ref()) {
        let budget: &BudgetCard = budget;
        page.plain("spent", &spent(budget));
    }
}

fn transcript(top: &Top) -> Vec<Line<'static>> {
    if top.detail.transcript.is_empty() {
        return vec![Line::styled("there is no transcript of this", top.theme.faint())];
    }
    top.detail.transcript.iter().map(|line| transcript_line(top, line)).collect()
}

/// A line of a transcript. Its first character says what it is.
fn transcript_line(top: &Top, line: &str) -> Line<'static> {
    let style = match line.chars().next() {
        Some('>') => top.theme.key(),
        Some('<') => top.theme.faint(),
        Some('!') => top.theme.bad(),
        Some('=') => top.theme.heading(),
        _ => Style::new(),
    };
    Line::styled(visible(line), style)
}

fn check(top: &Top, cells: usize) -> Vec<Line<'static>> {
    let mut page = Page::new(top, cells);
    let Some(task) = &top.detail.task else {
        return vec![Line::styled("this is no task", top.theme.faint())];
    };
    page.plain("check", task.check.as_deref().unwrap_or("none"));
    let attempt = top.detail.attempt(top.attempt);
    let receipt = attempt.and_then(|attempt| attempt.receipt.as_ref());
    let of_attempt = attempt.and_then(|attempt| attempt.check_output.as_ref());
    match (
        receipt.and_then(|receipt| receipt.check.as_ref()),
        of_attempt.or(task.check_output.as_ref()),
    ) {
        (Some(check), _) => {
            let took = match check.duration_ms {
                ms if ms < 10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
                ms => Time(ms / 1000).to_string(),
            };
            page.fact("result", &format!("passed in {took}"), top.theme.good());
            page.gap();
            page.text(&check.output_tail);
        }
        (None, Some(output)) => {
            let when = if of_attempt.is_some() { "failed" } else { "failed when it was last run" };
            page.fact("result", when, top.theme.bad());
            page.gap();
            page.text(output);
        }
        (None, None) => page.plain("result", "it was not run yet"),
    }
    page.lines
}

fn diff(top: &Top) -> Vec<Line<'static>> {
    let faint = |text: &str| vec![Line::styled(text.to_owned(), top.theme.faint())];
    let what = match top.against_previous {
        true => "against the attempt before (d: against its base)",
        false => "against its base (d: against the attempt before)",
    };
    let Some(diff) = &top.detail.diff else {
        return match top.wanted().diff {
            Some(_) => faint("reading …"),
            None => faint("there is no commit or saved work to compare"),
        };
    };
    let mut lines = faint(what);
    match diff {
        Err(why) => lines.push(Line::styled(safe(why), top.theme.bad())),
        Ok(text) if text.trim().is_empty() => lines.extend(faint("nothing differs")),
        Ok(text) => lines.extend(text.lines().map(|line| {
            let style = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => top.theme.heading(),
                [b'+', ..] => top.theme.good(),
                [b'-', ..] => top.theme.bad(),
                [b'@', ..] => top.theme.key(),
                [b'd', b'i', b'f', b'f', b' ', ..] => top.theme.heading(),
                _ => Style::new(),
            };
            Line::styled(visible(line).replace('\t', "    "), style)
        })),
    }
    lines
}

fn receipt(top: &Top, cells: usize) -> Vec<Line<'static>> {
    let mut page = Page::new(top, cells);
    let attempt = top.detail.attempt(top.attempt);
    let Some(receipt) = attempt.and_then(|attempt| attempt.receipt.as_ref()) else {
        return vec![Line::styled("this attempt has no receipt", top.theme.faint())];
    };
    page.plain("worker", receipt.worker.as_str());
    page.plain("agent", receipt.agent.as_deref().map_or("not reported", agent_name));
    page.plain("attempt", &format!("{} (claim {})", receipt.attempt, receipt.epoch));
    page.plain("time", &local_time::date_and_clock(receipt.time));
    let short = |id: Option<&harness_core::CommitId>| {
        id.map_or_else(|| "none".to_owned(), |id| id.to_string())
    };
    page.plain("base", &short(receipt.base.as_ref()));
    page.plain("commit", &short(receipt.commit.as_ref()));
    match &receipt.check {
        Some(check) => page.fact("check", &format!("passed: {}", check.command), top.theme.good()),
        None => page.fact("check", "none: on the word of the worker", top.theme.warm()),
    }
    let tokens = receipt.tokens.unwrap_or(0);
    page.plain("used", &used(tokens, receipt.cost_usd));
    for flag in attempt.into_iter().flat_map(|attempt| &attempt.flags) {
        page.fact("look at", flag, top.theme.warm());
    }
    page.lines
}
